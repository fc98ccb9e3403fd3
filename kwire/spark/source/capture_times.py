"""The time span of a capture: exact from its index, else estimated from the packets at both ends of the file."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import BinaryIO, NamedTuple

from kwire.capture.files.packet_reader import read_packets
from kwire.capture.files.pcap import MAGICS
from kwire.capture.model import CaptureError, CaptureIssue, Packet

_HEAD_SIZE = 128 * 1024
# How many bytes of the file's end are searched for packets; the last size exceeds several of the longest packets.
_TAIL_SIZES = (64 * 1024, 1024 * 1024)
# The first packets of several interfaces or processors may be out of order.
_FIRST_PACKETS_MAX = 100
# By magic number: byte order and fractions per second, of formats with the standard 16-byte record header.
_PCAP = {magic: (order, 10**9 // unit) for magic, (order, unit, head_size) in MAGICS.items() if head_size == 16}
_PCAPNG = b"\x0a\x0d\x0d\x0a"
_PACKET_BLOCKS = (2, 3, 6)
_PACKET_SIZE_MAX = 256 * 1024
_RECORD_CHAIN_MIN = 3
_SPAN_MAX_S = 400 * 24 * 3600


class TimeSpan(NamedTuple):
    """The first and the last time, nanoseconds since 1970."""

    first: int
    last: int


def find_time_spans(files: Sequence[str], index: str | None, disorder: float | None) -> dict[str, TimeSpan]:
    """The time spans of those files for which they are available without reading the whole file.

    Args: index: where indexes are stored. disorder: by how many seconds packets of a file without an index may be out
        of order; None where no limit is known: then only indexes are used.
    """
    spans: dict[str, TimeSpan] = {}
    for file in files:
        span = None if index is None else _index_times(file, index)
        if span is None and disorder is not None and (ends := read_end_times(file)) is not None:
            slack = int(disorder * 10**9)
            span = TimeSpan(ends.first - slack, ends.last + slack)
        if span is not None:
            spans[file] = span
    return spans


def _index_times(file: str, cache: str) -> TimeSpan | None:
    from kwire.capture import index

    found = index.load_index(file, index.sidecar_path(file, cache), checks=False)
    return None if found is None or not found.packet_count else TimeSpan(found.first_ts, found.last_ts)


def read_end_times(file: str) -> TimeSpan | None:
    """The times of the packets at both ends of a capture; None where they cannot be read, as in a compressed file.

    Where packets are not in time order, packets outside this span may lie between the ends.
    """
    try:
        with open(file, "rb") as opened:
            head = opened.read(_HEAD_SIZE)
            firsts = list(_packet_times(islice(readable_packets(head), _FIRST_PACKETS_MAX)))
            lasts = next(filter(None, (_last_times(opened, head, size) for size in _TAIL_SIZES)), None)
    except OSError:
        return None
    if not firsts or not lasts or max(lasts) < min(firsts):
        return None
    return TimeSpan(min(firsts), max(*lasts, *firsts))


def _last_times(opened: BinaryIO, head: bytes, size: int) -> list[int]:
    """The times of the packets in the last `size` bytes of a file."""
    file_size = opened.seek(0, os.SEEK_END)
    opened.seek(max(file_size - size, 0))
    tail = opened.read(size)
    start = _find_tail_start(head, tail, is_whole=file_size <= size)
    if start is None:
        return []
    packets_and_issues = list(readable_packets(_preamble(head) + tail[start:]))
    # A packet of an interface that only the middle of the file describes has no known time resolution.
    is_corrupt = any(isinstance(item, CaptureIssue) and item.kind == "file_corrupt" for item in packets_and_issues)
    return [] if is_corrupt else list(_packet_times(packets_and_issues))


def first_packet_ts(path: str) -> int:
    """The time of the first packet, nanoseconds; 0 for a file that is no capture, or has no packets."""
    try:
        return next(iter(_packet_times(read_packets(path))), 0)
    except (CaptureError, FileNotFoundError):
        return 0


def readable_packets(data: bytes) -> Iterable[object]:
    """The packets of the first bytes of a capture, until these bytes end."""
    try:
        yield from read_packets(data)
    except CaptureError:
        return


def _packet_times(items: Iterable[object]) -> Iterable[int]:
    return (item.ts for item in items if isinstance(item, Packet))


def _preamble(head: bytes) -> bytes:
    """The bytes before the first packet: the header of pcap; the section header and interfaces of pcapng."""
    if head[:4] in _PCAP:
        return head[:24]
    order, at = _byte_order(head), 0
    while at + 8 <= len(head):
        kind, size = struct.unpack_from(order + "II", head, at)
        if kind in _PACKET_BLOCKS or size < 12:
            break
        at += size
    return head[:at]


def _find_tail_start(head: bytes, tail: bytes, *, is_whole: bool) -> int | None:
    """The offset of the first complete record in the end of a file; None where it cannot be found."""
    if head[:4] in _PCAP:
        return 24 if is_whole else _pcap_tail(head, tail)
    if head[:4] == _PCAPNG:
        return _pcapng_tail(head, tail, stop=len(_preamble(head)) if is_whole else 0)
    return None


def _pcap_tail(head: bytes, tail: bytes) -> int | None:
    """The first offset from which records follow each other up to the end of the file."""
    order, fraction_max = _PCAP[head[:4]]
    record = struct.Struct(order + "4I")
    if len(head) < 40:
        return None
    first_seconds = record.unpack_from(head, 24)[0]

    def next_of(at: int) -> int | None:
        if at + 16 > len(tail):
            return len(tail)  # The file ends inside a record's header.
        seconds, fraction, captured_length, length = record.unpack_from(tail, at)
        is_likely = (
            abs(seconds - first_seconds) <= _SPAN_MAX_S
            and fraction < fraction_max
            and captured_length <= min(length, _PACKET_SIZE_MAX)
        )
        return at + 16 + captured_length if is_likely else None

    for start in range(len(tail) - 16):
        at, count = next_of(start), 1
        while at is not None and at < len(tail):
            at, count = next_of(at), count + 1
        if at is not None and count >= _RECORD_CHAIN_MIN:
            return start
    return None


def _pcapng_tail(head: bytes, tail: bytes, *, stop: int) -> int | None:
    """Search backwards: a block has its length at its end too. The search stops with None at a new section."""
    order, at = _byte_order(head), len(tail)
    has_packets = False
    while at - 12 >= stop:
        (size,) = struct.unpack_from(order + "I", tail, at - 4)
        if size < 12 or size % 4 or size > at - stop:
            break
        kind, leading_size = struct.unpack_from(order + "II", tail, at - size)
        if leading_size != size or kind == struct.unpack("<I", _PCAPNG)[0]:
            return None
        at -= size
        has_packets = has_packets or kind in _PACKET_BLOCKS
    return at if has_packets else None


def _byte_order(head: bytes) -> str:
    return "<" if head[8:12] == b"\x4d\x3c\x2b\x1a" else ">"
