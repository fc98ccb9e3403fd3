"""Random captures: parts of real ones with random damage to their packets, or to the bytes of the file."""

from __future__ import annotations

import gzip
import random
import struct
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import zstandard

from tests.support.captures.capture_files import (
    CAPTURES,
    CapturedPacket,
    build_pcap,
    build_pcapng,
    fragment_ipv4,
    read_ip_packets,
)
from tests.support.captures.index_captures import keep_direction, mirror_packets, split_segment, tcp_payload

NAMES = ("aio", "ck", "ckz", "jshare", "kpy", "share", "tlskey", "txn")
_PACKETS_MAX = 160
#: What a payload is overwritten with: lengths that cannot be, the begin of a TLS record, small frames.
_FALSE_BYTES = (b"\xff\xff\xff\xff", b"\x7f\0\0\0", b"\x16\x03\x03\0", b"\0\0\0\0", b"\0\0\0\x05")
_EXTREME_BYTES = (0, 1, 0x7F, 0x80, 0xFF)
_SYN = 2

Packets = list[CapturedPacket]


class MutatedCapture(NamedTuple):
    """A capture. label: how it was made. is_comparable: whether all readers return the same rows, times included."""

    label: str
    data: bytes
    is_comparable: bool


@cache
def _packets_of(name: str) -> Packets:
    return read_ip_packets(CAPTURES / f"small_{name}.pcap")


def mutate_capture(chance: random.Random) -> MutatedCapture:
    """A capture with some kinds of damage."""
    name = chance.choice(NAMES)
    packets = _packets_of(name)
    begin = chance.choice((0, chance.randrange(len(packets))))
    packets = packets[begin : begin + chance.randrange(1, _PACKETS_MAX)]
    chosen = chance.sample(list(PACKET_DAMAGE), chance.choice((0, 1, 1, 2, 3)))
    kinds = [kind for kind in PACKET_DAMAGE if kind in chosen]
    for kind in kinds:
        packets = PACKET_DAMAGE[kind](packets, chance)
    data = chance.choice((build_pcap, build_pcapng))(packets)
    file_kinds = chance.sample(list(FILE_DAMAGE), chance.choice((0, 0, 0, 1, 2)))
    for kind in file_kinds:
        data = FILE_DAMAGE[kind](data, chance)
    label = ", ".join([f"{name} from packet {begin} on", *kinds, *file_kinds])
    return MutatedCapture(label, data, is_comparable=not file_kinds)


def _lose(packets: Packets, chance: random.Random) -> Packets:
    share = chance.choice((0.01, 0.05, 0.3))
    return [each for each in packets if chance.random() >= share]


def _lose_one(packets: Packets, chance: random.Random) -> Packets:
    place = chance.randrange(len(packets) or 1)
    return packets[:place] + packets[place + 1 :]


def _repeat(packets: Packets, chance: random.Random) -> Packets:
    return [copy for each in packets for copy in [each] * chance.choice((1, 1, 1, 2, 3))]


def _mirror(packets: Packets, chance: random.Random) -> Packets:
    return mirror_packets(packets, chance)


def _exchange(packets: Packets, chance: random.Random) -> Packets:
    """Packets in another order, with the times of their places."""
    out = list(packets)
    for place in range(len(out) - 1):
        if chance.random() < 0.05:
            other = min(place + chance.choice((1, 2, 5, 90)), len(out) - 1)
            first, second = out[place], out[other]
            out[place], out[other] = second._replace(ts=first.ts), first._replace(ts=second.ts)
    return out


def _cut(packets: Packets, chance: random.Random) -> Packets:
    size = chance.choice((30, 44, 60, 100, 150, 400))
    share = chance.choice((0.1, 1.0))
    return [each._replace(stored_size=size) if chance.random() < share else each for each in packets]


def _keep_one_direction(packets: Packets, chance: random.Random) -> Packets:
    return keep_direction(packets, from_client=chance.random() < 0.5)


def _split(packets: Packets, chance: random.Random) -> Packets:
    size = chance.choice((7, 20, 60, 300, 1400))
    return [piece for each in packets for piece in split_segment(each, size)]


def _fragment(packets: Packets, chance: random.Random) -> Packets:
    """Some packets in IP fragments, in any order."""
    out: Packets = []
    for number, each in enumerate(packets):
        if chance.random() >= 0.3 or each.stored_size is not None:
            out.append(each)
            continue
        pieces = fragment_ipv4(each.data, chance.choice((24, 64, 512)), number & 0xFFFF)
        if chance.random() < 0.3:
            chance.shuffle(pieces)
        out += [each._replace(data=piece) for piece in pieces]
    return out


def _drop_opening(packets: Packets, chance: random.Random) -> Packets:
    return [each for each in packets if not each.data[33] & _SYN]


def _put_noise_into_payload(packets: Packets, chance: random.Random) -> Packets:
    out: Packets = []
    for each in packets:
        size = len(tcp_payload(each))
        if size <= 4 or chance.random() >= 0.04:
            out.append(each)
            continue
        at = len(each.data) - size + chance.choice((0, chance.randrange(size)))
        noise = chance.choice((*_FALSE_BYTES, chance.randbytes(3)))[: len(each.data) - at]
        out.append(each._replace(data=each.data[:at] + noise + each.data[at + len(noise) :]))
    return out


def _put_noise_into_headers(packets: Packets, chance: random.Random) -> Packets:
    """Some bytes of the TCP headers of a few packets have other values."""
    out: Packets = []
    for each in packets:
        data = bytearray(each.data)
        while chance.random() < 0.01:
            data[chance.randrange(20, 40)] = chance.choice((*_EXTREME_BYTES, chance.randrange(256)))
        out.append(each._replace(data=bytes(data)))
    return out


def _use_ports_again(packets: Packets, chance: random.Random) -> Packets:
    """All connections have one pair of ports, one after the other or at once."""
    ports = {port for each in packets for port in struct.unpack_from(">HH", each.data, 20)}
    if chance.random() < 0.7:
        packets = sorted(packets, key=lambda each: max(struct.unpack_from(">HH", each.data, 20)))
        packets = [each._replace(ts=packets[0].ts + place * 1_000_000) for place, each in enumerate(packets)]
    out: Packets = []
    for each in packets:
        source, target = struct.unpack_from(">HH", each.data, 20)
        moved = (min(ports), 50_000) if source < target else (50_000, min(ports))
        out.append(each._replace(data=each.data[:20] + struct.pack(">HH", *moved) + each.data[24:]))
    return out


#: In the order in which they are done.
PACKET_DAMAGE: dict[str, Callable[[Packets, random.Random], Packets]] = {
    "loss": _lose,
    "one packet lost": _lose_one,
    "repetitions": _repeat,
    "mirror": _mirror,
    "disorder": _exchange,
    "cut packets": _cut,
    "one direction": _keep_one_direction,
    "small segments": _split,
    "no SYN": _drop_opening,
    "noise in payload": _put_noise_into_payload,
    "ports used again": _use_ports_again,
    # Last: the others read TCP headers.
    "noise in TCP headers": _put_noise_into_headers,
    "IP fragments": _fragment,
}


def _flip_bytes(data: bytes, chance: random.Random) -> bytes:
    out = bytearray(data)
    for _ in range(chance.choice((1, 5, 60))):
        out[chance.randrange(len(out))] = chance.choice((*_EXTREME_BYTES, chance.randrange(256)))
    return bytes(out)


def _truncate(data: bytes, chance: random.Random) -> bytes:
    return data[: chance.randrange(1, len(data) + 1)]


def _remove_range(data: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(data))
    return data[:at] + data[at + chance.randrange(1, 2000) :] or data


def _insert(data: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(data))
    return data[:at] + chance.choice((bytes(40), b"\xff" * 40, chance.randbytes(200), data[:300])) + data[at:]


def _compress(data: bytes, chance: random.Random) -> bytes:
    return gzip.compress(data, 1) if chance.random() < 0.5 else zstandard.compress(data, 1)


FILE_DAMAGE: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "changed bytes": _flip_bytes,
    "truncated": _truncate,
    "missing range": _remove_range,
    "inserted bytes": _insert,
    "compressed": _compress,
}
