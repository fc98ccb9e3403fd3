"""The offset index and time index of a segment, as its batches are appended or read again.

Source: Kafka's LogSegment.append, recover and onBecomeInactiveSegment.
"""

from __future__ import annotations

from mockbroker.log_directory.formats.indexes import OffsetEntry, TimeEntry


class SegmentIndex:
    """The entries so far; a batch gets one when more than `interval` bytes were added since the one before."""

    def __init__(self, base_offset: int, interval: int) -> None:
        self.base_offset = base_offset
        self.offset_entries: list[OffsetEntry] = []
        self.time_entries: list[TimeEntry] = []
        self.newest = TimeEntry(-1, base_offset)
        self._interval = interval
        self._unindexed_size = 0

    def add_batch(self, position: int, size: int, last_offset: int, max_timestamp: int) -> None:
        """Add the batch at a position of the segment."""
        if max_timestamp > self.newest.timestamp:
            self.newest = TimeEntry(max_timestamp, last_offset)
        if self._unindexed_size > self._interval:
            self.offset_entries.append(OffsetEntry(last_offset, position))
            self._add_newest_time()
            self._unindexed_size = 0
        self._unindexed_size += size

    def finish(self) -> None:
        """The segment is complete, or its log is closed: the newest time is indexed in any case."""
        self._add_newest_time()

    def _add_newest_time(self) -> None:
        last = self.time_entries[-1].timestamp if self.time_entries else -1
        if self.newest.timestamp > last:
            self.time_entries.append(self.newest)
