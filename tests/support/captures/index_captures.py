"""Captures for tests of the index: all file formats, link types and kinds of damage."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path

import pyarrow as pa

from kwire.capture.files.source import Source, source_name
from kwire.capture.index import build_index
from kwire.capture.merged_issues import MergedIssues
from kwire.capture.model import CaptureIssue, Row, Segment
from kwire.capture.options import Options
from kwire.capture.pipeline import rows_from_segments
from kwire.capture.reader import read_batches
from kwire.capture.rows.record_batches import make_record_batch, selected_columns
from kwire.capture.segment_scan import scan_segments
from kwire.capture.tls.key_log import KeyLog
from tests.support.captures.capture_files import (
    CAPTURES,
    CapturedConnection,
    CapturedPacket,
    build_block,
    build_interface,
    build_option,
    build_packet_block,
    build_pcap,
    build_section,
    convert_to_ipv6,
    read_ip_packets,
)

FILES = sorted(CAPTURES.glob("*.pcap"))
HEADERS_ONLY = Options(bodies=False, sessions=False)

_ETHERNET = bytes(12) + b"\x08\x00"


def batch_rows(batches: Iterable[pa.RecordBatch]) -> list[dict[str, object]]:
    """The rows of all batches."""
    return [row for batch in batches for row in batch.to_pylist()]


def split_issues(items: Iterable[Segment | CaptureIssue]) -> tuple[list[Segment], list[CaptureIssue]]:
    """The segments; and the issues, merged as an index has them."""
    segments, issues = [], MergedIssues()
    for item in items:
        if isinstance(item, CaptureIssue):
            issues.add(item.packet, item)
        else:
            segments.append(item)
    return segments, [issue for _, issue in issues.numbered]


def pipeline_rows(source: Source, level: str = "messages", options: Options = HEADERS_ONLY) -> list[Row]:
    """The rows of the streaming pipeline."""
    keys = KeyLog(options.tls_keylog)
    segments = scan_segments(source, options, keys)
    return list(rows_from_segments(segments, level, source_name(source), options, keys))


def count_flows(capture: bytes) -> int:
    """The number of connections in the index of a capture."""
    return len(build_index(capture).flows)


def assert_rows_of_pipeline(
    capture: bytes, level: str = "messages", options: Options = HEADERS_ONLY, names: Sequence[str] | None = None
) -> list[dict[str, object]]:
    """The columnar reader returns the rows of the streaming pipeline, in any order. Returns: these rows."""
    names = names or selected_columns(level, None)
    expected = pa.Table.from_batches([make_record_batch(pipeline_rows(capture, level, options), level, names)])
    found = pa.Table.from_batches(read_batches(capture, level, options, columns=names), schema=expected.schema)
    found_rows: list[dict[str, object]] = found.to_pylist()
    # Mostly they are in the same order.
    if not found.equals(expected):
        assert sorted(map(repr, found_rows)) == sorted(map(repr, expected.to_pylist()))
    return found_rows


def request_bytes(number: int, client_id: str | None = None) -> bytes:
    """A request without a body (ListGroups version 0) with this correlation id."""
    text = (client_id or "").encode()
    return struct.pack(">hhih", 16, 0, number, -1 if client_id is None else len(text)) + text


def response_bytes(number: int) -> bytes:
    """The response to the request of `request_bytes`."""
    return struct.pack(">ihi", number, 0, 0)


def connection_with_exchanges(
    count: int, *, isn: tuple[int, int] = (1000, 5000), port: int = 40_000
) -> CapturedConnection:
    """An open connection. The request of exchange n is packet 3 + 2 n; its response is the next packet."""
    connection = CapturedConnection(("127.0.0.1", port), isn=isn).open()
    for number in range(count):
        connection.exchange(request_bytes(number), response_bytes(number))
    return connection


def connection_without_kafka(port: int = 40_000, *, start: int) -> list[CapturedPacket]:
    """A connection that is not Kafka."""
    connection = CapturedConnection(("127.0.0.1", port), isn=(70_000_000, 90_000_000), start=start).open()
    return connection.send_client_bytes(b"GET / HTTP/1.1" + b"\r\n" * 20).packets


@cache
def build_test_captures() -> dict[str, bytes]:
    """Captures by their special property; all tests of a process have the same."""
    packets = read_ip_packets()
    return {
        "ethernet": build_pcap(packets, link=1, link_header=_ETHERNET),
        "vlan": build_pcap(packets, link=1, link_header=bytes(12) + b"\x81\x00\x00\x07\x08\x00"),
        "three VLANs": build_pcap(
            packets, link=1, link_header=bytes(12) + b"\x88\xa8\x00\x07" + b"\x81\x00\x00\x07" * 2 + b"\x08\x00"
        ),
        "sll": build_pcap(packets, link=113, link_header=bytes(14) + b"\x08\x00"),
        "sll2": build_pcap(packets, link=276, link_header=b"\x08\x00" + bytes(18)),
        "loopback": build_pcap(packets, link=0, link_header=b"\x02\x00\x00\x00"),
        "raw": build_pcap(packets),
        "unknown link": build_pcap(packets, link=147),
        "big-endian nanoseconds": build_pcap(packets, order=">", nanoseconds=True),
        "ipv6": build_pcap([each._replace(data=convert_to_ipv6(each.data)) for each in packets]),
        "ipv6 with extensions": build_pcap(
            [each._replace(data=convert_to_ipv6(each.data, b"\x06\x00" + bytes(6), 0)) for each in packets]
        ),
        "ipv4 with options": build_pcap([each._replace(data=_add_ip_options(each.data)) for each in packets]),
        "offloaded": build_pcap([each._replace(data=each.data[:2] + b"\0\0" + each.data[4:]) for each in packets]),
        "gre": build_pcap([each._replace(data=_wrap_in_gre(each.data)) for each in packets]),
        "fragments": build_pcap([piece for each in packets for piece in fragment_packet(each)]),
        "udp between packets": build_pcap([piece for each in packets for piece in (each, _build_udp_packet(each))]),
        "arp only": build_pcap(packets, link=1, link_header=bytes(12) + b"\x08\x06"),
        "pcapng": _build_pcapng(packets, "<"),
        "pcapng, big-endian": _build_pcapng(packets, ">"),
        "pcapng with blocks between packets": pcapng_with_blocks(packets, "<"),
        "pcapng with blocks between packets, big-endian": pcapng_with_blocks(packets, ">"),
        "pcapng of two sections": _build_pcapng(packets[:60], "<") + _build_pcapng(packets[60:], ">"),
        "pcapng with unusual clocks": _build_pcapng(
            packets, "<", options=build_option(9, b"\x14") + build_option(14, struct.pack("<q", 7))
        ),
        "no packets": build_pcap([]),
        **{f"impaired {name}": build_pcap(change(packets)) for name, change in IMPAIRED.items()},
        **{f"cut at {size}": build_pcap(packets)[:size] for size in (10, 24, 30, 5_000, 20_001)},
        **{f"pcapng cut at {size}": _build_pcapng(packets, "<")[:size] for size in (20, 60, 5_000, 20_001)},
        "noise at the end": build_pcap(packets) + b"\xff" * 40,
        "pcapng with noise at the end": _build_pcapng(packets, "<") + b"\xff" * 40,
    }


def _lose_packets(packets: list[CapturedPacket]) -> list[CapturedPacket]:
    chance = random.Random(5)
    return [each for each in packets if chance.random() > 0.05]


def _repeat_packets(packets: list[CapturedPacket]) -> list[CapturedPacket]:
    return [copy for index, each in enumerate(packets) for copy in [each] * (1 + (index % 7 == 0))]


def mirror_packets(
    packets: list[CapturedPacket], chance: random.Random, delay_ns_max: int = 3_000_000
) -> list[CapturedPacket]:
    """Each packet twice, as at a mirror port; the copies come less than this later, and in another order."""
    copies = [each._replace(ts=each.ts + chance.randrange(delay_ns_max)) for each in packets]
    return sorted([*packets, *copies], key=lambda each: each.ts)


def keep_direction(packets: list[CapturedPacket], *, from_client: bool) -> list[CapturedPacket]:
    """The packets of one direction; brokers have the smaller port."""
    ports = [struct.unpack_from(">HH", each.data, 20) for each in packets]
    return [each for each, (source, target) in zip(packets, ports, strict=True) if (source > target) == from_client]


def _swap_packets(packets: list[CapturedPacket]) -> list[CapturedPacket]:
    out = list(packets)
    for index in range(3, len(out) - 1, 5):
        one, other = out[index], out[index + 1]
        out[index], out[index + 1] = other._replace(ts=one.ts), one._replace(ts=other.ts)
    return out


def _delay_packets(packets: list[CapturedPacket]) -> list[CapturedPacket]:
    """Delay some packets by many packets."""
    chance = random.Random(3)
    delays = [chance.randrange(2, 90) if chance.random() < 0.1 else 0 for _ in packets]
    keyed = [(index + delay, index) for index, delay in enumerate(delays)]
    return [packets[index]._replace(ts=packets[place].ts) for place, (_, index) in enumerate(sorted(keyed))]


def copy_connections(path: Path, count: int, *, noise: float = 0.0) -> bytes:
    """Copies of the connections of a capture, with other client ports; `noise` is the share of damaged payloads."""
    packets, chance = read_ip_packets(path), random.Random(7)
    ports = sorted({port for each in packets for port in struct.unpack_from(">HH", each.data, 20)})
    broker = min(ports)
    out = []
    for number in range(count):
        moved = {port: 10_000 + number * len(ports) + index for index, port in enumerate(ports)} | {broker: broker}
        for captured in packets:
            packet = bytearray(captured.data)
            struct.pack_into(">HH", packet, 20, *(moved[port] for port in struct.unpack_from(">HH", packet, 20)))
            begin, payload = _split_payload(captured)
            # The length field is not changed; otherwise all later frames would be lost.
            if len(payload) > 12 and chance.random() < noise:
                packet[begin + chance.randrange(8, len(payload))] = chance.choice((0, 1, 128, 255))
            out.append(CapturedPacket(captured.ts + number * 1_000_000, bytes(packet)))
    return build_pcap(sorted(out, key=lambda each: each.ts))


#: So many captures are joined by tests of each way to damage one: reading a small one takes most of its time for no
#: packet in particular.
TOGETHER = 12


def join_captures(captures: Iterable[list[CapturedPacket]]) -> bytes:
    """One capture of up to 65,536 others that end at the same time; each has IPv4 addresses of its own."""
    parts = [packets for packets in captures if packets]
    end = max(packets[-1].ts for packets in parts)
    out = []
    for number, packets in enumerate(parts):
        octets, later = struct.pack(">H", number), end - packets[-1].ts
        for captured in packets:
            data = captured.data
            moved = data[:13] + octets + data[15:17] + octets + data[19:]
            out.append(captured._replace(ts=captured.ts + later, data=moved))
    return build_pcap(sorted(out, key=lambda captured: captured.ts))


def lose_packets(capture: bytes, share: float, *, snaplen: int = 1 << 18) -> bytes:
    """A pcap file of nanoseconds without a share of its packets, and with the others cut to a size."""
    chance, at, parts = random.Random(3), 24, [capture[:24]]
    while at < len(capture):
        seconds, fraction, captured, size = struct.unpack_from("<IIII", capture, at)
        data = capture[at + 16 : at + 16 + min(captured, snaplen)]
        at += 16 + captured
        if chance.random() >= share:
            parts.append(struct.pack("<IIII", seconds, fraction, len(data), size) + data)
    return b"".join(parts)


def _add_ip_options(packet: bytes) -> bytes:
    total = struct.unpack_from(">H", packet, 2)[0]
    return b"\x46" + packet[1:2] + struct.pack(">H", total + 4) + packet[4:20] + b"\x01" * 4 + packet[20:]


def _wrap_in_gre(packet: bytes) -> bytes:
    inner = b"\x00\x00\x08\x00" + packet
    return struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(inner), 1, 0, 64, 47, 0) + bytes(8) + inner


def _build_udp_packet(captured: CapturedPacket) -> CapturedPacket:
    data = struct.pack(">HHHH", 53, 53, 16, 0) + bytes(8)
    return captured._replace(data=struct.pack(">BBHHHBBH", 0x45, 0, 36, 1, 0, 64, 17, 0) + bytes(8) + data + bytes(40))


def fragment_packet(captured: CapturedPacket) -> list[CapturedPacket]:
    """The packet in two IP fragments if it is long enough."""
    packet = captured.data
    total = struct.unpack_from(">H", packet, 2)[0]
    if total < 100:
        return [captured]
    out = []
    for begin, stop, more in ((20, 60, 0x2000), (60, total, 0)):
        head = packet[:2] + struct.pack(">H", 20 + stop - begin) + packet[4:6]
        head += struct.pack(">H", more | (begin - 20) // 8) + packet[8:20]
        out.append(captured._replace(data=head + packet[begin:stop]))
    return out


def _split_payload(captured: CapturedPacket) -> tuple[int, bytes]:
    """The offset of the TCP payload, and the payload."""
    total = struct.unpack_from(">H", captured.data, 2)[0]
    begin = 20 + (captured.data[32] >> 4) * 4
    return begin, captured.data[begin:total]


def _replace_payload(captured: CapturedPacket, begin: int, skip: int, payload: bytes) -> CapturedPacket:
    packet = captured.data
    seq = (struct.unpack_from(">I", packet, 24)[0] + skip) & 0xFFFFFFFF
    head = packet[:2] + struct.pack(">H", begin + len(payload)) + packet[4:24]
    return captured._replace(data=head + struct.pack(">I", seq) + packet[28:begin] + payload)


def tcp_payload(captured: CapturedPacket) -> bytes:
    """The TCP payload of a packet."""
    return _split_payload(captured)[1]


def send_bytes(captured: CapturedPacket, skip: int, payload: bytes) -> CapturedPacket:
    """A segment with other bytes from the same sender, `skip` bytes after the first byte of this one."""
    return _replace_payload(captured, _split_payload(captured)[0], skip, payload)


def split_segment(captured: CapturedPacket, size: int) -> list[CapturedPacket]:
    """The packet divided into segments with this much of its payload."""
    begin, payload = _split_payload(captured)
    if len(payload) <= size or len(payload) > 3000:
        return [captured]
    return [_replace_payload(captured, begin, at, payload[at : at + size]) for at in range(0, len(payload), size)]


def _merge_segments(packets: list[CapturedPacket]) -> list[CapturedPacket]:
    """Merge adjacent segments of one direction."""
    out: list[CapturedPacket] = []
    for captured in packets:
        _, payload = _split_payload(captured)
        if out and payload and captured.data[12:24] == out[-1].data[12:24]:
            before, held = _split_payload(out[-1])
            seq, last = (struct.unpack_from(">I", each.data, 24)[0] for each in (captured, out[-1]))
            if held and seq == last + len(held) and len(held) + len(payload) < 60_000:
                out[-1] = _replace_payload(out[-1], before, 0, held + payload)
                continue
        out.append(captured)
    return out


def pcapng_with_blocks(packets: list[CapturedPacket], order: str) -> bytes:
    """A pcapng file with a custom block, names, statistics or a new interface after each packet."""
    own = build_option(9, b"\x09", order)
    custom, names, statistics = (build_block(kind, bytes(size), order) for kind, size in ((0xBAD, 20), (4, 4), (5, 12)))
    out, count = [build_section(order), build_interface(order, options=own)], 1
    for index, captured in enumerate(packets):
        out.append(build_packet_block(captured.ts, captured.data, order, number=index % count))
        count += index % 4 == 3
        out.append((custom, names, statistics, build_interface(order, options=own))[index % 4])
    return b"".join(out)


def _build_pcapng(packets: list[CapturedPacket], order: str, options: bytes | None = None) -> bytes:
    own = build_option(9, b"\x09", order) if options is None else options
    blocks = [build_section(order), build_interface(order, options=own)]
    blocks += [build_packet_block(each.ts, each.data, order) for each in packets]
    return b"".join(blocks)


IMPAIRED: dict[str, Callable[[list[CapturedPacket]], list[CapturedPacket]]] = {
    "loss": _lose_packets,
    "copies": _repeat_packets,
    "mirror": lambda packets: mirror_packets(packets, random.Random(9)),
    "requests only": lambda packets: keep_direction(packets, from_client=True),
    "responses only": lambda packets: keep_direction(packets, from_client=False),
    "swaps": _swap_packets,
    "lateness": _delay_packets,
    "snaplen": lambda packets: [each._replace(stored_size=100) for each in packets],
    "short snaplen": lambda packets: [each._replace(stored_size=30) for each in packets],
    "midstream": lambda packets: packets[len(packets) // 3 :],
    "end": lambda packets: packets[: len(packets) * 2 // 3],
    "twice": lambda packets: packets + [each._replace(ts=each.ts + 60_000_000_000) for each in packets],
    "small segments": lambda packets: [piece for each in packets for piece in split_segment(each, 11)],
    "two frames in a segment": _merge_segments,
}
