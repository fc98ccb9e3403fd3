"""Captures made for tests: packets of a real one in other formats, links and states of damage, and talks made up."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from kwire.capture.options import Options
from kwire.capture.packets import packets
from kwire.capture.pcapng_write import TcpConversation
from kwire.capture.pipeline import rows
from kwire.capture.rows import Row
from kwire.capture.values import Packet

CAPTURES = Path(__file__).parents[2] / "captures"
SHARE = CAPTURES / "small_share.pcap"


class Wire(NamedTuple):
    """An IP packet and its time in nanoseconds; `kept` is how much of it a capture keeps."""

    ts: int
    packet: bytes
    kept: int | None = None


def ip_packets(path: Path = SHARE) -> list[Wire]:
    """The IP packets of a real capture on Ethernet."""
    return [Wire(each.ts, each.data[14:]) for each in packets(path) if isinstance(each, Packet)]


def as_ipv6(packet: bytes, extensions: bytes = b"", first: int = 6) -> bytes:
    """The same TCP segment in IPv6, its addresses mapped; `first` is the number of the first extension header."""
    size = (packet[0] & 15) * 4
    total = struct.unpack_from(">H", packet, 2)[0]
    tcp = packet[size:total]
    addresses = (bytes(12) + packet[12:16]) + (bytes(12) + packet[16:20])
    return struct.pack(">IHBB", 6 << 28, len(extensions) + len(tcp), first, 64) + addresses + extensions + tcp


def pcap(
    wires: Iterable[Wire], *, link: int = 101, order: str = "<", nanoseconds: bool = False, before: bytes = b""
) -> bytes:
    """A pcap file; `before` is the link header of every packet."""
    magic = 0xA1B23C4D if nanoseconds else 0xA1B2C3D4
    out = [struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, 262_144, link)]
    for wire in wires:
        seconds, fraction = divmod(wire.ts, 1_000_000_000)
        data = before + wire.packet
        kept = data if wire.kept is None else data[: wire.kept]
        unit = 1 if nanoseconds else 1000
        out.append(struct.pack(order + "IIII", seconds, fraction // unit, len(kept), len(data)) + kept)
    return b"".join(out)


def block(kind: int, body: bytes, order: str = "<") -> bytes:
    """A pcapng block."""
    body += bytes(-len(body) % 4)
    size = len(body) + 12
    return struct.pack(order + "II", kind, size) + body + struct.pack(order + "I", size)


def section(order: str = "<", options: bytes = b"") -> bytes:
    """A pcapng section header."""
    return block(0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1) + options, order)


def option(code: int, value: bytes, order: str = "<") -> bytes:
    """A pcapng option."""
    return struct.pack(order + "HH", code, len(value)) + value + bytes(-len(value) % 4)


def interface(order: str = "<", *, link: int = 101, snaplen: int = 0, options: bytes = b"") -> bytes:
    """A pcapng interface description."""
    return block(1, struct.pack(order + "HHI", link, 0, snaplen) + options, order)


def enhanced(ticks: int, data: bytes, order: str = "<", *, number: int = 0, options: bytes = b"") -> bytes:
    """A pcapng enhanced packet."""
    head = struct.pack(order + "IIIII", number, ticks >> 32, ticks & 0xFFFFFFFF, len(data), len(data))
    return block(6, head + data + bytes(-len(data) % 4) + options, order)


class Talk:
    """A made-up conversation of Kafka frames."""

    def __init__(
        self,
        client: tuple[str, int] = ("127.0.0.1", 40_000),
        broker: tuple[str, int] = ("127.0.0.1", 9092),
        *,
        isn: tuple[int, int] = (1000, 5000),
        start: int = 1_700_000_000_000_000_000,
    ) -> None:
        self._tcp = TcpConversation(client, broker, isn=isn)
        self._ts = start
        self.wires: list[Wire] = []

    def _add(self, made: Iterable[bytes]) -> Talk:
        for packet in made:
            self._ts += 1_000_000
            self.wires.append(Wire(self._ts, packet))
        return self

    def open(self) -> Talk:
        return self._add(self._tcp.open())

    def asks(self, *frames: bytes) -> Talk:
        return self._add(self._tcp.from_client(b"".join(struct.pack(">i", len(each)) + each for each in frames)))

    def answers(self, *frames: bytes) -> Talk:
        return self._add(self._tcp.from_server(b"".join(struct.pack(">i", len(each)) + each for each in frames)))

    def client_bytes(self, data: bytes) -> Talk:
        return self._add(self._tcp.from_client(data))

    def server_bytes(self, data: bytes) -> Talk:
        return self._add(self._tcp.from_server(data))

    def close(self) -> Talk:
        return self._add(self._tcp.close())

    def rows(self, level: str = "messages", **options: object) -> list[Row]:
        return read(pcap(self.wires), level, **options)


def read(data: bytes, level: str = "messages", **options: object) -> list[Row]:
    """The rows of a capture."""
    make: Callable[..., Options] = Options
    return list(rows(data, level, make(**options)))


def matched(found: Sequence[Row]) -> list[tuple[object, ...]]:
    """What a damaged or differently wrapped capture must still say of its exchanges."""
    return [
        (
            row["api_name"],
            row["api_version"],
            row["correlation_id"],
            row["status"],
            row["latency_us"],
            row["body_response"],
        )
        for row in found
        if row["api_key"] is not None
    ]


def issue_kinds(found: Iterable[Row]) -> set[str]:
    """The kinds of all issues."""
    kinds: set[str] = set()
    for row in found:
        issues = row["issues"]
        assert isinstance(issues, list)
        kinds |= {issue["kind"] for issue in issues}
    return kinds
