"""Compare candidates fairly on a busy machine: all in one process, in turns, by CPU time of the thread.

Each round gives every candidate a slice of some milliseconds, in an order that changes from round to round. What
counts is the ratio within a round; the median over the rounds is reported, so a noisy moment costs one round only.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from statistics import median
from typing import NamedTuple

SLICE_S = 0.004


class Timed(NamedTuple):
    """One candidate: seconds per call (median), and how much longer it took than the first candidate (median ratio)."""

    seconds: float
    ratio: float


def compare(candidates: Mapping[str, Callable[[], object]], *, rounds: int = 31, seed: int = 1) -> dict[str, Timed]:
    """Time the candidates against the first of them."""
    calls = {name: _calls_per_slice(work) for name, work in candidates.items()}
    times: dict[str, list[float]] = {name: [] for name in candidates}
    order = list(candidates)
    shuffle = random.Random(seed).shuffle
    for _ in range(rounds):
        shuffle(order)
        for name in order:
            times[name].append(_timed(candidates[name], calls[name]))
    first = times[next(iter(candidates))]
    return {
        name: Timed(median(own), median(mine / ours for mine, ours in zip(own, first, strict=True)))
        for name, own in times.items()
    }


def _calls_per_slice(work: Callable[[], object]) -> int:
    work()
    calls = 1
    while (spent := _timed(work, calls) * calls) < SLICE_S:
        calls = max(calls + 1, int(calls * min(10.0, 1.2 * SLICE_S / max(spent, 1e-6))))
    return calls


def _timed(work: Callable[[], object], calls: int) -> float:
    start = time.thread_time()
    for _ in range(calls):
        work()
    return (time.thread_time() - start) / calls
