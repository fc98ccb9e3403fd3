"""Original records of dead letters, read from the log of the source partition, within a limit of bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from kwire.errors import LimitExceeded, WireError
from kwire.records import Batch, Codec, Record
from kwire.records.compression import measure_decompressed
from mockbroker.dead_letter_queue.record_size import record_size
from mockbroker.kafka_error import KafkaError

if TYPE_CHECKING:
    from mockbroker.state.storage.partition_log import PartitionLog
    from mockbroker.state.storage.stored_batch import StoredBatch

#: The limit of one read of the log.
_READ_BYTES = 1024 * 1024
#: Of a batch before its records.
_HEADER_SIZE = 61


class SourceRecords(NamedTuple):
    """Original records by offset, and the last offset that is decided: up to it a missing record is not copied."""

    by_offset: dict[int, Record]
    resolved_to: int


class _Reader:
    """One reading of a range. Source: Kafka's ShareGroupDLQRecordFetcher.

    limit: of all records together, and of each, in bytes. is_deferred: a record that fits alone did not fit any more.
    """

    def __init__(self, first: int, last: int, limit: int) -> None:
        self.records: dict[int, Record] = {}
        self.resolved_to = first - 1
        self.is_deferred = False
        self._last = last
        self._limit = limit
        self._collected_bytes = 0

    @property
    def must_stop(self) -> bool:
        return self.is_deferred or self._collected_bytes >= self._limit

    def collect(self, batches: Sequence[StoredBatch], offset: int) -> int:
        """Add the records of batches from an offset on; the offset to read next."""
        for batch in batches:
            if self.must_stop:
                break
            offset = self._collect_batch(batch, offset)
        return offset

    def _collect_batch(self, stored: StoredBatch, offset: int) -> int:
        batch = stored.checked_header()
        is_compressed = batch.codec is not Codec.NONE
        if is_compressed and not _fits_decompressed(batch, stored.raw, self._limit):
            last = min(stored.last_offset, self._last)
            self.resolved_to = max(self.resolved_to, last)
            return max(offset, last + 1)
        for record in stored.records():
            if record.offset < offset:
                continue
            if record.offset > self._last:
                break
            delta = record.offset - batch.base_offset
            size = record_size(record, offset_delta=delta, base=batch.base_timestamp)
            if is_compressed or size <= self._limit:
                if self._collected_bytes + size > self._limit:
                    self.is_deferred = True
                    break
                self.records[record.offset] = record
                self._collected_bytes += size
            offset = record.offset + 1
            self.resolved_to = max(self.resolved_to, record.offset)
        return offset


def _fits_decompressed(batch: Batch, raw: memoryview, limit: int) -> bool:
    """Whether the records of a compressed batch fit into the limit together."""
    try:
        measure_decompressed(batch.codec, raw[_HEADER_SIZE : batch.size], limit)
    except LimitExceeded:
        return False
    return True


def read_source_records(log: PartitionLog, first: int, last: int, limit: int) -> SourceRecords:
    """Read a range of offsets; what cannot be read is left out, without an error (share-semantics 9.2)."""
    reader, offset = _Reader(first, last, limit), first
    while offset <= last and not reader.must_stop:
        try:
            next_offset = reader.collect(log.read(offset, _READ_BYTES).batches, offset)
        except (KafkaError, WireError):
            next_offset = offset  # Deleted, or damaged: their dead letters have headers only.
        if next_offset <= offset:
            return SourceRecords(reader.records, reader.resolved_to if reader.is_deferred else last)
        offset = next_offset
    return SourceRecords(reader.records, reader.resolved_to)
