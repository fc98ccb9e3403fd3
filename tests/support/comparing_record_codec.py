"""A record codec that reads and writes with the accelerator and with the Python code, and compares the results."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pytest
from crc32c import crc32c

from kwire.errors import WireError
from kwire.records import Record, record_decoder, writer
from kwire.records.batch import CRC_START, HEADER, HEADER_SIZE
from kwire.records.failures import Data
from kwire.records.native_codec import RECORD_CODEC, Fields, RecordCodec, Span
from kwire.records.record import BatchBase
from kwire.records.record_decoder import decode_records_pure


class ComparingRecordCodec:
    """Returns what the accelerator returns, when the Python code agrees."""

    def __init__(self, native: RecordCodec) -> None:
        self.native = native

    def read(self, data: Data, base: BatchBase, strict: bool, /) -> list[Record] | None:
        records = self.native.read(data, base, strict)
        if records is None:
            with pytest.raises(WireError):
                decode_records_pure(bytes(data), base, strict=strict)
        else:
            assert records == decode_records_pure(bytes(data), base, strict=strict)
        return records

    def write_body(self, records: Sequence[Record], span: Span, /) -> tuple[bytes, int, int, int, int] | None:
        written = self.native.write_body(records, span)
        if written is not None:
            assert written == write_body_without_accelerator(records, span)
        return written

    def write_batch(
        self, records: Sequence[Record], span: Span, fields: Fields, checksum: Callable[[memoryview], int], /
    ) -> bytes | None:
        batch = self.native.write_batch(records, span, fields, checksum)
        if batch is not None:
            expected = bytearray(_write_without_accelerator(records, span, fields))
            struct.pack_into(">h", expected, CRC_START, fields[1])
            struct.pack_into(">I", expected, CRC_START - 4, crc32c(expected[CRC_START:]))
            assert batch == expected
        return batch


def write_body_without_accelerator(records: Sequence[Record], span: Span) -> tuple[bytes, int, int, int, int]:
    """What `RecordCodec.write_body` should return. Raises: InvalidValue."""
    batch = _write_without_accelerator(records, span)
    base_offset, *_, last_delta, base_timestamp, max_timestamp, _, _, _, _ = HEADER.unpack_from(batch)
    return batch[HEADER_SIZE:], base_offset, base_offset + last_delta, base_timestamp, max_timestamp


def _write_without_accelerator(records: Sequence[Record], span: Span, fields: Fields = (-1, 0, -1, -1, -1)) -> bytes:
    """A batch without compression, and without the attributes."""
    epoch, _, producer_id, producer_epoch, base_sequence = fields
    base_offset, last_offset, base_timestamp, max_timestamp = span
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writer, "RECORD_CODEC", None)
        return writer.write_batch(
            records, base_offset=base_offset, last_offset=last_offset, delete_horizon_ms=base_timestamp,
            max_timestamp=max_timestamp, partition_leader_epoch=epoch, producer_id=producer_id,
            producer_epoch=producer_epoch, base_sequence=base_sequence,
        )  # fmt: skip


@contextmanager
def comparing_record_codecs() -> Iterator[None]:
    """Compare all reading and writing of records in the block; without the accelerator nothing is compared."""
    native = RECORD_CODEC
    if native is None:
        yield
        return
    with pytest.MonkeyPatch.context() as patch:
        for module in (record_decoder, writer):
            patch.setattr(module, "RECORD_CODEC", ComparingRecordCodec(native))
        yield
