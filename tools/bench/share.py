"""`python -m tools.bench.share`: share consumption beside kfake and a real Kafka; writes its own section."""

from __future__ import annotations

import argparse
import shutil
import statistics
from collections.abc import Sequence

from tools.bench import brokers, drive
from tools.bench.page import machine, table, write_section

#: How records are acknowledged: the column, and whether the client does it itself.
_MODES = (("implicit", False), ("explicit", True))


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(prog="python -m tools.bench.share", description=__doc__)
    parser.add_argument("--count", type=int, default=200_000, help="messages of 1 KiB in a run")
    parser.add_argument("--rounds", type=int, default=5, help="interleaved runs of every broker")
    parser.add_argument("--without-kafka", action="store_true", help="leave the real Kafka out, for a quick look")
    parser.add_argument("--dry-run", action="store_true", help="print only")
    args = parser.parse_args()
    go = shutil.which("go")
    peers = [brokers.mockbroker(), *([brokers.kfake(go)] if go else [])]
    if not args.without_kafka:
        peers.append(brokers.kafka())

    text = _section(_measured(peers, args.count, args.rounds), args.count, args.rounds)
    print(text)
    if not args.dry_run:
        write_section("share", text)


def _measured(peers: Sequence[brokers.Peer], count: int, rounds: int) -> dict[str, dict[str, list[float]]]:
    """Messages per second by broker and mode, each run in a fresh process."""
    rates: dict[str, dict[str, list[float]]] = {peer.name: {mode: [] for mode, _ in _MODES} for peer in peers}
    for _ in range(rounds):
        for mode, explicit in _MODES:
            for peer in peers:
                with brokers.running(peer) as bootstrap:
                    rate = drive.share_rate(bootstrap, count=count, size=1024, explicit=explicit)
                rates[peer.name][mode].append(rate)
    return rates


def _section(rates: dict[str, dict[str, list[float]]], count: int, rounds: int) -> str:
    ours, *others = rates
    rows = []
    for name, modes in rates.items():
        cells = [_spread(modes[mode]) for mode, _ in _MODES]
        rows.append([name, *cells])
    for other in others:
        cells = [f"{_ratio(rates[ours][mode], rates[other][mode]):.2f}" for mode, _ in _MODES]
        rows.append([f"**{ours} / {other}**", *cells])
    head = ["broker", "implicit, messages/s", "explicit, messages/s"]
    return (
        f"## Share consumption\n\n{count:,} messages of 1 KiB of one partition to one share consumer of "
        "confluent-kafka, which has the\npartition assigned before the clock starts. Implicit: the next poll "
        "acknowledges. Explicit: every message is\nacknowledged by itself, each poll's are committed before the next. "
        f"Median [least … most] of {rounds} interleaved runs;\n{machine()}.\n\n{table(head, rows)}"
    )


def _ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    return statistics.median(ours) / statistics.median(theirs)


def _spread(values: Sequence[float]) -> str:
    return f"{statistics.median(values):,.0f} [{min(values):,.0f} … {max(values):,.0f}]"


if __name__ == "__main__":
    main()
