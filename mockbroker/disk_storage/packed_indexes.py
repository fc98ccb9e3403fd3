"""`PackedIndexes`: offset index and time index of a segment, as the bytes of their files.

A segment of 1 GiB has 262,144 entries in each; as bytes they take 5 MB. Source: Kafka's LogSegment.append,
OffsetIndex.lookup and TimeIndex.lookup.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from operator import le, lt

from mockbroker.log_directory.formats.indexes import OFFSET_ENTRY_SIZE, TIME_ENTRY_SIZE, OffsetEntry, TimeEntry

_OFFSET_ENTRY = struct.Struct(">ii")
_RELATIVE = struct.Struct(">i")
_TIME_ENTRY = struct.Struct(">qi")
_TIMESTAMP = struct.Struct(">q")


def are_in_order(offsets: bytes, times: bytes) -> bool:
    """Whether offset index and time index have whole entries that increase: offsets may be equal in the latter."""
    if len(offsets) % OFFSET_ENTRY_SIZE or len(times) % TIME_ENTRY_SIZE:
        return False
    pairs = struct.unpack(f">{len(offsets) // _RELATIVE.size}i", offsets)
    entries = list(_TIME_ENTRY.iter_unpack(times))
    timestamps, relatives = [entry[0] for entry in entries], [entry[1] for entry in entries]
    return (
        all(map(lt, pairs[::2], pairs[2::2]))
        and all(map(lt, pairs[1::2], pairs[3::2]))
        and all(map(lt, timestamps, timestamps[1:]))
        and all(map(le, relatives, relatives[1:]))
        and min(pairs[:2], default=0) >= 0
        and min(relatives[:1], default=0) >= 0
    )


class PackedIndexes:
    """The indexes of a segment from its first offset on; a batch gets an entry after more than `interval` bytes."""

    def __init__(self, base_offset: int, interval: int, offsets: bytes = b"", times: bytes = b"") -> None:
        self.offsets = bytearray(offsets)
        self.times = bytearray(times)
        self._base_offset = base_offset
        self.interval = interval
        self._unindexed_size = 0
        self._newest = self.last_time or TimeEntry(-1, base_offset)

    @property
    def size(self) -> int:
        """Bytes of memory."""
        return len(self.offsets) + len(self.times)

    @property
    def last_indexed(self) -> OffsetEntry | None:
        """The last entry of the offset index."""
        return self._offset_entry(len(self.offsets) // OFFSET_ENTRY_SIZE - 1) if self.offsets else None

    def last_entries(self, count: int) -> list[OffsetEntry]:
        """The last entries of the offset index, at most so many."""
        total = len(self.offsets) // OFFSET_ENTRY_SIZE
        return [self._offset_entry(number) for number in range(max(0, total - count), total)]

    @property
    def last_time(self) -> TimeEntry | None:
        """The last entry of the time index."""
        if not self.times:
            return None
        timestamp, relative = _TIME_ENTRY.unpack_from(self.times, len(self.times) - TIME_ENTRY_SIZE)
        return TimeEntry(timestamp, self._base_offset + relative)

    def add_batch(self, position: int, size: int, last_offset: int, max_timestamp: int) -> None:
        """Add the batch at a position of the segment."""
        if max_timestamp > self._newest.timestamp:
            self._newest = TimeEntry(max_timestamp, last_offset)
        if self._unindexed_size > self.interval:
            self.offsets += _OFFSET_ENTRY.pack(last_offset - self._base_offset, position)
            self.add_newest_time()
            self._unindexed_size = 0
        self._unindexed_size += size

    def add_newest_time(self) -> None:
        """The newest time gets an entry: with each one of the offset index, and when the segment is complete."""
        last = self.last_time
        if self._newest.timestamp > (-1 if last is None else last.timestamp):
            self.times += _TIME_ENTRY.pack(self._newest.timestamp, self._newest.offset - self._base_offset)

    def find_entry(self, offset: int) -> OffsetEntry | None:
        """The last entry whose batch ends at an offset or before, None if there is none."""
        count = len(self.offsets) // OFFSET_ENTRY_SIZE
        at = bisect_right(range(count), offset - self._base_offset, key=self._relative_offset) - 1
        return self._offset_entry(at) if at >= 0 else None

    def find_position(self, offset: int) -> int:
        """A position at or before the batch that contains an offset."""
        entry = self.find_entry(offset)
        return 0 if entry is None else entry.position

    def find_entries_from(self, last_offset: int) -> list[OffsetEntry]:
        """The first two entries of batches that end at an offset or later."""
        count = len(self.offsets) // OFFSET_ENTRY_SIZE
        at = bisect_left(range(count), last_offset - self._base_offset, key=self._relative_offset)
        return [self._offset_entry(number) for number in range(at, min(at + 2, count))]

    def find_time(self, timestamp: int) -> int:
        """An offset at or before the first batch that has this timestamp or a later one."""
        times, start = self.times, len(self.times) // TIME_ENTRY_SIZE
        at = bisect_right(
            range(start), timestamp, key=lambda number: _TIMESTAMP.unpack_from(times, number * TIME_ENTRY_SIZE)[0]
        )
        if not at:
            return self._base_offset
        relative: int = _RELATIVE.unpack_from(times, at * TIME_ENTRY_SIZE - _RELATIVE.size)[0]
        return self._base_offset + relative

    def truncate_to(self, position: int, offset: int) -> None:
        """Remove the entries of batches from a position on, which begin at an offset or later.

        The batches after the last entry that remains have to be added again.
        """
        while (last := self.last_indexed) is not None and last.position >= position:
            del self.offsets[-OFFSET_ENTRY_SIZE:]
        while (time := self.last_time) is not None and time.offset >= offset:
            del self.times[-TIME_ENTRY_SIZE:]
        self._newest = self.last_time or TimeEntry(-1, self._base_offset)
        self._unindexed_size = 0

    def _offset_entry(self, number: int) -> OffsetEntry:
        relative, position = _OFFSET_ENTRY.unpack_from(self.offsets, number * OFFSET_ENTRY_SIZE)
        return OffsetEntry(self._base_offset + relative, position)

    def _relative_offset(self, number: int) -> int:
        relative: int = _RELATIVE.unpack_from(self.offsets, number * OFFSET_ENTRY_SIZE)[0]
        return relative
