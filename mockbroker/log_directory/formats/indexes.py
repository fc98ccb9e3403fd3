"""Index files of a segment: offset index, time index, transaction index.

Entries have a fixed size, integers are big-endian. Offsets of the first two are relative to the base offset of the
segment. A preallocated index, as of the active segment of a running Kafka, ends with zeros. Source: Kafka's
OffsetIndex, TimeIndex and TransactionIndex.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from mockbroker.log_directory.formats.damage import DamagedFileError
from mockbroker.state.storage.producers import AbortedTransaction

_OFFSET_ENTRY = struct.Struct(">ii")
_TIME_ENTRY = struct.Struct(">qi")
_ABORTED_ENTRY = struct.Struct(">hqqqq")
OFFSET_ENTRY_SIZE = _OFFSET_ENTRY.size
TIME_ENTRY_SIZE = _TIME_ENTRY.size
_ABORTED_VERSION = 0


class OffsetEntry(NamedTuple):
    """The last offset of a batch, and the position of the batch in the segment."""

    offset: int
    position: int


class TimeEntry(NamedTuple):
    """The largest timestamp so far, in milliseconds, and the last offset of the first batch that has it."""

    timestamp: int
    offset: int


def write_offset_index(entries: Iterable[OffsetEntry], base_offset: int) -> bytes:
    """The entries of an offset index."""
    return b"".join(_OFFSET_ENTRY.pack(offset - base_offset, position) for offset, position in entries)


def read_offset_index(data: bytes, base_offset: int, name: str) -> list[OffsetEntry]:
    """The entries, whose offsets and positions increase. Raises: DamagedFileError."""
    entries: list[OffsetEntry] = []
    for at, (relative, position) in _unpack_entries(_OFFSET_ENTRY, data, name):
        if not relative and not position:
            _check_zeros(data, at, name)
            break
        entry = OffsetEntry(base_offset + relative, position)
        last = entries[-1] if entries else OffsetEntry(base_offset - 1, -1)
        if relative < 0 or entry.offset <= last.offset or position <= last.position:
            raise DamagedFileError(
                name, at, f"offset {entry.offset} at position {position} is not after the one before"
            )
        entries.append(entry)
    return entries


def write_time_index(entries: Iterable[TimeEntry], base_offset: int) -> bytes:
    """The entries of a time index."""
    return b"".join(_TIME_ENTRY.pack(timestamp, offset - base_offset) for timestamp, offset in entries)


def read_time_index(data: bytes, base_offset: int, name: str) -> list[TimeEntry]:
    """The entries, whose timestamps increase and whose offsets do not decrease. Raises: DamagedFileError."""
    entries: list[TimeEntry] = []
    for at, (timestamp, relative) in _unpack_entries(_TIME_ENTRY, data, name):
        if not timestamp and not relative:
            _check_zeros(data, at, name)
            break
        entry = TimeEntry(timestamp, base_offset + relative)
        if relative < 0 or (entries and (timestamp <= entries[-1].timestamp or entry.offset < entries[-1].offset)):
            raise DamagedFileError(name, at, f"time {timestamp} of offset {entry.offset} is not after the one before")
        entries.append(entry)
    return entries


def write_transaction_index(aborted: Iterable[AbortedTransaction]) -> bytes:
    """The entries of a transaction index."""
    return b"".join(
        _ABORTED_ENTRY.pack(
            _ABORTED_VERSION, one.producer_id, one.first_offset, one.last_offset, one.last_stable_offset
        )
        for one in aborted
    )


def read_transaction_index(data: bytes, name: str) -> list[AbortedTransaction]:
    """Aborted transactions in order of their markers. Raises: DamagedFileError."""
    aborted: list[AbortedTransaction] = []
    for at, (version, *fields) in _unpack_entries(_ABORTED_ENTRY, data, name):
        if version != _ABORTED_VERSION:
            raise DamagedFileError(name, at, f"version {version}; expected {_ABORTED_VERSION}")
        one = AbortedTransaction(*fields)
        # The marker is behind the first record, and the offsets up to the marker are decided after it at most.
        is_possible = 0 <= one.first_offset < one.last_offset and 0 <= one.last_stable_offset <= one.last_offset + 1
        if not is_possible or one.producer_id < 0 or (aborted and one.last_offset <= aborted[-1].last_offset):
            offsets = f"{one.first_offset} to {one.last_offset}, stable up to {one.last_stable_offset}"
            raise DamagedFileError(name, at, f"producer {one.producer_id}, offsets {offsets}: not in order")
        aborted.append(one)
    return aborted


def _unpack_entries(entry: struct.Struct, data: bytes, name: str) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Each entry with its position. Raises: DamagedFileError unless there is a whole number of them."""
    if len(data) % entry.size:
        raise DamagedFileError(name, len(data), f"{len(data)} bytes are no multiple of the entry size, {entry.size}")
    return ((number * entry.size, values) for number, values in enumerate(entry.iter_unpack(data)))


def _check_zeros(data: bytes, at: int, name: str) -> None:
    """Raises: DamagedFileError if an entry follows the zeros."""
    if data.count(0, at) != len(data) - at:
        raise DamagedFileError(name, at, "zeros before an entry")
