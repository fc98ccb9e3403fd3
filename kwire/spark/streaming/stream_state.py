"""The state folder of a capture stream: the files of each batch, and checkpoints of the open connections.

Each file is written once, under a temporary name, and then renamed: a batch that runs again reads the same files from
the same checkpoint, and writes the same checkpoint. So each row is emitted exactly once, if the sink supports that.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from kwire.spark.streaming.rotated_files import FinishedFile

VERSION = 3
# Batches with file lists of their own; the lists of older ones are merged into one list of the files that still exist.
_BATCH_LISTS_MAX = 128
# How many removed files stay listed.
_REMOVED_FILES_MAX = 1_000
_MAGIC = b"kwire checkpoint 1\n"


class InvalidStreamState(ValueError):
    """The state folder belongs to another query, or was changed from outside."""


class PlannedFile(NamedTuple):
    """A file of a batch. `is_late`: it begins before files that earlier batches read, so it is read on its own."""

    path: str
    first_ts: int
    size: int
    is_late: bool


class Batch(NamedTuple):
    """The files of a batch, in order. `grown`: files that became longer after an earlier batch had read them.

    `newest_ts`: the latest first packet of all files up to this batch, including removed ones. `renamed`: files that an
    earlier batch had read under another name; they are not read again.
    """

    number: int
    files: list[PlannedFile]
    grown: list[FinishedFile]
    newest_ts: int
    renamed: list[FinishedFile]


class _CompactedBatches(NamedTuple):
    """The files of all batches up to this number, whose own lists were deleted."""

    number: int
    files: list[FinishedFile]


class StreamState:
    """File lists and checkpoints, by batch number."""

    def __init__(self, folder: str, *, level: str, tasks: int) -> None:
        """Open or create the folder.

        Raises: InvalidStreamState when it was created for another level or number of tasks, or by another version.
        """
        self._folder = Path(folder)
        self._tasks = tasks
        self._batches = self._folder / "batches"
        self._batches.mkdir(parents=True, exist_ok=True, mode=0o700)
        expected = {"version": VERSION, "level": level, "stream_tasks": tasks}
        header_file = self._folder / "header.json"
        if not header_file.exists():
            _write_file(header_file, json.dumps(expected).encode())
        stored = json.loads(header_file.read_bytes())
        if stored != expected:
            raise InvalidStreamState(
                f"{folder} was created with {stored}, this query has {expected}: use another state folder"
            )

    def find_batch(self, number: int) -> Batch | None:
        """The batch of this number; None if it was not planned yet."""
        try:
            content = json.loads((self._batches / f"{number}.json").read_bytes())
        except FileNotFoundError:
            return None
        files = [PlannedFile(*fields) for fields in content["files"]]
        grown, renamed = ([FinishedFile(*fields) for fields in content[name]] for name in ("grown", "renamed"))
        return Batch(number, files, grown, content["newest_ts"], renamed)

    def find_newest(self) -> int:
        """The number of the newest batch that was planned; 0 without any."""
        number = self._load_compacted().number
        while self.find_batch(number + 1) is not None:
            number += 1
        return number

    def load_batch(self, number: int) -> Batch:
        """The batch of this number, which Spark's checkpoint names.

        Raises: InvalidStreamState when it was not planned.
        """
        batch = self.find_batch(number)
        if batch is None:
            raise InvalidStreamState(
                f"{self._folder} has no batch {number}, which the checkpoint names: they belong to different queries"
            )
        return batch

    def save_batch(self, batch: Batch) -> None:
        """Store a batch. From now on its files are fixed; if it is stored already, the first version is used."""
        content = {name: value for name, value in batch._asdict().items() if name != "number"}
        _write_file(self._batches / f"{batch.number}.json", json.dumps(content).encode(), replaces=False)

    def check_batch_number(self, number: int) -> None:
        """InvalidStreamState for a batch whose file list was deleted: it cannot be planned again."""
        first = self._load_compacted().number + 1
        if number < first:
            raise InvalidStreamState(
                f"{self._folder} no longer has batches before {first}, and the checkpoint needs {number}: "
                "they belong to different queries; delete both to start again"
            )

    def files_read_until(self, number: int) -> Iterator[FinishedFile]:
        """All files that batches up to this number read, without those removed before older lists were merged."""
        older = self._load_compacted()
        yield from older.files
        for batch_number in range(older.number + 1, number + 1):
            batch = self.load_batch(batch_number)
            yield from (FinishedFile(file.path, file.first_ts, file.size) for file in batch.files)
            # With their new size, so that they are reported once.
            yield from batch.grown
            yield from batch.renamed

    def discard_batches(self, number: int, existing: Iterable[str]) -> None:
        """Delete checkpoints and file lists that are no longer needed when the batches up to this number are done.

        A task whose rows the sink did not read completely has no new checkpoint: its last one and the lists of all
        batches since are retained. `existing`: the paths of the files that exist now.
        """
        needed = [newest_checkpoint(str(self._folder), number - 1, task) for task in range(self._tasks)]
        self._discard_checkpoints(needed)
        first, last = self._load_compacted().number + 1, min(needed) - 1
        if last - first < _BATCH_LISTS_MAX:
            return
        existing_paths = set(existing)
        read = {file.path: file for file in self.files_read_until(last)}
        # A removed file may appear again under another name, so the last ones stay listed.
        dropped = set([path for path in read if path not in existing_paths][:-_REMOVED_FILES_MAX])
        files = [file for path, file in read.items() if path not in dropped]
        _write_file(self._folder / "compacted.json", json.dumps({"number": last, "files": files}).encode())
        for batch_number in range(first, last + 1):
            (self._batches / f"{batch_number}.json").unlink(missing_ok=True)

    def _discard_checkpoints(self, needed: Sequence[int]) -> None:
        """`needed`: for each task the number of the oldest checkpoint to retain."""
        for number, folder in _checkpoints(self._folder):
            if number < min(needed):
                for file in folder.iterdir():
                    file.unlink(missing_ok=True)
                folder.rmdir()
                continue
            for task, oldest in enumerate(needed):
                if number < oldest:
                    (folder / str(task)).unlink(missing_ok=True)

    def _load_compacted(self) -> _CompactedBatches:
        try:
            content = json.loads((self._folder / "compacted.json").read_bytes())
        except FileNotFoundError:
            return _CompactedBatches(0, [])
        return _CompactedBatches(content["number"], [FinishedFile(*fields) for fields in content["files"]])


def write_checkpoint_file(folder: str, number: int, task: int, content: bytes) -> None:
    """Store the open connections of one task at the end of a batch. The content is as confidential as the captures."""
    path = Path(folder, "checkpoints", str(number), str(task))
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    _write_file(path, _MAGIC + hashlib.sha256(content).digest() + content)


def newest_checkpoint(folder: str, number: int, task: int) -> int:
    """The last batch up to this one for which the task has a checkpoint; 0 when there is none."""
    checkpoints = _checkpoints(Path(folder))
    return max((batch for batch, path in checkpoints if batch <= number and (path / str(task)).exists()), default=0)


def read_checkpoint_file(folder: str, number: int, task: int) -> bytes:
    """The checkpoint of a task at the end of a batch.

    Raises: InvalidStreamState when it is missing or incomplete.
    """
    path = Path(folder, "checkpoints", str(number), str(task))
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise InvalidStreamState(f"{path} is missing: the connections open after batch {number} are lost") from None
    start = len(_MAGIC) + 32
    content = data[start:]
    if data[: len(_MAGIC)] != _MAGIC or data[len(_MAGIC) : start] != hashlib.sha256(content).digest():
        raise InvalidStreamState(f"{path} is damaged, or of another version")
    return content


def _checkpoints(folder: Path) -> list[tuple[int, Path]]:
    """The numbers and folders of the batches that have checkpoints."""
    parent = folder / "checkpoints"
    return [(int(entry.name), entry) for entry in parent.iterdir()] if parent.exists() else []


def _write_file(path: Path, content: bytes, *, replaces: bool = True) -> None:
    """Write a file atomically, also if two processes write it. `replaces`: the last one wins, else the first."""
    handle, draft = tempfile.mkstemp(dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if replaces or not _link_file(draft, path):
            os.replace(draft, path)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise


def _link_file(draft: str, path: Path) -> bool:
    """Give the draft its name, unless a file has it; False where the file system has no hard links."""
    try:
        os.link(draft, path)
    except FileExistsError:
        pass
    except OSError:
        return False
    os.unlink(draft)
    return True
