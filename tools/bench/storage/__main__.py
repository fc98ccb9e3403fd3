"""`python -m tools.bench.storage`: data directories: starts, throughput and memory, beside kfake and Apache Kafka.

About a quarter of an hour and 12 GB of disk (`--folder`), which is freed at the end; `--megabytes 50 --served 200` to
try it.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import NamedTuple

from kwire import Client
from kwire.client import ClientError
from kwire.messages.metadata import MetadataRequest
from tools.bench import brokers, client_workload
from tools.bench.history import Result, summarize
from tools.bench.page import describe_machine, markdown_table, publish_section, spread_text

MB = 1_000_000
_MESSAGE_SIZE = 1_000
#: Of which the logs that are served consist: one partition each.
_PART_MESSAGES = 1_000_000
_START_LIMIT_S = 120.0
_ENDS = ("clean end", "kill")
_MEMORY, _DIRECTORY, _FSYNC = "in memory", "with a data directory", "with `--fsync`"


class StoredBroker(NamedTuple):
    """A broker and how it is started on a folder; None: without one."""

    name: str
    start: Callable[[Path | None], brokers.Peer]


class Rate(NamedTuple):
    """A broker with what its acknowledgements wait for, and its messages a second."""

    name: str
    values: list[float]


def main(arguments: list[str] | None = None) -> int:
    """Measure, print and write. Returns 1 if there is not enough disk space."""
    parser = argparse.ArgumentParser(prog="python -m tools.bench.storage", description=__doc__)
    parser.add_argument("--megabytes", type=int, default=1_000, help="logs of the starts")
    parser.add_argument("--served", type=int, default=10_000, help="megabytes of the logs that are read in full")
    parser.add_argument("--count", type=int, default=200_000, help="messages of 1 KB in a run of produce")
    parser.add_argument("--rounds", type=int, default=7, help="interleaved starts, and runs of produce")
    parser.add_argument("--folder", type=Path, help="where the data goes (default: a temporary folder)")
    parser.add_argument("--dry-run", action="store_true", help="print only")
    options = parser.parse_args(arguments)
    stored = available_brokers()
    needed = MB * max(options.served * 12 // 10, options.megabytes * 2, options.count // 500)
    with tempfile.TemporaryDirectory(prefix="kwire-storage-bench-", dir=options.folder) as name:
        folder = Path(name)
        if shutil.disk_usage(folder).free < needed:
            print(f"needs {needed / 1e9:.1f} GB of disk in {folder}: choose another --folder", file=sys.stderr)
            return 1
        starts = {one.name: measure_starts(one, folder, options.megabytes, options.rounds) for one in stored}
        rates = measure_rates(stored, folder, options.count, options.rounds)
        peaks = measure_memory(stored[0], folder, options.served)
    text, results = render_section(starts, rates, peaks, options)
    publish_section("storage", text, results, write=not options.dry_run)
    return 0


def available_brokers() -> list[StoredBroker]:
    """mockbroker, kfake where Go is installed, and Apache Kafka."""
    found = [StoredBroker("mockbroker", _start_mockbroker)]
    go = shutil.which("go")
    if go is not None:
        kfake = brokers.build_kfake(go)
        found.append(StoredBroker("kfake", lambda folder: _with_arguments(kfake, "-data", folder)))
    kafka = brokers.kafka_peer()

    def start_kafka(folder: Path | None) -> brokers.Peer:
        data = () if folder is None else ("env", f"KAFKA_DATA={folder}")
        return brokers.Peer(kafka.name, (*data, *kafka.command), kafka.port)

    return [*found, StoredBroker(kafka.name, start_kafka)]


def _start_mockbroker(folder: Path | None) -> brokers.Peer:
    return _with_arguments(brokers.mockbroker_peer(), "--data-dir", folder)


def _without_folder(broker: StoredBroker) -> Callable[[Path], brokers.Peer]:
    return lambda _: broker.start(None)


def _start_with_fsync(folder: Path | None) -> brokers.Peer:
    peer = _start_mockbroker(folder)
    return brokers.Peer(peer.name, (*peer.command, "--fsync"), peer.port)


def _with_arguments(peer: brokers.Peer, option: str, folder: Path | None) -> brokers.Peer:
    arguments = () if folder is None else (option, str(folder))
    return brokers.Peer(peer.name, (*peer.command, *arguments), peer.port)


@contextmanager
def _run(peer: brokers.Peer) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A process that accepts connections, and its bootstrap list; killed at the end, if it has not ended."""
    process, bootstrap = brokers.start_broker(peer, has_own_group=True)
    try:
        brokers.wait_until_listening(bootstrap, process)
        yield process, bootstrap
    finally:
        if process.poll() is None:
            brokers.kill_group(process)


def measure_starts(broker: StoredBroker, folder: Path, megabytes: int, rounds: int) -> dict[str, list[float]]:
    """By the end of the process before: seconds from a start to a Metadata answer with leaders of all partitions."""
    data = folder / "starts"
    count = megabytes * MB // _MESSAGE_SIZE
    with _run(broker.start(data)) as (process, bootstrap):
        topic = client_workload.create_topic(bootstrap)
        client_workload.produce_messages(bootstrap, topic, count, _MESSAGE_SIZE)
        brokers.stop_process(process)
    seconds: dict[str, list[float]] = {}
    for end in _ENDS:
        # The end of the run before the first one was a clean one.
        end_process = brokers.stop_process if end == _ENDS[0] else brokers.kill_group
        measured = [_measure_start(broker.start(data), topic, end_process) for _ in range(rounds + 1)]
        seconds[end] = measured[1:]
        print(f"{broker.name}, start after a {end}: {spread_text(seconds[end], 3)} s", flush=True)
    shutil.rmtree(data)
    return seconds


def _measure_start(peer: brokers.Peer, topic: str, end_process: Callable[[subprocess.Popen[str]], None]) -> float:
    """Seconds of one start; some messages are produced before the process ends."""
    began = time.perf_counter()
    with _run(peer) as (process, bootstrap):
        while not _has_leaders(bootstrap, topic):
            if time.perf_counter() - began > _START_LIMIT_S:
                raise TimeoutError(f"{peer.name} has no leader of {topic} after {_START_LIMIT_S:g} s")
        seconds = time.perf_counter() - began
        client_workload.produce_messages(bootstrap, topic, 1_000, _MESSAGE_SIZE)
        end_process(process)
    return seconds


def _has_leaders(bootstrap: str, name: str) -> bool:
    try:
        with Client(bootstrap) as client:
            topics = client.send(MetadataRequest(topics=None)).topics
    except (ClientError, OSError):
        return False
    partitions = [one for topic in topics if topic.name == name for one in topic.partitions]
    return bool(partitions) and all(one.leader_id >= 0 and not one.error_code for one in partitions)


def measure_rates(stored: Sequence[StoredBroker], folder: Path, count: int, rounds: int) -> list[Rate]:
    """Interleaved runs of produce with acks=all, each in a new process with an empty folder."""
    ways: list[tuple[str, Callable[[Path], brokers.Peer]]] = []
    for one in stored:
        if not one.name.startswith("Apache"):
            ways.append((f"{one.name} {_MEMORY}", _without_folder(one)))
        ways.append((f"{one.name} {_DIRECTORY}", one.start))
        if one is stored[0]:
            ways.append((f"{one.name} {_FSYNC}", _start_with_fsync))
    rates = [Rate(name, []) for name, _ in ways]
    for _ in range(rounds):
        for (_, start), rate in zip(ways, rates, strict=True):
            data = folder / "rates"
            with _run(start(data)) as (_, bootstrap):
                topic = client_workload.create_topic(bootstrap)
                spent_s = client_workload.produce_messages(bootstrap, topic, count, _MESSAGE_SIZE)
                rate.values.append(count / spent_s)
            shutil.rmtree(data, ignore_errors=True)
    return rates


def measure_memory(broker: StoredBroker, folder: Path, megabytes: int) -> dict[str, float]:
    """The most resident memory of a process that stores logs, and of one that starts from them and reads all, in MB."""
    data = folder / "served"
    left, topics = megabytes * MB // _MESSAGE_SIZE, dict[str, int]()
    peaks: dict[str, float] = {}
    with _run(broker.start(data)) as (process, bootstrap):
        while left:
            count = min(left, _PART_MESSAGES)
            topic = client_workload.create_topic(bootstrap)
            client_workload.produce_messages(bootstrap, topic, count, _MESSAGE_SIZE)
            topics[topic] = count
            left -= count
        peaks["written"] = brokers.peak_resident_size(process) / MB
        brokers.stop_process(process)
    with _run(broker.start(data)) as (process, bootstrap):
        for topic, count in topics.items():
            client_workload.consume_messages(bootstrap, topic, count)
        peaks["read"] = brokers.peak_resident_size(process) / MB
        brokers.stop_process(process)
    shutil.rmtree(data)
    print(f"memory: {peaks}", flush=True)
    return peaks


def render_section(
    starts: dict[str, dict[str, list[float]]],
    rates: Sequence[Rate],
    peaks: dict[str, float],
    options: argparse.Namespace,
) -> tuple[str, list[Result]]:
    """The section of docs/performance.md, and the lines of the history."""
    size, served = f"{options.megabytes / 1_000:g} GB", f"{options.served / 1_000:g} GB"
    ours, results = next(iter(starts)), list[Result]()
    start_rows, rate_rows = [], []
    for name, by_end in starts.items():
        start_rows.append([name, *(spread_text(by_end[end], 3) for end in _ENDS)])
        for end in _ENDS:
            ratio = None if name == ours else median(by_end[end]) / median(starts[ours][end])
            results.append(summarize(f"start with {size} after a {end}", name, "s", by_end[end], ratio=ratio))
    directory = next(rate for rate in rates if rate.name == f"{ours} {_DIRECTORY}")
    for rate in rates:
        ratio = median(directory.values) / median(rate.values)
        rate_rows.append([rate.name, spread_text(rate.values), f"{ratio:.2f}"])
        to_peer = None if rate is directory else ratio
        results.append(summarize("produce", rate.name, "messages/s", rate.values, ratio=to_peer))
    for how, peak in peaks.items():
        results.append(summarize(f"memory, {served} of logs {how}", ours, "MB", [peak]))
    start_table = markdown_table(["broker", "after a clean end, s", "after a kill, s"], start_rows)
    rate_table = markdown_table(["broker", "produce, messages/s", f"{ours} {_DIRECTORY} to it"], rate_rows)
    text = f"""## Data directories

From the start of a process with {size} of logs, in one partition, to a Metadata answer with a leader: median [least …
most] of {options.rounds} starts. After a kill the machine has gone on.

{start_table}

{options.count:,} messages of 1 KB by confluent-kafka, one partition, acks=all, no compression, linger 5 ms, into an
empty folder: median of {options.rounds} interleaved runs. Acknowledgements wait for the disk with `--fsync` only.

{rate_table}

Resident memory of {ours} at most: {peaks["written"]:,.0f} MB while {served} of logs were written, and
{peaks["read"]:,.0f} MB in a process that started from them and served all of it to a consumer.

{describe_machine()}."""
    return text, results


if __name__ == "__main__":
    sys.exit(main())
