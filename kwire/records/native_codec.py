"""The record codec of the compiled accelerator, or None where the Python code does the work."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from kwire.accelerator import NATIVE
from kwire.records.failures import Data
from kwire.records.record import BatchBase, Record

__all__ = ["RECORD_CODEC", "SCAN_RECORDS", "make_native"]

#: scan_records(data, count, base_timestamp): see kwire/accelerator/native.pyi.
RecordScanner = Callable[[Data, int, int], tuple[int, int, bool, bool, int, int] | None]


#: Base offset, last offset, base timestamp and max timestamp of a batch; one that is None follows from its records.
Span = tuple[int | None, int | None, int | None, int | None]

#: Partition leader epoch, attributes, producer id, producer epoch and base sequence of a batch.
Fields = tuple[int, int, int, int, int]


class RecordCodec(Protocol):
    """What a `RecordCodec` of the extension has. Each returns None where the Python code must do the work."""

    def read(self, data: Data, base: BatchBase, strict: bool, /) -> list[Record] | None:
        """The records."""

    def write_body(self, records: Sequence[Record], span: Span, /) -> tuple[bytes, int, int, int, int] | None:
        """The records without a header, and the numbers of the span, those that were None included."""

    def write_batch(
        self, records: Sequence[Record], span: Span, fields: Fields, checksum: Callable[[memoryview], int], /
    ) -> bytes | None:
        """A whole batch without compression."""


def make_native(name: str, *classes: type) -> Any:
    """An object of a type of the extension, for objects of these classes; None where the Python code does the work."""
    if NATIVE is None:
        return None
    try:
        return getattr(NATIVE, name)(*classes)
    except TypeError as error:
        # Another version of msgspec may lay out its classes otherwise.
        warnings.warn(
            f"kwire: record batches are read and written by Python code: {error}", RuntimeWarning, stacklevel=1
        )
        return None


RECORD_CODEC: RecordCodec | None = make_native("RecordCodec", Record, BatchBase)

#: The scan of produced records, or None.
SCAN_RECORDS: RecordScanner | None = None if NATIVE is None else NATIVE.scan_records
