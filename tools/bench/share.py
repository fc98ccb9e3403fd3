"""`python -m tools.bench.share`: benchmark of share consumption against kfake and Apache Kafka."""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Sequence

from tools.bench import brokers, client_workload
from tools.bench.history import summarize
from tools.bench.page import describe_machine, markdown_table, publish_section, spread_text

#: The modes of acknowledgement: the column, and whether the client acknowledges explicitly.
_MODES = (("implicit", False), ("explicit", True))


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(prog="python -m tools.bench.share", description=__doc__)
    parser.add_argument("--count", type=int, default=200_000, help="messages of 1 KiB in a run")
    parser.add_argument("--rounds", type=int, default=7, help="interleaved runs of every broker")
    parser.add_argument("--seconds", type=float, default=140, help="no round begins that would end after this time")
    parser.add_argument("--without-kafka", action="store_true", help="omit Apache Kafka, for a fast run")
    parser.add_argument("--dry-run", action="store_true", help="print only")
    args = parser.parse_args()
    peers = brokers.available_peers(with_kafka=not args.without_kafka)
    rates = _measure(peers, args.count, args.rounds, time.monotonic() + args.seconds)
    ours = peers[0].name
    results = [
        summarize(mode, name, "messages/s", values, ratio=None if name == ours else _ratio(rates[ours][mode], values))
        for name, modes in rates.items()
        for mode, values in modes.items()
    ]
    publish_section("share", _render_section(rates, args.count), results, write=not args.dry_run)


def _measure(
    peers: Sequence[brokers.Peer], count: int, rounds: int, deadline: float
) -> dict[str, dict[str, list[float]]]:
    """Messages per second by broker and mode, each run in a fresh process.

    deadline: of `time.monotonic`; the first round is complete whatever it takes, and none begins that would end later.
    Most of a run, of about 5 s, is the start of the broker and the wait for the member's second heartbeat.
    """
    rates: dict[str, dict[str, list[float]]] = {peer.name: {mode: [] for mode, _ in _MODES} for peer in peers}
    round_s = 0.0
    for _ in range(rounds):
        began = time.monotonic()
        if began + round_s > deadline:
            break
        for mode, explicit in _MODES:
            for peer in peers:
                with brokers.run_broker(peer) as bootstrap:
                    rate = client_workload.measure_share_rate(bootstrap, count=count, size=1024, explicit=explicit)
                rates[peer.name][mode].append(rate)
        round_s = max(round_s, time.monotonic() - began)
    return rates


def _render_section(rates: dict[str, dict[str, list[float]]], count: int) -> str:
    ours, *others = rates
    rounds = len(rates[ours][_MODES[0][0]])
    rows = [[name, *(spread_text(modes[mode]) for mode, _ in _MODES)] for name, modes in rates.items()]
    for other in others:
        ratios = (_ratio(rates[ours][mode], rates[other][mode]) for mode, _ in _MODES)
        rows.append([f"**{ours} / {other}**", *(f"{ratio:.2f}" for ratio in ratios)])
    head = ["broker", "implicit, messages/s", "explicit, messages/s"]
    return (
        f"## Share consumption\n\n{count:,} messages of 1 KiB of one partition to one share consumer of "
        "confluent-kafka, whose\npartition is assigned before the measurement. Implicit: the next poll "
        "acknowledges. Explicit: every message is\nacknowledged separately, and committed before the next poll. "
        f"Median [least … most] of {rounds} interleaved runs;\n{describe_machine()}.\n\n{markdown_table(head, rows)}"
    )


def _ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    return statistics.median(ours) / statistics.median(theirs)


if __name__ == "__main__":
    main()
