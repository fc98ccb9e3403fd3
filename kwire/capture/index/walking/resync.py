"""A guess where a record of a capture begins, in the middle of its file: a place from which records follow each other.

A capture may be inside a packet of a capture. So what counts is not how many records follow, but how far: a chain that
begins inside a payload ends where its packet does, or leads into the records around it, and then one of those begins in
front of it. Still it is a guess, and whoever joins the ranges checks it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np

from kwire.capture import pcapng
from kwire.capture.pcap import PACKET_SIZE_MAX

if TYPE_CHECKING:
    import numpy.typing as npt

    from kwire.capture.index.walking.files import File
    from kwire.capture.index.walking.spans import Place

    Ints = npt.NDArray[np.int64]
    Bools = npt.NDArray[np.bool_]

# So far records must follow each other, or to the end of the file, and so many of them; more than a packet is long.
_CHAIN_SIZE = 512 * 1024
_CHAIN_COUNT = 4
# Places are tried in stretches of so many bytes.
_TRIED_SIZE = 256 * 1024
_HEAD_SIZE = 32
_HELD_SIZE = 16 * 1024
# Between the packets of one capture there is no more time than this.
_APART_S = 400 * 24 * 3600
_ENHANCED, _CUSTOM = 6, (0xBAD, 0x40000BAD)
# Longer packets are in no capture that a program writes by itself.
_PACKET_SIZE_LIKELY = 1 << 20


class Layout(NamedTuple):
    """Of a pcap file: byte order, nanoseconds per unit, bytes of a record's header, where the kept size is in it."""

    order: str
    unit: int
    header_size: int
    kept_at: int


def pcap_place(file: File, layout: Layout, first: Place, start: int, stop: int) -> Place | None:
    """Where the first record is between two offsets of a pcap file, as far as one can guess."""
    head = file.read(first.at, layout.header_size)
    if len(head) < layout.header_size:
        return None
    seconds = struct.unpack_from(layout.order + "I", head)[0]
    other_at = 20 - layout.kept_at
    fraction_max = 1_000_000_000 // layout.unit

    def likely(data: bytes) -> Bools:
        field = {at: _words(data, at, layout.order) for at in (0, 4, layout.kept_at, other_at)}
        kept, size = field[layout.kept_at], field[other_at]
        is_near = np.abs(field[0] - seconds) <= _APART_S
        is_sized = (kept <= size) & (kept <= _PACKET_SIZE_LIKELY) & (kept > 0)
        return cast("Bools", is_near & (field[4] < fraction_max) & is_sized)

    def following(head: bytes) -> int | None:
        if len(head) < layout.header_size:
            return None
        at, fraction = struct.unpack_from(layout.order + "II", head)
        kept, size = (struct.unpack_from(layout.order + "I", head, place)[0] for place in (layout.kept_at, other_at))
        is_likely = abs(at - seconds) <= _APART_S and fraction < fraction_max and kept <= min(size, PACKET_SIZE_MAX)
        return layout.header_size + kept if is_likely else None

    at = _found(file, start, stop, _Looks(likely, following, lambda at, size: True))
    return None if at is None else first._replace(at=at)


def pcapng_place(file: File, known: Place, start: int, stop: int) -> Place | None:
    """Where the first block is between two offsets of a pcapng file, as far as one can guess.

    Args: known: byte order and interfaces, as they are where nothing new is said in between.
    """
    order, count = known.order, len(known.interfaces)

    def likely(data: bytes) -> Bools:
        kind, size, interface, kept = (_words(data, at, order) for at in (0, 4, 8, 20))
        is_block = (kind == _ENHANCED) & (size >= 32) & (size % 4 == 0) & (size <= _PACKET_SIZE_LIKELY)
        return cast("Bools", is_block & (interface < count) & (kept <= size - 32))

    def following(head: bytes) -> int | None:
        if len(head) < 12:
            return None
        kind, size = struct.unpack_from(order + "II", head)
        if kind == _ENHANCED:
            interface, kept = (struct.unpack_from(order + "I", head.ljust(_HEAD_SIZE, b"\0"), at)[0] for at in (8, 20))
            is_likely = size >= 32 and interface < count and kept <= size - 32
        else:
            # Blocks of a kind that a file may have, and that are short.
            is_likely = (kind < 16 or kind in _CUSTOM) and 12 <= size < _PACKET_SIZE_LIKELY
        return size if is_likely and size % 4 == 0 and size <= pcapng._BLOCK_SIZE_MAX else None

    def whole(at: int, size: int) -> bool:
        return file.read(at + size - 4, 4) == struct.pack(order + "I", size)

    at = _found(file, start, stop, _Looks(likely, following, whole))
    return None if at is None else known._replace(at=at)


class _Looks(NamedTuple):
    """How records look.

    likely: for each byte with room for a head behind it, whether one may begin there. following: how long the record is
    that begins with these bytes; None where none does. whole: whether one of this place and size ends as it should.
    """

    likely: Callable[[bytes], Bools]
    following: Callable[[bytes], int | None]
    whole: Callable[[int, int], bool]


def _found(file: File, start: int, stop: int, looks: _Looks) -> int | None:
    base, chains = start, _Chains(file, looks)
    while base < stop:
        size = min(_TRIED_SIZE, stop - base)
        data = file.read(base, size + _HEAD_SIZE)
        if len(data) < _HEAD_SIZE:
            return None
        for place in np.nonzero(looks.likely(data)[:size])[0].tolist():
            if chains.follows(base + place):
                at = _outside(file, start, base + place, looks, chains)
                return at if at < stop else None
        base += size
    return None


def _outside(file: File, start: int, at: int, looks: _Looks, chains: _Chains) -> int:
    """The record behind the one, if any, that begins in front of `start` and has what is found at `at` inside it.

    Where a capture is inside a packet, and ends with it, its records are followed by those around it.
    """
    base = max(0, start - _TRIED_SIZE)
    data = file.read(base, start - base + _HEAD_SIZE)
    if len(data) < _HEAD_SIZE:
        return at
    ends = [at]
    for place in np.nonzero(looks.likely(data)[: start - base])[0].tolist():
        size = looks.following(data[place : place + _HEAD_SIZE])
        if size is not None and base + place + size > at and chains.follows(base + place):
            ends.append(base + place + size)
    return max(ends)


class _Chains:
    """Records that follow each other. Where chains meet, what is known of one is known of the other."""

    def __init__(self, file: File, looks: _Looks) -> None:
        self._file = file
        self._looks = looks
        self._known: dict[int, bool] = {}

    def follows(self, begin: int) -> bool:
        """Whether records follow each other from here on, for so long that they are hardly something else."""
        passed: list[int] = []
        found = self._walk(begin, passed)
        self._known.update(dict.fromkeys(passed, found))
        return found

    def _walk(self, begin: int, passed: list[int]) -> bool:
        file, at = self._file, begin
        held, base = b"", at
        while len(passed) < _CHAIN_COUNT or at - begin < _CHAIN_SIZE:
            if at in self._known:
                return self._known[at]
            if at == file.size:
                return bool(passed)
            if at + _HEAD_SIZE > base + len(held):
                held, base = file.read(at, _HELD_SIZE), at
            size = self._looks.following(held[at - base : at - base + _HEAD_SIZE])
            if size is None or at + size > file.size or not self._looks.whole(at, size):
                # A file may end inside a record, where nobody cut it.
                return size is not None and at + size > file.size and len(passed) >= _CHAIN_COUNT
            passed.append(at)
            at += size
        return True


def _words(data: bytes, at: int, order: str) -> Ints:
    """The numbers of 32 bits that begin `at` bytes behind each byte with room for a head."""
    count = len(data) - _HEAD_SIZE + 1
    found = np.ndarray((count,), dtype=order + "u4", buffer=data, offset=at, strides=(1,))
    return found.astype(np.int64)
