"""`readStream` over a folder of rolling captures: batches of finished files, connections that go on from file to file.

An offset is the number of a batch; the journal in the state folder says what each batch reads. Batches follow each
other, so the state that a batch begins with is a function of the files before it: a restart gives the same rows again.
Inside a batch each task reads the connections between some pairs of hosts, through all files in order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
)

from kwire.spark import options, paths
from kwire.spark.follow import follow
from kwire.spark.journal import Batch, Journal, Planned, StateError
from kwire.spark.rolling import Finished, Folder, Names

if TYPE_CHECKING:
    import pyarrow as pa

    from kwire.spark.wanted import Wanted

Offset = dict[str, Any]


@dataclass
class StreamTask(InputPartition):
    """The connections of one share of the hosts, through the files of some batches."""

    batches: list[Batch]
    number: int


class CaptureStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans batches on the driver; `read` runs on the workers, and holds plain values only."""

    def __init__(self, given: Mapping[str, str], asked: Wanted) -> None:
        """The options as Spark gives them, and what the query asks for."""
        self.wanted = asked
        self.asked = options.stream(given)
        # A place that no file system has is told now, and not by a batch.
        self._names = list(map(paths.local, paths.named_in(given)))
        self._folder: Folder | None = None
        self._journal: Journal | None = None
        self._target: frozenset[Finished] | None = None

    def initialOffset(self) -> Offset:  # noqa: N802  Spark's names, here and below.
        """Nothing has been read."""
        return {"batch": 0}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """What `maxFilesPerTrigger` or `maxBytesPerTrigger` says."""
        if self.asked.files_max is not None:
            return ReadMaxFiles(self.asked.files_max)
        if self.asked.bytes_max is not None:
            return ReadMaxBytes(self.asked.bytes_max)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Whatever is finished later is for the next run."""
        self._target = frozenset(self._finished())

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        """The next batch: the one that an earlier run planned already, or one of new files up to the limit."""
        number = _number(start) + 1
        if self.journal.batch(number) is None:
            self.journal.check(number)
            batch = self._next(number, limit)
            if batch is None:
                return start
            self.journal.plan(batch)
        return {"batch": number}

    def partitions(self, start: Offset, end: Offset) -> list[StreamTask]:
        """A task for each share of the hosts."""
        numbers = range(_number(start) + 1, _number(end) + 1)
        batches = [self.journal.required(number) for number in numbers]
        return [StreamTask(batches, number) for number in range(self.asked.tasks)] if batches else []

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task; what is open at its end is written down when the sink has taken the last of them."""
        assert isinstance(partition, StreamTask)
        yield from follow(partition.batches, partition.number, self.wanted, self.asked)

    def commit(self, end: Offset) -> None:
        """These batches are done."""
        self.journal.forget(_number(end), paths.present(self._names))

    @property
    def journal(self) -> Journal:
        """Made by the first who needs it, so that the reader can travel."""
        if self._journal is None:
            self._journal = Journal(self.asked.state, level=self.wanted.level, tasks=self.asked.tasks)
        return self._journal

    def _finished(self) -> list[Finished]:
        if self._folder is None:
            self._folder = Folder(self._names, closed_after_s=self.asked.closed_after_s)
        found = self._folder.finished()
        return found if self._target is None else [file for file in found if file in self._target]

    def _next(self, number: int, limit: ReadLimit) -> Batch | None:
        read = {file.identity: file for file in self.journal.read_before(number - 1)}
        before = self.journal.required(number - 1) if number > 1 else None
        newest = before.newest_ts if before else 0
        new: list[Finished] = []
        grown: list[Finished] = []
        renamed: list[Finished] = []
        there = self._finished()
        names = Names(read.values(), there)
        for file in there:
            known = read.get(file.identity)
            if known is not None:
                grown += [file] if file.size > known.size else []
            else:
                (renamed if names.is_renamed(file) else new).append(file)
        chosen = _within(new, limit)
        if not chosen and not grown:
            return None
        # A file without packets is neither late, nor makes others late.
        planned = [Planned(*file, is_late=0 < file.first_ts < newest) for file in chosen]
        return Batch(number, planned, grown, max([newest, *(file.first_ts for file in chosen)]), renamed)

    def __getstate__(self) -> dict[str, Any]:
        """What a worker needs."""
        return {**self.__dict__, "_folder": None, "_journal": None}


def _number(offset: Offset) -> int:
    """The batch of an offset.

    Raises: StateError for one that this source did not write.
    """
    number = offset.get("batch")
    if not isinstance(number, int):
        raise StateError(f"the checkpoint has the offset {offset}, which is none of this source: give it another one")
    return number


def _within(files: list[Finished], limit: ReadLimit) -> list[Finished]:
    """The first files that stay within a limit; one at least, since a file is not taken apart."""
    if isinstance(limit, ReadMaxFiles):
        return files[: max(limit.max_files, 1)]
    if not isinstance(limit, ReadMaxBytes):
        return files
    size = 0
    chosen: list[Finished] = []
    for file in files:
        size += file.size
        if chosen and size > limit.max_bytes:
            break
        chosen.append(file)
    return chosen
