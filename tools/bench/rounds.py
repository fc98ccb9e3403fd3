"""Comparison of candidates on a busy machine: alternately in one process, by CPU time of the thread.

Each round runs every candidate for some milliseconds, in an order that changes from round to round. The result is
the median of the ratios within a round, so a disturbance affects one round only.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from statistics import median
from typing import NamedTuple

SLICE_S = 0.004


class Timing(NamedTuple):
    """One candidate: seconds per call, and how much longer it took than the first candidate: medians of the rounds.

    least, most: seconds per call of the fastest and of the slowest round.
    """

    seconds: float
    ratio: float
    least: float = 0.0
    most: float = 0.0


def compare_candidates(candidates: Mapping[str, Callable[[], object]], *, rounds: int = 31) -> dict[str, Timing]:
    """Time the candidates against the first of them."""
    calls = {name: _calls_per_slice(work) for name, work in candidates.items()}
    times: dict[str, list[float]] = {name: [] for name in candidates}
    order = list(candidates)
    shuffle = random.Random(1).shuffle
    for _ in range(rounds):
        shuffle(order)
        for name in order:
            times[name].append(_seconds_per_call(candidates[name], calls[name]))
    first = times[next(iter(candidates))]
    return {
        name: Timing(
            seconds=median(seconds),
            ratio=median(one / base for one, base in zip(seconds, first, strict=True)),
            least=min(seconds),
            most=max(seconds),
        )
        for name, seconds in times.items()
    }


def measure_call(work: Callable[[], object], *, slices: int = 5) -> float:
    """Seconds of CPU time for one call: the median of some slices, after one that is not counted."""
    calls = _calls_per_slice(work)
    return median(_seconds_per_call(work, calls) for _ in range(slices))


def _calls_per_slice(work: Callable[[], object]) -> int:
    work()
    calls = 1
    while (spent := _seconds_per_call(work, calls) * calls) < SLICE_S:
        calls = max(calls + 1, int(calls * min(10.0, 1.2 * SLICE_S / max(spent, 1e-6))))
    return calls


def _seconds_per_call(work: Callable[[], object], calls: int) -> float:
    start = time.thread_time()
    for _ in range(calls):
        work()
    return (time.thread_time() - start) / calls
