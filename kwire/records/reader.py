"""Reads the batches in the bytes of a log, a Produce request or a Fetch response."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

from kwire.records import batch as v2_batch
from kwire.records import legacy
from kwire.records.batch import HEADER_SIZE, PREFIX_SIZE, Batch
from kwire.records.failures import Data, corrupt_error
from kwire.records.native_codec import make_native

# All three formats have length and magic at the same offset: length, epoch or crc, magic.
_LENGTH_AND_MAGIC = struct.Struct(">8xi4xb")
_SIZES_MIN = (*legacy.SIZES_MIN, HEADER_SIZE)

BatchReader = Callable[[Data, int], Batch | None]
_native = make_native("BatchReader", Batch)
#: Reads the header of a complete batch of magic 2; None where the Python code must do it.
READ_BATCH: BatchReader | None = None if _native is None else _native.read


def parse_header(data: Data, offset: int = 0) -> Batch:
    """Read the header of the batch at `offset`, in any of the three formats, without its records.

    The checksum is not verified: `check_crc` does that.
    Raises: CorruptRecords when the batch is incomplete, too short for its header, or of an unknown magic.
    """
    if READ_BATCH is not None:
        batch = READ_BATCH(data, offset)
        if batch is not None:
            return batch
    have = len(data) - offset
    if have < _LENGTH_AND_MAGIC.size:
        raise corrupt_error(f"a batch header has {HEADER_SIZE} bytes, but {have} are left", offset, "batch")
    length, magic = _LENGTH_AND_MAGIC.unpack_from(data, offset)
    if not 0 <= magic <= 2:
        raise corrupt_error(f"magic {magic}, known are 0, 1 and 2", offset + 16, "batch.magic")
    size = length + PREFIX_SIZE
    if size < _SIZES_MIN[magic]:
        raise corrupt_error(f"length {length}, a batch of magic {magic} needs more", offset + 8, "batch.length")
    if size > have:
        raise corrupt_error(f"a batch of {size} bytes, but {have} are left", offset, "batch")
    return v2_batch.parse_batch(data, offset) if magic == 2 else legacy.parse_message(data, offset)


def read_batches(data: Data, *, verify: bool = True, partial_ok: bool = False) -> Iterator[Batch]:
    """Yield the batches in order; those before an invalid one are yielded before the error is raised.

    Args: verify: verify each checksum. partial_ok: a batch cut off by the end of the data, as a Fetch response may
        have it, ends the batches instead of being an error.
    Raises: CorruptRecords.
    """
    offset = 0
    while offset < len(data):
        batch = None if READ_BATCH is None else READ_BATCH(data, offset)
        if batch is None:
            if partial_ok and _is_truncated(data, offset):
                return
            batch = parse_header(data, offset)
        if verify:
            batch.check_crc()
        yield batch
        offset += batch.size


def _is_truncated(data: Data, offset: int) -> bool:
    have = len(data) - offset
    if have < _LENGTH_AND_MAGIC.size:
        return True
    length, magic = _LENGTH_AND_MAGIC.unpack_from(data, offset)
    return bool(0 <= magic <= 2 and length + PREFIX_SIZE > have)
