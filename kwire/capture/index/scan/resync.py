"""Guess where a record begins in the middle of a capture file: at a place from which valid records follow each other.

A packet may contain a capture. So the size of the chain of records counts, not their number: a chain inside a payload
ends where its packet ends, or continues with the records around it; then one of those begins before the chain. The
result is a guess that is verified when the ranges of a file are joined.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import NamedTuple, cast

import numpy as np

from kwire.capture.files import pcapng
from kwire.capture.files.pcap import PACKET_SIZE_MAX, PcapLayout
from kwire.capture.index.arrays import Bools, Ints
from kwire.capture.index.scan.files import CaptureFile
from kwire.capture.index.scan.spans import RecordPosition

# A chain of records must have this size, more than a packet, or reach the end of the file; and this many records.
_CHAIN_SIZE = 512 * 1024
_CHAIN_COUNT = 4
# Bytes that are searched at once.
_SEARCH_SIZE = 256 * 1024
_HEAD_SIZE = 32
_BUFFER_SIZE = 16 * 1024
# The packets of one capture lie within this time.
_TIME_RANGE_S = 400 * 24 * 3600
_ENHANCED, _CUSTOM = 6, (0xBAD, 0x40000BAD)
# Programs do not write longer packets.
_PACKET_SIZE_LIKELY = 1 << 20


def guess_pcap_position(
    file: CaptureFile, layout: PcapLayout, first: RecordPosition, start: int, stop: int
) -> RecordPosition | None:
    """Guess the position of the first record between two offsets of a pcap file."""
    header = file.read(first.at, layout.header_size)
    if len(header) < layout.header_size:
        return None
    seconds = _read_word(header, 0, layout.order)
    other_at = 20 - layout.captured_at
    fraction_max = 1_000_000_000 // layout.unit

    def may_begin(data: bytes) -> Bools:
        field = {at: _read_words(data, at, layout.order) for at in (0, 4, layout.captured_at, other_at)}
        captured, size = field[layout.captured_at], field[other_at]
        is_near = np.abs(field[0] - seconds) <= _TIME_RANGE_S
        has_valid_sizes = (captured <= size) & (captured <= _PACKET_SIZE_LIKELY) & (captured > 0)
        return is_near & (field[4] < fraction_max) & has_valid_sizes

    def record_size(header: bytes) -> int | None:
        if len(header) < layout.header_size:
            return None
        at, fraction = struct.unpack_from(layout.order + "II", header)
        captured, size = (_read_word(header, offset, layout.order) for offset in (layout.captured_at, other_at))
        is_near = abs(at - seconds) <= _TIME_RANGE_S and fraction < fraction_max
        return layout.header_size + captured if is_near and captured <= min(size, PACKET_SIZE_MAX) else None

    at = _find_record(file, start, stop, _RecordFormat(may_begin, record_size, lambda at, size: True))
    return None if at is None else first._replace(at=at)


def guess_pcapng_position(file: CaptureFile, position: RecordPosition, start: int, stop: int) -> RecordPosition | None:
    """Guess the position of the first block between two offsets of a pcapng file.

    Args: position: byte order and interfaces; the blocks in between are taken to have the same ones.
    """
    order, count = position.order, len(position.interfaces)

    def may_begin(data: bytes) -> Bools:
        kind, size, interface, captured = (_read_words(data, at, order) for at in (0, 4, 8, 20))
        is_block = (kind == _ENHANCED) & (size >= 32) & (size % 4 == 0) & (size <= _PACKET_SIZE_LIKELY)
        return cast("Bools", is_block & (interface < count) & (captured <= size - 32))

    def record_size(header: bytes) -> int | None:
        if len(header) < 12:
            return None
        kind, size = struct.unpack_from(order + "II", header)
        if kind == _ENHANCED:
            interface, captured = (_read_word(header.ljust(_HEAD_SIZE, b"\0"), at, order) for at in (8, 20))
            is_likely = size >= 32 and interface < count and captured <= size - 32
        else:
            # Blocks of standard types, which are short.
            is_likely = (kind < 16 or kind in _CUSTOM) and 12 <= size < _PACKET_SIZE_LIKELY
        return size if is_likely and size % 4 == 0 and size <= pcapng.BLOCK_SIZE_MAX else None

    def is_complete(at: int, size: int) -> bool:
        return file.read(at + size - 4, 4) == struct.pack(order + "I", size)

    at = _find_record(file, start, stop, _RecordFormat(may_begin, record_size, is_complete))
    return None if at is None else position._replace(at=at)


class _RecordFormat(NamedTuple):
    """How to recognize records.

    may_begin: for each byte that has a header's size of bytes after it, whether a record may begin there. record_size:
    the size of the record that begins with these bytes; None if they are not valid. is_complete: whether a record of
    this offset and size ends as it must.
    """

    may_begin: Callable[[bytes], Bools]
    record_size: Callable[[bytes], int | None]
    is_complete: Callable[[int, int], bool]


def _find_record(file: CaptureFile, start: int, stop: int, record_format: _RecordFormat) -> int | None:
    base, chains = start, _RecordChains(file, record_format)
    while base < stop:
        size = min(_SEARCH_SIZE, stop - base)
        data = file.read(base, size + _HEAD_SIZE)
        if len(data) < _HEAD_SIZE:
            return None
        for offset in np.nonzero(record_format.may_begin(data)[:size])[0].tolist():
            if chains.is_chain(base + offset):
                at = _skip_enclosing_record(file, start, base + offset, record_format, chains)
                return at if at < stop else None
        base += size
    return None


def _skip_enclosing_record(
    file: CaptureFile, start: int, at: int, record_format: _RecordFormat, chains: _RecordChains
) -> int:
    """The end of a record that begins before `start` and contains `at`, if there is one; otherwise `at`.

    A capture inside a packet, which ends with it, is followed by the records around it.
    """
    base = max(0, start - _SEARCH_SIZE)
    data = file.read(base, start - base + _HEAD_SIZE)
    if len(data) < _HEAD_SIZE:
        return at
    ends = [at]
    for offset in np.nonzero(record_format.may_begin(data)[: start - base])[0].tolist():
        size = record_format.record_size(data[offset : offset + _HEAD_SIZE])
        if size is not None and base + offset + size > at and chains.is_chain(base + offset):
            ends.append(base + offset + size)
    return max(ends)


class _RecordChains:
    """Chains of records. Where two chains meet, the result for one is used for the other."""

    def __init__(self, file: CaptureFile, record_format: _RecordFormat) -> None:
        self._file = file
        self._format = record_format
        self._results: dict[int, bool] = {}

    def is_chain(self, begin: int) -> bool:
        """Whether a chain of records begins here that is long enough to be one."""
        visited: list[int] = []
        result = self._follow_chain(begin, visited)
        self._results.update(dict.fromkeys(visited, result))
        return result

    def _follow_chain(self, begin: int, visited: list[int]) -> bool:
        file, at = self._file, begin
        buffer, base = b"", at
        while len(visited) < _CHAIN_COUNT or at - begin < _CHAIN_SIZE:
            if at in self._results:
                return self._results[at]
            if at == file.size:
                return bool(visited)
            if at + _HEAD_SIZE > base + len(buffer):
                buffer, base = file.read(at, _BUFFER_SIZE), at
            size = self._format.record_size(buffer[at - base : at - base + _HEAD_SIZE])
            if size is None or at + size > file.size or not self._format.is_complete(at, size):
                # The capturing program may have been stopped inside a record.
                return size is not None and at + size > file.size and len(visited) >= _CHAIN_COUNT
            visited.append(at)
            at += size
        return True


def _read_word(header: bytes, at: int, order: str) -> int:
    word: int = struct.unpack_from(order + "I", header, at)[0]
    return word


def _read_words(data: bytes, at: int, order: str) -> Ints:
    """The 32-bit numbers at `at` bytes after each byte that has a header's size of bytes after it."""
    count = len(data) - _HEAD_SIZE + 1
    words = np.ndarray((count,), dtype=order + "u4", buffer=data, offset=at, strides=(1,))
    return words.astype(np.int64)
