"""`python -m tools.bench.broker`: start-up and throughput beside kfake and a real Kafka; writes its own section."""

from __future__ import annotations

import argparse
import shutil
import statistics
import time
from collections.abc import Sequence
from contextlib import ExitStack

from kwire import Client
from kwire.messages.metadata import MetadataRequest
from mockbroker import Cluster
from tools.bench import brokers, drive
from tools.bench.page import machine, table, write_section


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(prog="python -m tools.bench.broker", description=__doc__)
    parser.add_argument("--count", type=int, default=200_000, help="messages of 1 KiB in a run")
    parser.add_argument("--rounds", type=int, default=5, help="interleaved runs of every broker")
    parser.add_argument("--dry-run", action="store_true", help="print only")
    args = parser.parse_args()
    go = shutil.which("go")
    peers = [brokers.mockbroker(), *([brokers.kfake(go)] if go else []), brokers.kafka()]

    text = "\n\n".join((_startup(peers, args.rounds), _throughput(peers, args.count, args.rounds)))
    print(text)
    if not args.dry_run:
        write_section("broker", text)


def _startup(peers: Sequence[brokers.Peer], rounds: int) -> str:
    answers: dict[str, list[float]] = {peer.name: [] for peer in peers}
    shares: dict[str, list[float]] = {peer.name: [] for peer in peers}
    for _ in range(rounds):
        for peer in peers:
            began = time.perf_counter()
            process, bootstrap = brokers.start(peer)
            try:
                brokers.wait_until_it_answers(bootstrap, process)
                answers[peer.name].append(_first_metadata(bootstrap, began))
                shares[peer.name].append(drive.first_share_record_s(bootstrap) * 1e3)
            finally:
                brokers.stop(process)
    rows = [[peer.name, _spread(answers[peer.name]), _spread(shares[peer.name])] for peer in peers]
    rows.append(["mockbroker, fixture `kafka`", _spread(_fixture(rounds * 4)), "as above"])
    head = ["broker", "start to first Metadata answer, ms", "subscribe to first share record, ms"]
    return (
        f"## Start-up\n\nMedian [least … most] of {rounds} interleaved starts; {machine()}. The share record waits for "
        "the\nsecond heartbeat, 5 s after the first, as in Kafka: the first brings no partitions yet.\n\n"
        f"{table(head, rows)}"
    )


def _first_metadata(bootstrap: str, began: float) -> float:
    """Milliseconds until a Metadata answer; a broker that accepts but is not ready yet is asked again."""
    while True:
        try:
            with Client(bootstrap) as client:
                if client.send(MetadataRequest(topics=None)).brokers:
                    return (time.perf_counter() - began) * 1e3
        except ConnectionError:
            if time.perf_counter() - began > 60:
                raise


def _fixture(rounds: int) -> list[float]:
    """The same in a process that has the package loaded, as a test suite's has from its first test on."""
    spent = []
    for _ in range(rounds):
        began = time.perf_counter()
        with Cluster() as cluster:
            spent.append(_first_metadata(cluster.bootstrap_servers, began))
    return spent


def _throughput(peers: Sequence[brokers.Peer], count: int, rounds: int) -> str:
    measured: dict[str, list[drive.Rates]] = {peer.name: [] for peer in peers}
    for _ in range(rounds):
        # A fresh process for each run: what a broker still holds of the run before is no part of this one.
        for peer in peers:
            with ExitStack() as stack:
                bootstrap = stack.enter_context(brokers.running(peer))
                measured[peer.name].append(drive.rates(bootstrap, count=count, size=1024))
    real = measured[peers[-1].name]
    rows = []
    for peer in peers:
        own = measured[peer.name]
        cells = []
        for step in ("produce", "consume"):
            values = [getattr(rates, step) for rates in own]
            ratio = statistics.median(values) / statistics.median(getattr(rates, step) for rates in real)
            cells += [_spread(values), f"{ratio:.2f}"]
        rows.append([peer.name, *cells])
    head = ["broker", "produce, messages/s", "to Kafka", "consume, messages/s", "to Kafka"]
    return (
        f"## Produce and consume\n\n{count:,} messages of 1 KiB by confluent-kafka, one partition, acks=all, no "
        f"compression, linger 5 ms, then\nread from the start. Median [least … most] of {rounds} interleaved runs, "
        f"journal and all checks on.\n\n{table(head, rows)}"
    )


def _spread(values: Sequence[float]) -> str:
    return f"{statistics.median(values):,.0f} [{min(values):,.0f} … {max(values):,.0f}]"


if __name__ == "__main__":
    main()
