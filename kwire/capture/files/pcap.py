"""Reader of classic pcap files: one header, then packets. Source: draft-ietf-opsawg-pcap."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from kwire.capture.files.source import Reader
from kwire.capture.model import NO_PACKET, CaptureIssue, NoPacket, Packet

# Magic number -> (byte order, nanoseconds per unit of the fraction, size of a packet header).
# The last two are a variant of some old Linux systems, whose packet headers are 8 bytes longer.
MAGICS: dict[bytes, tuple[str, int, int]] = {
    b"\xa1\xb2\xc3\xd4": (">", 1000, 16),
    b"\xd4\xc3\xb2\xa1": ("<", 1000, 16),
    b"\xa1\xb2\x3c\x4d": (">", 1, 16),
    b"\x4d\x3c\xb2\xa1": ("<", 1, 16),
    b"\xa1\xb2\xcd\x34": (">", 1000, 24),
    b"\x34\xcd\xb2\xa1": ("<", 1000, 24),
}

# The "lcap" format of Ixia, by hardware and by software: the size of the rest follows the file header.
IXIA_MAGICS = {b"\x1c\x00\x01\xac": ">", b"\xac\x01\x00\x1c": "<", b"\x1c\x00\x01\xab": ">", b"\xab\x01\x00\x1c": "<"}

PACKET_SIZE_MAX = 16 * 1024 * 1024
MICROSECONDS = 1_000_000
"""Of a second: fractions in microseconds are smaller."""


class PcapLayout(NamedTuple):
    """A pcap file: byte order, nanoseconds per unit, size of a record header, offset of the captured size in it.

    is_ixia: whether the unit is nanoseconds from the first packet on whose fraction is no number of microseconds: some
    writers of this format count nanoseconds, and only the value shows it.
    """

    order: str
    unit: int
    header_size: int
    captured_at: int
    link: int = 0
    is_ixia: bool = False


def read_packets(reader: Reader, magic: bytes) -> Iterator[Packet | CaptureIssue | NoPacket]:
    """Yield the packets after the magic number, which the caller has read and found in `MAGICS` or `IXIA_MAGICS`."""
    layout = read_layout(reader, magic)
    if layout is None:
        yield CaptureIssue("file_truncated", reader.error or "the file ends inside its header", 0, 0)
        return
    yield from read_records(reader, layout)


def read_layout(reader: Reader, magic: bytes) -> PcapLayout | None:
    """Read the file header after the magic number; None if it is incomplete."""
    is_ixia = magic in IXIA_MAGICS
    order, unit, header_size = (IXIA_MAGICS[magic], 1000, 16) if is_ixia else MAGICS[magic]
    rest_size = 24 if is_ixia else 20
    head = reader.read(rest_size)
    if len(head) < rest_size:
        return None
    # The upper half of the field describes frame check sequences, the lower half is the link type.
    link = struct.unpack_from(order + "I", head, 16)[0] & 0xFFFF
    # Before version 2.3 the two lengths were in the opposite order.
    is_swapped = struct.unpack_from(order + "HH", head) in {(2, 0), (2, 1), (2, 2)}
    return PcapLayout(order, unit, header_size, 12 if is_swapped else 8, link, is_ixia)


def read_records(
    reader: Reader, layout: PcapLayout, number: int = 0, ts: int = 0
) -> Iterator[Packet | CaptureIssue | NoPacket]:
    """Yield the packets of the next records. Args: number, ts: of the packet before, if there is one."""
    order, unit, header_size, captured_at, link, is_ixia = layout
    unpack = struct.Struct(order + "IIII").unpack_from
    while True:
        if reader.may_wait(header_size):
            yield NO_PACKET
        head = reader.read(header_size)
        if not head:
            break
        number += 1
        if len(head) < header_size:
            detail = reader.error or f"the file ends inside the header of packet {number}"
            yield CaptureIssue("file_truncated", detail, number, ts)
            return
        seconds, fraction, stored, size = unpack(head)
        if captured_at == 12:
            stored, size = size, stored
        if is_ixia and fraction >= MICROSECONDS:
            unit = 1
        ts = seconds * 1_000_000_000 + fraction * unit
        if stored > PACKET_SIZE_MAX:
            detail = f"packet {number} claims {stored} bytes; the rest is not read"
            yield CaptureIssue("file_corrupt", detail, number, ts)
            return
        if reader.may_wait(stored):
            yield NO_PACKET
        data = reader.read(stored)
        if len(data) < stored:
            yield CaptureIssue("file_truncated", reader.error or f"the file ends inside packet {number}", number, ts)
            return
        yield Packet(number, ts, link, data, max(size, stored))
    if reader.error:
        yield CaptureIssue("file_truncated", reader.error, number, ts)
