"""The classic pcap file: one header, then packets. Source: draft-ietf-opsawg-pcap."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from kwire.capture.values import Packet, Trouble

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kwire.capture.source import Reader

# Magic number -> (byte order, nanoseconds per unit of the fraction, bytes of a packet's header).
# The last two are the variant of some old Linux systems, whose packet headers are 8 bytes longer.
MAGICS: dict[bytes, tuple[str, int, int]] = {
    b"\xa1\xb2\xc3\xd4": (">", 1000, 16),
    b"\xd4\xc3\xb2\xa1": ("<", 1000, 16),
    b"\xa1\xb2\x3c\x4d": (">", 1, 16),
    b"\x4d\x3c\xb2\xa1": ("<", 1, 16),
    b"\xa1\xb2\xcd\x34": (">", 1000, 24),
    b"\x34\xcd\xb2\xa1": ("<", 1000, 24),
}

# Ixia's "lcap", of hardware and of software: the file's header is followed by the size of all that follows it.
IXIA_MAGICS: dict[bytes, str] = {
    b"\x1c\x00\x01\xac": ">",
    b"\xac\x01\x00\x1c": "<",
    b"\x1c\x00\x01\xab": ">",
    b"\xab\x01\x00\x1c": "<",
}

PACKET_SIZE_MAX = 16 * 1024 * 1024


def packets(reader: Reader, magic: bytes) -> Iterator[Packet | Trouble]:
    """The packets after the magic number, which the caller has read and found in `MAGICS` or `IXIA_MAGICS`."""
    is_ixia = magic in IXIA_MAGICS
    order, unit, header_size = (IXIA_MAGICS[magic], 1000, 16) if is_ixia else MAGICS[magic]
    rest_size = 24 if is_ixia else 20
    head = reader.read(rest_size)
    if len(head) < rest_size:
        yield Trouble("file_truncated", reader.trouble or "the file ends inside its header", 0, 0)
        return
    # The upper half of the field tells about frame check sequences, the lower one is the link type.
    link = struct.unpack_from(order + "I", head, 16)[0] & 0xFFFF
    # Before version 2.3 the two lengths stood the other way round.
    is_swapped = struct.unpack_from(order + "HH", head) in {(2, 0), (2, 1), (2, 2)}
    unpack = struct.Struct(order + "IIII").unpack_from
    number = ts = 0
    while head := reader.read(header_size):
        number += 1
        if len(head) < header_size:
            detail = reader.trouble or f"the file ends inside the header of packet {number}"
            yield Trouble("file_truncated", detail, number, ts)
            return
        seconds, fraction, kept, size = unpack(head)
        if is_swapped:
            kept, size = size, kept
        if is_ixia and fraction >= 1_000_000:
            # Some of its writers count nanoseconds, and nothing but the fractions tells.
            unit = 1
        ts = seconds * 1_000_000_000 + fraction * unit
        if kept > PACKET_SIZE_MAX:
            yield Trouble("file_corrupt", f"packet {number} claims {kept} bytes; the rest is not read", number, ts)
            return
        data = reader.read(kept)
        if len(data) < kept:
            yield Trouble("file_truncated", reader.trouble or f"the file ends inside packet {number}", number, ts)
            return
        yield Packet(number, ts, link, data, max(size, kept))
    if reader.trouble:
        yield Trouble("file_truncated", reader.trouble, number, ts)
