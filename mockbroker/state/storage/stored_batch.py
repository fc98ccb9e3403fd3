"""Batches in a log, and the results of appends and reads."""

from __future__ import annotations

import msgspec

from kwire.records import Batch, Record, parse_header
from mockbroker.state.storage.log_config import DECOMPRESSED_MAX


class StoredBatch(msgspec.Struct, frozen=True, gc=False):
    """A batch in the log. `raw` is the whole batch as Fetch returns it; times in milliseconds.

    is_hidden: readers skip it (`mockbroker.state.storage.hidden_batches`).
    """

    base_offset: int
    last_offset: int
    size: int
    raw: memoryview
    max_timestamp: int
    leader_epoch: int
    is_hidden: bool = False

    def header(self) -> Batch:
        """The parsed header, ready to decode the records."""
        return parse_header(self.raw)

    def records(self) -> list[Record]:
        """The decoded records."""
        return self.header().records(DECOMPRESSED_MAX, strict=False)


class LogSlice(msgspec.Struct, frozen=True):
    """Consecutive whole batches; the first one contains the requested offset, and may begin below it.

    partial_batch: the beginning of the next batch, if requested. is_first_cut: there is a batch, and the limit is above
    0 and less than its size.
    """

    batches: list[StoredBatch]
    size: int
    partial_batch: bytes | memoryview = b""
    is_first_cut: bool = False

    def join(self) -> bytes | memoryview:
        """All bytes; a single batch is not copied."""
        if len(self.batches) == 1 and not self.partial_batch:
            return self.batches[0].raw
        return b"".join([*(batch.raw for batch in self.batches), self.partial_batch])


class AppendResult(msgspec.Struct, frozen=True):
    """The position of an appended batch. append_time_ms is -1 unless the broker sets the timestamps."""

    first_offset: int
    last_offset: int
    append_time_ms: int
    is_duplicate: bool = False


class TimestampOffset(msgspec.Struct, frozen=True):
    """A record found by its timestamp."""

    offset: int
    timestamp: int
    leader_epoch: int
