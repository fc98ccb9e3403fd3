"""`OffsetCheckpoints`: the checkpoint files of a node's log directory, with offsets of all its partitions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from mockbroker.disk_storage.partition_files import PartitionFiles
from mockbroker.log_directory.file_layer import FileLayer
from mockbroker.log_directory.formats import checkpoints
from mockbroker.log_directory.formats.damage import DamagedFileError
from mockbroker.log_directory.formats.log_summaries import (
    LOG_SUMMARIES,
    LogSummary,
    Summaries,
    read_summaries,
    write_summaries,
)

Offsets = dict[tuple[str, int], int]


class StoredOffsets(NamedTuple):
    """The offsets of a node's logs, by topic and partition."""

    recovery_points: Offsets
    log_starts: Offsets
    high_watermarks: Offsets
    cleaned_offsets: Offsets
    summaries: Summaries

    def of_topic(self, key: tuple[str, int], topic_id: bytes, *, has_folder: bool) -> StoredOffsets:
        """These offsets for the log of a topic; none if they are those of another topic that had its name.

        Args: has_folder: whether the log has a folder already; without summaries only that shows it.
        """
        summary = self.summaries.get(key)
        is_same = has_folder if summary is None else summary.topic_id == topic_id
        return self if is_same else StoredOffsets({}, {}, {}, {}, {})

    def forget_log(self, key: tuple[str, int]) -> None:
        """Remove the offsets of a log that is deleted."""
        for offsets in self:
            offsets.pop(key, None)


class OffsetCheckpoints:
    """Reads and writes the files. report: called with a line for a damaged one, which counts as empty."""

    def __init__(self, files: FileLayer, report: Callable[[str], None]) -> None:
        self._files = files
        self._report = report
        self._written: dict[str, bytes] = {}

    def read(self, folder: str) -> StoredOffsets:
        """The offsets in a node's folder. Raises: OSError."""
        return StoredOffsets(
            self._read(f"{folder}/{checkpoints.RECOVERY_POINTS}"),
            self._read(f"{folder}/{checkpoints.LOG_STARTS}"),
            self._read(f"{folder}/{checkpoints.HIGH_WATERMARKS}"),
            self._read(f"{folder}/{checkpoints.CLEANED_OFFSETS}"),
            self._read_summaries(f"{folder}/{LOG_SUMMARIES}"),
        )

    def write(self, folder: str, logs: Mapping[tuple[str, int], PartitionFiles]) -> None:
        """Write the files that have changed. A log start is stored if records were deleted. Raises: OSError."""
        starts = {
            key: files.log.start_offset
            for key, files in logs.items()
            if files.log.start_offset > (files.segments[0].base_offset if len(files.segments) else 0)
        }
        cleaned = {key: files.segments.cleaned_to for key, files in logs.items()}
        self._write(f"{folder}/{checkpoints.RECOVERY_POINTS}", {key: f.flushed_offset for key, f in logs.items()})
        # A log does not start behind its high watermark: after a kill the files agree on that.
        self._write(f"{folder}/{checkpoints.HIGH_WATERMARKS}", {k: f.log.high_watermark for k, f in logs.items()})
        self._write(f"{folder}/{checkpoints.LOG_STARTS}", starts)
        self._write(
            f"{folder}/{checkpoints.CLEANED_OFFSETS}", {key: to for key, to in cleaned.items() if to is not None}
        )
        summaries = {key: _summarize(files) for key, files in logs.items()}
        self._write_changed(f"{folder}/{LOG_SUMMARIES}", write_summaries(summaries))

    def _read(self, path: str) -> Offsets:
        data = self._files.read_file(path)
        if data is None:
            return {}
        try:
            return checkpoints.read_offsets(data, path)
        except DamagedFileError as error:
            self._report(f"{error}: read as empty")
            return {}

    def _read_summaries(self, path: str) -> Summaries:
        data = self._files.read_file(path)
        if data is None:
            return {}
        try:
            return read_summaries(data, path)
        except DamagedFileError as error:
            self._report(f"{error}: read as empty")
            return {}

    def _write(self, path: str, offsets: Offsets) -> None:
        self._write_changed(path, checkpoints.write_offsets(offsets))

    def _write_changed(self, path: str, data: bytes) -> None:
        if self._written.get(path) != data:
            self._files.write_file(path, data, sync=True)
            self._written[path] = data


def _summarize(files: PartitionFiles) -> LogSummary:
    """What the files of a log have, by which the next start finds out whether something of it is missing."""
    log = files.log
    return LogSummary.of(
        files.identity.topic_id,
        log.producers.all_aborted(),
        high_watermark=log.high_watermark,
        size=files.segments.size,
        indexed_end=files.indexed_end,
    )
