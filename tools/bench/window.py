"""`python -m tools.bench.window`: acquire and acknowledge in windows of 1e2 to 1e6 records; writes its own section."""

from __future__ import annotations

import argparse
import random
import statistics
import time
import tracemalloc
from typing import NamedTuple

from mockbroker.state.acknowledgement import AcknowledgementBatch, AcknowledgeType, acknowledge
from mockbroker.state.acquisition import Acquired, Span, acquire
from mockbroker.state.share_partition import SharePartition
from tools.bench.page import machine, table, write_section

SIZES = (100, 1_000, 10_000, 100_000, 1_000_000)
BATCH = 500
_MEMBER = "member-1"
#: The broker bounds the window by far less; the curve is about the data structure.
_SETTINGS = {
    "share.delivery.count.limit": 5,
    "share.record.lock.duration.ms": 30_000,
    "share.partition.max.record.locks": 10 * SIZES[-1],
    "share.renew.acknowledge.enable": True,
}


class Cost(NamedTuple):
    """Microseconds for a batch: acquired, and acknowledged oldest first or in any order; bytes for a batch held."""

    acquire: float
    oldest: float
    anywhere: float
    held_bytes: float


class Held:
    """A share partition whose window holds `size` records that one member has acquired, in batches of 500."""

    def __init__(self, size: int) -> None:
        self.batch = min(BATCH, size)
        self.now_ms = 0
        self.partition = SharePartition(_SETTINGS)
        self.partition.load(0, 0, [])
        self.runs: list[Acquired] = []
        self._next = 0
        for _ in range(size // self.batch):
            self.acquire()

    def acquire(self) -> None:
        """Acquire the next batch of the log."""
        span = Span(self._next, self._next + self.batch - 1)
        self._next += self.batch
        self.now_ms += 1
        self.runs += acquire(self.partition, _MEMBER, [span], now_ms=self.now_ms)

    def accept(self, at: int) -> None:
        """Acknowledge the batch that was acquired as the `at`-th of those still held."""
        first, last, _ = self.runs.pop(at)
        batch = AcknowledgementBatch(first, last, (AcknowledgeType.ACCEPT,))
        settlement = acknowledge(self.partition, _MEMBER, [batch], now_ms=self.now_ms)
        assert settlement.write is not None
        self.partition.complete(settlement.write, None, now_ms=self.now_ms)


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(prog="python -m tools.bench.window", description=__doc__)
    parser.add_argument("--rounds", type=int, default=2_000, help="batches acquired and acknowledged in each way")
    parser.add_argument("--dry-run", action="store_true", help="print only")
    args = parser.parse_args()

    text = _section({size: measure(size, args.rounds) for size in SIZES}, args.rounds)
    print(text)
    if not args.dry_run:
        write_section("window", text)


def measure(size: int, rounds: int) -> Cost:
    """The medians of `rounds` operations of each kind on a window that keeps its size."""
    held = Held(size)
    acquired, oldest, anywhere = [], [], []
    for _ in range(rounds):
        oldest.append(_timed_accept(held, 0))
        acquired.append(_timed_acquire(held))
    chance = random.Random(1)
    for _ in range(rounds):
        anywhere.append(_timed_accept(held, chance.randrange(len(held.runs))))
        held.acquire()
    return Cost(statistics.median(acquired), statistics.median(oldest), statistics.median(anywhere), held_bytes(size))


def _timed_acquire(held: Held) -> float:
    began = time.perf_counter_ns()
    held.acquire()
    return (time.perf_counter_ns() - began) / 1e3


def _timed_accept(held: Held, at: int) -> float:
    began = time.perf_counter_ns()
    held.accept(at)
    return (time.perf_counter_ns() - began) / 1e3


def held_bytes(size: int) -> float:
    """How much memory a window of this size takes, divided by its batches."""
    tracemalloc.start()
    try:
        held = Held(size)
        return tracemalloc.get_traced_memory()[0] / len(held.runs)
    finally:
        tracemalloc.stop()


def _section(costs: dict[int, Cost], rounds: int) -> str:
    head = ["records in flight", "acquire, us", "acknowledge oldest, us", "acknowledge any, us", "bytes for a batch"]
    rows = [
        [f"{size:,}", f"{cost.acquire:.1f}", f"{cost.oldest:.1f}", f"{cost.anywhere:.1f}", f"{cost.held_bytes:,.0f}"]
        for size, cost in costs.items()
    ]
    smallest, largest = costs[SIZES[0]], costs[SIZES[-1]]
    growth = max(getattr(largest, kind) / getattr(smallest, kind) for kind in ("acquire", "oldest", "anywhere"))
    return (
        f"## The window of a share partition\n\nOne batch of {BATCH} records acquired, and one acknowledged with its "
        "write, while so many records are in flight: median\n"
        f"of {rounds:,} each, state alone. From {SIZES[0]:,} to {SIZES[-1]:,} records the cost grows at most "
        f"{growth:.2f} times; memory goes with the\nbatches, not with the records. {machine()}.\n\n{table(head, rows)}"
    )


if __name__ == "__main__":
    main()
