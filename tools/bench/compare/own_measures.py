"""`python -m tools.bench.compare.own_measures NAME`: one round of a measure as JSON, microseconds of CPU by line.

It runs on the code of any commit, so it uses public functions only, and no other library.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median

import kwire
from kwire.messages.metadata import MetadataRequest
from kwire.records import Record, parse_header, write_batch
from kwire.registry import message_class
from mockbroker import Cluster
from tools.bench.brokers import stop_process
from tools.bench.codec.peers import load_cases
from tools.bench.requests import measure_requests
from tools.bench.rounds import measure_call
from tools.bench.window import FilledWindow

_US = 1e6
_CAPTURE = "kafka_play.pcap"
_WINDOW_RECORDS = 10_000
_REQUESTS = 400
_STARTS = 3


def measure_codec(folder: Path) -> dict[str, float]:
    """Decoding and encoding of messages."""
    times = {}
    for case in load_cases():
        kind, version, data = message_class(case.message), case.version, case.data
        message = kwire.decode(kind, version, data)
        times[f"decode {case.name}"] = measure_call(lambda: kwire.decode(kind, version, data)) * _US  # noqa: B023
        times[f"encode {case.name}"] = measure_call(lambda: kwire.encode(message, version)) * _US  # noqa: B023
    return times


def measure_records(folder: Path) -> dict[str, float]:
    """Reading and writing of record batches without compression."""
    times = {}
    for count, size in ((1_000, 1_024), (1_000, 100)):
        records = [
            Record(index, 1_700_000_000_000 + index, b"key-%d" % index, b"v" * size, ()) for index in range(count)
        ]
        batch = write_batch(records)

        def read(batch: bytes = batch) -> object:
            """Read the batch as a consumer does, with its checksum."""
            parsed = parse_header(batch)
            parsed.check_crc()
            return parsed.records()

        times[f"read {count:,} x {size:,} bytes"] = measure_call(read) * _US
        times[f"write {count:,} x {size:,} bytes"] = measure_call(lambda: write_batch(records)) * _US  # noqa: B023
    return times


def measure_broker(folder: Path) -> dict[str, float]:
    """The broker's time for one small request of each of five kinds."""
    return measure_requests(None, _REQUESTS)


def measure_window(folder: Path) -> dict[str, float]:
    """Acquiring and acknowledging a batch of a share partition with many records in flight."""
    held = FilledWindow(_WINDOW_RECORDS)

    def move() -> None:
        """Acknowledge the oldest batch and acquire another one."""
        held.accept(0)
        held.acquire()

    return {f"acquire and accept, {_WINDOW_RECORDS:,} in flight": measure_call(move) * _US}


def measure_start(folder: Path) -> dict[str, float]:
    """The start of the command until its first Metadata answer, and of a cluster in a running process."""

    def run_cluster() -> None:
        """Start and stop a cluster."""
        with Cluster():
            pass

    cluster = measure_call(run_cluster) * _US
    return {"start of the command": median(_time_start() for _ in range(_STARTS)), "start of a cluster": cluster}


def _time_start() -> float:
    command = [sys.executable, "-m", "mockbroker", "--port", "0", "--log-level", "error"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        with kwire.Client(process.stdout.readline().strip()) as client:
            client.send(MetadataRequest(topics=None))
        spent_ns = Path(f"/proc/{process.pid}/schedstat").read_text(encoding="ascii").split()[0]
    finally:
        stop_process(process)
    return int(spent_ns) / 1_000


def measure_captures(folder: Path) -> dict[str, float]:
    """Reading of a capture. folder: where it is."""
    path = str(folder / _CAPTURE)
    times = {}
    for level in ("messages", "partitions"):

        def read(level: str = level) -> None:
            """Read every row of the level."""
            for _ in kwire.read_capture(path, level):
                pass

        times[f"read a capture, level {level}"] = measure_call(read) * _US
    return times


MEASURES: Mapping[str, Callable[[Path], dict[str, float]]] = {
    "codec": measure_codec,
    "records": measure_records,
    "broker": measure_broker,
    "window": measure_window,
    "start": measure_start,
    "captures": measure_captures,
}


def main() -> None:
    """Print the values of one round: the name of the measure, the folder of the captures."""
    name, folder = sys.argv[1:]
    began = time.process_time()
    values = MEASURES[name](Path(folder))
    print(f"{name}: {time.process_time() - began:.1f} s", file=sys.stderr)
    print(json.dumps(values))


if __name__ == "__main__":
    main()
