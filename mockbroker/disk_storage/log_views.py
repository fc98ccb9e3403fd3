"""`LogViews`: the batches of a log that are in memory as an index: its newest ones, and those that were read last."""

from __future__ import annotations

from mockbroker.disk_storage.memory_cache import MemoryCache
from mockbroker.disk_storage.segment_log import FileWindow, SegmentLog
from mockbroker.state.storage.batch_index import BatchIndex
from mockbroker.state.storage.memory_budget import BATCH_COST
from mockbroker.state.storage.stored_batch import StoredBatch

#: So many of the newest batches stay in the index, at least; when there are twice as many, the older ones are removed.
NEWEST_COUNT = 1024
#: Bytes of batches that are read together with their headers; of longer reads only the headers are read.
_DATA_MAX = 4 << 20
_HEADERS_WINDOW = 256 << 10
_HEADER_SIZE = 61
#: In which the batch with an offset is looked for, from the entry of the offset index on.
_FIRST_WINDOW = 8 << 10


class _Newest:
    """The newest batches of the active segment. start_offset: from there on all are in the index."""

    def __init__(self, start_offset: int) -> None:
        self.index = BatchIndex()
        self.start_offset = start_offset
        self.end_offset = start_offset

    def drop_cached(self) -> None:
        self.index = BatchIndex()
        self.start_offset = self.end_offset


class _LastRead:
    """Batches of one segment from an offset on. size: bytes of the reads that it can answer; None if all follow."""

    def __init__(self) -> None:
        self.index = BatchIndex()
        self.first_offset = -1
        self.size: int | None = 0

    def drop_cached(self) -> None:
        self.index = BatchIndex()
        self.first_offset, self.size = -1, 0


class LogViews:
    """The views of one log. cache: bounds their memory."""

    def __init__(self, cache: MemoryCache, end_offset: int) -> None:
        self._cache = cache
        self._newest = _Newest(end_offset)
        self._last_read = _LastRead()

    def add_batch(self, batch: StoredBatch) -> None:
        """A batch was appended."""
        newest = self._newest
        newest.index.append(batch)
        newest.end_offset = batch.last_offset + 1
        count = len(newest.index)
        if count >= 2 * NEWEST_COUNT:
            newest.index.drop_first(count - NEWEST_COUNT)
            newest.start_offset = newest.index.batches[0].base_offset
            count = NEWEST_COUNT
        if not count & 63 or count == 1:
            self._cache.use(newest, (count + 64) * BATCH_COST)

    def reset(self, end_offset: int) -> None:
        """Another segment begins, or batches were removed: nothing is in memory, and the log ends at this offset."""
        self._newest.end_offset = end_offset
        self._newest.drop_cached()
        self._last_read.drop_cached()
        self._cache.forget(self._newest)
        self._cache.forget(self._last_read)

    def find_index(self, offset: int, size: int) -> BatchIndex | None:
        """An index for a read from an offset on, of as many bytes; None if it has to be read from the segment."""
        newest, last = self._newest, self._last_read
        if offset >= newest.start_offset:
            return newest.index
        if offset == last.first_offset and (last.size is None or size <= last.size):
            self._cache.use(last, len(last.index) * BATCH_COST + (last.size or 0))
            return last.index
        return None

    def read_index(self, segment: SegmentLog, offset: int, size: int, *, is_active: bool) -> BatchIndex | None:
        """Read the batches for `find_index` from a segment; None if no batch ends at the offset or later.

        is_active: it can grow. Raises: OSError; KAFKA_STORAGE_ERROR.
        """
        packed = segment.load_indexes()
        if not is_active:
            self._cache.use(segment, packed.size)
        batches = segment.scan(segment.find_position(offset), window_size=_FIRST_WINDOW)
        first = next((batch for batch in batches if batch.last_offset >= offset), None)
        if first is None:
            return None
        self._cache.forget(self._last_read)
        last, size = _LastRead(), max(size, 0)
        reaches_end = _read_batches(segment, first.at, size, last.index)
        if reaches_end:
            # Further batches of the active segment would be missing.
            last.size = segment.meta.size - first.at - 1 if is_active else None
        else:
            last.size = size
        last.first_offset, self._last_read = offset, last
        self._cache.use(last, len(last.index) * BATCH_COST + min(size, _DATA_MAX))
        return last.index


def _read_batches(segment: SegmentLog, position: int, size: int, index: BatchIndex) -> bool:
    """Add the batches from a position on that have `size` bytes, and one more; returns whether none is left."""
    end, file_end = position + size, segment.meta.size
    data_size = size + _HEADER_SIZE if size <= _DATA_MAX else _HEADERS_WINDOW
    while position < file_end:
        window = FileWindow(segment, position, min(data_size, file_end - position))
        position = window.add_batches(position, end, index)
        if position > end:
            break
        data_size = _HEADERS_WINDOW
    return position >= file_end
