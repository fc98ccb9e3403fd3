"""Captures that the index must read as the generators do: each format, link and kind of damage there is a maker for."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from pathlib import Path

from tests.kwire.capture.wire import (
    CAPTURES,
    Wire,
    as_ipv6,
    block,
    enhanced,
    interface,
    ip_packets,
    option,
    pcap,
    section,
)

FILES = sorted(CAPTURES.glob("*.pcap"))

_ETHERNET = bytes(12) + b"\x08\x00"


def made() -> dict[str, bytes]:
    """Captures by what is special about them."""
    wires = ip_packets()
    return {
        "ethernet": pcap(wires, link=1, before=_ETHERNET),
        "vlan": pcap(wires, link=1, before=bytes(12) + b"\x81\x00\x00\x07\x08\x00"),
        "three VLANs": pcap(
            wires, link=1, before=bytes(12) + b"\x88\xa8\x00\x07" + b"\x81\x00\x00\x07" * 2 + b"\x08\x00"
        ),
        "sll": pcap(wires, link=113, before=bytes(14) + b"\x08\x00"),
        "sll2": pcap(wires, link=276, before=b"\x08\x00" + bytes(18)),
        "loopback": pcap(wires, link=0, before=b"\x02\x00\x00\x00"),
        "raw": pcap(wires),
        "unknown link": pcap(wires, link=147),
        "big-endian nanoseconds": pcap(wires, order=">", nanoseconds=True),
        "ipv6": pcap([each._replace(packet=as_ipv6(each.packet)) for each in wires]),
        "ipv6 with extensions": pcap(
            [each._replace(packet=as_ipv6(each.packet, b"\x06\x00" + bytes(6), 0)) for each in wires]
        ),
        "ipv4 with options": pcap([each._replace(packet=_with_options(each.packet)) for each in wires]),
        "offloaded": pcap([each._replace(packet=each.packet[:2] + b"\0\0" + each.packet[4:]) for each in wires]),
        "gre": pcap([each._replace(packet=_in_gre(each.packet)) for each in wires]),
        "fragments": pcap([piece for each in wires for piece in fragments(each)]),
        "udp among it": pcap([piece for each in wires for piece in (each, _udp(each))]),
        "arp among it": pcap(wires, link=1, before=bytes(12) + b"\x08\x06"),
        "pcapng": _pcapng(wires, "<"),
        "pcapng, big-endian": _pcapng(wires, ">"),
        "pcapng with blocks between packets": pcapng_with_blocks(wires, "<"),
        "pcapng with blocks between packets, big-endian": pcapng_with_blocks(wires, ">"),
        "pcapng of two sections": _pcapng(wires[:60], "<") + _pcapng(wires[60:], ">"),
        "pcapng with odd clocks": _pcapng(wires, "<", options=option(9, b"\x14") + option(14, struct.pack("<q", 7))),
        "no packets": pcap([]),
        **{f"impaired {name}": pcap(change(wires)) for name, change in IMPAIRED.items()},
        **{f"cut at {size}": pcap(wires)[:size] for size in (10, 24, 30, 5_000, 20_001)},
        **{f"pcapng cut at {size}": _pcapng(wires, "<")[:size] for size in (20, 60, 5_000, 20_001)},
        "noise at the end": pcap(wires) + b"\xff" * 40,
        "pcapng with noise at the end": _pcapng(wires, "<") + b"\xff" * 40,
    }


def _loss(wires: list[Wire]) -> list[Wire]:
    chance = random.Random(5)
    return [each for each in wires if chance.random() > 0.05]


def _copies(wires: list[Wire]) -> list[Wire]:
    return [again for index, each in enumerate(wires) for again in [each] * (1 + (index % 7 == 0))]


def _swaps(wires: list[Wire]) -> list[Wire]:
    out = list(wires)
    for index in range(3, len(out) - 1, 5):
        one, other = out[index], out[index + 1]
        out[index], out[index + 1] = other._replace(ts=one.ts), one._replace(ts=other.ts)
    return out


def _late(wires: list[Wire]) -> list[Wire]:
    """Some packets come far too late."""
    chance = random.Random(3)
    keyed = [(index + (chance.randrange(2, 90) if chance.random() < 0.1 else 0), index) for index in range(len(wires))]
    return [wires[index]._replace(ts=wires[place].ts) for place, (_, index) in enumerate(sorted(keyed))]


def copies(path: Path, count: int, *, noise: float = 0.0) -> bytes:
    """The capture as often, each time with other client ports; some payloads may have a byte changed."""
    wires, chance = ip_packets(path), random.Random(7)
    ports = sorted({port for each in wires for port in struct.unpack_from(">HH", each.packet, 20)})
    broker = min(ports)
    out = []
    for number in range(count):
        moved = {port: 10_000 + number * len(ports) + index for index, port in enumerate(ports)} | {broker: broker}
        for wire in wires:
            packet = bytearray(wire.packet)
            struct.pack_into(">HH", packet, 20, *(moved[port] for port in struct.unpack_from(">HH", packet, 20)))
            begin, payload = _tcp(wire)
            # The length in front stays, or all that follows would be lost.
            if len(payload) > 12 and chance.random() < noise:
                packet[begin + chance.randrange(8, len(payload))] = chance.choice((0, 1, 128, 255))
            out.append(Wire(wire.ts + number * 1_000_000, bytes(packet)))
    return pcap(sorted(out, key=lambda each: each.ts))


def _with_options(packet: bytes) -> bytes:
    total = struct.unpack_from(">H", packet, 2)[0]
    return b"\x46" + packet[1:2] + struct.pack(">H", total + 4) + packet[4:20] + b"\x01" * 4 + packet[20:]


def _in_gre(packet: bytes) -> bytes:
    inner = b"\x00\x00\x08\x00" + packet
    return struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(inner), 1, 0, 64, 47, 0) + bytes(8) + inner


def _udp(wire: Wire) -> Wire:
    data = struct.pack(">HHHH", 53, 53, 16, 0) + bytes(8)
    return wire._replace(packet=struct.pack(">BBHHHBBH", 0x45, 0, 36, 1, 0, 64, 17, 0) + bytes(8) + data + bytes(40))


def fragments(wire: Wire) -> list[Wire]:
    """The packet in two fragments where it is long enough."""
    packet = wire.packet
    total = struct.unpack_from(">H", packet, 2)[0]
    if total < 100:
        return [wire]
    out = []
    for begin, stop, more in ((20, 60, 0x2000), (60, total, 0)):
        head = packet[:2] + struct.pack(">H", 20 + stop - begin) + packet[4:6]
        head += struct.pack(">H", more | (begin - 20) // 8) + packet[8:20]
        out.append(wire._replace(packet=head + packet[begin:stop]))
    return out


def _tcp(wire: Wire) -> tuple[int, bytes]:
    """Where the payload begins, and the payload."""
    total = struct.unpack_from(">H", wire.packet, 2)[0]
    begin = 20 + (wire.packet[32] >> 4) * 4
    return begin, wire.packet[begin:total]


def _with_payload(wire: Wire, begin: int, skip: int, payload: bytes) -> Wire:
    packet = wire.packet
    seq = (struct.unpack_from(">I", packet, 24)[0] + skip) & 0xFFFFFFFF
    head = (
        packet[:2] + struct.pack(">H", begin + len(payload)) + packet[4:24] + struct.pack(">I", seq) + packet[28:begin]
    )
    return wire._replace(packet=head + payload)


def payload_of(wire: Wire) -> bytes:
    """What a segment carries."""
    return _tcp(wire)[1]


def again(wire: Wire, skip: int, payload: bytes) -> Wire:
    """Other bytes from the sender of a segment, so far behind its first one."""
    return _with_payload(wire, _tcp(wire)[0], skip, payload)


def split(wire: Wire, size: int) -> list[Wire]:
    """The packet in several that have so much of its payload each."""
    begin, payload = _tcp(wire)
    if len(payload) <= size or len(payload) > 3000:
        return [wire]
    return [_with_payload(wire, begin, at, payload[at : at + size]) for at in range(0, len(payload), size)]


def _glued(wires: list[Wire]) -> list[Wire]:
    """Neighbouring segments of one direction become one."""
    out: list[Wire] = []
    for wire in wires:
        _, payload = _tcp(wire)
        if out and payload and wire.packet[12:24] == out[-1].packet[12:24]:
            before, held = _tcp(out[-1])
            seq, last = (struct.unpack_from(">I", each.packet, 24)[0] for each in (wire, out[-1]))
            if held and seq == last + len(held) and len(held) + len(payload) < 60_000:
                out[-1] = _with_payload(out[-1], before, 0, held + payload)
                continue
        out.append(wire)
    return out


def pcapng_with_blocks(wires: list[Wire], order: str) -> bytes:
    """Behind each packet a custom block, names, statistics or another interface, which the next packet then names."""
    own = option(9, b"\x09", order)
    custom, names, statistics = block(0xBAD, bytes(20), order), block(4, bytes(4), order), block(5, bytes(12), order)
    out, count = [section(order), interface(order, options=own)], 1
    for index, wire in enumerate(wires):
        out.append(enhanced(wire.ts, wire.packet, order, number=index % count))
        count += index % 4 == 3
        out.append((custom, names, statistics, interface(order, options=own))[index % 4])
    return b"".join(out)


def _pcapng(wires: list[Wire], order: str, options: bytes | None = None) -> bytes:
    own = option(9, b"\x09", order) if options is None else options
    blocks = [section(order), interface(order, options=own)]
    blocks += [enhanced(each.ts, each.packet, order) for each in wires]
    return b"".join(blocks)


IMPAIRED: dict[str, Callable[[list[Wire]], list[Wire]]] = {
    "loss": _loss,
    "copies": _copies,
    "swaps": _swaps,
    "lateness": _late,
    "snaplen": lambda wires: [each._replace(kept=100) for each in wires],
    "short snaplen": lambda wires: [each._replace(kept=30) for each in wires],
    "midstream": lambda wires: wires[len(wires) // 3 :],
    "end": lambda wires: wires[: len(wires) * 2 // 3],
    "twice": lambda wires: wires + [each._replace(ts=each.ts + 60_000_000_000) for each in wires],
    "small segments": lambda wires: [piece for each in wires for piece in split(each, 11)],
    "two frames in a segment": _glued,
}
