"""IP fragments, put together again. Sources: RFC 791 section 3.2, RFC 8200 section 4.5.

What is kept is bounded in number, size and time; where two fragments overlap, the one that begins first counts.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from kwire.capture.values import Packet, Trouble

if TYPE_CHECKING:
    from collections.abc import Iterator

# How long a packet waits for its fragments, as systems do.
PATIENCE_NS = 30_000_000_000
# How many packets wait at once, and the size that none can exceed.
OPEN_MAX = 256
_TOTAL_MAX = 65_535
# The smallest MTU, of 68 bytes (RFC 791), makes fragments of 48; whoever cuts finer wants to keep a reader busy.
_PIECES_MAX = -(-_TOTAL_MAX // 48)
_TCP = 6

_Key = tuple[bytes, bytes, int, int]


class _Parts:
    """The fragments of one packet, by offset. `size` is what they had on the wire; the capture may keep less."""

    def __init__(self, packet: Packet) -> None:
        self.ts = packet.ts
        self.number = packet.number
        self.total: int | None = None
        self.size = 0
        self.pieces: dict[int, tuple[bytes, int]] = {}

    def add(self, offset: int, piece: bytes, size: int, *, is_last: bool) -> None:
        """One more; the first of two with one offset stays."""
        if offset not in self.pieces:
            self.pieces[offset] = piece, size
            self.size += size
        if is_last:
            self.total = offset + size

    def whole(self) -> tuple[bytes, int] | None:
        """What precedes the first byte that the capture did not keep, and the size on the wire; None while it lacks."""
        if self.total is None or self.size < self.total:
            return None
        out, at, is_kept = [], 0, True
        for offset, (piece, size) in sorted(self.pieces.items()):
            if offset > at:
                return None
            if is_kept and offset + size > at:
                out.append(piece[at - offset :])
                is_kept = len(piece) >= size
            at = max(at, offset + size)
        return (b"".join(out)[: self.total], self.total) if at >= self.total else None


class Fragments:
    """The packets of which some fragments were seen."""

    def __init__(self) -> None:
        self._open: dict[_Key, _Parts] = {}
        self.lost: list[Trouble] = []
        """Packets that were given up since the owner last emptied this list."""

    def ipv4(self, packet: Packet, at: int, start: int, stop: int) -> Packet | None:
        """The fragment whose header begins at `at`, with data from `start` to `stop`; the packet that it completes."""
        data = packet.data
        ident, flags = struct.unpack_from(">HH", data, at + 4)
        protocol = data[at + 9]
        key = (data[at + 12 : at + 16], data[at + 16 : at + 20], protocol, ident)
        whole = self._add(key, packet, (flags & 0x1FFF) * 8, (start, stop), is_last=not flags & 0x2000)
        if whole is None:
            return None
        payload, size = whole
        # A length that the field cannot tell is told by the packet's size, as for offloaded ones.
        total = 20 + size if 20 + size <= _TOTAL_MAX else 0
        head = struct.pack(">BBHHHBBH", 0x45, 0, total, ident, 0, 64, protocol, 0) + key[0] + key[1]
        return packet._replace(data=head + payload, size=len(head) + size)

    def ipv6(self, packet: Packet, addresses: tuple[bytes, bytes], start: int, stop: int) -> Packet | None:
        """The fragment whose fragment header begins at `start`; the packet that it completes."""
        protocol, field, ident = struct.unpack_from(">BxHI", packet.data, start)
        key = (*addresses, protocol, ident)
        whole = self._add(key, packet, field & 0xFFF8, (start + 8, stop), is_last=not field & 1)
        if whole is None:
            return None
        payload, size = whole
        head = struct.pack(">IHBB", 6 << 28, size, protocol, 64) + addresses[0] + addresses[1]
        return packet._replace(data=head + payload, size=len(head) + size)

    def close(self) -> Iterator[Trouble]:
        """What never became whole."""
        for key in list(self._open):
            self._give_up(key)
        yield from self.lost
        self.lost.clear()

    def _add(
        self, key: _Key, packet: Packet, offset: int, span: tuple[int, int], *, is_last: bool
    ) -> tuple[bytes, int] | None:
        self._forget(packet.ts)
        start, stop = span
        size = stop - start
        # Without data, or beyond what any packet holds, it is made to harm.
        if size <= 0 or offset + size > _TOTAL_MAX:
            self.lost.append(_trouble(packet.number, packet.ts, "a fragment reaches beyond the largest IP packet"))
            return None
        parts = self._open.setdefault(key, _Parts(packet))
        parts.add(offset, packet.data[start:stop], size, is_last=is_last)
        whole = parts.whole()
        if whole is not None:
            del self._open[key]
        elif parts.size > 2 * _TOTAL_MAX or len(parts.pieces) > _PIECES_MAX:
            self._give_up(key)
        return whole

    def _forget(self, now: int) -> None:
        while self._open:
            key, parts = next(iter(self._open.items()))
            if len(self._open) <= OPEN_MAX and now - parts.ts <= PATIENCE_NS:
                return
            self._give_up(key)

    def _give_up(self, key: _Key) -> None:
        parts = self._open.pop(key)
        # Other protocols are not read: whether their packets are whole is nobody's question.
        if key[2] == _TCP:
            self.lost.append(_trouble(parts.number, parts.ts, "not all fragments of an IP packet were captured"))


def _trouble(number: int, ts: int, detail: str) -> Trouble:
    return Trouble("ip_fragment", detail, number, ts)
