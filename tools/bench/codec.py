"""Messages against kio (Rust decoder), kafka-python 3 and aiokafka: decode and encode, all of our checks on.

`python -m tools.bench.codec` prints the tables and writes them into docs/performance.md; `--print` only prints.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from statistics import geometric_mean

import kwire
from kwire.registry import message_class
from tools.bench.codec_peers import Case, Pair, cases, peers
from tools.bench.page import machine, table, write_section
from tools.bench.rounds import Timed, compare

PEERS = ("kio", "kafka-python", "aiokafka")

#: What we promise, as geometric means of the peer's time by ours.
GOALS = {("decode", "kafka-python"): 2.5, ("encode", "kafka-python"): 4.0, ("encode", "kio"): 8.0}

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

Time of the peer divided by ours: above 1 kwire is faster. All take turns in one process, CPU time of the thread,
median of the rounds' ratios, on the same bytes, which each writes back alike; a peer stands where it knows the message.
kwire is pure Python and strict: ranges, lengths, UTF-8, booleans, tags and trailing bytes are checked. kio decodes in
Rust and encodes in Python. The work is not quite the same: kwire leaves UUIDs as 16 bytes and record batches as views
of the frame; the peers make UUID objects, and copy.
"""


def ours(case: Case) -> Pair:
    """Through the front door, as everybody uses it."""
    made = message_class(case.message)
    message = kwire.decode(made, case.version, case.data)
    if kwire.encode(message, case.version) != case.data:
        raise ValueError(f"kwire writes other bytes for {case.name}")
    return Pair(
        lambda: kwire.decode(made, case.version, case.data),
        lambda: kwire.encode(message, case.version),
    )


def measure(rounds: int) -> dict[str, dict[str, dict[str, Timed]]]:
    """By decode or encode, and by case: our time and that of each peer."""
    found: dict[str, dict[str, dict[str, Timed]]] = {"decode": {}, "encode": {}}
    for case in cases():
        pairs = {"kwire": ours(case), **peers(case)}
        decoders = {name: pair.decode for name, pair in pairs.items()}
        encoders = {name: pair.encode for name, pair in pairs.items()}
        found["decode"][case.name] = compare(decoders, rounds=rounds)
        found["encode"][case.name] = compare(encoders, rounds=rounds)
        print(f"{case.name}: {len(case.data):,} bytes", file=sys.stderr, flush=True)
    return found


def means(by_case: Mapping[str, Mapping[str, Timed]]) -> dict[str, float]:
    """The geometric mean of each peer's ratios, over the cases it knows."""
    return {peer: geometric_mean([timed[peer].ratio for timed in by_case.values() if peer in timed]) for peer in PEERS}


def render(found: Mapping[str, Mapping[str, Mapping[str, Timed]]]) -> str:
    """The section of the page."""
    parts = [_TEXT.strip()]
    for what, by_case in found.items():
        rows = [
            [_LABELS[name], f"{timed['kwire'].seconds * 1e6:,.1f}", *(_ratio(timed, peer) for peer in PEERS)]
            for name, timed in by_case.items()
        ]
        mean = means(by_case)
        rows.append(["**geometric mean**", "", *(f"**{mean[peer]:.2f}**" for peer in PEERS)])
        head = [what.capitalize(), "kwire, us", *(f"{peer} / kwire" for peer in PEERS)]
        parts.append(table(head, rows))
    goals = [f"{what} {goal:g} times {peer}" for (what, peer), goal in GOALS.items()]
    parts.append(f"The goals are {', '.join(goals)}: {'all reached' if not missed(found) else 'not all reached'}.")
    parts.append(f"{machine()}.")
    return "\n\n".join(parts)


def _ratio(timed: Mapping[str, Timed], peer: str) -> str:
    return f"{timed[peer].ratio:.2f}" if peer in timed else "-"


def missed(found: Mapping[str, Mapping[str, Mapping[str, Timed]]]) -> list[str]:
    """The goals that this run did not reach."""
    return [
        f"{what} is {means(found[what])[peer]:.2f} times {peer}, not {goal:g}"
        for (what, peer), goal in GOALS.items()
        if means(found[what])[peer] < goal
    ]


def main(arguments: list[str] | None = None) -> int:
    """Measure, print and write; exit code 1 when a goal is missed."""
    parser = argparse.ArgumentParser(prog="python -m tools.bench.codec", description=__doc__)
    parser.add_argument("--print", action="store_true", dest="only_print", help="leave docs/performance.md as it is")
    parser.add_argument("--rounds", type=int, default=31, help="turns of each library; more are steadier")
    options = parser.parse_args(arguments)
    found = measure(options.rounds)
    text = render(found)
    print(text)
    if not options.only_print:
        write_section("codec", text)
    for line in missed(found):
        print(f"missed: {line}", file=sys.stderr)
    return 1 if missed(found) else 0


if __name__ == "__main__":
    sys.exit(main())
