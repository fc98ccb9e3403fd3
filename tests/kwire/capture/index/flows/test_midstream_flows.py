"""Flows that began before the capture, or lost their beginning, are read by columns; their rows are the pipeline's."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from pathlib import Path

import pytest

from kwire.capture import index
from kwire.capture.index import build_index
from kwire.capture.index.scan.spans import SPAN_SIZE
from kwire.capture.kafka import client_detection
from kwire.capture.options import Options
from kwire.capture.reader import read_batches, read_flow_batches
from kwire.capture.rows.columns import level_columns
from tests.support.captures.capture_files import CapturedConnection, build_pcap, read_ip_packets
from tests.support.captures.index_captures import (
    FILES,
    IMPAIRED,
    TOGETHER,
    assert_rows_of_pipeline,
    batch_rows,
    connection_with_exchanges,
    count_flows,
    join_captures,
    keep_direction,
    request_bytes,
    response_bytes,
    send_bytes,
    split_segment,
    tcp_payload,
)

pytestmark = pytest.mark.slow

NO_BODIES = Options(bodies=False)
SMALL = [path for path in FILES if path.stem.startswith("small_")]
NAMES = [column.name for column in level_columns("messages") if not column.name.startswith("body_")]
HEADER_COLUMNS = [name for name in NAMES if not name.startswith("session_")]
IMPAIRMENTS = [name for name in IMPAIRED if "snaplen" not in name]


def assert_same(
    capture: bytes, level: str = "messages", options: Options = NO_BODIES, names: Sequence[str] = ()
) -> None:
    assert_rows_of_pipeline(capture, level, options, names or (NAMES if level == "messages" else None))


@pytest.mark.parametrize("path", SMALL, ids=lambda path: path.stem)
def test_captures_that_begin_at_any_packet_have_the_rows_of_the_pipeline(path: Path) -> None:
    packets = read_ip_packets(path)
    beginnings = [packets[cut:] for cut in range(1, len(packets))]

    for first in range(0, len(beginnings), TOGETHER):
        assert_same(build_pcap(beginnings[first]))
        assert_same(join_captures(beginnings[first : first + TOGETHER]))


@pytest.mark.parametrize("level", ["messages", "partitions", "share_acks"])
@pytest.mark.parametrize("span_size", [SPAN_SIZE, 8_192], indirect=True)
@pytest.mark.parametrize("impairment", IMPAIRMENTS)
def test_impaired_captures_that_begin_anywhere(impairment: str, span_size: int, level: str) -> None:
    chance = random.Random(f"{impairment} {span_size} {level}")

    for path in chance.sample(FILES, 4):
        packets = IMPAIRED[impairment](read_ip_packets(path)[:400])
        for _ in range(2):
            capture = build_pcap(packets[chance.randrange(len(packets)) :])
            # The pipeline reports open sessions of ended connections later.
            assert_same(capture, level, names=HEADER_COLUMNS if level == "messages" else ())


@pytest.mark.parametrize("port", [9092, 40_000])
def test_a_broker_port_determines_the_client(port: int) -> None:
    capture = build_pcap(connection_with_exchanges(30).packets[5:])

    assert count_flows(capture) == 1
    assert_same(capture, options=Options(ports=frozenset({port}), bodies=False))


def test_a_response_without_a_request_is_reported_where_its_connection_ends() -> None:
    capture = build_pcap(connection_with_exchanges(30).close().packets[4:])

    assert count_flows(capture) == 1
    assert_same(capture)
    first = batch_rows(read_batches(capture))[0]
    assert (first["status"], first["correlation_id"], first["req_ts"]) == ("no_request", 0, None)


def test_a_later_request_may_have_the_id_of_a_response_without_a_request() -> None:
    connection = connection_with_exchanges(30)
    capture = build_pcap(connection.exchange(request_bytes(0), response_bytes(0)).packets[4:])

    assert count_flows(capture) == 1
    assert_same(capture)


@pytest.mark.parametrize("size", [30, 333, 2_000])
@pytest.mark.parametrize("cut", [3, 4, 5, 8, 11, 30])
def test_fragmented_frames_are_found_from_the_first_complete_one_on(size: int, cut: int) -> None:
    connection = connection_with_exchanges(2)
    for number in range(40):
        frame = request_bytes(100 + number, "y" * 900)
        data = struct.pack(">i", len(frame)) + frame
        for at in range(0, len(data), size):
            connection.send_client_bytes(data[at : at + size])
        connection.send_responses(response_bytes(100 + number))
    capture = build_pcap(connection.packets[cut:])

    assert count_flows(capture) == 1
    assert_same(capture)


def test_sequence_numbers_may_wrap_before_the_flow_is_synchronized() -> None:
    for before in range(1, 1_000, 37):
        isn = 2**32 - before, 2**32 - 1 - before // 2
        packets = connection_with_exchanges(30, isn=isn).packets[3:]
        # The lowest number is in the second packet.
        packets[0], packets[2] = packets[2]._replace(ts=packets[0].ts), packets[0]._replace(ts=packets[2].ts)

        assert count_flows(build_pcap(packets)) == 1
        assert_same(build_pcap(packets))


def test_a_syn_on_a_midstream_connection_opens_another_connection() -> None:
    second = CapturedConnection(isn=(70_000_000, 90_000_000), start=1_700_000_900_000_000_000)
    second.open().exchange(request_bytes(5), response_bytes(5))
    capture = build_pcap([*connection_with_exchanges(30).packets[3:], *second.packets])

    assert count_flows(capture) == 2
    assert_same(capture)


@pytest.mark.parametrize(("total", "size"), [(64 << 20, 64 << 10), (500, 400), (500, 20)])
def test_flows_that_hold_more_than_the_limit_are_decided_at_once(
    total: int, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_detection, "UNDECIDED_TOTAL_MAX", total)
    monkeypatch.setattr(client_detection, "_UNDECIDED_SIZE_REDUCED", size)
    packets = connection_with_exchanges(30).packets[3:]
    # No packet has a whole header, so requests are searched for at the end.
    capture = build_pcap(packet for each in packets for packet in split_segment(each, 9))

    assert count_flows(capture) == 1
    assert_same(capture)


@pytest.mark.parametrize("from_client", [True, False])
def test_only_the_direction_of_the_client_shows_which_side_is_the_client(from_client: bool) -> None:
    capture = build_pcap(keep_direction(connection_with_exchanges(40).packets[3:], from_client=from_client))

    assert [each.kind for each in build_index(capture).others] == ([] if from_client else ["not_kafka"])
    assert count_flows(capture) == 1
    assert_same(capture)


@pytest.mark.parametrize("client_port", [8_000, 40_000])
def test_where_both_sides_send_requests_the_ports_decide(client_port: int) -> None:
    connection = CapturedConnection(("127.0.0.1", client_port)).open()
    for number in range(40):
        data = struct.pack(">i", len(request_bytes(number))) + request_bytes(number)
        connection.send_client_bytes(b"\xff" * 7 + data if not number else data)
        connection.send_server_bytes(b"\xff" * 5 + data if not number else data)
    capture = build_pcap(packet for each in connection.packets[3:] for packet in split_segment(each, 13))

    assert count_flows(capture) == 1
    assert {row["client_port"] for row in assert_rows_of_pipeline(capture)} == {max(client_port, 9092)}
    assert_same(capture)


@pytest.mark.parametrize("count", [1, 3, 7, 12])
@pytest.mark.parametrize("span_size", [SPAN_SIZE, 4_096], indirect=True)
def test_connections_with_few_packets_and_an_end_have_the_rows_of_the_pipeline(count: int, span_size: int) -> None:
    open_packets = connection_with_exchanges(count).packets[3:]
    last = open_packets[-1]
    reset = send_bytes(last, len(tcp_payload(last)), b"")
    reset = reset._replace(ts=last.ts + 1, data=reset.data[:33] + b"\x04" + reset.data[34:])
    for packets in (open_packets, [*open_packets, reset], connection_with_exchanges(count).close().packets[3:]):
        assert_same(build_pcap(packets))
        assert_same(build_pcap([packets[1], packets[0], *packets[2:]]))


def test_an_acknowledgement_before_the_syn_of_its_side_shows_no_start() -> None:
    packets = connection_with_exchanges(10).packets
    # Captured before the SYN of its side, and without that of the other.
    ack = send_bytes(packets[4], 0, b"")._replace(ts=packets[0].ts)
    capture = build_pcap([ack, *packets[1:]])

    assert count_flows(capture) == 1
    assert_same(capture)


def test_what_looks_like_a_frame_inside_an_incomplete_one_is_none() -> None:
    connection = connection_with_exchanges(3)
    connection.send_requests(request_bytes(50)).send_requests(request_bytes(51))
    connection.send_server_bytes(struct.pack(">ii", 5_000, 50)).send_responses(response_bytes(51))
    capture = build_pcap(connection.packets)

    assert count_flows(capture) == 1
    assert_same(capture)
    rows = batch_rows(read_batches(capture))
    assert [(row["correlation_id"], row["status"]) for row in rows[3:]] == [(50, "truncated"), (51, "no_response")]


def test_midstream_flows_of_an_index_read_from_its_sidecar(tmp_path: Path) -> None:
    packets = [piece for each in FILES[:4] for piece in read_ip_packets(each)[20:]]
    path = tmp_path / "mid.pcap"
    path.write_bytes(build_pcap(sorted(packets, key=lambda each: each.ts)))
    fresh = index.build_index(path)
    stored = index.open_index(path, cache=index.BESIDE)

    assert stored.sidecar is not None
    assert stored.gaps == fresh.gaps
    assert batch_rows(read_flow_batches([fresh], None)) == batch_rows(read_flow_batches([stored], None))
