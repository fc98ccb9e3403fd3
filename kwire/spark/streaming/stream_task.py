"""Execution of one task of a stream: the files of its batches in order, from one checkpoint to the next."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from kwire.capture.files.packet_reader import read_packets
from kwire.capture.model import CaptureError, CaptureIssue
from kwire.capture.reader import read_series_rows
from kwire.capture.series.checkpoint import InvalidCheckpoint, dump_checkpoint, load_checkpoint
from kwire.capture.series.open_series import open_series
from kwire.capture.tls.key_log import KeyLog
from kwire.spark.source.capture_times import first_packet_ts
from kwire.spark.source.host_partitioning import host_partition
from kwire.spark.source.partition_reader import rows_to_batches
from kwire.spark.streaming import stream_state
from kwire.spark.streaming.rotated_files import FilePrefix
from kwire.spark.streaming.stream_state import InvalidStreamState, StreamState

if TYPE_CHECKING:
    import pyarrow as pa

    from kwire.capture.kafka.exchange import Outcome
    from kwire.capture.model import Row
    from kwire.capture.series.series_reader import SeriesReader
    from kwire.spark.source.options import StreamOptions
    from kwire.spark.source.scan_request import ScanRequest
    from kwire.spark.streaming.stream_state import Batch, PlannedFile

# The name has no file, here or on the server of a network file system. Other system errors may be temporary: they are
# raised, and Spark runs the batch again.
_FILE_GONE_ERRORS = (errno.ENOENT, errno.ESTALE)


def read_stream_task(
    batches: Sequence[Batch], task: int, scan_request: ScanRequest, stream_options: StreamOptions
) -> Iterator[pa.RecordBatch]:
    """The rows of one task's connections, in these batches."""
    _replay_batches(batches[0].number - 1, task, scan_request, stream_options)
    reader = _StreamTaskReader(task, scan_request, stream_options)
    reader.restore_checkpoint(batches[0].number - 1)
    yield from scan_request.filter_batches(rows_to_batches(reader.read_batches(batches), scan_request))
    # Only after the sink has read all rows: a repeated run of this task starts from the same checkpoint as this one.
    reader.store_checkpoint(batches[-1].number)


def _replay_batches(number: int, task: int, scan_request: ScanRequest, stream_options: StreamOptions) -> None:
    """Read batches up to this one again, without their rows, if the sink stopped early and they have no checkpoint."""
    first = stream_state.newest_checkpoint(stream_options.state, number, task) + 1
    if first > number:
        return
    state = StreamState(stream_options.state, level=scan_request.level, tasks=stream_options.tasks)
    for batch_number in range(first, number + 1):
        reader = _StreamTaskReader(task, scan_request, stream_options)
        reader.restore_checkpoint(batch_number - 1)
        for _ in reader.read_batches([state.load_batch(batch_number)]):
            pass
        reader.store_checkpoint(batch_number)


class _StreamTaskReader:
    """Reads the batches of one task, with the connections that are open between files."""

    def __init__(self, task: int, scan_request: ScanRequest, stream_options: StreamOptions) -> None:
        self._task = task
        self._level = scan_request.level
        self._reader_options = scan_request.reader_options
        self._stream_options = stream_options
        self._keys = KeyLog(self._reader_options.tls_keylog)
        self._series = self._open_series()
        self._last_ts = 0

    def restore_checkpoint(self, number: int) -> None:
        """Restore the connections that were open at the end of this batch; number 0 restores nothing."""
        if not number:
            return
        folder = self._stream_options.state
        try:
            content = stream_state.read_checkpoint_file(folder, number, self._task)
            self._series = load_checkpoint(content, self._reader_options, self._keys)
        except InvalidCheckpoint as error:
            raise InvalidStreamState(f"{folder}: {error}; use another state folder and checkpoint") from error
        self._series.select_hosts(self._reads_hosts)

    def store_checkpoint(self, number: int) -> None:
        """Store the connections that are open now, at the end of this batch."""
        self._series.forget_files(self._last_ts - self._stream_options.timeout_ns)
        content = dump_checkpoint(self._series)
        stream_state.write_checkpoint_file(self._stream_options.state, number, self._task, content)

    def read_batches(self, batches: Iterable[Batch]) -> Iterator[Row]:
        """The rows of all files, and of requests and connections that reached the timeout."""
        for batch in batches:
            for file in batch.grown:
                yield from self._file_issue(file.path, "file_grew", f"it was read before it got {file.size} bytes long")
            for planned in batch.files:
                yield from self._read_late_file(planned) if planned.is_late else self._read_file(planned)
            expired = self._series.expire(self._last_ts - self._stream_options.timeout_ns)
            yield from self._build_rows(self._series, "", expired)

    def _read_file(self, file: PlannedFile) -> Iterator[Row]:
        if file.first_ts:
            self._series.files.append((file.first_ts, file.path))
        return self._build_rows(self._series, file.path, self._file_outcomes(self._series, file))

    def _read_late_file(self, file: PlannedFile) -> Iterator[Row]:
        """Its packets precede those that were read already: its connections are read on their own."""
        detail = "it begins before files that were read already: it is read alone"
        yield from self._file_issue(file.path, "file_late", detail)
        series = self._open_series()
        series.files.append((file.first_ts, file.path))
        outcomes = chain(self._file_outcomes(series, file), series.close())
        yield from self._build_rows(series, file.path, outcomes)

    def _file_issue(self, path: str, kind: str, detail: str) -> Iterator[Row]:
        """A row about a file, only from the first task."""
        if self._task == 0:
            yield from self._build_rows(self._open_series(), path, [CaptureIssue(kind, detail, 0, self._last_ts)])

    def _build_rows(self, series: SeriesReader, file: str, outcomes: Iterable[Outcome]) -> Iterator[Row]:
        return read_series_rows(series, file, outcomes, self._level, self._reader_options)

    def _file_outcomes(self, series: SeriesReader, file: PlannedFile) -> Iterator[Outcome]:
        """The outcomes of this task's hosts; the first task also emits the issues that belong to no connection."""
        try:
            if first_packet_ts(file.path) != file.first_ts and os.path.exists(file.path):
                # The file that has the name now is read by a batch of its own.
                yield self._file_gone("another capture got its name")
                return
            yield from self._read_packets(series, file)
        except CaptureError as error:
            if self._task == 0:
                yield CaptureIssue("file_unreadable", str(error), 0, self._last_ts)
        except OSError as error:
            if error.errno not in _FILE_GONE_ERRORS:
                raise
            yield self._file_gone("it was removed")

    def _read_packets(self, series: SeriesReader, file: PlannedFile) -> Iterator[Outcome]:
        """Read the file up to its size when the batch was planned: all tasks and repeated runs read the same."""
        size_max = self._reader_options.unpacked_size_max
        with open(file.path, "rb") as opened:
            packets = read_packets(FilePrefix(opened, file.size), self._keys, size_max)
            try:
                yield from series.read_file(packets, issues=self._task == 0)
            finally:
                self._last_ts = max(self._last_ts, series.last_ts)

    def _file_gone(self, reason: str) -> CaptureIssue:
        # Each task emits it: a file may be removed after some tasks have read it, and tasks do not share that.
        share = f"the connections of task {self._task + 1} of {self._stream_options.tasks}"
        return CaptureIssue("file_gone", f"{reason} before {share} were read", 0, self._last_ts)

    def _reads_hosts(self, host: bytes, other: bytes) -> bool:
        return host_partition(host, other, self._stream_options.tasks) == self._task

    def _open_series(self) -> SeriesReader:
        series = open_series(self._level, self._reader_options, self._keys)
        series.select_hosts(self._reads_hosts)
        return series
