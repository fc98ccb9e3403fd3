"""Between which times a capture lies: exactly from its index, else from its two ends."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import BinaryIO, NamedTuple

from kwire.capture.packets import packets
from kwire.capture.values import CaptureError, Packet

_HEAD_SIZE = 128 * 1024
# The end of a file is looked for in so much of it; the last one is longer than some of the longest packets.
_TAIL_SIZES = (64 * 1024, 1024 * 1024)
# The first packets of several interfaces or processors may change places.
_FIRST_COUNT = 100
_PCAP = {
    b"\xd4\xc3\xb2\xa1": ("<", 10**6),
    b"\xa1\xb2\xc3\xd4": (">", 10**6),
    b"\x4d\x3c\xb2\xa1": ("<", 10**9),
    b"\xa1\xb2\x3c\x4d": (">", 10**9),
}
_PCAPNG = b"\x0a\x0d\x0d\x0a"
_PACKET_BLOCKS = (2, 3, 6)
_PACKET_SIZE_MAX = 256 * 1024
_CHAIN_COUNT = 3
_APART_S = 400 * 24 * 3600


class Span(NamedTuple):
    """The first and the last time, nanoseconds."""

    first: int
    last: int


def spans_of(files: Sequence[str], index: str | None, disorder: float | None) -> dict[str, Span]:
    """The times of those files of which they can be told without reading them.

    Args: index: where indexes are kept. disorder: by how many seconds packets may be out of order where there is no
        index; None where that is not known, and only indexes tell.
    """
    found: dict[str, Span] = {}
    for file in files:
        span = None if index is None else _from_index(file, index)
        if span is None and disorder is not None and (ends := from_ends(file)) is not None:
            slack = int(disorder * 10**9)
            span = Span(ends.first - slack, ends.last + slack)
        if span is not None:
            found[file] = span
    return found


def _from_index(file: str, cache: str) -> Span | None:
    from kwire.capture import index

    found = index.load(file, index.sidecar_of(file, cache), checks=False)
    return None if found is None or not found.packet_count else Span(found.first_ts, found.last_ts)


def from_ends(file: str) -> Span | None:
    """The times of the packets at both ends of a capture; None where they do not tell, as those of a packed one.

    Where packets lie in another order than that of their times, there may be others between the ends.
    """
    try:
        with open(file, "rb") as opened:
            head = opened.read(_HEAD_SIZE)
            firsts = list(_times(islice(packets_of(head), _FIRST_COUNT)))
            lasts = next(filter(None, (_lasts(opened, head, size) for size in _TAIL_SIZES)), None)
    except OSError:
        return None
    if not firsts or not lasts or max(lasts) < min(firsts):
        return None
    return Span(min(firsts), max(*lasts, *firsts))


def _lasts(opened: BinaryIO, head: bytes, size: int) -> list[int]:
    """The times of the packets in the last so many bytes of a file."""
    whole = opened.seek(0, os.SEEK_END)
    opened.seek(max(whole - size, 0))
    tail = opened.read(size)
    start = _tail_from(head, tail, is_whole=whole <= size)
    return [] if start is None else list(_times(packets_of(_preamble(head) + tail[start:])))


def packets_of(data: bytes) -> Iterable[object]:
    """The packets at the beginning of a capture, until what is there ends."""
    try:
        yield from packets(data)
    except CaptureError:
        return


def _times(found: Iterable[object]) -> Iterable[int]:
    return (each.ts for each in found if isinstance(each, Packet))


def _preamble(head: bytes) -> bytes:
    """What stands before the first packet: of pcap the header, of pcapng the section and its interfaces."""
    if head[:4] in _PCAP:
        return head[:24]
    order, at = _order_of(head), 0
    while at + 8 <= len(head):
        kind, size = struct.unpack_from(order + "II", head, at)
        if kind in _PACKET_BLOCKS or size < 12:
            break
        at += size
    return head[:at]


def _tail_from(head: bytes, tail: bytes, *, is_whole: bool) -> int | None:
    """Where the records begin of which the end of a file is a row; None where that cannot be told."""
    if head[:4] in _PCAP:
        return 24 if is_whole else _pcap_tail(head, tail)
    if head[:4] == _PCAPNG:
        return _pcapng_tail(head, tail, stop=len(_preamble(head)) if is_whole else 0)
    return None


def _pcap_tail(head: bytes, tail: bytes) -> int | None:
    """The first place from which records follow each other to the very end."""
    order, fraction_max = _PCAP[head[:4]]
    record = struct.Struct(order + "4I")
    if len(head) < 40:
        return None
    begun = record.unpack_from(head, 24)[0]

    def next_of(at: int) -> int | None:
        if at + 16 > len(tail):
            return len(tail)  # The file ends inside a record's header.
        seconds, fraction, kept, length = record.unpack_from(tail, at)
        is_likely = (
            abs(seconds - begun) <= _APART_S and fraction < fraction_max and kept <= min(length, _PACKET_SIZE_MAX)
        )
        return at + 16 + kept if is_likely else None

    for start in range(len(tail) - 16):
        at, count = next_of(start), 1
        while at is not None and at < len(tail):
            at, count = next_of(at), count + 1
        if at is not None and count >= _CHAIN_COUNT:
            return start
    return None


def _pcapng_tail(head: bytes, tail: bytes, *, stop: int) -> int | None:
    """Blocks tell their length at their end too, so that one can go backwards; a new section is not passed."""
    order, at = _order_of(head), len(tail)
    found = False
    while at - 12 >= stop:
        (size,) = struct.unpack_from(order + "I", tail, at - 4)
        if size < 12 or size % 4 or size > at - stop:
            break
        kind, same = struct.unpack_from(order + "II", tail, at - size)
        if same != size or kind == struct.unpack("<I", _PCAPNG)[0]:
            return None
        at -= size
        found = found or kind in _PACKET_BLOCKS
    return at if found else None


def _order_of(head: bytes) -> str:
    return "<" if head[8:12] == b"\x4d\x3c\x2b\x1a" else ">"
