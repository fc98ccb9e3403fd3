"""Each connection of the same endpoints is read by columns, as the streaming pipeline reads it."""

from __future__ import annotations

import struct
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from kwire.capture.files.packet_reader import read_packets
from kwire.capture.index import build_index
from kwire.capture.index.parallel.ranges import headers_from_columns
from kwire.capture.index.scan import scanner
from kwire.capture.index.scan.spans import SPAN_SIZE
from kwire.capture.index.streams.connections import Connections
from kwire.capture.index.streams.flow_table import FlowTable
from kwire.capture.model import Segment
from kwire.capture.tcp.flags import ACK, FIN, RST, SYN
from kwire.capture.tcp.stream_limits import LATE_SYN_DISTANCE, RESENT_DISTANCE_MAX, START_PACKETS
from kwire.capture.traffic.replaced_connections import find_replaced
from tests.support.capture_model.packet_dissection import dissect_packets
from tests.support.capture_model.reassembly import ConnectionTable
from tests.support.captures.capture_files import CapturedConnection, CapturedPacket, build_pcap
from tests.support.captures.index_captures import (
    assert_rows_of_pipeline,
    request_bytes,
    response_bytes,
    send_bytes,
    tcp_payload,
)
from tests.support.captures.range_indexes import assert_indexes_equal, build_by_size

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("span_size", [SPAN_SIZE, 1_024], indirect=True)]

SECOND_NS = 1_000_000_000
REUSED = "another connection took the same ports before an answer"


def connection(number: int, count: int = 12, *, port: int = 40_000) -> CapturedConnection:
    """An open connection between the same endpoints. Args: number: determines its sequence numbers."""
    isn = 1_000 + number * 700_000_001 & 0xFFFFFFFF, 5_000 + number * 900_000_001 & 0xFFFFFFFF
    captured = CapturedConnection(("127.0.0.1", port), isn=isn).open()
    for place in range(count):
        captured.exchange(request_bytes(100 * number + place, "reader"), response_bytes(100 * number + place))
    return captured


def later(packets: Sequence[CapturedPacket], before: Sequence[CapturedPacket], pause_ns: int) -> list[CapturedPacket]:
    """The packets, the first of them so long after the last one before."""
    shift = before[-1].ts + pause_ns - packets[0].ts
    return [packet._replace(ts=packet.ts + shift) for packet in packets]


def in_turn(*connections: Sequence[CapturedPacket], pause_ns: int = SECOND_NS) -> list[CapturedPacket]:
    """The packets of connections, one after another."""
    packets = list(connections[0])
    for more in connections[1:]:
        packets += later(more, packets, pause_ns)
    return packets


def with_header(packet: CapturedPacket, *, flags: int | None = None, shift: int = 0, ack: int = 0) -> CapturedPacket:
    """The packet with other flags, and other numbers. Args: shift, ack: are added to these."""
    seq, acked = struct.unpack_from(">II", packet.data, 24)
    numbers = struct.pack(">II", seq + shift & 0xFFFFFFFF, acked + ack & 0xFFFFFFFF)
    own = packet.data[33] if flags is None else flags
    return packet._replace(data=packet.data[:24] + numbers + packet.data[32:33] + bytes([own]) + packet.data[34:])


def reset(packet: CapturedPacket) -> CapturedPacket:
    """A reset behind the bytes of a packet."""
    empty = send_bytes(packet, len(tcp_payload(packet)), b"")
    return with_header(empty._replace(ts=packet.ts + 1), flags=RST)


def check_connections(packets: Sequence[CapturedPacket], *counts: int) -> list[dict[str, object]]:
    """The capture is read by columns. Returns: its rows. Args: counts: by epoch, the number of rows with a request."""
    capture = build_pcap(packets)
    rows = assert_rows_of_pipeline(capture)
    epochs = [row["stream_epoch"] for row in rows if row["req_packet"] is not None]
    assert [epochs.count(epoch) for epoch in range(len(counts))] == list(counts)
    return rows


@pytest.mark.parametrize("pause_ns", [SECOND_NS, 20 * SECOND_NS])
@pytest.mark.parametrize("end", ["fin", "rst", "none"])
def test_a_syn_opens_the_next_connection(end: str, pause_ns: int, span_size: int) -> None:
    connections = []
    for number in range(4):
        packets = connection(number).close().packets
        before_end = packets[:-3]
        connections.append({"fin": packets, "rst": [*before_end, reset(before_end[-1])], "none": before_end}[end])

    check_connections(in_turn(*connections, pause_ns=pause_ns), 12, 12, 12, 12)


def test_requests_of_a_connection_that_is_replaced_have_no_response(span_size: int) -> None:
    first = connection(0).send_requests(request_bytes(50), request_bytes(51)).packets

    rows = check_connections(in_turn(first, connection(1).packets), 14, 12)
    issues = [row["issues"] for row in rows if row["status"] == "no_response"]
    assert [issue["detail"] for own in issues if isinstance(own, list) for issue in own] == [REUSED] * 2


@pytest.mark.parametrize("number", [1, 2, 5])
def test_data_far_behind_belongs_to_a_connection_whose_syn_was_not_captured(number: int, span_size: int) -> None:
    first = CapturedConnection(isn=(3_000_000_000, 4_000_000_000)).open()
    for place in range(12):
        first.exchange(request_bytes(place), response_bytes(place))
    second = connection(number, 30).packets[3:]
    shift = 2_300_000_000 - 700_000_001 * number
    second = [
        with_header(each, shift=shift, ack=0) if each.data[20:22] == b"\x9c\x40" else with_header(each, ack=shift)
        for each in second
    ]

    check_connections(in_turn(first.packets, second), 12, 30)


def test_one_packet_far_behind_is_damaged_and_two_are_another_connection(span_size: int) -> None:
    packets = connection(0).packets
    far = with_header(packets[11], shift=-RESENT_DISTANCE_MAX - 5_000)
    between = packets[12]
    assert tcp_payload(far)

    check_connections([*packets[:12], far, *packets[12:]], 12)
    split = [*packets[:12], far, between, *packets[13:20], far._replace(ts=packets[20].ts), *packets[20:]]
    check_connections(split, 12)
    capture = build_pcap([*packets[:12], far, far._replace(ts=far.ts + 1_000), *packets[12:]])
    assert_rows_of_pipeline(capture)
    assert [flow.epoch for flow in build_index(capture).flows] == list(range(len(build_index(capture).flows)))


@pytest.mark.parametrize("pause_ns", [SECOND_NS // 2, 2 * SECOND_NS, 4 * SECOND_NS, 6 * SECOND_NS])
@pytest.mark.parametrize("end", ["fin", "rst"])
def test_data_may_come_after_the_end_of_a_connection(end: str, pause_ns: int, span_size: int) -> None:
    packets = connection(0, 20).packets
    closed = [*packets[:20], reset(packets[19])] if end == "rst" else connection(0, 8).close().packets
    rest = later(packets[20:], closed, pause_ns)
    other = later(connection(9, port=40_009).packets, rest, 10 * SECOND_NS)

    for capture in (build_pcap([*closed, *rest]), build_pcap([*closed, *rest, *other])):
        assert_rows_of_pipeline(capture)


def test_a_reset_without_effect_is_no_end_for_the_requests_behind_it(span_size: int) -> None:
    packets = connection(0, 20).send_requests(request_bytes(70)).packets
    rest = later(packets[20:], packets[:20], 2 * SECOND_NS)
    rest += later(connection(9, port=40_009).packets, rest, 10 * SECOND_NS)

    rows = check_connections([*packets[:20], reset(packets[19]), *rest], 33)
    assert "the capture ends before an answer" in str([row["issues"] for row in rows])


@pytest.mark.parametrize("place", [1, 2, 4, 5, 12])
def test_data_may_come_before_the_syn_of_its_side(place: int, span_size: int) -> None:
    packets = connection(0).packets
    for moved in (0, 1):
        order = [packet for number, packet in enumerate(packets) if number != moved]
        order.insert(place, packets[moved])
        times = [packet.ts for packet in packets]

        check_connections([packet._replace(ts=ts) for packet, ts in zip(order, times, strict=True)], 12)


@pytest.mark.parametrize("distance", [0, 1_000, LATE_SYN_DISTANCE - 1, LATE_SYN_DISTANCE + 1])
@pytest.mark.parametrize("place", [START_PACKETS + 2, 2 * START_PACKETS, 2 * START_PACKETS + 3])
def test_a_late_syn_is_near_and_early(place: int, distance: int, span_size: int) -> None:
    packets = connection(0, 30).packets
    syn = with_header(packets[0], shift=-distance)
    capture = [*packets[1:place], syn._replace(ts=packets[place].ts - 1), *packets[place:]]

    assert_rows_of_pipeline(build_pcap(capture))


def test_both_sides_may_open_a_connection_at_once(span_size: int) -> None:
    packets = connection(0).packets
    other = with_header(packets[1], flags=SYN)
    capture = build_pcap([packets[0], other, packets[1]._replace(ts=packets[1].ts + 1), *packets[2:]])

    assert_rows_of_pipeline(capture)


@pytest.mark.parametrize("flags", [ACK, RST, FIN | ACK])
def test_packets_that_belong_to_no_connection_do_not_count(flags: int, span_size: int) -> None:
    first = connection(0).close().packets
    stray = with_header(send_bytes(first[4], 1_000, b""), flags=flags, ack=1_000_000)
    before = stray._replace(ts=first[0].ts - SECOND_NS)
    behind = later([stray] * 20, first, 10 * SECOND_NS)

    check_connections([before, *first, *behind, *later(connection(1).packets, behind, SECOND_NS)], 12, 12)


def test_a_connection_with_an_open_gap_may_be_replaced(span_size: int) -> None:
    first = connection(0, 20).packets
    lost = [packet for place, packet in enumerate(first) if place not in {9, 30}]

    check_connections(in_turn(lost, connection(1, 20).packets, connection(2, 20).packets[:9]), 19, 20, 3)


def test_each_packet_has_its_connection(span_size: int) -> None:
    first, second = connection(0).packets, connection(1).close().packets
    third, syns = connection(2).packets, [connection(number).packets[0] for number in (3, 4, 5)]
    capture = build_pcap(in_turn([first[2]], first, second, syns, third, pause_ns=6 * SECOND_NS))
    expected: list[int] = []
    table = ConnectionTable(lambda flow, _, __: expected.append(-1 if flow is None else flow.epoch))
    for segment in dissect_packets(read_packets(capture)):
        assert isinstance(segment, Segment)
        list(table.process_segment(segment))
    index, flows, epochs = build_index(capture), FlowTable(), list[int]()
    connections, replaced = Connections(flows), list[int]()

    for part in range(len(index.spans)):
        packets = index.read_packets(part)
        headers = headers_from_columns(packets._asdict())
        span = connections.divide_packets(headers, packets.pair.astype(np.int64), index.packet_times(part))
        found = find_replaced(span.flow, headers.number, span.replaced)
        own = [flows.epoch[flow] if flow >= 0 else -1 for flow in span.flow.tolist()]
        epochs += [own[row] if at < 0 else span.replaced[at].epoch for row, at in enumerate(found.tolist())]
        replaced += [each.epoch for each in span.replaced]
    assert epochs == expected
    # An acknowledgement without a connection; 0, 1 and 5 have data; 2 to 4 are SYNs.
    assert sorted(set(epochs)) == [-1, 0, 1, 2, 3, 4, 5]
    assert replaced == [2, 3, 4]


def test_shards_number_connections_as_one_process(span_size: int, tmp_path: Path) -> None:
    ports = [
        in_turn(*(connection(number, 6 + port, port=40_000 + port).close().packets for number in range(5)))
        for port in range(5)
    ]
    packets = sorted((packet for own in ports for packet in own), key=lambda packet: packet.ts)
    path = tmp_path / "reused.pcap"
    path.write_bytes(build_pcap(packets))
    expected = build_index(path)

    assert len(expected.flows) == 25
    for count in (1, 2, 4):
        assert_indexes_equal(build_by_size(path, tmp_path, 4 * scanner.SPAN_SIZE, count), expected)


def test_a_flood_of_syns_needs_no_memory_for_each(span_size: int) -> None:
    (syn, *_), count = connection(0).packets, 100_000 if span_size == SPAN_SIZE else 3_000
    flood = (with_header(syn._replace(ts=syn.ts + number * 1_000), shift=number * 77_777) for number in range(count))
    capture, start = build_pcap(flood), time.process_time()
    index = build_index(capture)

    assert time.process_time() - start < 60
    assert [flow.epoch for flow in index.flows] == [count - 1]
