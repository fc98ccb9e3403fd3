"""`python -m tools.bench.connections`: latency of small requests of many connections at a steady rate."""

from __future__ import annotations

import argparse
import os
import select
import socket
import time
from array import array
from collections import deque
from collections.abc import Sequence
from contextlib import closing
from statistics import median, quantiles
from typing import NamedTuple

from kwire import Client, headers
from kwire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tools.bench import brokers
from tools.bench.client_workload import create_topic
from tools.bench.history import Result, summarize
from tools.bench.page import describe_machine, markdown_table, publish_section, spread_text

_WARM_UP_S = 1.0
#: How long answers may be missing after the last request.
_ANSWER_S = 20.0
_METADATA_VERSION = 12
_LENGTH_SIZE = 4
_READ_SIZE = 64 << 10


class Load(NamedTuple):
    """Requests of a run: of each connection, `rate_hz` a second, for so long after the warm-up."""

    connections: int
    rate_hz: float
    seconds: float

    @property
    def request_count(self) -> int:
        """The requests that are measured."""
        return int(self.connections * self.rate_hz * self.seconds)


class LoadResult(NamedTuple):
    """One run. Latencies: from the sending of a request to its answer. late_p99_ms: how late the client sent them."""

    p50_ms: float
    p99_ms: float
    late_p99_ms: float
    broker_cpu_us: float


class LoadConnection:
    """A non-blocking connection, the times of its requests that have no answer yet, and the bytes of the next one."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.socket = socket.create_connection(address, timeout=_ANSWER_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self.sent_at: deque[float] = deque()
        self._received = b""

    def send(self, frame: bytes, now_s: float) -> None:
        """Send a request. Raises: RuntimeError when the system does not accept all of it."""
        self.sent_at.append(now_s)
        if self.socket.send(frame) != len(frame):
            raise RuntimeError(f"a broker leaves more than {len(self.sent_at)} requests unread")

    def receive_sizes(self) -> list[int]:
        """The sizes of the answers that are complete now. Raises: ConnectionError when the broker has closed."""
        data = self.socket.recv(_READ_SIZE)
        if not data:
            raise ConnectionError("the broker has closed a connection")
        data = self._received + data
        sizes, at = [], 0
        while len(data) - at >= _LENGTH_SIZE:
            size = int.from_bytes(data[at : at + _LENGTH_SIZE], "big")
            if len(data) - at - _LENGTH_SIZE < size:
                break
            sizes.append(size)
            at += _LENGTH_SIZE + size
        self._received = data[at:]
        return sizes


class LoadGenerator:
    """One thread that sends a request in turn on each connection, evenly over time, whether answers come or not.

    Raises: RuntimeError for an answer of another size than that to the first request: all requests are equal.
    """

    def __init__(self, address: tuple[str, int], load: Load, topic: str) -> None:
        self._load = load
        request = MetadataRequest([MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
        body = headers.encode_request(request, _METADATA_VERSION, 1, "connections")
        self._frame = len(body).to_bytes(_LENGTH_SIZE, "big") + body
        self._poller = select.epoll()
        self._connections = [LoadConnection(address) for _ in range(load.connections)]
        self._by_descriptor = {connection.socket.fileno(): connection for connection in self._connections}
        for descriptor in self._by_descriptor:
            self._poller.register(descriptor, select.EPOLLIN)
        self._answer_size: int | None = None
        self._waiting_count = 0
        self.latencies_s = array("d")
        self.lateness_s = array("d")

    def close(self) -> None:
        """Close all connections."""
        self._poller.close()
        for connection in self._connections:
            connection.socket.close()

    def run(self, seconds: float) -> None:
        """Send for so long, then wait for the missing answers; the results are of this run only.

        Raises: TimeoutError when answers are missing.
        """
        self.latencies_s, self.lateness_s = array("d"), array("d")
        step_s = 1 / (self._load.rate_hz * len(self._connections))
        began = time.perf_counter()
        for number in range(int(seconds / step_s)):
            due_s = began + number * step_s
            now_s = time.perf_counter()
            while now_s < due_s:
                self._receive(due_s - now_s)
                now_s = time.perf_counter()
            self.lateness_s.append(now_s - due_s)
            self._connections[number % len(self._connections)].send(self._frame, now_s)
            self._waiting_count += 1
            if number % 64 == 0:  # Where sending is late, answers are taken as well.
                self._receive(0)
        deadline = time.perf_counter() + _ANSWER_S
        while self._waiting_count:
            if time.perf_counter() > deadline:
                raise TimeoutError(f"{self._waiting_count} requests have no answer after {_ANSWER_S:g} s")
            self._receive(0.1)

    def _receive(self, timeout_s: float) -> None:
        # `select` waits in microseconds, and `epoll` in milliseconds: too long between two requests.
        if timeout_s and not select.select([self._poller], [], [], timeout_s)[0]:
            return
        events = self._poller.poll(0)
        for descriptor, _ in events:
            connection = self._by_descriptor[descriptor]
            sizes = connection.receive_sizes()
            now_s = time.perf_counter()
            for size in sizes:
                if self._answer_size is None:
                    self._answer_size = size
                if size != self._answer_size:
                    raise RuntimeError(f"an answer of {size} bytes; the first had {self._answer_size}")
                self.latencies_s.append(now_s - connection.sent_at.popleft())
            self._waiting_count -= len(sizes)


def measure_load(bootstrap: str, pid: int, load: Load, topic: str) -> LoadResult:
    """The latencies of one broker process under the load, after a warm-up. Raises: as `LoadGenerator`."""
    with Client(bootstrap) as client:
        answer = client.send(MetadataRequest([MetadataRequestTopic(name=topic)]), version=_METADATA_VERSION)
        if answer.topics[0].error_code:
            raise RuntimeError(f"the broker answered with error {answer.topics[0].error_code}")
    host, port = bootstrap.split(",", 1)[0].rsplit(":", 1)
    with closing(LoadGenerator((host, int(port)), load, topic)) as generator:
        generator.run(_WARM_UP_S)
        before = _cpu_seconds(pid)
        generator.run(load.seconds)
        spent_s = _cpu_seconds(pid) - before
    latencies, lateness = quantiles(generator.latencies_s, n=100), quantiles(generator.lateness_s, n=100)
    per_request_us = spent_s / len(generator.latencies_s) * 1e6
    return LoadResult(latencies[49] * 1e3, latencies[98] * 1e3, lateness[98] * 1e3, per_request_us)


def _cpu_seconds(pid: int) -> float:
    """The CPU time of all threads of a process; Linux only."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        user, system = file.read().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(prog="python -m tools.bench.connections", description=__doc__)
    parser.add_argument("--connections", type=int, default=2_000, help="connections of one client process")
    parser.add_argument("--rate", type=float, default=10, help="requests of each connection a second")
    parser.add_argument("--seconds", type=float, default=5, help="duration of a run, after a second of warm-up")
    parser.add_argument("--rounds", type=int, default=5, help="interleaved runs of every broker")
    parser.add_argument("--with-kafka", action="store_true", help="measure Apache Kafka too")
    parser.add_argument("--dry-run", action="store_true", help="print only")
    args = parser.parse_args()
    load = Load(args.connections, args.rate, args.seconds)
    peers = brokers.available_peers(with_kafka=args.with_kafka)
    runs: dict[str, list[LoadResult]] = {peer.name: [] for peer in peers}
    for _ in range(args.rounds):
        for peer in peers:
            runs[peer.name].append(_measure_peer(peer, load))
    results = _summarize(runs, load)
    publish_section("connections", _render_section(runs, load), results, write=not args.dry_run)


def _measure_peer(peer: brokers.Peer, load: Load) -> LoadResult:
    process, bootstrap = brokers.start_broker(peer)
    try:
        brokers.wait_until_listening(bootstrap, process)
        return measure_load(bootstrap, process.pid, load, create_topic(bootstrap))
    finally:
        brokers.stop_process(process)


def _summarize(runs: dict[str, list[LoadResult]], load: Load) -> list[Result]:
    results = []
    ours = next(iter(runs.values()))
    for at, percentile in enumerate(("p50", "p99")):
        case = f"latency of {load.connections:,} connections, {load.rate_hz:g} requests/s each, {percentile}"
        for name, measured in runs.items():
            values = [run[at] for run in measured]
            ratio = None if measured is ours else median(values) / median(run[at] for run in ours)
            results.append(summarize(case, name, "ms", values, ratio=ratio))
    return results


def _render_section(runs: dict[str, list[LoadResult]], load: Load) -> str:
    rows = [
        [
            name,
            *(spread_text(column, digits) for column, digits in zip(zip(*measured, strict=True), _DIGITS, strict=True)),
        ]
        for name, measured in runs.items()
    ]
    head = ["broker", "p50, ms", "p99, ms", "sent late, p99, ms", "broker CPU per request, us"]
    count = len(next(iter(runs.values())))
    return (
        f"## Many connections\n\n{load.connections:,} connections of one client process, each with "
        f"{load.rate_hz:g} Metadata requests of one topic a second, evenly\npaced whether answers come or not: "
        f"{load.request_count:,} in a run. Latency from the sending to the answer. Median\n[least … most] of {count} "
        f"interleaved runs; {describe_machine()}.\n\n{markdown_table(head, rows)}"
    )


#: Decimals of the columns, in the order of `LoadResult`.
_DIGITS: Sequence[int] = (2, 2, 2, 0)


if __name__ == "__main__":
    main()
