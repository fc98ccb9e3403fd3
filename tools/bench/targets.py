"""The targets, and whether the newest run of each benchmark met them: `python -m tools.bench.targets`.

Reads docs/performance-history.jsonl and writes the first section of docs/performance.md; `--dry-run` only prints. Exit
code 1 when a target is missed or was never measured.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from statistics import geometric_mean
from typing import NamedTuple

from tools.bench.history import HISTORY, Entry, read_history
from tools.bench.page import markdown_table, write_section
from tools.bench.pure import LIMIT, PEER


class Target(NamedTuple):
    """What one number must be.

    cases: the beginnings of the names of the cases, one of which an entry must have, with this in its end. peer: of
    the entries. is_ratio: whether ratios count, else medians. limit: at least for `is_least`, else at most.
    """

    text: str
    benchmark: str
    cases: tuple[str, ...]
    peer: str
    limit: float
    unit: str = "x"
    is_ratio: bool = True
    is_least: bool = True
    ends: tuple[str, ...] = ("",)
    reason: str = ""

    def includes(self, entry: Entry) -> bool:
        """Whether an entry of the benchmark is one of the target's."""
        return entry.peer == self.peer and entry.case.startswith(self.cases) and entry.case.endswith(self.ends)


_UNCOMPRESSED = ("1,000 x 1 KiB", "2 headers each", "100 bytes")
_LEVELS = ("partitions", "records", "share_acquired", "share_acks")
#: The requests with their goal of 60 us, and why they miss it: by profiles of the broker's process.
_REQUESTS = {
    "Metadata, one topic": "some 50 calls in Python; a quarter is the kernel's work for the socket",
    "Produce, one record": "some 80 calls in Python; a fifth is the kernel's work for the socket",
    "Fetch, empty": "some 70 calls in Python; a fifth is the kernel's work for the socket",
    "ShareFetch, one record": "some 150 calls in Python, none of which dominates",
    "ShareAcknowledge, one record": "some 220 calls in Python, in three rounds of the channel between nodes",
}
#: Calls that wait, beside kfake, by profiles as well.
_OPERATIONS = {
    "synchronous produce, p50": "some 80 calls in Python before the answer",
    "synchronous produce, p99": "some 80 calls in Python before the answer",
    "transactions of 100 records": "three requests with some 450 calls in Python, and five appends to logs",
    "commits of a classic group": "some 100 calls in Python, a third of them to store the offset",
}
#: Scans by Spark, and why they miss their target: by the CPU time of its processes.
_SPARK_SCANS = {
    "latency by API": "",
    "errors by API": "a quarter is the JVM",
    "bytes by topic": "a quarter is a pass before the scan, for topic names in all captures, and a seventh the JVM",
}
#: Reports with their limits, and why they miss it: by the CPU time of each process and job.
_REPORTS = {
    "100 MB, small packets": (
        15,
        "half of the CPU time is Spark's start and 31 queries, most of it for any capture; a fifth is decoding, a tenth"
        " the timeline of share partitions",
    ),
    "100 MB": (15, "two thirds of the CPU time are Spark's start and 31 queries, most of it for any capture"),
    "1 GB": (60, ""),
}

TARGETS = (
    Target("decode messages, beside kio", "codec", ("decode ",), "kio", 3),
    Target("decode messages, beside kafka-python", "codec", ("decode ",), "kafka-python", 12),
    Target("encode messages, beside kio", "codec", ("encode ",), "kio", 50),
    Target("pure Python, beside the code before the accelerator", "pure", ("",), PEER, LIMIT),
    *(
        target
        for work in ("decode", "encode")
        for target in (
            Target(f"{work} records, beside aiokafka", "records", (f"{work} ",), "aiokafka", 2, ends=_UNCOMPRESSED),
            Target(
                f"{work} records in lz4, zstd, snappy, beside aiokafka",
                "records",
                tuple(f"{work} 1,000 x 1 KiB, {codec}" for codec in ("lz4", "zstd", "snappy")),
                "aiokafka",
                1.2,
            ),
            Target(
                f"{work} records in gzip, beside aiokafka", "records", (f"{work} 1,000 x 1 KiB, gzip",), "aiokafka", 1
            ),
        )
    ),
    *(
        Target(
            f"CPU of the broker: {case}",
            "requests",
            (case,),
            "mockbroker",
            60,
            "us",
            is_ratio=False,
            is_least=False,
            reason=reason,
        )
        for case, reason in _REQUESTS.items()
    ),
    Target("produce, beside kfake", "broker", ("produce",), "kfake", 1.2),
    Target(
        "consume, beside kfake",
        "broker",
        ("consume",),
        "kfake",
        1.2,
        reason="the client is the limit: it takes three times the CPU time of the broker",
    ),
    *(
        Target(f"{case}, beside kfake", "operations", (case,), "kfake", 1, reason=reason)
        for case, reason in _OPERATIONS.items()
    ),
    Target(
        "p99 of 2,000 connections with 10 requests/s each",
        "connections",
        ("latency of 2,000 connections, 10 requests/s each",),
        "mockbroker",
        20,
        "ms",
        is_ratio=False,
        is_least=False,
        ends=("p99",),
    ),
    Target(
        "growth of memory in 10 s without requests",
        "operations",
        ("growth of memory",),
        "mockbroker",
        256,
        "KiB",
        is_ratio=False,
        is_least=False,
    ),
    Target("share consumption, beside kfake", "share", ("",), "kfake", 2),
    Target(
        "program start to first Metadata",
        "broker",
        ("start to first Metadata answer",),
        "mockbroker",
        80,
        "ms",
        is_ratio=False,
        is_least=False,
        reason="two thirds are Python itself, asyncio, uvloop and msgspec",
    ),
    *(
        Target(
            f"start with 1 GB of logs after a {end}",
            "storage",
            (f"start with 1 GB after a {end}",),
            "mockbroker",
            limit,
            "s",
            is_ratio=False,
            is_least=False,
        )
        for end, limit in (("clean end", 1), ("kill", 3))
    ),
    Target("produce with a data directory, beside in memory", "storage", ("produce",), "mockbroker in memory", 0.8),
    Target(
        "memory with 10 GB of logs, written or read",
        "storage",
        ("memory, 10 GB of logs",),
        "mockbroker",
        500,
        "MB",
        is_ratio=False,
        is_least=False,
    ),
    Target(
        "captures: all bodies of small packets, beside tshark",
        "capture",
        ("small packets: every body",),
        "kwire",
        10,
        reason="half of it is the index and the pairing of requests",
    ),
    *(
        Target(
            f"captures: level `{level}`, beside `messages`",
            "capture",
            ("",),
            "kwire",
            3,
            is_ratio=False,
            is_least=False,
            ends=(f"level {level}",),
        )
        for level in _LEVELS
    ),
    Target(
        "captures: JSON lines, beside tshark -T ek",
        "capture",
        ("JSON lines: ",),
        "kwire",
        8,
        reason="a third of it is imports and the index",
    ),
    Target(
        "captures: the default table, beside that of tshark",
        "capture",
        ("table: ",),
        "kwire",
        1,
        reason="the index, sessions and the scan for names of topics, for which tshark has no columns",
    ),
    *(
        Target(
            f"captures: {damage}",
            "capture",
            (f"{damage}: ",),
            "kwire",
            2,
            is_ratio=False,
            is_least=False,
            reason=reason,
        )
        for damage, reason in (
            (
                "1 % of packets lost",
                "half of it is reassembly and pairing packet by packet, in Python, after each loss",
            ),
            ("packets cut at 256 bytes", "half of it is reassembly and pairing of cut frames, in Python"),
        )
    ),
    Target(
        "captures: the first table of a process, above Arrow",
        "capture",
        ("first table of a process",),
        "kwire",
        0.4,
        "s",
        is_ratio=False,
        is_least=False,
    ),
    *(
        Target(
            f"`kwire report` of {size}",
            "report",
            (f"{size}, wall",),
            "kwire",
            limit,
            "s",
            is_ratio=False,
            is_least=False,
            reason=reason,
        )
        for size, (limit, reason) in _REPORTS.items()
    ),
    *(
        Target(
            f"Spark, CPU beside the plain library: {query}, 10 GB",
            "scale",
            (f"10 GB, {query}",),
            "kwire",
            1.3,
            is_ratio=False,
            is_least=False,
            ends=("CPU beside the library",),
            reason=reason,
        )
        for query, reason in _SPARK_SCANS.items()
    ),
    Target(
        "Spark: a query of level `partitions` over 10 GB",
        "scale",
        ("10 GB, bytes by topic",),
        "kwire",
        60,
        "s",
        is_ratio=False,
        is_least=False,
        ends=("wall",),
    ),
)


def newest_run(entries: Sequence[Entry], benchmark: str) -> list[Entry]:
    """The entries of the last run of a benchmark."""
    of_benchmark = [entry for entry in entries if entry.benchmark == benchmark]
    if not of_benchmark:
        return []
    last = of_benchmark[-1]
    return [entry for entry in of_benchmark if (entry.date, entry.commit) == (last.date, last.commit)]


def measured_value(target: Target, entries: Sequence[Entry]) -> float | None:
    """The geometric mean of a target's entries in the newest run; None if it was never measured."""
    found = [entry for entry in newest_run(entries, target.benchmark) if target.includes(entry)]
    pick: Callable[[Entry], float | None] = (lambda entry: entry.ratio) if target.is_ratio else lambda e: e.median
    values = [value for value in map(pick, found) if value is not None]
    if len(values) == 1:
        return values[0]
    return geometric_mean(values) if values else None


def render_section(entries: Sequence[Entry]) -> tuple[str, bool]:
    """The section, and whether every target is met."""
    rows, is_met = [], True
    for target in TARGETS:
        value = measured_value(target, entries)
        met = value is not None and (value >= target.limit if target.is_least else value <= target.limit)
        is_met = is_met and met
        wanted = f"{'at least' if target.is_least else 'at most'} {target.limit:g} {target.unit}"
        verdict = "not measured" if value is None else "met" if met else _describe_miss(target, value)
        rows.append([target.text, wanted, "-" if value is None else f"{value:.3g} {target.unit}", verdict])
    table = markdown_table(["target", "wanted", "newest run", "verdict"], rows)
    text = "Each line is the newest run of its benchmark; where a target covers several cases, their geometric mean."
    return f"## Targets\n\n{text}\n\n{table}", is_met


def _describe_miss(target: Target, value: float) -> str:
    """How far a value is from its limit, and why if that is known."""
    factor = target.limit / value if target.is_least else value / target.limit
    missed = (factor - 1) * 100
    return f"missed: by {missed:.{0 if missed >= 1 else 1}f} %" + (f"; {target.reason}" if target.reason else "")


def main(arguments: list[str] | None = None) -> int:
    """Print and write."""
    parser = argparse.ArgumentParser(prog="python -m tools.bench.targets", description=__doc__)
    parser.add_argument("--dry-run", action="store_true", help="print only")
    options = parser.parse_args(arguments)
    text, is_met = render_section(read_history(HISTORY))
    print(text)
    if not options.dry_run:
        write_section("targets", text)
    return 0 if is_met else 1


if __name__ == "__main__":
    sys.exit(main())
