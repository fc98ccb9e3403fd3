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
_MAGIC_VALUE = 2
_MAGIC = bytes((_MAGIC_VALUE,))
#: After so many candidates whose checksum is wrong, bytes behind damage count as damaged batches.
_CANDIDATES_MAX = 1_000
_DELTA_MAX = (1 << 31) - 1
_EPOCH_MAX = (1 << 31) - 2
#: The leader epoch of a batch without one.
_NO_EPOCH = -1


class FieldLimits(NamedTuple):
    """What the fields of batches may be that no checksum covers.

    epoch_max: the largest leader epoch. has_gaps: compaction may have removed batches, so that offsets are missing.
    """

    epoch_max: int = _EPOCH_MAX
    has_gaps: bool = True


_NO_LIMITS = FieldLimits()


class ScannedBatch(NamedTuple):
    """A batch and its position in the file."""

    position: int
    batch: Batch


def scan_batches(
    file: OpenFile,
    name: str,
    *,
    first_offset: int,
    position: int = 0,
    verify: bool = True,
    limits: FieldLimits = _NO_LIMITS,
) -> Iterator[ScannedBatch]:
    """The batches from a position on, whose offsets increase from `first_offset` and whose epochs do not decrease.

    A segment does not have offsets that are more than 2^31 behind its first one. verify: check each checksum. limits:
    of the first offset only where `position` is 0.
    Raises: DamagedFileError with the position of the first batch that is incomplete or invalid; those before it have
    been yielded.
    """
    window, start, epoch = b"", position, _NO_EPOCH
    offset_max, is_next_known = first_offset + _DELTA_MAX, not (position or limits.has_gaps)
    while position < file.size:
        at = position - start
        if len(window) - at < HEADER_SIZE or len(window) - at < _size_at(window, at):
            size = _size_at(file.read(position, PREFIX_SIZE), 0)
            start, at = position, 0
            window = file.read(position, max(_WINDOW, min(size, file.size - position)))
        try:
            batch = parse_header(memoryview(window), at)
            if batch.magic != _MAGIC_VALUE:
                # A batch of an older format cannot be read without its records.
                raise DamagedFileError(name, position, f"no valid batch: magic {batch.magic}; only 2 is supported")
            if verify:
                batch.check_crc()
        except WireError as error:
            raise DamagedFileError(name, position, f"no valid batch: {error}") from error
        base_offset, last_offset = batch.base_offset, batch.last_offset
        if not first_offset <= base_offset <= last_offset <= offset_max:
            offsets = f"{base_offset} to {last_offset}"
            raise DamagedFileError(name, position, f"a batch of offsets {offsets}; expected {first_offset} or later")
        if is_next_known and base_offset != first_offset:
            problem = f"a batch at offset {base_offset}; expected {first_offset}, the log is not compacted"
            raise DamagedFileError(name, position, problem)
        if batch.partition_leader_epoch != epoch:
            epoch = _check_epoch(batch.partition_leader_epoch, epoch, limits.epoch_max, name, position)
        yield ScannedBatch(position, batch)
        position += batch.size
        first_offset, is_next_known = last_offset + 1, not limits.has_gaps


def _check_epoch(epoch: int, before: int, epoch_max: int, name: str, position: int) -> int:
    """The leader epoch from a batch on. Raises: DamagedFileError for one that goes back, or cannot be there yet."""
    if epoch == _NO_EPOCH:
        return before
    if not max(before, 0) <= epoch <= epoch_max:
        problem = f"a batch of leader epoch {epoch}; expected {max(before, 0)} to {epoch_max}"
        raise DamagedFileError(name, position, problem)
    return epoch


def is_whole_batch(file: OpenFile, position: int) -> bool:
    """Whether there is a batch at a position whose checksum is right, whatever the fields are that it does not cover.

    Such a batch was written as a whole: its length or the end of the file is where it ends.
    """
    header = file.read(position, HEADER_SIZE)
    if len(header) < HEADER_SIZE:
        return False
    crc = HEADER.unpack_from(header)[4]
    ends = {position + _size_at(header, 0), file.size}
    return any(
        position + HEADER_SIZE <= end <= file.size
        and crc32c(file.read(position + CRC_START, end - position - CRC_START)) == crc
        for end in ends
    )


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
