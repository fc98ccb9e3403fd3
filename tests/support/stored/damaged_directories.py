"""Data directories of clusters, ended or killed, and what can happen to one of their files."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

from kwire.records import Record, write_batch
from mockbroker import Cluster
from tests.support.stored.started_child import Contents, read_contents

SETTINGS = ["log.index.interval.bytes=300", "offsets.topic.num.partitions=2"]
_REAL = "mockbroker.replication=real"
_SMALL_SEGMENTS = {"internal.segment.bytes": "2000"}
_PRODUCER, _OTHER_PRODUCER = 7, 8


def make_directory(target: Path, *, nodes: int, is_killed: bool, is_real: bool) -> tuple[list[str], Contents]:
    """Make the directory of a cluster that has ended, or was killed. Returns: its arguments, and what it must have."""
    settings = [*SETTINGS, *([_REAL] if is_real else [])]
    source = target.parent / f"{target.name}.running" if is_killed else target
    cluster = Cluster(nodes=nodes, data_dir=source, settings=settings, seed=1)
    with cluster:
        for topic in ("plain", "transactions"):
            cluster.create_topic(topic, 2, configs=_SMALL_SEGMENTS)
        cluster.create_topic("compacted", 1, configs={"cleanup.policy": "compact", **_SMALL_SEGMENTS})
        for number in range(60):
            for topic in ("plain", "compacted"):
                cluster.produce(topic, f"{number}".encode() * 30, key=str(number % 7), partition=0)
        cluster.run(_append_transactions)
        cluster.clock.advance(6_000)  # Checkpoints are written.
        cluster.run(_append_transactions)
        for number in range(5):
            cluster.produce("plain", f"last {number}", partition=1)
        cluster.clock.advance(100)
        contents = cluster.run(read_contents)
        if is_killed:
            subprocess.run(["cp", "-a", str(source), str(target)], check=True)
    if is_killed:
        shutil.rmtree(source)
    return [word for setting in settings for word in ("--set", setting)], contents


def _append_transactions(server: object) -> None:
    """Committed and aborted transactions of two producers, over several segments."""
    state = server.core.state  # type: ignore[attr-defined]
    now_ms = server.clock.now_ms()  # type: ignore[attr-defined]
    topic = state.metadata.topic("transactions")
    log = state.log_store.open_log(topic, 0)
    done = log.end_offset
    for number in range(30):
        producer = _PRODUCER if number % 3 else _OTHER_PRODUCER
        states = {one.producer_id: one.last_sequence for one in log.producers.all_states()}
        record = Record(0, now_ms, b"k", b"%d of %d" % (number, done) * 20)
        given = {"producer_id": producer, "producer_epoch": 0, "base_sequence": states.get(producer, -1) + 1}
        log.append(write_batch([record], transactional=True, **given), now_ms=now_ms)
        if number % 5 == 4:
            for ended in (_PRODUCER, _OTHER_PRODUCER):
                is_committed = (number + ended) % 2 == 0
                marker = {"producer_id": ended, "producer_epoch": 0, "coordinator_epoch": 0}
                log.append_marker(commit=is_committed, now_ms=now_ms, **marker)


def list_paths(folder: Path) -> list[Path]:
    """All files and folders below the node folders, sorted."""
    return sorted(path for path in folder.rglob("*") if path.parent != folder)


def _flip(path: Path, rng: random.Random) -> None:
    data = bytearray(path.read_bytes())
    if data:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    path.write_bytes(data)


def _flip_uncovered(path: Path, rng: random.Random) -> None:
    """Flip a bit of the fields of a batch that no checksum covers: the last one's, or any."""
    data = bytearray(path.read_bytes())
    starts, at = [], 0
    while at + 61 <= len(data):
        starts.append(at)
        at += 12 + int.from_bytes(data[at + 8 : at + 12])
    if starts and path.suffix == ".log":
        at = rng.choice((starts[-1], rng.choice(starts))) + rng.choice((*range(8), *range(8, 12), *range(12, 16), 16))
        data[at] ^= 1 << rng.randrange(8)
        path.write_bytes(data)
    else:
        _flip(path, rng)


def _zero(path: Path, rng: random.Random) -> None:
    data = bytearray(path.read_bytes())
    start = rng.choice((0, rng.randrange(len(data) + 1)))
    end = rng.choice((len(data), rng.randrange(start, len(data) + 1)))
    data[start:end] = bytes(end - start)
    path.write_bytes(data)


def _truncate(path: Path, rng: random.Random) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: rng.randrange(len(data) + 1)])


def _empty(path: Path, _: random.Random) -> None:
    path.write_bytes(b"")


def _add_garbage(path: Path, rng: random.Random) -> None:
    path.write_bytes(path.read_bytes() + rng.randbytes(rng.randrange(1, 200)))


def _replace_by_garbage(path: Path, rng: random.Random) -> None:
    path.write_bytes(rng.randbytes(rng.randrange(1, 2_000)))


def remove_path(path: Path, _: random.Random) -> None:
    """Remove a file or a folder."""
    shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def _replace_by_folder(path: Path, rng: random.Random) -> None:
    remove_path(path, rng)
    path.mkdir()


def _replace_by_link(path: Path, rng: random.Random) -> None:
    """The file or folder is outside now, and a symbolic link is in its place."""
    outside = path.parents[-1] / _outside(path) / path.name
    shutil.move(path, outside)
    path.symlink_to(outside)


def _outside(path: Path) -> Path:
    folder = next(parent for parent in path.parents if (parent / "outside").is_dir())
    return folder / "outside"


def _replace_by_pipe(path: Path, rng: random.Random) -> None:
    remove_path(path, rng)
    os.mkfifo(path)


def _make_unreadable(path: Path, _: random.Random) -> None:
    path.chmod(0)


_OF_FILES: dict[str, Callable[[Path, random.Random], None]] = {
    "flip": _flip,
    "flip uncovered": _flip_uncovered,
    "zero": _zero,
    "truncate": _truncate,
    "empty": _empty,
    "add garbage": _add_garbage,
    "garbage": _replace_by_garbage,
    "folder": _replace_by_folder,
}
_OF_ANY: dict[str, Callable[[Path, random.Random], None]] = {
    "remove": remove_path,
    "link": _replace_by_link,
    "pipe": _replace_by_pipe,
    "unreadable": _make_unreadable,
}
DAMAGES = {**_OF_FILES, **_OF_ANY}


def damages_of(path: Path) -> list[str]:
    """The kinds of damage that a path can have."""
    return list(DAMAGES if path.is_file() else _OF_ANY)


def walk_outside(folder: Path) -> Iterator[tuple[str, bytes]]:
    """The files outside, with their contents: nothing may be changed there."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            yield str(path.relative_to(folder)), path.read_bytes()
