"""Where the packets of a capture file lie: walked record by record, a span of the file at a time.

The walk itself is serial, and cheap; what records say is gathered afterwards, all at once.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from kwire.capture import pcap, pcapng
from kwire.capture.index.files import File, NotIndexed
from kwire.capture.index.heads import gather
from kwire.capture.index.spans import SPAN_SIZE, Span, Walked
from kwire.capture.index.walk_pcapng import Pcapng
from kwire.capture.values import Trouble

_PCAP_HEAD = {order: struct.Struct(order + "IIII") for order in "<>"}


def spans(file: File, source: str | os.PathLike[str] | bytes, walked: Walked) -> Iterator[Span]:
    """The spans of the file. What is wrong with the file comes into `walked` at the end.

    Raises: NotIndexed when it is packed; CaptureError when it is no capture.
    """
    magic = file.read(0, 4)
    if magic in pcap.MAGICS:
        yield from _pcap(file, magic, walked)
    elif magic == pcapng.MAGIC:
        walked.may_have_secrets = True
        yield from Pcapng(file, source, walked).spans()
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
