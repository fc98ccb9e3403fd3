"""The state folder of a stream of captures: which files each batch reads, and what was open at the end of it.

Everything is written once, under a temporary name, and moved into place: a batch that is run again reads the same files
from the same state, and writes the same state again. So each row comes out exactly once, as far as the sink allows.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from kwire.spark.rolling import Finished

VERSION = 2
# Batches whose lists are kept one by one; older ones become one list of the files that are still there.
_KEPT_COUNT_MAX = 128
# So many files that are not there any more are remembered.
_GONE_COUNT_MAX = 1_000
_MAGIC = b"kwire carried 1\n"


class StateError(ValueError):
    """The state folder is not the one of this query, or was tampered with."""


class Planned(NamedTuple):
    """A file that a batch reads. `is_late`: it begins before files that earlier batches read, so it is read alone."""

    path: str
    first_ts: int
    size: int
    is_late: bool


class Batch(NamedTuple):
    """What one batch reads, in order. `grown` are files that got longer after an earlier batch had read them.

    `newest_ts` is the latest beginning of a file up to here, whether the file is still there or not. `renamed` are
    files that an earlier batch had read under another name: they are not read again.
    """

    number: int
    files: list[Planned]
    grown: list[Finished]
    newest_ts: int
    renamed: list[Finished]


class _Older(NamedTuple):
    """What batches up to this number read, of which the lists are gone."""

    number: int
    files: list[Finished]


class Journal:
    """Lists and states, by number of batch."""

    def __init__(self, folder: str, *, level: str, tasks: int) -> None:
        """Opens the folder, or begins it.

        Raises: StateError when it was begun for another level, with another number of tasks, or by another version.
        """
        self._folder = Path(folder)
        self._tasks = tasks
        self._batches = self._folder / "batches"
        self._batches.mkdir(parents=True, exist_ok=True, mode=0o700)
        about = {"version": VERSION, "level": level, "stream_tasks": tasks}
        place = self._folder / "about.json"
        if not place.exists():
            _write(place, json.dumps(about).encode())
        begun = json.loads(place.read_bytes())
        if begun != about:
            raise StateError(f"{folder} was begun with {begun}, this query has {about}: give it another state folder")

    def batch(self, number: int) -> Batch | None:
        """The batch of this number, where it has been planned."""
        try:
            read = json.loads((self._batches / f"{number}.json").read_bytes())
        except FileNotFoundError:
            return None
        files = [Planned(*each) for each in read["files"]]
        grown, renamed = ([Finished(*each) for each in read[name]] for name in ("grown", "renamed"))
        return Batch(number, files, grown, read["newest_ts"], renamed)

    def required(self, number: int) -> Batch:
        """The same, of a batch that Spark's checkpoint says was planned."""
        found = self.batch(number)
        if found is None:
            raise StateError(
                f"{self._folder} has no batch {number}, which the checkpoint names: they do not fit together"
            )
        return found

    def plan(self, batch: Batch) -> None:
        """Write a batch down. From now on it reads just these files; whoever was first decides."""
        content = {name: value for name, value in batch._asdict().items() if name != "number"}
        _write(self._batches / f"{batch.number}.json", json.dumps(content).encode(), replaces=False)

    def check(self, number: int) -> None:
        """StateError for a batch before those that are known one by one: there is no planning it again."""
        first = self._older().number + 1
        if number < first:
            raise StateError(
                f"{self._folder} has forgotten batches before {first}, and the checkpoint asks for {number}: "
                "they do not fit together; delete both to begin anew"
            )

    def read_before(self, number: int) -> Iterator[Finished]:
        """All files that batches up to this number read, as far as they were there when lists were put together."""
        older = self._older()
        yield from older.files
        for each in range(older.number + 1, number + 1):
            batch = self.required(each)
            yield from (Finished(file.path, file.first_ts, file.size) for file in batch.files)
            # Their new size, so that they are told once.
            yield from batch.grown
            yield from batch.renamed

    def forget(self, number: int, present: Iterable[str]) -> None:
        """The batches up to this number are done: states go that nobody begins with, and old lists of what is gone.

        Where the sink left rows, a task has no new state. Its last one stays, and the lists of all batches since.
        """
        needed = [newest_carried(str(self._folder), number - 1, task) for task in range(self._tasks)]
        self._forget_carried(needed)
        first, last = self._older().number + 1, min(needed) - 1
        if last - first < _KEPT_COUNT_MAX:
            return
        there = set(present)
        read = {file.path: file for file in self.read_before(last)}
        # One that is gone may come under another name yet.
        gone = [path for path in read if path not in there][:-_GONE_COUNT_MAX]
        files = [file for path, file in read.items() if path not in set(gone)]
        _write(self._folder / "older.json", json.dumps({"number": last, "files": files}).encode())
        for each in range(first, last + 1):
            (self._batches / f"{each}.json").unlink(missing_ok=True)

    def _forget_carried(self, needed: Sequence[int]) -> None:
        """`needed` has the number of the oldest state that is kept, of each task."""
        for number, place in _carried(self._folder):
            if number < min(needed):
                for file in place.iterdir():
                    file.unlink(missing_ok=True)
                place.rmdir()
                continue
            for task, kept in enumerate(needed):
                if number < kept:
                    (place / str(task)).unlink(missing_ok=True)

    def _older(self) -> _Older:
        try:
            read = json.loads((self._folder / "older.json").read_bytes())
        except FileNotFoundError:
            return _Older(0, [])
        return _Older(read["number"], [Finished(*each) for each in read["files"]])


def save_carried(folder: str, number: int, task: int, content: bytes) -> None:
    """Write down what is open at the end of a batch, for one task. It is as secret as the captures."""
    place = Path(folder, "carried", str(number), str(task))
    place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    _write(place, _MAGIC + hashlib.sha256(content).digest() + content)


def newest_carried(folder: str, number: int, task: int) -> int:
    """The last batch up to this one at whose end a task wrote down what was open; 0 when there is none."""
    there = (each for each, place in _carried(Path(folder)) if each <= number and (place / str(task)).exists())
    return max(there, default=0)


def load_carried(folder: str, number: int, task: int) -> bytes:
    """What was open at the end of a batch.

    Raises: StateError when it is not there, or not whole.
    """
    place = Path(folder, "carried", str(number), str(task))
    try:
        read = place.read_bytes()
    except FileNotFoundError:
        raise StateError(f"{place} is missing: what was open at the end of batch {number} is lost") from None
    start = len(_MAGIC) + 32
    content = read[start:]
    if read[: len(_MAGIC)] != _MAGIC or read[len(_MAGIC) : start] != hashlib.sha256(content).digest():
        raise StateError(f"{place} is damaged, or of another version")
    return content


def _carried(folder: Path) -> list[tuple[int, Path]]:
    """The batches of which there are states."""
    place = folder / "carried"
    return [(int(each.name), each) for each in place.iterdir()] if place.exists() else []


def _write(place: Path, content: bytes, *, replaces: bool = True) -> None:
    """Whole or not at all, also when two write the same at once. `replaces`: the last one wins, else the first."""
    handle, draft = tempfile.mkstemp(dir=place.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if replaces or not _linked(draft, place):
            os.replace(draft, place)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise


def _linked(draft: str, place: Path) -> bool:
    """Give the draft its name, unless something has it; False where the file system cannot do so."""
    try:
        os.link(draft, place)
    except FileExistsError:
        pass
    except OSError:
        return False
    os.unlink(draft)
    return True
