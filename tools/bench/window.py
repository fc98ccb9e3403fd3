"""`python -m tools.bench.window`: benchmark of acquire and acknowledge in windows of 1e2 to 1e6 records."""

from __future__ import annotations

import argparse
import random
import time
import tracemalloc
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import NamedTuple

from mockbroker.state.share.acknowledgement import AcknowledgementBatch, AcknowledgeType, acknowledge_records
from mockbroker.state.share.acquisition import AcquiredRun, Span, acquire_records
from mockbroker.state.share.share_partition import SharePartition
from tools.bench.history import summarize
from tools.bench.page import describe_machine, markdown_table, publish_section

SIZES = (100, 1_000, 10_000, 100_000, 1_000_000)
BATCH = 500
_MEMBER = "member-1"
#: The limits of the broker are far lower; this measures the data structure.
_SETTINGS = {
    "share.delivery.count.limit": 5,
    "share.record.lock.duration.ms": 30_000,
    "share.partition.max.record.locks": 10 * SIZES[-1],
    "share.renew.acknowledge.enable": True,
}


class Cost(NamedTuple):
    """Microseconds for a batch: acquire, acknowledge oldest first, acknowledge in any order; bytes for each batch.

    rounds: all measured microseconds of each kind.
    """

    acquire: float
    oldest: float
    anywhere: float
    bytes_per_batch: float
    rounds: Mapping[str, Sequence[float]]


class FilledWindow:
    """A share partition with `size` records that one member has acquired, in batches of 500."""

    def __init__(self, size: int) -> None:
        self.batch = min(BATCH, size)
        self.now_ms = 0
        self.partition = SharePartition(_SETTINGS)
        self.partition.load_state(0, 0, [])
        self.runs: list[AcquiredRun] = []
        self._next = 0
        for _ in range(size // self.batch):
            self.acquire()

    def acquire(self) -> None:
        """Acquire the next batch of the log."""
        span = Span(self._next, self._next + self.batch - 1)
        self._next += self.batch
        self.now_ms += 1
        self.runs += acquire_records(self.partition, _MEMBER, [span], now_ms=self.now_ms)

    def accept(self, at: int) -> None:
        """Acknowledge the batch at this index of the acquired ones."""
        first, last, _ = self.runs.pop(at)
        batch = AcknowledgementBatch(first, last, (AcknowledgeType.ACCEPT,))
        settlement = acknowledge_records(self.partition, _MEMBER, [batch], now_ms=self.now_ms)
        assert settlement.write is not None
        self.partition.complete_write(settlement.write, None, now_ms=self.now_ms)


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(prog="python -m tools.bench.window", description=__doc__)
    parser.add_argument("--rounds", type=int, default=2_000, help="batches acquired and acknowledged in each way")
    parser.add_argument("--dry-run", action="store_true", help="print only")
    args = parser.parse_args()

    costs = {size: measure(size, args.rounds) for size in SIZES}
    results = [
        summarize(f"{kind}, {size:,} in flight", "mockbroker", "us", values)
        for size, cost in costs.items()
        for kind, values in cost.rounds.items()
    ]
    publish_section("window", _render_section(costs, args.rounds), results, write=not args.dry_run)


def measure(size: int, rounds: int) -> Cost:
    """The medians of `rounds` operations of each kind on a window of constant size."""
    held = FilledWindow(size)
    acquired, oldest, anywhere = [], [], []
    for _ in range(rounds):
        oldest.append(_microseconds(held.accept, 0))
        acquired.append(_microseconds(held.acquire))
    chance = random.Random(1)
    for _ in range(rounds):
        anywhere.append(_microseconds(held.accept, chance.randrange(len(held.runs))))
        held.acquire()
    kinds = {"acquire": acquired, "acknowledge oldest": oldest, "acknowledge any": anywhere}
    return Cost(median(acquired), median(oldest), median(anywhere), bytes_per_batch(size), kinds)


def _microseconds(work: Callable[..., None], *arguments: int) -> float:
    began = time.perf_counter_ns()
    work(*arguments)
    return (time.perf_counter_ns() - began) / 1e3


def bytes_per_batch(size: int) -> float:
    """The memory of a window of this size, divided by the number of its batches."""
    tracemalloc.start()
    try:
        held = FilledWindow(size)
        return tracemalloc.get_traced_memory()[0] / len(held.runs)
    finally:
        tracemalloc.stop()


def _render_section(costs: dict[int, Cost], rounds: int) -> str:
    head = ["records in flight", "acquire, us", "acknowledge oldest, us", "acknowledge any, us", "bytes for a batch"]
    rows = [
        [f"{size:,}", *(f"{microseconds:.1f}" for microseconds in cost[:3]), f"{cost.bytes_per_batch:,.0f}"]
        for size, cost in costs.items()
    ]
    smallest, largest = costs[SIZES[0]], costs[SIZES[-1]]
    growth = max(getattr(largest, kind) / getattr(smallest, kind) for kind in ("acquire", "oldest", "anywhere"))
    return (
        f"## The window of a share partition\n\nOne batch of {BATCH} records acquired, and one acknowledged with its "
        "write, with this many records in flight: median\n"
        f"of {rounds:,} each, state alone. From {SIZES[0]:,} to {SIZES[-1]:,} records the cost grows at most "
        f"{growth:.2f} times; memory depends on the\nnumber of batches, not of records. "
        f"{describe_machine()}.\n\n{markdown_table(head, rows)}"
    )


if __name__ == "__main__":
    main()
