"""Benchmark of messages against kio (Rust decoder), kafka-python 3 and aiokafka: decode and encode, with all checks.

`python -m tools.bench.codec` prints the tables and writes them into docs/performance.md; `--dry-run` only prints.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from statistics import geometric_mean

import kwire
from kwire.accelerator import describe_implementation, is_accelerated
from kwire.registry import codec_of_name, message_class
from tools.bench.codec.peers import Case, Pair, load_cases, peer_pairs
from tools.bench.history import Result, summarize_timing
from tools.bench.page import describe_machine, markdown_table, publish_section
from tools.bench.rounds import Timing, compare_candidates

#: The other libraries, and the Python code that the accelerator replaces.
PEERS = ("kio", "kafka-python", "aiokafka", "pure Python")

#: The goals: geometric means of the peer's time divided by kwire's, with the accelerator and without it.
ACCELERATED_GOALS = {("decode", "kio"): 3.0, ("decode", "kafka-python"): 12.0, ("encode", "kio"): 50.0}
PURE_GOALS = {("decode", "kafka-python"): 2.5, ("encode", "kafka-python"): 4.0, ("encode", "kio"): 8.0}
GOALS = ACCELERATED_GOALS if is_accelerated() else PURE_GOALS

_LABELS = {
    "metadata_v12": "Metadata v12, 100 topics of 10 partitions",
    "metadata_v5": "Metadata v5, the same",
    "fetch_v17": "Fetch v17, 50 partitions of 20 KiB",
    "fetch_v11": "Fetch v11, the same",
    "produce_v9": "Produce v9, 50 partitions of 1 KiB",
    "apiversions_v4": "ApiVersions v4",
    "sharefetch_v1": "ShareFetch v1, 20 partitions of 500 acquired ranges",
    "shareack_v1": "ShareAcknowledge v1, 500 batches",
    "offsetcommit_v9": "OffsetCommit v9, 1,000 partitions",
    "offsetcommit_v3": "OffsetCommit v3, the same",
}

_TEXT = """
## Messages

Time of each library divided by the time of kwire: above 1 kwire is faster. All run alternately in one process, CPU time
of the thread, median of the rounds' ratios, on the same bytes, which each library writes back unchanged; "-" where a
library does not have the message. kwire is strict: ranges, lengths, UTF-8, booleans, tags, trailing bytes are checked.
The last column is kwire's own Python code. kio decodes in Rust and encodes in Python. The results differ slightly:
kwire returns UUIDs as 16 bytes and record batches as views of the frame; the others build UUID objects and copy.
"""


def kwire_pair(case: Case) -> Pair:
    """By the public functions, as in programs."""
    message_type = message_class(case.message)
    message = kwire.decode(message_type, case.version, case.data)
    if kwire.encode(message, case.version) != case.data:
        raise ValueError(f"kwire writes other bytes for {case.name}")
    _, _, version, data = case
    return Pair(lambda: kwire.decode(message_type, version, data), lambda: kwire.encode(message, version))


def pure_pair(case: Case) -> Pair:
    """By the generated Python functions, which the accelerator replaces."""
    codec = codec_of_name(case.message)
    read, write = codec.pure_readers[case.version], codec.pure_writers[case.version]
    message, _ = read(case.data, 0)
    return Pair(lambda: read(case.data, 0), lambda: b"".join(write(message)))


def measure(rounds: int) -> dict[str, dict[str, dict[str, Timing]]]:
    """By decode or encode, and by case: the time of kwire and of each peer."""
    timings: dict[str, dict[str, dict[str, Timing]]] = {"decode": {}, "encode": {}}
    for case in load_cases():
        pairs = {"kwire": kwire_pair(case), **peer_pairs(case), "pure Python": pure_pair(case)}
        decoders = {name: pair.decode for name, pair in pairs.items()}
        encoders = {name: pair.encode for name, pair in pairs.items()}
        timings["decode"][case.name] = compare_candidates(decoders, rounds=rounds)
        timings["encode"][case.name] = compare_candidates(encoders, rounds=rounds)
        print(f"{case.name}: {len(case.data):,} bytes", file=sys.stderr, flush=True)
    return timings


def list_results(timings: Mapping[str, Mapping[str, Mapping[str, Timing]]]) -> list[Result]:
    """The results for the history."""
    return [
        summarize_timing(f"{what} {case}", peer, timing, is_ours=peer == "kwire")
        for what, by_case in timings.items()
        for case, timed in by_case.items()
        for peer, timing in timed.items()
    ]


def geometric_means(by_case: Mapping[str, Mapping[str, Timing]]) -> dict[str, float]:
    """The geometric mean of each peer's ratios, over the cases that it supports."""
    return {peer: geometric_mean([timed[peer].ratio for timed in by_case.values() if peer in timed]) for peer in PEERS}


def render_section(timings: Mapping[str, Mapping[str, Mapping[str, Timing]]]) -> str:
    """The section of the page."""
    parts = [_TEXT.strip()]
    for what, by_case in timings.items():
        rows = [
            [_LABELS[name], f"{timed['kwire'].seconds * 1e6:,.1f}", *(_ratio(timed, peer) for peer in PEERS)]
            for name, timed in by_case.items()
        ]
        mean = geometric_means(by_case)
        rows.append(["**geometric mean**", "", *(f"**{mean[peer]:.2f}**" for peer in PEERS)])
        head = [what.capitalize(), "kwire, us", *(f"{peer} / kwire" for peer in PEERS)]
        parts.append(markdown_table(head, rows))
    goals = [f"{what} {goal:g} times {peer}" for (what, peer), goal in GOALS.items()]
    verdict = "not all reached" if missed_goals(timings) else "all reached"
    codec = f"The codec of kwire is {describe_implementation()}."
    return "\n\n".join([*parts, f"The goals are {', '.join(goals)}: {verdict}. {codec}", f"{describe_machine()}."])


def _ratio(timed: Mapping[str, Timing], peer: str) -> str:
    return f"{timed[peer].ratio:.2f}" if peer in timed else "-"


def missed_goals(timings: Mapping[str, Mapping[str, Mapping[str, Timing]]]) -> list[str]:
    """The goals that this run has missed."""
    means = {(what, peer): geometric_means(timings[what])[peer] for what, peer in GOALS}
    rows = ((*key, means[key], goal) for key, goal in GOALS.items() if means[key] < goal)
    return [f"{what} is {mean:.2f} times {peer}, not {goal:g}" for what, peer, mean, goal in rows]


def main(arguments: list[str] | None = None) -> int:
    """Measure, print and write; exit code 1 when a goal is missed."""
    parser = argparse.ArgumentParser(prog="python -m tools.bench.codec", description=__doc__)
    parser.add_argument("--dry-run", action="store_true", help="print only")
    parser.add_argument("--rounds", type=int, default=31, help="rounds of each library; more are more stable")
    options = parser.parse_args(arguments)
    timings = measure(options.rounds)
    publish_section("codec", render_section(timings), list_results(timings), write=not options.dry_run)
    for line in missed_goals(timings):
        print(f"missed: {line}", file=sys.stderr)
    return 1 if missed_goals(timings) else 0


if __name__ == "__main__":
    sys.exit(main())
