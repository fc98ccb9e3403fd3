"""Find packets that were captured twice, in columns, as `kwire.capture.network.packet_copies` finds them one by one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kwire.capture.index.arrays import NO_NUMBERS, Bools, Ints, Words, concatenate_rows
from kwire.capture.index.scan.packet_headers import PacketHeaders
from kwire.capture.model import CaptureIssue
from kwire.capture.network.packet_copies import (
    DISTANCE_MAX,
    IDENTIFICATION_SHIFT,
    MARKED_NS,
    SEQUENCE_FLAGS,
    UNMARKED_NS,
    copies_issue,
)

# Slots of the table that finds possible copies, for each packet.
_SLOTS_PER_PACKET = 8
# Odd factors of a multiplicative hash.
_FACTORS = [
    np.uint64(each) for each in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93)
]
# Where mark and window begin in the first word of `CopyKeys`; below them are the flags (8 bits) and the side.
_MARK_SHIFT, _WINDOW_SHIFT = 25, 9


class CopyKeys(NamedTuple):
    """What identifies packets, one row each: number and time, three words of the headers, and the endpoints.

    mark: with window, flags and side. sequence: with the acknowledgement. size: of the captured and missing payload.
    """

    number: Ints
    ts: Ints
    mark: Words
    sequence: Words
    size: Words
    ends: Words

    def select(self, chosen: Ints | Bools | slice) -> CopyKeys:
        """The rows with these indexes."""
        return CopyKeys._make(column[chosen] for column in self)

    def to_words(self) -> Words:
        """All columns as one, for a file."""
        *columns, ends = (column.astype(np.uint64) for column in self)
        return np.column_stack([*columns, ends]).reshape(-1)

    @classmethod
    def from_words(cls, words: Words) -> CopyKeys:
        """The rows that `to_words` returned."""
        rows = words.reshape(-1, 10)
        number, ts = (rows[:, column].astype(np.int64) for column in (0, 1))
        return cls(number, ts, rows[:, 2], rows[:, 3], rows[:, 4], rows[:, 5:])


_NO_WORDS: Words = np.zeros(0, dtype=np.uint64)
NO_KEYS = CopyKeys(NO_NUMBERS, NO_NUMBERS, _NO_WORDS, _NO_WORDS, _NO_WORDS, _NO_WORDS.reshape(0, 5))


def copy_keys(headers: PacketHeaders, marks: Ints) -> tuple[Ints, CopyKeys]:
    """The rows of packets that may have copies, and their keys. Args: marks: as `make_mark` returns them."""
    has_sequence = (headers.captured + headers.missing > 0) | (headers.flags & SEQUENCE_FLAGS > 0)
    rows = np.nonzero((marks >> IDENTIFICATION_SHIFT > 0) | ((marks >= 0) & has_sequence))[0]
    chosen, mark = headers.select(rows), marks[rows]
    return rows, CopyKeys(
        chosen.number,
        chosen.ts,
        (mark << _MARK_SHIFT | chosen.window << _WINDOW_SHIFT | chosen.flags << 1 | chosen.side).astype(np.uint64),
        (chosen.seq << 32 | chosen.ack).astype(np.uint64),
        (chosen.captured << 32 | chosen.missing).astype(np.uint64),
        chosen.ends,
    )


def find_copies(keys: CopyKeys) -> Bools:
    """Which packets are copies of one before them. Args: keys: in packet order."""
    is_copy = np.zeros(len(keys.number), dtype=np.bool_)
    hashes = _hash(keys)
    rows = _possible_copies(hashes)
    rows = rows[np.argsort(hashes[rows], kind="stable")]
    before, after = rows[:-1], rows[1:]
    is_equal = (keys.ends[before] == keys.ends[after]).all(axis=1)
    for column in (keys.mark, keys.sequence, keys.size):
        is_equal &= column[before] == column[after]
    identification = keys.mark[after] >> np.uint64(_MARK_SHIFT + IDENTIFICATION_SHIFT)
    time_max = np.where(identification > 0, MARKED_NS, UNMARKED_NS)
    is_equal &= keys.number[after] - keys.number[before] <= DISTANCE_MAX
    is_equal &= np.abs(keys.ts[after] - keys.ts[before]) <= time_max
    is_copy[after[is_equal]] = True
    return is_copy


def latest_keys(keys: CopyKeys, number: int) -> CopyKeys:
    """The keys of packets of which one after this number may be a copy."""
    return keys.select(slice(int(np.searchsorted(keys.number, number - DISTANCE_MAX, "right")), None))


def _hash(keys: CopyKeys) -> Words:
    ends = keys.ends[:, 0] ^ keys.ends[:, 2] * _FACTORS[3] ^ keys.ends[:, 1] ^ keys.ends[:, 3] * _FACTORS[1]
    hashes = keys.mark * _FACTORS[0] ^ keys.sequence * _FACTORS[1] ^ keys.size * _FACTORS[2]
    hashes ^= (ends ^ keys.ends[:, 4]) * _FACTORS[3]
    mixed: Words = (hashes ^ hashes >> np.uint64(29)) * _FACTORS[0]
    return mixed


def _possible_copies(hashes: Words) -> Ints:
    """The packets whose hash is probably that of another one, in their order."""
    bits = max(len(hashes) * _SLOTS_PER_PACKET, 2).bit_length()
    slots = (hashes >> np.uint64(64 - bits)).astype(np.int64)
    # Of several packets in one slot, the table has one.
    table = np.zeros(1 << bits, dtype=np.int32)
    places = np.arange(len(hashes), dtype=np.int32)
    table[slots] = places
    is_shared = np.zeros(1 << bits, dtype=np.bool_)
    is_shared[slots[table[slots] != places]] = True
    return np.nonzero(is_shared[slots])[0]


class CopyFinder:
    """Finds the copies among the packets of a file, span by span, and counts them.

    head, latest: the keys of packets that may be copies of packets of a range before, and may have copies in the next.
    """

    def __init__(self) -> None:
        """No packet was read yet."""
        self.head = self.latest = NO_KEYS
        self._first = (0, 0)
        self._count = 0

    def drop_copies(self, headers: PacketHeaders, marks: Ints) -> PacketHeaders:
        """The packets of a span that are no copies. Args: marks: as `make_mark` returns them."""
        if not len(headers.number):
            return headers
        rows, new = copy_keys(headers, marks)
        if len(new.number) and new.number[0] <= DISTANCE_MAX:
            self.head = concatenate_rows(self.head, new.select(new.number <= DISTANCE_MAX))
        keys = concatenate_rows(self.latest, new)
        copies = rows[find_copies(keys)[len(self.latest.number) :]]
        self.latest = latest_keys(keys, int(headers.number[-1]))
        if not len(copies):
            return headers
        if not self._count:
            self._first = int(headers.number[copies[0]]), int(headers.ts[copies[0]])
        self._count += len(copies)
        is_kept = np.ones(len(headers.number), dtype=np.bool_)
        is_kept[copies] = False
        return headers.select(np.nonzero(is_kept)[0])

    def close(self) -> list[CaptureIssue]:
        """An issue with the number of copies, if there are any."""
        return [copies_issue(*self._first, self._count)] if self._count else []
