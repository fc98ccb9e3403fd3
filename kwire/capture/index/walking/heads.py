"""The headers of all packets of a span at once: one strided gather for each layer, then columns of numbers.

What is not plain IPv4 or IPv6 with TCP (fragments, tunnels, extension headers, whatever is cut or odd) is left to the
exact function of `kwire.capture.ip`, packet by packet.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np

from kwire.capture.ip import LINKS
from kwire.capture.tunnels import CARRIERS, LENGTH_MAX, SHIMS, UDP_PORTS

if TYPE_CHECKING:
    import numpy.typing as npt

    from kwire.capture.index.walking.spans import Span

    Ints = npt.NDArray[np.int64]
    Bytes = npt.NDArray[np.uint8]
    Bools = npt.NDArray[np.bool_]

_IPV4, _IPV6, _TCP, _UDP = 0x0800, 0x86DD, 6, 17
_VLANS = (0x8100, 0x88A8, 0x9100)
_VLAN_DEPTH = 2
# Protocols behind IPv6 that are neither TCP nor anything that carries it: ICMPv6.
_NOTHING_V6 = 58
_CARRIERS_V4 = tuple(CARRIERS)
_TUNNEL_PORTS = tuple(UDP_PORTS)
_SHIMS = tuple(SHIMS)
_IP_WIDTH = 60

LINK_NAMES = tuple(sorted(set(LINKS.values())))
_LINK_CODES = {number: LINK_NAMES.index(name) for number, name in LINKS.items()}


class Heads(NamedTuple):
    """The TCP packets of a span, in packet order, one row each; times in nanoseconds.

    ends: the two addresses with ports as words of 64 bits, the smaller end first: v4 has ip << 16 | port in words 1
    and 3; v6 has them in words 0 to 3, and both ports in word 4, whose top bit is set. side: 0 when the smaller end
    sent it.
    at: where the payload begins in the file, or -1 - n for the n-th of `loose`. kept: how much of it there is.
    missing: how much of its end was not kept.
    """

    number: Ints
    ts: Ints
    link: Ints
    ends: npt.NDArray[np.uint64]
    side: Ints
    seq: Ints
    ack: Ints
    flags: Ints
    window: Ints
    at: Ints
    kept: Ints
    missing: Ints

    def of(self, chosen: Ints) -> Heads:
        """Some of them."""
        return self._replace(**{name: getattr(self, name)[chosen] for name in self._fields})


def end_words(source: tuple[bytes, int], target: tuple[bytes, int]) -> tuple[int, ...]:
    """The words of two ends, the smaller one given first."""
    (low, low_port), (high, high_port) = source, target
    if len(low) == 4:
        return 0, int.from_bytes(low, "big") << 16 | low_port, 0, int.from_bytes(high, "big") << 16 | high_port, 0
    words = struct.unpack(">QQQQ", low + high)
    return (*words, 1 << 63 | low_port << 16 | high_port)


def ends_of(words: tuple[int, ...]) -> tuple[tuple[bytes, int], tuple[bytes, int]]:
    """The two ends that the words tell, the smaller one first."""
    if not words[4] >> 63:
        low, high = words[1], words[3]
        return ((low >> 16).to_bytes(4, "big"), low & 0xFFFF), ((high >> 16).to_bytes(4, "big"), high & 0xFFFF)
    packed = struct.pack(">QQQQ", *words[:4])
    return (packed[:16], words[4] >> 16 & 0xFFFF), (packed[16:], words[4] & 0xFFFF)


def made_heads(first: list[Ints], ends: npt.NDArray[np.uint64], rest: list[Ints]) -> Heads:
    """Heads of the columns in front of `ends`, and of those behind it."""
    number, ts, link = first
    side, seq, ack, flags, window, at, kept, missing = rest
    return Heads(number, ts, link, ends, side, seq, ack, flags, window, at, kept, missing)


def merged(parts: list[Heads]) -> Heads:
    """All of them, in the order of the packets."""
    parts = [each for each in parts if len(each.number)] or parts[:1]
    if len(parts) == 1:
        return parts[0]
    whole = [np.concatenate(columns) for columns in zip(*parts, strict=True)]
    order = np.argsort(whole[0], kind="stable")
    return Heads(*(column[order] for column in whole))


def plain(span: Span) -> tuple[Heads, Bools]:
    """The plain packets, and which of all packets are for the exact function."""
    kind, ip = _network(span)
    count = len(ip)
    is_odd = np.zeros(count, dtype=np.bool_)
    # Near the end of the span there is no room to gather; that is its last packet or two.
    room = ip + _IP_WIDTH <= len(span.data)
    is_ip = (kind == _IPV4) | (kind == _IPV6)
    is_odd |= (kind <= LENGTH_MAX) | np.isin(kind, _SHIMS)
    is_odd |= is_ip & ~room
    parts = []
    for number, read in ((_IPV4, _v4), (_IPV6, _v6)):
        chosen = np.nonzero((kind == number) & room)[0]
        if len(chosen):
            odd, heads = read(span, chosen, ip[chosen])
            is_odd[chosen[odd]] = True
            parts.append(heads)
    if not parts:
        nothing = np.zeros(0, dtype=np.int64)
        return made_heads([nothing] * 3, np.zeros((0, 5), dtype=np.uint64), [nothing] * 8), is_odd
    return merged(parts), is_odd


def _network(span: Span) -> tuple[Ints, Ints]:
    """What each packet's link layer carries (its Ethernet type; -1 where the exact function must look) and where."""
    kind = np.full(len(span.at), -1, dtype=np.int64)
    at = span.at.copy()
    for number in np.unique(span.link).tolist():
        name = LINKS.get(number)
        chosen = np.nonzero(span.link == number)[0]
        begin, kept = span.at[chosen], span.kept[chosen]
        if name == "ethernet":
            kind[chosen], at[chosen] = _ethertype(span.data, begin, kept, 12)
        elif name == "linux_sll":
            kind[chosen], at[chosen] = _ethertype(span.data, begin, kept, 14)
        elif name == "linux_sll2":
            own, _ = _ethertype(span.data, begin, kept, 0, depth=0)
            kind[chosen], at[chosen] = np.where(np.isin(own, _VLANS), -1, own), begin + 20
        elif name is not None:
            skip = 4 if name == "loopback" else 0
            can = (kept > skip) & (begin + skip < len(span.data))
            first = np.frombuffer(span.data, dtype=np.uint8)[np.where(can, begin + skip, 0)] >> 4
            own = np.where(first == 4, _IPV4, np.where(first == 6, _IPV6, 0))
            kind[chosen], at[chosen] = np.where(can, own, -1), begin + skip
    return kind, at


def _ethertype(data: bytes, begin: Ints, kept: Ints, offset: int, depth: int = _VLAN_DEPTH) -> tuple[Ints, Ints]:
    """The protocol number at this offset of each packet, past VLAN tags, and where what it names begins."""
    flat = np.frombuffer(data, dtype=np.uint8)
    at = begin + offset
    can = (kept >= offset + 2 + 4 * depth) & (at + 2 + 4 * depth <= len(data))
    safe = np.where(can, at, 0)
    kind = flat[safe].astype(np.int64) << 8 | flat[safe + 1]
    for _ in range(depth):
        tagged = np.isin(kind, _VLANS)
        if not tagged.any():
            break
        safe = np.where(tagged, safe + 4, safe)
        kind = flat[safe].astype(np.int64) << 8 | flat[safe + 1]
    kind = np.where(can & ~(np.isin(kind, _VLANS) if depth else np.False_), kind, -1)
    return kind, safe + 2


def _v4(span: Span, chosen: Ints, ip: Ints) -> tuple[Bools, Heads]:
    rows = gather(span.data, ip, _IP_WIDTH)
    size = (rows[:, 0] & 15).astype(np.int64) * 4
    total = _u16(rows, 2)
    begin = span.at[chosen]
    stop = np.where(total > 0, ip + total, begin + span.size[chosen])
    protocol = rows[:, 9]
    kept_end = begin + span.kept[chosen]
    is_good = (rows[:, 0] >> 4 == 4) & (size >= 20) & (ip + size + 20 <= kept_end) & (total > 0) & (stop >= ip + size)
    is_whole = (_u16(rows, 6) & 0x3FFF) == 0
    is_nothing = is_good & ~np.isin(protocol, (_TCP, *_CARRIERS_V4))
    target_port = _u16_at(span.data, ip + np.where(is_good, size, 20) + 2)
    is_nothing |= is_good & is_whole & (protocol == _UDP) & ~np.isin(target_port, _TUNNEL_PORTS)
    is_tcp = is_good & is_whole & (protocol == _TCP)
    low_high = rows[:, 12:20].copy().view(">u4").astype(np.uint64)
    words = (np.zeros(len(ip), dtype=np.uint64), low_high[:, 0], np.zeros(len(ip), dtype=np.uint64), low_high[:, 1])
    return _tcp(span, _Found(chosen, is_tcp, is_nothing, ip + size, stop), words, is_v6=False)


def _v6(span: Span, chosen: Ints, ip: Ints) -> tuple[Bools, Heads]:
    rows = gather(span.data, ip, _IP_WIDTH)
    size = _u16(rows, 4)
    stop = ip + 40 + size
    protocol = rows[:, 6]
    kept_end = span.at[chosen] + span.kept[chosen]
    is_good = (size > 0) & (ip + 60 <= kept_end)
    is_nothing = is_good & (protocol == _NOTHING_V6)
    is_nothing |= is_good & (protocol == _UDP) & ~np.isin(_u16(rows, 42), _TUNNEL_PORTS)
    is_tcp = is_good & (protocol == _TCP)
    packed = rows[:, 8:40].copy().view(">u8").astype(np.uint64)
    words = (packed[:, 0], packed[:, 1], packed[:, 2], packed[:, 3])
    return _tcp(span, _Found(chosen, is_tcp, is_nothing, ip + 40, stop), words, is_v6=True)


class _Found(NamedTuple):
    """IP packets of one version: `chosen` of the span, what they carry, where that begins and, on the wire, stops."""

    chosen: Ints
    is_tcp: Bools
    is_nothing: Bools
    at: Ints
    stop: Ints


def _tcp(span: Span, found: _Found, words: tuple[npt.NDArray[np.uint64], ...], *, is_v6: bool) -> tuple[Bools, Heads]:
    """The TCP headers of the packets, and which of them are for the exact function."""
    chosen, is_tcp, is_nothing, at, stop = found
    mine = np.nonzero(is_tcp)[0]
    rows = gather(span.data, at[mine], 20)
    size = (rows[:, 12] >> 4).astype(np.int64) * 4
    begin, end = at[mine] + size, stop[mine]
    is_good = (size >= 20) & (begin <= end)
    is_odd = ~(is_tcp | is_nothing)
    is_odd[mine[~is_good]] = True
    mine, rows, begin, end = mine[is_good], rows[is_good], begin[is_good], end[is_good]
    packets = chosen[mine]
    kept = np.maximum(np.minimum(end, span.at[packets] + span.kept[packets]) - begin, 0)
    ports = rows[:, 0:4].copy().view(">u2").astype(np.uint64)
    numbers = rows[:, 4:12].copy().view(">u4").astype(np.int64)
    side, ends = _ends(tuple(word[mine] for word in words), ports[:, 0], ports[:, 1], is_v6=is_v6)
    codes = np.array([_LINK_CODES.get(each, 0) for each in range(max(_LINK_CODES) + 1)], dtype=np.int64)
    return is_odd, Heads(
        number=span.number[packets],
        ts=span.ts[packets],
        link=codes[span.link[packets]],
        ends=ends,
        side=side,
        seq=numbers[:, 0],
        ack=numbers[:, 1],
        flags=rows[:, 13].astype(np.int64),
        window=_u16(rows, 14),
        at=begin + span.base,
        kept=kept,
        missing=end - begin - kept,
    )


def _ends(
    words: tuple[npt.NDArray[np.uint64], ...],
    source_port: npt.NDArray[np.uint64],
    target_port: npt.NDArray[np.uint64],
    *,
    is_v6: bool,
) -> tuple[Ints, npt.NDArray[np.uint64]]:
    """Which side sent each packet, and the words of its ends, the smaller end first."""
    source_0, source_1, target_0, target_1 = words
    out = np.zeros((len(source_port), 5), dtype=np.uint64)
    if not is_v6:
        shift = np.uint64(16)
        source, target = source_1 << shift | source_port, target_1 << shift | target_port
        out[:, 1], out[:, 3] = np.minimum(source, target), np.maximum(source, target)
        return (source > target).astype(np.int64), out
    is_same_0, is_same_1 = source_0 == target_0, source_1 == target_1
    side = (source_0 > target_0) | (is_same_0 & (source_1 > target_1))
    side |= is_same_0 & is_same_1 & (source_port > target_port)
    for index, (own, other) in enumerate(((source_0, target_0), (source_1, target_1))):
        out[:, index], out[:, 2 + index] = np.where(side, other, own), np.where(side, own, other)
    low, high = np.where(side, target_port, source_port), np.where(side, source_port, target_port)
    out[:, 4] = np.uint64(1 << 63) | low << np.uint64(16) | high
    return side.astype(np.int64), out


def gather(data: bytes, offsets: Ints, width: int) -> Bytes:
    """`width` bytes from each offset, as the rows of a matrix: one strided gather. All of them lie inside the data."""
    if not len(offsets):
        return np.zeros((0, width), dtype=np.uint8)
    every = np.ndarray((len(data) - width + 1,), dtype=f"V{width}", buffer=data, strides=(1,))
    return cast("Bytes", every[offsets].view(np.uint8).reshape(-1, width))


def _u16(rows: Bytes, at: int) -> Ints:
    return rows[:, at].astype(np.int64) << 8 | rows[:, at + 1]


def _u16_at(data: bytes, offsets: Ints) -> Ints:
    flat = np.frombuffer(data, dtype=np.uint8)
    safe = np.minimum(offsets, len(data) - 2)
    return cast("Ints", flat[safe].astype(np.int64) << 8 | flat[safe + 1])
