"""Parse the headers of all packets of a span at once: one strided gather for each layer, then columns of numbers.

Packets other than plain TCP over IPv4 or IPv6 (fragments, tunnels, extension headers, truncated or invalid packets) are
returned as unusual; `PacketDissector` reads them one by one.
"""

from __future__ import annotations

import struct
from typing import NamedTuple, cast

import numpy as np

from kwire.capture.index.arrays import NO_NUMBERS, Bools, Bytes, Ints, Words, concatenate_rows
from kwire.capture.index.scan.spans import Span
from kwire.capture.network.packet_copies import IDENTIFICATION_SHIFT
from kwire.capture.network.packet_dissector import LINKS
from kwire.capture.network.tunnels import CARRIERS, LENGTH_MAX, SHIMS, UDP_PORTS

_IPV4, _IPV6, _TCP, _UDP = 0x0800, 0x86DD, 6, 17
_VLANS = (0x8100, 0x88A8, 0x9100)
# ICMPv6: the one protocol after an IPv6 header that is neither TCP nor a protocol that can carry it.
_ICMPV6 = 58
_CARRIERS_V4 = tuple(CARRIERS)
_TUNNEL_PORTS = tuple(UDP_PORTS)
_SHIMS = tuple(SHIMS)
_IP_WIDTH = 60

LINK_NAMES = tuple(sorted(set(LINKS.values())))
_LINK_CODES = {number: LINK_NAMES.index(name) for number, name in LINKS.items()}


class PacketHeaders(NamedTuple):
    """The TCP packets of a span, in packet order, one row each; times in nanoseconds.

    ends: both endpoints as words of 64 bits, the smaller endpoint first. IPv4: ip << 16 | port in words 1 and 3. IPv6:
    the addresses in words 0 to 3, and both ports in word 4, whose top bit is set. side: 0 if the smaller endpoint sent
    the packet. at: file offset of the payload, or where it is stored if it arrived in IP fragments. captured: captured
    size of the payload. missing: bytes at its end that were not captured.
    """

    number: Ints
    ts: Ints
    link: Ints
    ends: Words
    side: Ints
    seq: Ints
    ack: Ints
    flags: Ints
    window: Ints
    at: Ints
    captured: Ints
    missing: Ints

    def select(self, chosen: Ints) -> PacketHeaders:
        """The rows with these indexes."""
        return PacketHeaders._make(column[chosen] for column in self)


def endpoint_words(source: tuple[bytes, int], target: tuple[bytes, int]) -> tuple[int, ...]:
    """The words of two endpoints, the smaller one given first."""
    (low, low_port), (high, high_port) = source, target
    if len(low) == 4:
        return 0, int.from_bytes(low, "big") << 16 | low_port, 0, int.from_bytes(high, "big") << 16 | high_port, 0
    words = struct.unpack(">QQQQ", low + high)
    return (*words, 1 << 63 | low_port << 16 | high_port)


def endpoints_of_words(words: tuple[int, ...]) -> tuple[tuple[bytes, int], tuple[bytes, int]]:
    """The two endpoints in these words, the smaller one first."""
    if not words[4] >> 63:
        low, high = words[1], words[3]
        return ((low >> 16).to_bytes(4, "big"), low & 0xFFFF), ((high >> 16).to_bytes(4, "big"), high & 0xFFFF)
    packed = struct.pack(">QQQQ", *words[:4])
    return (packed[:16], words[4] >> 16 & 0xFFFF), (packed[16:], words[4] & 0xFFFF)


class ScannedPackets(NamedTuple):
    """Headers, and the mark of each packet, as `make_mark` of `kwire.capture.network.packet_copies` returns it."""

    headers: PacketHeaders
    mark: Ints


NO_HEADERS = PacketHeaders._make([NO_NUMBERS] * 12)._replace(ends=np.zeros((0, 5), dtype=np.uint64))


def merge_packets(parts: list[ScannedPackets]) -> ScannedPackets:
    """Merge packets in their order."""
    parts = [part for part in parts if len(part.mark)] or parts[:1]
    if len(parts) == 1:
        return parts[0]
    whole = concatenate_rows(*parts)
    order = np.argsort(whole.headers.number, kind="stable")
    return ScannedPackets(whole.headers.select(order), whole.mark[order])


def parse_plain_packets(span: Span) -> tuple[ScannedPackets, Bools]:
    """The headers of plain TCP packets, and which of all packets are unusual."""
    kind, ip = _parse_link_layer(span)
    # Too close to the end of the span for a gather: only its last packet or two.
    has_space = ip + _IP_WIDTH <= len(span.data)
    is_ip = (kind == _IPV4) | (kind == _IPV6)
    is_unusual = (kind <= LENGTH_MAX) | np.isin(kind, _SHIMS) | (is_ip & ~has_space)
    parts = []
    for number, read in ((_IPV4, _parse_ipv4), (_IPV6, _parse_ipv6)):
        chosen = np.nonzero((kind == number) & has_space)[0]
        if len(chosen):
            unusual, headers = read(span, chosen, ip[chosen])
            is_unusual[chosen[unusual]] = True
            parts.append(headers)
    return merge_packets(parts or [ScannedPackets(NO_HEADERS, NO_NUMBERS)]), is_unusual


def _parse_link_layer(span: Span) -> tuple[Ints, Ints]:
    """By packet, the Ethernet type of its payload (-1 if the packet is unusual) and the payload's offset."""
    kind = np.full(len(span.at), -1, dtype=np.int64)
    at = span.at.copy()
    for number in np.unique(span.link).tolist():
        name = LINKS.get(number)
        chosen = np.nonzero(span.link == number)[0]
        begin, captured = span.at[chosen], span.captured[chosen]
        if name == "ethernet":
            kind[chosen], at[chosen] = _read_ethertype(span.data, begin, captured, 12)
        elif name == "linux_sll":
            kind[chosen], at[chosen] = _read_ethertype(span.data, begin, captured, 14)
        elif name == "linux_sll2":
            ethertype, _ = _read_ethertype(span.data, begin, captured, 0, depth=0)
            kind[chosen], at[chosen] = np.where(np.isin(ethertype, _VLANS), -1, ethertype), begin + 20
        elif name is not None:
            skip = 4 if name == "loopback" else 0
            is_captured = (captured > skip) & (begin + skip < len(span.data))
            version = np.frombuffer(span.data, dtype=np.uint8)[np.where(is_captured, begin + skip, 0)] >> 4
            ethertype = np.where(version == 4, _IPV4, np.where(version == 6, _IPV6, 0))
            kind[chosen], at[chosen] = np.where(is_captured, ethertype, -1), begin + skip
    return kind, at


def _read_ethertype(data: bytes, begin: Ints, captured: Ints, offset: int, depth: int = 2) -> tuple[Ints, Ints]:
    """By packet, the Ethernet type at this offset, after `depth` VLAN tags at most, and the offset of the payload."""
    flat = np.frombuffer(data, dtype=np.uint8)
    at = begin + offset
    is_captured = (captured >= offset + 2 + 4 * depth) & (at + 2 + 4 * depth <= len(data))
    safe = np.where(is_captured, at, 0)
    kind = flat[safe].astype(np.int64) << 8 | flat[safe + 1]
    for _ in range(depth):
        tagged = np.isin(kind, _VLANS)
        if not tagged.any():
            break
        safe = np.where(tagged, safe + 4, safe)
        kind = flat[safe].astype(np.int64) << 8 | flat[safe + 1]
    kind = np.where(is_captured & ~(np.isin(kind, _VLANS) if depth else np.False_), kind, -1)
    return kind, safe + 2


def _parse_ipv4(span: Span, chosen: Ints, ip: Ints) -> tuple[Bools, ScannedPackets]:
    rows = gather_bytes(span.data, ip, _IP_WIDTH)
    size = (rows[:, 0] & 15).astype(np.int64) * 4
    total = _read_u16(rows, 2)
    begin = span.at[chosen]
    stop = np.where(total > 0, ip + total, begin + span.size[chosen])
    protocol = rows[:, 9]
    is_captured = ip + size + 20 <= begin + span.captured[chosen]
    is_good = (rows[:, 0] >> 4 == 4) & (size >= 20) & is_captured & (total > 0) & (stop >= ip + size)
    is_whole = (_read_u16(rows, 6) & 0x3FFF) == 0
    is_not_tcp = is_good & ~np.isin(protocol, (_TCP, *_CARRIERS_V4))
    target_port = _read_u16_at(span.data, ip + np.where(is_good, size, 20) + 2)
    is_not_tcp |= is_good & is_whole & (protocol == _UDP) & ~np.isin(target_port, _TUNNEL_PORTS)
    is_tcp = is_good & is_whole & (protocol == _TCP)
    addresses = rows[:, 12:20].copy().view(">u4").astype(np.uint64)
    return _parse_tcp(span, _IpPackets(chosen, is_tcp, is_not_tcp, ip + size, stop, addresses, _read_u16(rows, 4)))


def _parse_ipv6(span: Span, chosen: Ints, ip: Ints) -> tuple[Bools, ScannedPackets]:
    rows = gather_bytes(span.data, ip, _IP_WIDTH)
    size = _read_u16(rows, 4)
    stop = ip + 40 + size
    protocol = rows[:, 6]
    captured_end = span.at[chosen] + span.captured[chosen]
    is_good = (size > 0) & (ip + 60 <= captured_end)
    is_not_tcp = is_good & (protocol == _ICMPV6)
    is_not_tcp |= is_good & (protocol == _UDP) & ~np.isin(_read_u16(rows, 42), _TUNNEL_PORTS)
    is_tcp = is_good & (protocol == _TCP)
    addresses = rows[:, 8:40].copy().view(">u8").astype(np.uint64)
    no_identification = np.zeros(len(ip), dtype=np.int64)
    return _parse_tcp(span, _IpPackets(chosen, is_tcp, is_not_tcp, ip + 40, stop, addresses, no_identification))


class _IpPackets(NamedTuple):
    """IP packets of one version: their indexes in the span; offset of the payload, and where it stops on the wire.

    addresses: of source and target; each is one column of 32 bits, or two of 64 bits for IPv6. identification: of
    IPv4, 0 for IPv6.
    """

    chosen: Ints
    is_tcp: Bools
    is_not_tcp: Bools
    at: Ints
    stop: Ints
    addresses: Words
    identification: Ints


def _parse_tcp(span: Span, ip_packets: _IpPackets) -> tuple[Bools, ScannedPackets]:
    """Which packets are unusual, and the headers of the other TCP packets."""
    chosen, is_tcp, is_not_tcp, at, stop, addresses, identification = ip_packets
    tcp = np.nonzero(is_tcp)[0]
    rows = gather_bytes(span.data, at[tcp], 20)
    size = (rows[:, 12] >> 4).astype(np.int64) * 4
    begin, end = at[tcp] + size, stop[tcp]
    is_good = (size >= 20) & (begin <= end)
    is_unusual = ~(is_tcp | is_not_tcp)
    is_unusual[tcp[~is_good]] = True
    tcp, rows, begin, end = tcp[is_good], rows[is_good], begin[is_good], end[is_good]
    packets = chosen[tcp]
    captured = np.maximum(np.minimum(end, span.at[packets] + span.captured[packets]) - begin, 0)
    ports = rows[:, 0:4].copy().view(">u2").astype(np.uint64)
    numbers = rows[:, 4:12].copy().view(">u4").astype(np.int64)
    side, ends = _order_endpoints(addresses.take(tcp, axis=0), ports[:, 0], ports[:, 1])
    codes = np.array([_LINK_CODES.get(each, 0) for each in range(max(_LINK_CODES) + 1)], dtype=np.int64)
    headers = PacketHeaders(
        number=span.number[packets],
        ts=span.ts[packets],
        link=codes[span.link[packets]],
        ends=ends,
        side=side,
        seq=numbers[:, 0],
        ack=numbers[:, 1],
        flags=rows[:, 13].astype(np.int64),
        window=_read_u16(rows, 14),
        at=begin + span.base,
        captured=captured,
        missing=end - begin - captured,
    )
    return is_unusual, ScannedPackets(headers, identification[tcp] << IDENTIFICATION_SHIFT | _read_u16(rows, 16))


def _order_endpoints(addresses: Words, source_port: Words, target_port: Words) -> tuple[Ints, Words]:
    """Which side sent each packet, and the words of its endpoints, the smaller endpoint first."""
    out = np.zeros((len(source_port), 5), dtype=np.uint64)
    if addresses.shape[1] == 2:
        shift = np.uint64(16)
        source, target = addresses[:, 0] << shift | source_port, addresses[:, 1] << shift | target_port
        out[:, 1], out[:, 3] = np.minimum(source, target), np.maximum(source, target)
        return (source > target).astype(np.int64), out
    source_0, source_1, target_0, target_1 = addresses.T
    is_same_0, is_same_1 = source_0 == target_0, source_1 == target_1
    side = (source_0 > target_0) | (is_same_0 & (source_1 > target_1))
    side |= is_same_0 & is_same_1 & (source_port > target_port)
    for index, (source, target) in enumerate(((source_0, target_0), (source_1, target_1))):
        out[:, index], out[:, 2 + index] = np.where(side, target, source), np.where(side, source, target)
    low, high = np.where(side, target_port, source_port), np.where(side, source_port, target_port)
    out[:, 4] = np.uint64(1 << 63) | low << np.uint64(16) | high
    return side.astype(np.int64), out


def gather_bytes(data: bytes, offsets: Ints, width: int) -> Bytes:
    """`width` bytes from each offset, as the rows of a matrix: one strided gather. All offsets must be in the data."""
    if not len(offsets):
        return np.zeros((0, width), dtype=np.uint8)
    windows = np.ndarray((len(data) - width + 1,), dtype=f"V{width}", buffer=data, strides=(1,))
    return cast("Bytes", windows[offsets].view(np.uint8).reshape(-1, width))


def _read_u16(rows: Bytes, at: int) -> Ints:
    return rows[:, at].astype(np.int64) << 8 | rows[:, at + 1]


def _read_u16_at(data: bytes, offsets: Ints) -> Ints:
    flat = np.frombuffer(data, dtype=np.uint8)
    safe = np.minimum(offsets, len(data) - 2)
    return cast("Ints", flat[safe].astype(np.int64) << 8 | flat[safe + 1])
