"""`python -m tools.bench.broker`: benchmark of start-up and throughput against kfake and Apache Kafka."""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Sequence

from kwire import Client
from kwire.messages.metadata import MetadataRequest
from mockbroker import Cluster
from tools.bench import brokers, client_workload
from tools.bench.history import Result, summarize
from tools.bench.page import describe_machine, markdown_table, publish_section, spread_text


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(prog="python -m tools.bench.broker", description=__doc__)
    parser.add_argument("--count", type=int, default=200_000, help="messages of 1 KiB in a run")
    parser.add_argument("--rounds", type=int, default=7, help="interleaved runs of every broker")
    parser.add_argument("--dry-run", action="store_true", help="print only")
    args = parser.parse_args()
    peers = brokers.available_peers()
    results: list[Result] = []
    text = "\n\n".join(
        (_measure_startup(peers, args.rounds, results), _measure_throughput(peers, args.count, args.rounds, results))
    )
    publish_section("broker", text, results, write=not args.dry_run)


def _measure_startup(peers: Sequence[brokers.Peer], rounds: int, results: list[Result]) -> str:
    """The part about starts; appends to the results."""
    answers: dict[str, list[float]] = {peer.name: [] for peer in peers}
    shares: dict[str, list[float]] = {peer.name: [] for peer in peers}
    with brokers.run_broker(peers[0]):
        pass  # Its bytecode is there from now on, as where it is installed.
    for _ in range(rounds):
        for peer in peers:
            began = time.perf_counter()
            process, bootstrap = brokers.start_broker(peer)
            try:
                brokers.wait_until_listening(bootstrap, process)
                answers[peer.name].append(_first_metadata_ms(bootstrap, began))
                shares[peer.name].append(client_workload.measure_first_share_record_s(bootstrap) * 1e3)
            finally:
                brokers.stop_process(process)
    rows = [[peer.name, spread_text(answers[peer.name]), spread_text(shares[peer.name])] for peer in peers]
    fixture = _fixture_times(rounds * 4)
    rows.append(["mockbroker, fixture `kafka`", spread_text(fixture), "as above"])
    results += (summarize("start to first Metadata answer", name, "ms", values) for name, values in answers.items())
    results += (summarize("first share record", name, "ms", values) for name, values in shares.items())
    results.append(summarize("start of the fixture", "mockbroker", "ms", fixture))
    head = ["broker", "start to first Metadata answer, ms", "subscribe to first share record, ms"]
    return (
        f"## Start-up\n\nMedian [least … most] of {rounds} interleaved starts; {describe_machine()}. mockbroker is "
        "started as from\na wheel: with stored bytecode, and without the `.pth` files of an environment for "
        "development. The share record\nwaits for the second heartbeat, 5 s after the first, as in Kafka: the first "
        "brings no partitions yet.\n\n"
        f"{markdown_table(head, rows)}"
    )


def _first_metadata_ms(bootstrap: str, began: float) -> float:
    """Milliseconds until a Metadata answer; repeats the request while the broker is not ready."""
    while True:
        try:
            with Client(bootstrap) as client:
                if client.send(MetadataRequest(topics=None)).brokers:
                    return (time.perf_counter() - began) * 1e3
        except ConnectionError:
            if time.perf_counter() - began > 60:
                raise


def _fixture_times(rounds: int) -> list[float]:
    """The same in a process that has imported the package, as in a test suite."""
    spent = []
    for _ in range(rounds):
        began = time.perf_counter()
        with Cluster() as cluster:
            spent.append(_first_metadata_ms(cluster.bootstrap_servers, began))
    return spent


def _measure_throughput(peers: Sequence[brokers.Peer], count: int, rounds: int, results: list[Result]) -> str:
    """The part about throughput; appends to the results, whose ratios are ours to the peer."""
    measured: dict[str, list[client_workload.Rates]] = {peer.name: [] for peer in peers}
    for _ in range(rounds):
        # A new process for each run, so that data of earlier runs has no effect.
        for peer in peers:
            with brokers.run_broker(peer) as bootstrap:
                measured[peer.name].append(client_workload.measure_rates(bootstrap, count=count, size=1024))
    real = measured[peers[-1].name]
    rows = []
    for peer in peers:
        row = [peer.name]
        for step in ("produce", "consume"):
            values = [getattr(rates, step) for rates in measured[peer.name]]
            ratio = statistics.median(values) / statistics.median(getattr(rates, step) for rates in real)
            row += [spread_text(values), f"{ratio:.2f}"]
            ours = statistics.median(getattr(rates, step) for rates in measured[peers[0].name])
            to_peer = None if peer is peers[0] else ours / statistics.median(values)
            results.append(summarize(step, peer.name, "messages/s", values, ratio=to_peer))
        rows.append(row)
    head = ["broker", "produce, messages/s", "to Kafka", "consume, messages/s", "to Kafka"]
    return (
        f"## Produce and consume\n\n{count:,} messages of 1 KiB by confluent-kafka, one partition, acks=all, no "
        f"compression, linger 5 ms, then\nread from the start. Median [least … most] of {rounds} interleaved runs, "
        f"journal and all checks on.\n\n{markdown_table(head, rows)}"
    )


if __name__ == "__main__":
    main()
