"""A record codec that reads and writes with the accelerator and with the Python code, and compares the results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pytest
from crc32c import crc32c

from kwire.errors import WireError
from kwire.records import Record, record_decoder, writer
from kwire.records.batch import CRC_START, HEADER, HEADER_SIZE, PREFIX_SIZE
from kwire.records.failures import Data
from kwire.records.native_codec import RECORD_CODEC, Fields, RecordCodec, Span
from kwire.records.record import BatchBase
from kwire.records.record_decoder import decode_records_pure
from kwire.records.writer import write_body_pure


class ComparingRecordCodec:
    """Returns what the accelerator returns, when the Python code agrees."""

    def __init__(self, native: RecordCodec) -> None:
        self.native = native

    def read(self, data: Data, base: BatchBase, /) -> list[Record] | None:
        records = self.native.read(data, base)
        if records is None:
            with pytest.raises(WireError):
                decode_records_pure(bytes(data), base)
        else:
            assert records == decode_records_pure(bytes(data), base)
        return records

    def write_body(self, records: Sequence[Record], span: Span, /) -> tuple[bytes, int, int, int, int] | None:
        written = self.native.write_body(records, span)
        if written is not None:
            parts, *numbers = write_body_pure(records, span)
            assert written == (b"".join(parts), *numbers)
        return written

    def write_batch(
        self, records: Sequence[Record], span: Span, fields: Fields, checksum: Callable[[memoryview], int], /
    ) -> bytes | None:
        batch = self.native.write_batch(records, span, fields, checksum)
        if batch is not None:
            parts, first, last, base_timestamp, max_timestamp = write_body_pure(records, span)
            epoch, attributes, *producer = fields
            assert batch[HEADER_SIZE:] == b"".join(parts)
            assert HEADER.unpack_from(batch) == (
                first, len(batch) - PREFIX_SIZE, epoch, 2, _checksum_of(batch), attributes, last - first,
                base_timestamp, max_timestamp, *producer, len(records),
            )  # fmt: skip
        return batch


def _checksum_of(batch: bytes) -> int:
    return int(crc32c(batch[CRC_START:]))


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
