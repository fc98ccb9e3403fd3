"""Where the packets of a pcap file lie: walked record by record, a span of the file at a time.

The walk itself is serial, and cheap; what records say is gathered afterwards, all at once.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from kwire.capture import pcap
from kwire.capture.index.walking.files import File
from kwire.capture.index.walking.heads import gather
from kwire.capture.index.walking.resync import Layout, pcap_place
from kwire.capture.index.walking.spans import Place, Span, Walked, read_size
from kwire.capture.values import Trouble

_HEAD = {order: struct.Struct(order + "IIII") for order in "<>"}
_FILE_HEAD_SIZE = 24


class _Step(NamedTuple):
    """What one read gave: the records that begin in it, by their offsets, and where the next one begins."""

    base: int
    data: bytes
    found: list[int]
    end: int


class Pcap:
    """The records of one file."""

    may_have_secrets = False

    def __init__(self, file: File, magic: bytes, span_size: int) -> None:
        """`magic` is one of `pcap.MAGICS`."""
        self._file = file
        self._span_size = span_size
        order, unit, header_size = pcap.MAGICS[magic]
        self._head = file.read(4, _FILE_HEAD_SIZE - 4)
        is_whole = len(self._head) == _FILE_HEAD_SIZE - 4
        head = self._head.ljust(_FILE_HEAD_SIZE - 4, b"\0")
        self._link = struct.unpack_from(order + "I", head, 16)[0] & 0xFFFF
        is_swapped = struct.unpack_from(order + "HH", head) in {(2, 0), (2, 1), (2, 2)}
        self.layout = Layout(order, unit, header_size, 12 if is_swapped else 8)
        self.first = Place(_FILE_HEAD_SIZE if is_whole else file.size)
        """Where the first record is."""

    def spans(self, stop: int, walked: Walked) -> Iterator[Span]:
        """The packets from where `walked` is, of records that begin before this offset, which is of the grid."""
        order, unit, header_size, kept_at = self.layout
        for base, data, found, end in self._steps(stop, walked):
            if not found:
                continue
            offsets = np.array(found, dtype=np.int64)
            heads = gather(data, offsets, 16).view(np.dtype(order + "u4")).astype(np.int64)
            stamps = heads[:, 0] * 1_000_000_000 + heads[:, 1] * unit
            kept, size = heads[:, kept_at // 4], heads[:, 5 - kept_at // 4]
            first = walked.packet_count + 1
            numbers = np.arange(first, first + len(found), dtype=np.int64)
            links = np.full(len(found), self._link, dtype=np.int64)
            walked.last_ts = int(stamps[-1])
            walked.packet_count += len(found)
            yield Span(base, data, end, numbers, stamps, offsets + header_size, kept, np.maximum(size, kept), links)

    def places(self, stops: list[int]) -> Iterator[Place]:
        """Where the first record is that does not begin before each of these offsets."""
        walked = Walked(self.first)
        for stop in stops:
            for _ in self._steps(stop, walked):
                pass
            yield walked.place

    def guess(self, start: int, stop: int) -> Place | None:
        """Where the first record between two offsets is, as far as one can tell without the walk; None for nowhere."""
        return pcap_place(self._file, self.layout, self.first, start, stop)

    def close(self, walked: Walked) -> None:
        """Say what is wrong where the whole records end, as `pcap.packets` says it."""
        if len(self._head) < _FILE_HEAD_SIZE - 4:
            walked.troubles.append(Trouble("file_truncated", "the file ends inside its header", 0, 0))
            return
        # What was written behind the end since then is none of it.
        if walked.place.at < self._file.size:
            rest = self._file.read(walked.place.at, self.layout.header_size)
            walked.troubles.append(self._end(rest, walked.packet_count + 1, walked.last_ts))

    def _steps(self, stop: int, walked: Walked) -> Iterator[_Step]:
        at, is_long = walked.place.at, False
        while at < min(stop, self._file.size) and not walked.is_ended:
            limit, size = read_size(at, self._span_size, is_long=is_long)
            data = self._file.read(at, size)
            found, end = _records(data, limit, self.layout)
            if not found and not is_long and len(data) == size:
                is_long = True
                continue
            walked.place, walked.is_ended, is_long = Place(at + end), not found, False
            yield _Step(at, data, found, end)
            at += end

    def _end(self, rest: bytes, number: int, ts: int) -> Trouble:
        if len(rest) < self.layout.header_size:
            return Trouble("file_truncated", f"the file ends inside the header of packet {number}", number, ts)
        fields = _HEAD[self.layout.order].unpack_from(rest)
        ts, kept = fields[0] * 1_000_000_000 + fields[1] * self.layout.unit, fields[self.layout.kept_at // 4]
        if kept > pcap.PACKET_SIZE_MAX:
            return Trouble("file_corrupt", f"packet {number} claims {kept} bytes; the rest is not read", number, ts)
        return Trouble("file_truncated", f"the file ends inside packet {number}", number, ts)


def _records(data: bytes, limit: int, layout: Layout) -> tuple[list[int], int]:
    """Offsets of the whole records that begin before the limit, and where the first begins that is not one of them."""
    order, _, header_size, kept_at = layout
    unpack = struct.Struct(order + "I").unpack_from
    found: list[int] = []
    append = found.append
    at, last = 0, min(len(data) - header_size, limit - 1)
    end = len(data)
    size_max = pcap.PACKET_SIZE_MAX
    while at <= last:
        (kept,) = unpack(data, at + kept_at)
        following = at + header_size + kept
        if following > end or kept > size_max:
            break
        append(at)
        at = following
    return found, at
