"""Reads the batches of a segment's file in order, and distinguishes an unfinished last write from other damage."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kwire.errors import WireError
from kwire.records import Batch, parse_header
from kwire.records.batch import CRC_START, HEADER, HEADER_SIZE, PREFIX_SIZE
from kwire.records.checksum import crc32c
from mockbroker.log_directory.file_layer import OpenFile
from mockbroker.log_directory.formats.damage import DamagedFileError

#: Bytes that are read at once; a larger batch is read as a whole.
_WINDOW = 1 << 20
_MAGIC_AT = 16
_MAGIC = b"\2"
#: After so many candidates whose checksum is wrong, bytes behind damage count as damaged batches.
_CANDIDATES_MAX = 1_000
_DELTA_MAX = (1 << 31) - 1


class ScannedBatch(NamedTuple):
    """A batch and its position in the file."""

    position: int
    batch: Batch


def scan_batches(
    file: OpenFile, name: str, *, first_offset: int, position: int = 0, verify: bool = True
) -> Iterator[ScannedBatch]:
    """The batches from a position on, whose offsets increase from `first_offset`.

    verify: check each checksum.
    Raises: DamagedFileError with the position of the first batch that is incomplete or invalid; those before it have
    been yielded.
    """
    window, start = b"", position
    while position < file.size:
        at = position - start
        if len(window) - at < HEADER_SIZE or len(window) - at < _size_at(window, at):
            size = _size_at(file.read(position, PREFIX_SIZE), 0)
            start, at = position, 0
            window = file.read(position, max(_WINDOW, min(size, file.size - position)))
        try:
            batch = parse_header(memoryview(window), at)
            if verify:
                batch.check_crc()
        except WireError as error:
            raise DamagedFileError(name, position, f"no valid batch: {error}") from error
        if batch.base_offset < first_offset or batch.last_offset < batch.base_offset:
            offsets = f"{batch.base_offset} to {batch.last_offset}"
            raise DamagedFileError(name, position, f"a batch of offsets {offsets}; expected {first_offset} or later")
        yield ScannedBatch(position, batch)
        position += batch.size
        first_offset = batch.last_offset + 1


def find_batch_behind(file: OpenFile, position: int, *, first_offset: int) -> int | None:
    """The position of a valid batch of magic 2 behind a position, whose offsets are not before `first_offset`.

    None if there is none, so that the bytes from `position` on are what is left of an unfinished write.
    """
    data = file.read(position, file.size - position)
    candidates, at = 0, 1
    while (found := data.find(_MAGIC, at + _MAGIC_AT)) >= 0:
        at = found - _MAGIC_AT
        if at + HEADER_SIZE > len(data):
            return None
        if _may_begin_batch(data, at, first_offset):
            candidates += 1
            end = at + _size_at(data, at)
            crc = HEADER.unpack_from(data, at)[4]
            if crc32c(memoryview(data)[at + CRC_START : end]) == crc or candidates > _CANDIDATES_MAX:
                return position + at
        at += 1
    return None


def _may_begin_batch(data: bytes, at: int, first_offset: int) -> bool:
    base_offset, length, epoch, _, _, _, last_delta, *_, count = HEADER.unpack_from(data, at)
    return bool(
        first_offset <= base_offset <= first_offset + _DELTA_MAX
        and HEADER_SIZE <= length + PREFIX_SIZE <= len(data) - at
        and epoch >= -1
        and last_delta >= 0
        and 0 <= count <= last_delta + 1
    )


def _size_at(data: bytes, at: int) -> int:
    """The size of the batch by its length field, at least that of a header."""
    return max(HEADER_SIZE, int.from_bytes(data[at + 8 : at + PREFIX_SIZE], signed=True) + PREFIX_SIZE)
