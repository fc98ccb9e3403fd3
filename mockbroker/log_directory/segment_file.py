"""One segment of a partition on disk: its log file, and the indexes that are written when it is closed."""

from __future__ import annotations

from collections.abc import Sequence

from mockbroker.log_directory.file_layer import Data, FileLayer, OpenFile
from mockbroker.log_directory.formats import indexes, names
from mockbroker.log_directory.segment_index import SegmentIndex
from mockbroker.state.storage.producers import AbortedTransaction


class FileBytes:
    """The bytes of a file by slices, each read from it when it is taken."""

    def __init__(self, file: OpenFile) -> None:
        self._file = file

    def __getitem__(self, span: slice) -> memoryview:
        """The bytes from `start` up to, not including, `stop`."""
        return memoryview(self._file.read(span.start, span.stop - span.start))


class SegmentFile:
    """The segment that begins at `base_offset`; an append is in the file when it returns."""

    def __init__(self, files: FileLayer, folder: str, base_offset: int, *, index_interval: int) -> None:
        self.base_offset = base_offset
        self.index = SegmentIndex(base_offset, index_interval)
        self._files = files
        self._folder = folder
        self.file: OpenFile = files.open_file(self.path(names.LOG))
        self.bytes = FileBytes(self.file)

    def path(self, suffix: str) -> str:
        """The path of one of its files."""
        return f"{self._folder}/{names.file_name(self.base_offset, suffix)}"

    @property
    def size(self) -> int:
        """Bytes of its batches."""
        return self.file.size

    def append(self, data: Data, *, last_offset: int, max_timestamp: int) -> int:
        """Append a batch; returns its position. Raises: OSError, and then nothing has changed."""
        position = self.file.size
        self.file.append(data)
        self.index.add_batch(position, len(data), last_offset, max_timestamp)
        return position

    def write_indexes(self, aborted: Sequence[AbortedTransaction]) -> None:
        """Write the index files, with the aborted transactions whose markers are in this segment, if there are any."""
        self.index.finish()
        base = self.base_offset
        self._files.write_file(
            self.path(names.OFFSET_INDEX), indexes.write_offset_index(self.index.offset_entries, base)
        )
        self._files.write_file(self.path(names.TIME_INDEX), indexes.write_time_index(self.index.time_entries, base))
        if aborted:
            self._files.write_file(self.path(names.TRANSACTION_INDEX), indexes.write_transaction_index(aborted))
        else:
            self._files.remove(self.path(names.TRANSACTION_INDEX))

    def remove(self) -> None:
        """Close and remove all its files."""
        self.file.close()
        for suffix in (*names.INDEXES, names.SNAPSHOT, names.LOG):
            self._files.remove(self.path(suffix))
