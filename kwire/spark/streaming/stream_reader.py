"""The `readStream` reader of a folder of rotated captures: batches of finished files, with connections across files.

An offset is the number of a batch; the state folder lists the files of each batch. Batches run in order, so the
checkpoint before a batch is a function of the files before it: a restart gives the same rows again. Within a batch
each task reads the connections of one host partition, through all files in order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from kwire.spark import paths
from kwire.spark.source import options
from kwire.spark.streaming.rotated_files import CaptureFolder, FinishedFile, RenameDetector
from kwire.spark.streaming.stream_state import Batch, InvalidStreamState, PlannedFile, StreamState
from kwire.spark.streaming.stream_task import read_stream_task

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.streaming.datasource import ReadLimit

    from kwire.spark.source.scan_request import ScanRequest

Offset = dict[str, Any]

#: Whether Spark passes the start of a batch and its limit to a source: from 4.2 on.
HAS_LIMITS = find_spec("pyspark.sql.streaming.datasource") is not None


@dataclass
class StreamTask(InputPartition):
    """The connections of one host partition, through the files of some batches."""

    batches: list[Batch]
    number: int


class CaptureStreamReader(DataSourceStreamReader):
    """Plans batches on the driver; `read` runs on the workers. A batch has all files that are new."""

    def __init__(self, option_texts: Mapping[str, str], scan_request: ScanRequest) -> None:
        """`option_texts`: the options as Spark passes them."""
        self.scan_request = scan_request
        self.stream_options = options.parse_stream_options(option_texts)
        # A name that is no local path raises its error now, not in a batch.
        self._names = list(map(paths.local_path, paths.load_names(option_texts)))
        self._folder: CaptureFolder | None = None
        self._state: StreamState | None = None
        self._target: frozenset[FinishedFile] | None = None
        self._planned: int | None = None

    def initialOffset(self) -> Offset:  # noqa: N802  Spark's names, here and below.
        """The offset before the first batch."""
        return {"batch": 0}

    def latestOffset(self, start: Offset | None = None, limit: ReadLimit | None = None) -> Offset:  # noqa: N802
        """The next batch: one that an earlier run planned, or a batch of new files up to the limit.

        Spark before 4.2 passes nothing: then it is the batch after all planned ones, and Spark runs those that it has
        not run together.
        """
        if start is None:
            if self._planned is None:
                self._planned = self.state.find_newest()
            offset = self.latestOffset({"batch": self._planned})
            self._planned = _batch_number(offset)
            return offset
        number = _batch_number(start) + 1
        if self.state.find_batch(number) is None:
            self.state.check_batch_number(number)
            batch = self._plan_batch(number, limit)
            if batch is None:
                return start
            self.state.save_batch(batch)
        return {"batch": number}

    def partitions(self, start: Offset, end: Offset) -> list[StreamTask]:
        """A task for each host partition."""
        numbers = range(_batch_number(start) + 1, _batch_number(end) + 1)
        batches = [self.state.load_batch(number) for number in numbers]
        return [StreamTask(batches, number) for number in range(self.stream_options.tasks)] if batches else []

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task; its checkpoint is stored after the sink has read the last row."""
        assert isinstance(partition, StreamTask)
        yield from read_stream_task(partition.batches, partition.number, self.scan_request, self.stream_options)

    def commit(self, end: Offset) -> None:
        """Discard state that is no longer needed when these batches are done."""
        self.state.discard_batches(_batch_number(end), paths.existing_files(self._names))

    @property
    def state(self) -> StreamState:
        """Opened at first use, because the reader is serialized to the workers without it."""
        if self._state is None:
            folder, tasks = self.stream_options.state, self.stream_options.tasks
            self._state = StreamState(folder, level=self.scan_request.level, tasks=tasks)
        return self._state

    def restrict_to_finished(self) -> None:
        """Read only the files that are finished now."""
        self._target = frozenset(self._finished_files())

    def _finished_files(self) -> list[FinishedFile]:
        if self._folder is None:
            self._folder = CaptureFolder(self._names, closed_after_s=self.stream_options.closed_after_s)
        files = self._folder.finished_files()
        return files if self._target is None else [file for file in files if file in self._target]

    def _plan_batch(self, number: int, limit: ReadLimit | None) -> Batch | None:
        read = {file.identity: file for file in self.state.files_read_until(number - 1)}
        previous = self.state.load_batch(number - 1) if number > 1 else None
        newest = previous.newest_ts if previous else 0
        existing = self._finished_files()
        renames = RenameDetector(read.values(), existing)
        new: list[FinishedFile] = []
        grown: list[FinishedFile] = []
        renamed: list[FinishedFile] = []
        for file in existing:
            read_before = read.get(file.identity)
            if read_before is None:
                (renamed if renames.is_renamed(file) else new).append(file)
            elif file.size > read_before.size:
                grown.append(file)
        chosen = _files_within(new, limit)
        if not chosen and not grown:
            return None
        # A file without packets is never late, and does not make others late.
        planned = [PlannedFile(*file, is_late=0 < file.first_ts < newest) for file in chosen]
        return Batch(number, planned, grown, max([newest, *(file.first_ts for file in chosen)]), renamed)

    def __getstate__(self) -> dict[str, Any]:
        """The fields that the workers need."""
        return {**self.__dict__, "_folder": None, "_state": None}


def _batch_number(offset: Offset) -> int:
    """The batch of an offset.

    Raises: InvalidStreamState for one that this source did not write.
    """
    number = offset.get("batch")
    if not isinstance(number, int):
        raise InvalidStreamState(
            f"the checkpoint has the offset {offset}, which this source did not write: use another checkpoint"
        )
    return number


def _files_within(files: list[FinishedFile], limit: ReadLimit | None) -> list[FinishedFile]:
    """The first files within a limit, but at least one: a file is not divided between batches."""
    files_max, bytes_max = getattr(limit, "max_files", None), getattr(limit, "max_bytes", None)
    if files_max is not None:
        return files[: max(files_max, 1)]
    if bytes_max is None:
        return files
    size = 0
    chosen: list[FinishedFile] = []
    for file in files:
        size += file.size
        if chosen and size > bytes_max:
            break
        chosen.append(file)
    return chosen
