"""Where the packets of a capture file lie: pcap and pcapng walked record by record, a span of the file at a time.

The walk itself is serial, and cheap; what records say is gathered afterwards, all at once.
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kwire.capture import blocks, pcap, pcapng
from kwire.capture.index.columns import read_at
from kwire.capture.index.heads import gather
from kwire.capture.keylog import KeyLog
from kwire.capture.packets import packets
from kwire.capture.values import CaptureError, Packet, Trouble

if TYPE_CHECKING:
    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]

# How much of the file is held at once: more than the largest packet.
SPAN_SIZE = 24 * 1024 * 1024
_U32_PAIR = {"<": struct.Struct("<II"), ">": struct.Struct(">II")}
_PCAP_HEAD = {order: struct.Struct(order + "IIII") for order in "<>"}
_ENHANCED, _SECTION = 6, 0x0A0D0D0A
_TS_MAX = 2**63 - 1


class NotIndexed(CaptureError):
    """The source has no index: packed, no regular file, or a file that is read only by the exact readers."""


class File:
    """Bytes by offset, from a path or from memory."""

    def __init__(self, source: str | os.PathLike[str] | bytes) -> None:
        """Open it. Raises: OSError; NotIndexed for what is no regular file."""
        self._data = source if isinstance(source, bytes) else None
        self._fd = -1
        if isinstance(source, bytes):
            self.size, self.mtime_ns = len(source), 0
            return
        # A pipe that is opened is a pipe begun: it is left to its reader.
        if not stat.S_ISREG(os.stat(source).st_mode):
            raise NotIndexed(f"{os.fspath(source)} is no regular file")
        self._fd = os.open(source, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        found = os.fstat(self._fd)
        self.size, self.mtime_ns = found.st_size, found.st_mtime_ns

    def read(self, at: int, size: int) -> bytes:
        """`size` bytes from offset `at`; fewer at the end."""
        if self._data is not None:
            return self._data[at : at + size]
        return read_at(self._fd, at, size)

    def close(self) -> None:
        """Give the file back."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> File:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass(slots=True)
class Span:
    """A stretch of the file and the packets in it, in their order. `at` and the like are offsets into `data`.

    number: of the packet in the file, from 1. ts: nanoseconds. at, kept: where its data begin, and how much there is.
    size: its length on the wire. link: its link type.
    """

    base: int
    data: bytes
    number: Ints
    ts: Ints
    at: Ints
    kept: Ints
    size: Ints
    link: Ints


@dataclass(slots=True)
class Walked:
    """What the walk leaves beside the packets."""

    packet_count: int = 0
    troubles: list[Trouble] = field(default_factory=list)
    secrets: list[str] = field(default_factory=list)
    may_have_secrets: bool = False


def spans(file: File, source: str | os.PathLike[str] | bytes, walked: Walked) -> Iterator[Span]:
    """The spans of the file. What is wrong with the file comes into `walked` at the end.

    Raises: NotIndexed when it is packed; CaptureError when it is no capture.
    """
    magic = file.read(0, 4)
    if magic in pcap.MAGICS:
        yield from _pcap(file, magic, walked)
    elif magic == pcapng.MAGIC:
        walked.may_have_secrets = True
        yield from _Pcapng(file, source, walked).spans()
    else:
        # Packed, or nothing that can be read: the exact reader knows, and says so.
        raise NotIndexed(f"neither pcap nor pcapng: the file begins with {magic.hex(' ') or 'nothing'}")


def _pcap(file: File, magic: bytes, walked: Walked) -> Iterator[Span]:
    order, unit, header_size = pcap.MAGICS[magic]
    head = file.read(4, 20)
    if len(head) < 20:
        walked.troubles.append(Trouble("file_truncated", "the file ends inside its header", 0, 0))
        return
    link = struct.unpack_from(order + "I", head, 16)[0] & 0xFFFF
    is_swapped = struct.unpack_from(order + "HH", head) in {(2, 0), (2, 1), (2, 2)}
    layout = _Layout(order, unit, header_size, 12 if is_swapped else 8)
    base, kind = 24, np.dtype(order + "u4")
    ts = 0
    while base < file.size:
        data = file.read(base, SPAN_SIZE)
        found, at, is_bad = _pcap_records(data, layout)
        offsets = np.array(found, dtype=np.int64)
        if len(found):
            heads = gather(data, offsets, 16).view(kind).astype(np.int64)
            stamps = heads[:, 0] * 1_000_000_000 + heads[:, 1] * unit
            kept, size = heads[:, layout.kept_at // 4], heads[:, 5 - layout.kept_at // 4]
            numbers = np.arange(walked.packet_count + 1, walked.packet_count + 1 + len(found), dtype=np.int64)
            links = np.full(len(found), link, dtype=np.int64)
            ts = int(stamps[-1])
            yield Span(base, data, numbers, stamps, offsets + header_size, kept, np.maximum(size, kept), links)
            walked.packet_count += len(found)
        if is_bad or at == 0 or base + len(data) >= file.size:
            trouble = _pcap_end(data[at:], layout, walked.packet_count + 1, ts)
            walked.troubles += [] if trouble is None else [trouble]
            return
        base += at


class _Layout(NamedTuple):
    """Of a pcap file: byte order, nanoseconds per unit, bytes of a record's header, where the kept size is in it."""

    order: str
    unit: int
    header_size: int
    kept_at: int


def _pcap_records(data: bytes, layout: _Layout) -> tuple[list[int], int, bool]:
    """Offsets of the whole records, where the first that is not whole begins, and whether that one is not believed."""
    order, _, header_size, kept_at = layout
    unpack = struct.Struct(order + "I").unpack_from
    found: list[int] = []
    append = found.append
    at, last = 0, len(data) - header_size
    end = len(data)
    limit = pcap.PACKET_SIZE_MAX
    while at <= last:
        (kept,) = unpack(data, at + kept_at)
        following = at + header_size + kept
        if following > end or kept > limit:
            return found, at, kept > limit
        append(at)
        at = following
    return found, at, False


def _pcap_end(rest: bytes, layout: _Layout, number: int, ts: int) -> Trouble | None:
    """What is wrong where the whole records end, as `pcap.packets` says it."""
    if not rest:
        return None
    if len(rest) < layout.header_size:
        return Trouble("file_truncated", f"the file ends inside the header of packet {number}", number, ts)
    fields = _PCAP_HEAD[layout.order].unpack_from(rest)
    ts, kept = fields[0] * 1_000_000_000 + fields[1] * layout.unit, fields[layout.kept_at // 4]
    if kept > pcap.PACKET_SIZE_MAX:
        return Trouble("file_corrupt", f"packet {number} claims {kept} bytes; the rest is not read", number, ts)
    return Trouble("file_truncated", f"the file ends inside packet {number}", number, ts)


class _Run(NamedTuple):
    """Enhanced packets that follow each other under one set of interfaces."""

    order: str
    interfaces: list[blocks.Interface]
    offsets: list[int]


class _Pcapng:
    """Walks blocks. Whatever is not an enhanced packet in good order is left to the exact reader."""

    def __init__(self, file: File, source: str | os.PathLike[str] | bytes, walked: Walked) -> None:
        self._file = file
        self._source = source
        self._walked = walked
        self._order = "<"
        self._interfaces: list[blocks.Interface] = []
        self._is_odd = False

    def spans(self) -> Iterator[Span]:
        """The packets; where anything is odd, the exact reader is asked once more for its troubles."""
        base = 0
        while base < self._file.size and not self._is_odd:
            data = self._file.read(base, SPAN_SIZE)
            runs, at = self._blocks(data)
            for run in runs:
                span = self._span(base, data, run)
                if span is not None:
                    yield span
            if at == 0 or (base + len(data) >= self._file.size and at < len(data)):
                self._is_odd = True
            base += at
        if self._is_odd or base > self._file.size:
            self._ask_exact()

    def _blocks(self, data: bytes) -> tuple[list[_Run], int]:
        runs: list[_Run] = []
        at, end = 0, len(data)
        offsets: list[int] = []
        unpack = _U32_PAIR[self._order].unpack_from
        while at + 12 <= end:
            kind, size = unpack(data, at)
            following = at + size
            if kind == _ENHANCED:
                if size < 32 or size & 3 or following > end:
                    self._is_odd = size < 32 or bool(size & 3) or size > pcapng._BLOCK_SIZE_MAX
                    break
                offsets.append(at)
                at = following
                continue
            if offsets:
                runs.append(_Run(self._order, list(self._interfaces), offsets))
                offsets = []
            is_section = kind == _SECTION
            if is_section and at + 16 > end:
                break
            if is_section:
                self._order = ">" if data[at + 8 : at + 12] == b"\x1a\x2b\x3c\x4d" else "<"
                unpack = _U32_PAIR[self._order].unpack_from
                size = unpack(data, at)[1]
                following = at + size
            if size < 12 or size & 3 or not self._other(kind, data, at, following):
                self._is_odd = True
                break
            if following > end:
                # Long blocks of other kinds are passed over, the rest of them by the next read.
                if kind in pcapng._READ and not is_section:
                    break
                return runs, following
            at = following
        if offsets:
            runs.append(_Run(self._order, list(self._interfaces), offsets))
        return runs, at

    def _other(self, kind: int, data: bytes, at: int, end: int) -> bool:
        """Take in a block that is no enhanced packet; False when only the exact reader can."""
        if kind == _SECTION:
            self._interfaces = []
            return data[at + 8 : at + 12] in {b"\x1a\x2b\x3c\x4d", b"\x4d\x3c\x2b\x1a"} and end - at >= 28
        if kind not in pcapng._READ or end > len(data):
            return True
        body = data[at + 8 : end - 4]
        if data[end - 4 : end] != data[at + 4 : at + 8]:
            return False
        try:
            if kind == pcapng.INTERFACE:
                self._interfaces.append(blocks.interface(body, self._order))
            elif kind == pcapng._SECRETS:
                label, size = struct.unpack_from(self._order + "II", body)
                if label == pcapng._TLS_KEY_LOG:
                    self._walked.secrets.append(body[8 : 8 + size].decode("latin-1"))
            elif kind == pcapng.STATISTICS:
                trouble = blocks.dropped(body, self._order, self._interfaces)
                self._walked.troubles += [] if trouble is None else [trouble]
            else:
                return False
        except struct.error:
            return False
        return len(self._interfaces) <= pcapng.INTERFACES_MAX

    def _span(self, base: int, data: bytes, run: _Run) -> Span | None:
        offsets = np.array(run.offsets, dtype=np.int64)
        kind = np.dtype(run.order + "u4")
        heads = gather(data, offsets, 28).view(kind).astype(np.int64)
        block_size, interface, kept, size = heads[:, 1], heads[:, 2], heads[:, 5], heads[:, 6]
        ends = gather(data, offsets + block_size - 4, 4).view(kind).astype(np.int64)[:, 0]
        is_good = (ends == block_size) & (interface < len(run.interfaces)) & (kept <= block_size - 32)
        if not bool(is_good.all()):
            self._is_odd = True
            count = int(np.argmin(is_good))
            if not count:
                return None
            offsets, heads, interface = offsets[:count], heads[:count], interface[:count]
            kept, size = kept[:count], size[:count]
        first = self._walked.packet_count + 1
        self._walked.packet_count += len(offsets)
        links = np.array([each.link for each in run.interfaces], dtype=np.int64)[interface]
        numbers = np.arange(first, first + len(offsets), dtype=np.int64)
        stamps = _times(heads[:, 3], heads[:, 4], interface, run.interfaces)
        return Span(base, data, numbers, stamps, offsets + 28, kept, np.maximum(size, kept), links)

    def _ask_exact(self) -> None:
        """The exact reader may find more packets behind what is odd: then there is no index of this file."""
        count = self._walked.packet_count
        troubles: list[Trouble] = []
        found = 0
        source = self._source
        for each in packets(source, KeyLog()):
            if isinstance(each, Packet):
                found += 1
            else:
                troubles.append(each)
        if found != count:
            raise NotIndexed("the file has blocks that are read one by one only")
        self._walked.troubles[:] = troubles


def _times(high: Ints, low: Ints, interface: Ints, interfaces: list[blocks.Interface]) -> Ints:
    """Nanoseconds of the interfaces' own clocks, exactly as `Interface.ns` has them."""
    out = np.zeros(len(high), dtype=np.int64)
    for index in np.unique(interface).tolist():
        own = interfaces[index]
        chosen = np.nonzero(interface == index)[0]
        ticks_high, ticks_low = high[chosen], low[chosen]
        factor, rest = divmod(1_000_000_000, own.per_second)
        limit = (2**62 // max(factor, 1)) >> 32
        if not rest and abs(own.offset) < 2**61 and bool((ticks_high < limit).all()):
            out[chosen] = np.maximum(((ticks_high << 32) | ticks_low) * factor + own.offset, 0)
        else:
            out[chosen] = [own.ns(*each) for each in zip(ticks_high.tolist(), ticks_low.tolist(), strict=True)]
    return out
