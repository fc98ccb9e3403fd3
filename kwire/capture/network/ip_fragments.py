"""Reassembly of IP fragments. Sources: RFC 791 section 3.2, RFC 8200 section 4.5.

The buffered fragments are limited in number, size and time. Where fragments overlap, the one that begins first is used.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from kwire.capture.model import CaptureIssue, Packet

# How long a packet waits for its fragments, as in operating systems.
REASSEMBLY_TIMEOUT_NS = 30_000_000_000
# How many incomplete packets are buffered, and the largest size of an IP packet.
OPEN_MAX = 256
_TOTAL_MAX = 65_535
# The smallest MTU, 68 bytes (RFC 791), gives fragments of 48 bytes; smaller fragments are an attack.
_PIECES_MAX = -(-_TOTAL_MAX // 48)
_TCP = 6

_Key = tuple[bytes, bytes, int, int]


class _IncompletePacket:
    """The fragments of one packet, by offset. `size` is their size on the wire; the capture may have stored less."""

    def __init__(self, packet: Packet) -> None:
        self.ts = packet.ts
        self.number = packet.number
        self.total: int | None = None
        self.size = 0
        self.pieces: dict[int, tuple[bytes, int]] = {}

    def add_fragment(self, offset: int, piece: bytes, size: int, *, is_last: bool) -> None:
        """Add a fragment; of two with the same offset, the first is used."""
        if offset not in self.pieces:
            self.pieces[offset] = piece, size
            self.size += size
        if is_last:
            self.total = offset + size

    def reassemble(self) -> tuple[bytes, int] | None:
        """Return the data up to the first byte that the capture did not store, and the size on the wire.

        None if fragments are missing.
        """
        if self.total is None or self.size < self.total:
            return None
        chunks, at, is_stored = [], 0, True
        for offset, (piece, size) in sorted(self.pieces.items()):
            if offset > at:
                return None
            if is_stored and offset + size > at:
                chunks.append(piece[at - offset :])
                is_stored = len(piece) >= size
            at = max(at, offset + size)
        return (b"".join(chunks)[: self.total], self.total) if at >= self.total else None


class FragmentReassembler:
    """The packets of which some fragments were captured."""

    def __init__(self) -> None:
        self._open: dict[_Key, _IncompletePacket] = {}
        self.issues: list[CaptureIssue] = []
        """Incomplete packets that were discarded since the caller last cleared this list."""

    def add_ipv4_fragment(self, packet: Packet, at: int, start: int, stop: int) -> Packet | None:
        """Add the fragment whose header begins at `at`, data from `start` to `stop`; return the packet it completes."""
        data = packet.data
        ident, flags = struct.unpack_from(">HH", data, at + 4)
        protocol = data[at + 9]
        key = (data[at + 12 : at + 16], data[at + 16 : at + 20], protocol, ident)
        reassembled = self._add_fragment(key, packet, (flags & 0x1FFF) * 8, (start, stop), is_last=not flags & 0x2000)
        if reassembled is None:
            return None
        payload, size = reassembled
        # If the length exceeds the field, the packet size is used instead, as for offloaded packets.
        total = 20 + size if 20 + size <= _TOTAL_MAX else 0
        head = struct.pack(">BBHHHBBH", 0x45, 0, total, ident, 0, 64, protocol, 0) + key[0] + key[1]
        return packet._replace(data=head + payload, size=len(head) + size)

    def add_ipv6_fragment(self, packet: Packet, addresses: tuple[bytes, bytes], start: int, stop: int) -> Packet | None:
        """Add the fragment whose fragment header begins at `start`; return the packet that it completes."""
        protocol, field, ident = struct.unpack_from(">BxHI", packet.data, start)
        key = (*addresses, protocol, ident)
        reassembled = self._add_fragment(key, packet, field & 0xFFF8, (start + 8, stop), is_last=not field & 1)
        if reassembled is None:
            return None
        payload, size = reassembled
        head = struct.pack(">IHBB", 6 << 28, size, protocol, 64) + addresses[0] + addresses[1]
        return packet._replace(data=head + payload, size=len(head) + size)

    def close(self) -> Iterator[CaptureIssue]:
        """Discard and yield the incomplete packets."""
        for key in list(self._open):
            self._discard(key)
        yield from self.issues
        self.issues.clear()

    def _add_fragment(
        self, key: _Key, packet: Packet, offset: int, span: tuple[int, int], *, is_last: bool
    ) -> tuple[bytes, int] | None:
        self._discard_expired(packet.ts)
        start, stop = span
        size = stop - start
        # A fragment without data, or beyond the largest packet, is an attack.
        if size <= 0 or offset + size > _TOTAL_MAX:
            self.issues.append(_issue(packet.number, packet.ts, "a fragment reaches beyond the largest IP packet"))
            return None
        parts = self._open.setdefault(key, _IncompletePacket(packet))
        parts.add_fragment(offset, packet.data[start:stop], size, is_last=is_last)
        reassembled = parts.reassemble()
        if reassembled is not None:
            del self._open[key]
        elif parts.size > 2 * _TOTAL_MAX or len(parts.pieces) > _PIECES_MAX:
            self._discard(key)
        return reassembled

    def _discard_expired(self, now: int) -> None:
        while self._open:
            key, parts = next(iter(self._open.items()))
            if len(self._open) <= OPEN_MAX and now - parts.ts <= REASSEMBLY_TIMEOUT_NS:
                return
            self._discard(key)

    def _discard(self, key: _Key) -> None:
        parts = self._open.pop(key)
        # Only TCP is read, so only its incomplete packets are reported.
        if key[2] == _TCP:
            self.issues.append(_issue(parts.number, parts.ts, "not all fragments of an IP packet were captured"))


def _issue(number: int, ts: int, detail: str) -> CaptureIssue:
    return CaptureIssue("ip_fragment", detail, number, ts)
