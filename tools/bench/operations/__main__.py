"""`python -m tools.bench.operations`: benchmark of calls that wait for the broker, against kfake and Apache Kafka.

Synchronous produce (each message waits for its report), transactions of 100 records, commits of a classic group: each
is one client of confluent-kafka. Then the memory that one million small messages take in mockbroker.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from statistics import median

from tools.bench import brokers, client_workload
from tools.bench.history import Result, summarize
from tools.bench.operations import clients
from tools.bench.page import describe_machine, markdown_table, publish_section, spread_text

#: The cases in order: name, unit, whether more is better.
_CASES = (
    ("synchronous produce, p50", "us", False),
    ("synchronous produce, p99", "us", False),
    ("transactions of 100 records", "1/s", True),
    ("commits of a classic group", "1/s", True),
)
_MESSAGE_SIZE = 100
#: How long the broker is idle before its memory is read again, seconds.
_IDLE_S = 10.0

Values = dict[str, dict[str, list[float]]]


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(prog="python -m tools.bench.operations", description=__doc__)
    parser.add_argument("--rounds", type=int, default=7, help="interleaved runs of every broker")
    parser.add_argument("--calls", type=int, default=2_000, help="messages and commits in a run")
    parser.add_argument("--transactions", type=int, default=200, help="transactions in a run")
    parser.add_argument("--messages", type=int, default=1_000_000, help="messages for the memory")
    parser.add_argument("--without-kafka", action="store_true", help="omit Apache Kafka, for a fast run")
    parser.add_argument("--dry-run", action="store_true", help="print only")
    args = parser.parse_args()
    peers = brokers.available_peers(with_kafka=not args.without_kafka)
    values = _measure_operations(peers, args.rounds, args.calls, args.transactions)
    results = _summarize_operations(values, peers[0].name)
    text = _render_operations(values, args.rounds)
    memory = _measure_memory(peers[0], args.messages)
    results += [
        summarize("memory of a message of 100 bytes", "mockbroker", "bytes", [memory[0]]),
        summarize(f"growth of memory in {_IDLE_S:g} s without requests", "mockbroker", "KiB", [memory[1]]),
    ]
    text += (
        f"\n\n{args.messages:,} messages of {_MESSAGE_SIZE} bytes take {memory[0]:.0f} bytes each in mockbroker's "
        f"process, which grows\nby {memory[1]:,.0f} KiB in the {_IDLE_S:g} s after."
    )
    publish_section("operations", text, results, write=not args.dry_run)


def _measure_operations(peers: Sequence[brokers.Peer], rounds: int, calls: int, transactions: int) -> Values:
    """The values of each round by case and broker; each run is a new process."""
    values: Values = {case: {peer.name: [] for peer in peers} for case, _, _ in _CASES}
    for _ in range(rounds):
        for peer in peers:
            with brokers.run_broker(peer) as bootstrap:
                latencies = clients.measure_synchronous_produce(bootstrap, calls)
                measured = (
                    latencies.p50_us,
                    latencies.p99_us,
                    clients.measure_transactions(bootstrap, transactions, records=100),
                    clients.measure_commits(bootstrap, calls),
                )
            for (case, _, _), value in zip(_CASES, measured, strict=True):
                values[case][peer.name].append(value)
    return values


def _summarize_operations(values: Values, ours: str) -> list[Result]:
    return [
        summarize(case, name, unit, rounds, ratio=None if name == ours else _advantage(of_case, ours, name, is_rate))
        for (case, unit, is_rate), of_case in zip(_CASES, values.values(), strict=True)
        for name, rounds in of_case.items()
    ]


def _advantage(of_case: dict[str, list[float]], ours: str, other: str, is_rate: bool) -> float:
    """How much better ours is than the other: above 1 it is."""
    ratio = median(of_case[ours]) / median(of_case[other])
    return ratio if is_rate else 1 / ratio


def _render_operations(values: Values, rounds: int) -> str:
    names = list(next(iter(values.values())))
    rows = [
        [f"{case}, {unit}", *(spread_text(values[case][name]) for name in names)]
        + [f"{_advantage(values[case], names[0], name, is_rate):.2f}" for name in names[1:]]
        for case, unit, is_rate in _CASES
    ]
    head = ["one client", *names, *(f"better than {name}" for name in names[1:])]
    return (
        f"## Calls that wait\n\nOne client of confluent-kafka, acks=all, linger 0. Median [least … most] of {rounds} "
        "interleaved runs, each in a\nnew process; the last columns are ratios, above 1 where mockbroker is better; "
        f"{describe_machine()}.\n\n{markdown_table(head, rows)}"
    )


def _measure_memory(peer: brokers.Peer, count: int) -> tuple[float, float]:
    """Bytes of the process for each message, and KiB by which it grows while nothing asks it anything."""
    process, bootstrap = brokers.start_broker(peer)
    try:
        brokers.wait_until_listening(bootstrap, process)
        topic = client_workload.create_topic(bootstrap)
        client_workload.produce_messages(bootstrap, topic, 1, _MESSAGE_SIZE)
        before = brokers.resident_size(process)
        client_workload.produce_messages(bootstrap, topic, count, _MESSAGE_SIZE)
        full = brokers.resident_size(process)
        time.sleep(_IDLE_S)
        return (full - before) / count, (brokers.resident_size(process) - full) / 1024
    finally:
        brokers.stop_process(process)


if __name__ == "__main__":
    main()
