"""What lies in a log, and what appends and look-ups say of it."""

from __future__ import annotations

import msgspec

from kwire.records import Batch, Record, parse_header
from mockbroker.state.batch_rules import DECOMPRESSED_MAX


class StoredBatch(msgspec.Struct, frozen=True, gc=False):
    """A batch in the log. `raw` is the whole batch as a Fetch answers it; times in milliseconds.

    hidden: no reader is given it (`mockbroker.state.hidden`).
    """

    base_offset: int
    last_offset: int
    size: int
    raw: memoryview
    max_timestamp: int
    leader_epoch: int
    hidden: bool = False

    def header(self) -> Batch:
        """The batch with its header's fields, ready to decode its records."""
        return parse_header(self.raw)

    def records(self) -> list[Record]:
        """Its records, decoded."""
        return self.header().records(DECOMPRESSED_MAX, strict=False)


class LogSlice(msgspec.Struct, frozen=True):
    """Whole batches in a row; the first one holds the offset that was asked for, and may begin below it.

    cut: the beginning of the next batch, where that was asked for.
    """

    batches: list[StoredBatch]
    size: int
    cut: bytes | memoryview = b""

    def join(self) -> bytes | memoryview:
        """The bytes of all batches; of one batch they are not copied."""
        if len(self.batches) == 1:
            return self.batches[0].raw
        return b"".join([batch.raw for batch in self.batches])


class Appended(msgspec.Struct, frozen=True):
    """Where a batch lies now. append_time_ms is -1 unless the broker sets the timestamps."""

    first_offset: int
    last_offset: int
    append_time_ms: int
    duplicate: bool = False


class OffsetAtTime(msgspec.Struct, frozen=True):
    """A record found by its timestamp."""

    offset: int
    timestamp: int
    leader_epoch: int
