"""Builders of test captures: packets of real captures in other formats and links, and artificial connections."""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from kwire.capture.export.pcapng_writer import TcpConversation
from kwire.capture.files.packet_reader import read_packets
from kwire.capture.files.source import Source
from kwire.capture.index import held_bytes
from kwire.capture.index.scan import stream_scan
from kwire.capture.model import Packet, Row
from kwire.capture.options import Options
from kwire.capture.reader import read_batches, read_rows
from kwire.capture.rows.record_batches import make_record_batch, selected_columns

CAPTURES = Path(__file__).parents[2] / "captures"
SHARE = CAPTURES / "small_share.pcap"


class CapturedPacket(NamedTuple):
    """An IP packet and its time in nanoseconds; a capture stores its first `stored_size` bytes."""

    ts: int
    data: bytes
    stored_size: int | None = None


def read_ip_packets(path: Path = SHARE) -> list[CapturedPacket]:
    """Read the IP packets of a real capture on Ethernet."""
    return [CapturedPacket(each.ts, each.data[14:]) for each in read_packets(path) if isinstance(each, Packet)]


def with_identification(captured: CapturedPacket, number: int) -> CapturedPacket:
    """The packet with another identification of its IPv4 header: not a copy of it, but sent again."""
    return captured._replace(data=captured.data[:4] + struct.pack(">H", number) + captured.data[6:])


def convert_to_ipv6(packet: bytes, extensions: bytes = b"", first: int = 6) -> bytes:
    """Convert an IPv4 packet to IPv6 with mapped addresses; `first` is the number of the first extension header."""
    size = (packet[0] & 15) * 4
    total = struct.unpack_from(">H", packet, 2)[0]
    tcp = packet[size:total]
    addresses = (bytes(12) + packet[12:16]) + (bytes(12) + packet[16:20])
    return struct.pack(">IHBB", 6 << 28, len(extensions) + len(tcp), first, 64) + addresses + extensions + tcp


def build_pcap(
    packets: Iterable[CapturedPacket],
    *,
    link: int = 101,
    order: str = "<",
    nanoseconds: bool = False,
    link_header: bytes = b"",
) -> bytes:
    """Build a pcap file; `link_header` precedes every packet."""
    magic = 0xA1B23C4D if nanoseconds else 0xA1B2C3D4
    output = [struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, 262_144, link)]
    for wire in packets:
        seconds, fraction = divmod(wire.ts, 1_000_000_000)
        data = link_header + wire.data
        stored = data if wire.stored_size is None else data[: wire.stored_size]
        unit = 1 if nanoseconds else 1000
        output.append(struct.pack(order + "IIII", seconds, fraction // unit, len(stored), len(data)) + stored)
    return b"".join(output)


def build_block(kind: int, body: bytes, order: str = "<") -> bytes:
    """Build a pcapng block."""
    body += bytes(-len(body) % 4)
    size = len(body) + 12
    return struct.pack(order + "II", kind, size) + body + struct.pack(order + "I", size)


def build_section(order: str = "<", options: bytes = b"") -> bytes:
    """Build a pcapng section header."""
    return build_block(0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1) + options, order)


def build_option(code: int, value: bytes, order: str = "<") -> bytes:
    """Build a pcapng option."""
    return struct.pack(order + "HH", code, len(value)) + value + bytes(-len(value) % 4)


def build_interface(order: str = "<", *, link: int = 101, snaplen: int = 0, options: bytes = b"") -> bytes:
    """Build a pcapng interface description."""
    return build_block(1, struct.pack(order + "HHI", link, 0, snaplen) + options, order)


def build_packet_block(ticks: int, data: bytes, order: str = "<", *, number: int = 0, options: bytes = b"") -> bytes:
    """Build a pcapng enhanced packet block."""
    head = struct.pack(order + "IIIII", number, ticks >> 32, ticks & 0xFFFFFFFF, len(data), len(data))
    return build_block(6, head + data + bytes(-len(data) % 4) + options, order)


def build_pcapng(packets: Iterable[CapturedPacket], order: str = "<") -> bytes:
    """Build a pcapng file of one section and one interface, with times in microseconds."""
    blocks = [build_packet_block(each.ts // 1000, each.data, order) for each in packets]
    return b"".join([build_section(order), build_interface(order), *blocks])


def build_secrets(key_log: str, order: str = "<") -> bytes:
    """Build a pcapng decryption secrets block with lines of a TLS key log."""
    return build_block(10, struct.pack(order + "II", 0x544C534B, len(key_log)) + key_log.encode(), order)


def build_names_block(order: str = "<") -> bytes:
    """A pcapng name resolution block: two addresses, the first with two names, and a record of an unknown type."""
    records = [
        (1, bytes([10, 0, 0, 1]) + b"broker-1\0kafka.example\0"),
        (77, b"whatever"),
        (2, bytes(15) + b"\1" + b"here\0"),
        (0, b""),
    ]
    return build_block(4, b"".join(build_option(kind, value, order) for kind, value in records), order)


def build_statistics(
    order: str = "<", *, received: int = 100, dropped: int = 0, number: int = 0, ticks: int = 0
) -> bytes:
    """A pcapng interface statistics block."""
    body = struct.pack(order + "III", number, ticks >> 32, ticks & 0xFFFFFFFF)
    for code, count in ((4, received), (5, dropped)):
        body += build_option(code, struct.pack(order + "Q", count), order)
    return build_block(5, body + bytes(4), order)


def build_named_interface(order: str = "<") -> bytes:
    """A pcapng interface description with name, description and filter."""
    texts = {2: b"eth0", 3: b"the first card", 11: b"\0tcp port 9092"}
    options = b"".join(build_option(code, text, order) for code, text in texts.items())
    return build_interface(order, options=options + bytes(4))


def fragment_ipv4(packet: bytes, size: int, ident: int) -> list[bytes]:
    """Split an IPv4 packet into fragments of `size` bytes."""
    head = (packet[0] & 15) * 4
    payload = packet[head : struct.unpack_from(">H", packet, 2)[0]]
    output = []
    for at in range(0, len(payload), size):
        piece = payload[at : at + size]
        field = at // 8 | (0x2000 if at + size < len(payload) else 0)
        fields = struct.pack(">HHH", head + len(piece), ident, field)
        output.append(packet[:2] + fields + packet[8:head] + piece)
    return output


class CapturedConnection:
    """Builds the packets of an artificial connection with Kafka frames."""

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
        self.packets: list[CapturedPacket] = []

    def _add_packets(self, packets: Iterable[bytes]) -> CapturedConnection:
        for packet in packets:
            self._ts += 1_000_000
            self.packets.append(CapturedPacket(self._ts, packet))
        return self

    def open(self) -> CapturedConnection:
        return self._add_packets(self._tcp.open())

    def send_requests(self, *frames: bytes) -> CapturedConnection:
        return self.send_client_bytes(b"".join(struct.pack(">i", len(each)) + each for each in frames))

    def send_responses(self, *frames: bytes) -> CapturedConnection:
        return self.send_server_bytes(b"".join(struct.pack(">i", len(each)) + each for each in frames))

    def exchange(self, request: bytes, response: bytes) -> CapturedConnection:
        return self.send_requests(request).send_responses(response)

    def send_client_bytes(self, data: bytes) -> CapturedConnection:
        return self._add_packets(self._tcp.from_client(data))

    def send_server_bytes(self, data: bytes) -> CapturedConnection:
        return self._add_packets(self._tcp.from_server(data))

    def close(self) -> CapturedConnection:
        return self._add_packets(self._tcp.close())

    def read_rows(self, level: str = "messages", **options: object) -> list[Row]:
        return read_capture_rows(build_pcap(self.packets), level, **options)


def read_capture_rows(source: Source, level: str = "messages", **options: object) -> list[Row]:
    """Read the rows of a capture with these `Options`; those of TLS connections are compared with the columnar ones."""
    make: Callable[..., Options] = Options
    rows = list(read_rows(source, level, make(**options)))
    if options.get("tls_keylog"):
        names = selected_columns(level, None)
        found = [row for batch in read_batches(source, level, make(**options)) for row in batch.to_pylist()]
        assert sorted(map(repr, found)) == sorted(map(repr, make_record_batch(rows, level, names).to_pylist()))
    return rows


def peak_memory(data: bytes, **options: object) -> int:
    """The peak memory of reading the messages with these `Options`, without the capture itself, in bytes.

    The capture comes in small parts, and little of what waits is held in memory, so that growth is visible.
    """
    make: Callable[..., Options] = Options
    with pytest.MonkeyPatch.context() as patch:
        for name in ("_SIZE_FIRST", "SPAN_SIZE"):
            patch.setattr(stream_scan, name, 128 * 1024)
        patch.setattr(held_bytes, "_MEMORY_SIZE_MAX", 1024 * 1024)
        tracemalloc.start()
        try:
            for _ in read_rows(data, "messages", make(**options)):
                pass
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()


def comparable_exchanges(rows: Sequence[Row]) -> list[tuple[object, ...]]:
    """The columns of exchanges that do not depend on file format, link layer and packet boundaries."""
    columns = ("api_name", "api_version", "correlation_id", "status", "latency_us", "body_response")
    return [tuple(row[name] for name in columns) for row in rows if row["api_key"] is not None]


def read_exchanges(source: Source, **options: object) -> list[tuple[object, ...]]:
    """The comparable columns of all exchanges of a capture, read with these `Options`."""
    return comparable_exchanges(read_capture_rows(source, "messages", **options))


def collect_issue_kinds(rows: Iterable[Row]) -> set[str]:
    """Return the kinds of all issues."""
    kinds: set[str] = set()
    for row in rows:
        issues = row["issues"]
        assert isinstance(issues, list)
        kinds |= {issue["kind"] for issue in issues}
    return kinds
