"""Starts a cluster on a data directory in a process of its own, with limits, and reads its records."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import pickle
import resource
import signal
import struct
import sys
from pathlib import Path
from typing import Any, NamedTuple

from kwire.records import Record
from mockbroker.kafka_error import KafkaError
from mockbroker.state.storage.partition_log import PartitionLog

#: Of CPU; a busy machine may take much longer.
_CPU_MAX_S = 30
_TIME_MAX_S = 300
_MEMORY_MAX = 3 << 30
#: A cluster of these directories takes some 60 MB.
RESIDENT_MAX_KB = 400 << 10
_CAPABILITY_VERSION = 0x20080522
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["mockbroker.cli", "mockbroker.cluster", "tests.support.stored.started_child"])

#: Values by topic, partition and offset; None for records of a batch whose checksum is wrong: a client finds that.
#: At this offset is the error of a log whose damage was found when it was read.
UNREADABLE = -1
Contents = dict[tuple[str, int], dict[int, bytes | None]]


class Outcome(NamedTuple):
    """How a process ended: its exit code, negative for a signal, what it wrote to stderr, and its peak memory."""

    code: int
    stderr: str
    resident_kb: int
    contents: Contents | None


def start_cluster(folder: Path, arguments: list[str], *, without_privileges: bool = False) -> Outcome:
    """Start the command on a folder, end it when it has started, and read what it has with another cluster."""
    output = folder.parent / "output"
    result, values = output.with_suffix(".usage"), output.with_suffix(".pickle")
    for path in (result, values):
        path.unlink(missing_ok=True)
    output.write_bytes(b"")
    process = _CONTEXT.Process(target=_limit_and_run, args=(str(output), str(folder), arguments, without_privileges))
    process.start()
    process.join(_TIME_MAX_S + 10)
    if process.is_alive():
        process.kill()
        process.join()
    assert process.exitcode is not None
    resident = int(result.read_text() or 0) if result.exists() else 0
    contents = pickle.loads(values.read_bytes()) if process.exitcode == 0 else None
    return Outcome(process.exitcode, output.read_text(errors="replace"), resident, contents)


def _limit_and_run(output: str, folder: str, arguments: list[str], without_privileges: bool) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_MAX, _MEMORY_MAX))
    resource.setrlimit(resource.RLIMIT_CPU, (_CPU_MAX_S, _CPU_MAX_S))
    signal.alarm(_TIME_MAX_S)
    descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    usage = os.open(Path(output).with_suffix(".usage"), os.O_WRONLY | os.O_CREAT)
    values = os.open(Path(output).with_suffix(".pickle"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    closed, end = os.pipe()
    os.close(end)
    os.dup2(closed, 0)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    if without_privileges:
        _drop_capabilities()
    code = _start_command(folder, arguments) or _read_cluster(folder, arguments, values)
    os.write(usage, b"%d" % resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    sys.stderr.flush()
    os._exit(code)


def _drop_capabilities() -> None:
    """Have the permissions of files apply to root too."""
    header = struct.pack("=Ii", _CAPABILITY_VERSION, 0)
    if ctypes.CDLL(None, use_errno=True).capset(header, bytes(24)):
        raise OSError(ctypes.get_errno(), "capset")


def _start_command(folder: str, arguments: list[str]) -> int:
    from mockbroker.cli import main

    return main(["--data-dir", folder, "--port", "0", "--exit-with-stdin", "--log-level", "warning", *arguments])


def _read_cluster(folder: str, arguments: list[str], values: int) -> int:
    from mockbroker import Cluster, ConfigError

    settings = [arguments[at + 1] for at, word in enumerate(arguments) if word == "--set"]
    try:
        with Cluster(data_dir=folder, settings=settings) as cluster:
            contents = cluster.run(read_contents)
    except ConfigError as error:
        print(f"mockbroker: {error}", file=sys.stderr)
        return 2
    os.write(values, pickle.dumps(contents))
    return 0


def read_contents(server: Any) -> Contents:
    """The committed records of all topics of a cluster."""
    state = server.core.state
    contents: Contents = {}
    for topic in state.metadata.topics():
        for partition in topic.partitions:
            log = state.log_store.open_log(topic, partition.index)
            try:
                contents[topic.name, partition.index] = _read_log(log)
            except KafkaError as error:
                contents[topic.name, partition.index] = {UNREADABLE: str(error.message).encode()}
    return contents


def _read_log(log: PartitionLog) -> dict[int, bytes | None]:
    aborted = log.aborted_transactions(log.start_offset, log.end_offset)
    values: dict[int, bytes | None] = {}
    for batch in log.batches_from(log.start_offset):
        header = batch.header()
        offsets = range(max(batch.base_offset, log.start_offset), batch.last_offset + 1)
        if not header.crc_is_valid:
            values.update(dict.fromkeys(offsets))
            continue
        is_aborted = any(
            one.producer_id == header.producer_id and one.first_offset <= batch.base_offset < one.last_offset
            for one in aborted
        )
        if not header.is_control and not is_aborted:
            values.update({one.offset: _text(one) for one in batch.records() if one.offset >= log.start_offset})
    return values


def _text(record: Record) -> bytes:
    return bytes(record.value or b"")
