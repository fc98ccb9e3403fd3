"""Connections that are not Kafka, or TLS without secrets, have their outcomes from the index."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.capture.columnar.reader import ColumnarReader
from kwire.capture.index import build_index
from kwire.capture.model import NonKafkaConnection
from kwire.capture.options import Options
from kwire.capture.reader import read_flow_batches
from tests.support.captures.capture_files import CapturedConnection, CapturedPacket, build_pcap, build_pcapng
from tests.support.captures.index_captures import (
    HEADERS_ONLY,
    assert_rows_of_pipeline,
    batch_rows,
    connection_with_exchanges,
    count_flows,
)
from tests.support.captures.range_indexes import assert_indexes_equal, build_by_size

HELLO = b"\x16\x03\x01\0\x40\x01" + bytes(63)
RECORD = b"\x17\x03\x03\0\x10" + bytes(16)
HTTP = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
KEY_LOG = f"CLIENT_RANDOM {'00' * 32} {'11' * 48}"
HALF_TLS = "nothing answered in TLS"


def send(opening: bytes, *answers: bytes, port: int = 40_001) -> CapturedConnection:
    """A connection with an opening, then these bytes of both sides in turn."""
    connection = CapturedConnection(("127.0.0.1", port)).open().send_client_bytes(opening)
    for answer in answers:
        connection.send_server_bytes(answer).send_client_bytes(RECORD)
    return connection


def others_of(capture: bytes) -> list[tuple[str, int]]:
    """Kind and size of the connections that are not read as Kafka."""
    return [(each.kind, each.size) for each in build_index(capture).others]


def mixed_packets() -> list[CapturedPacket]:
    """Connections of all kinds at the same time."""
    connections = [
        connection_with_exchanges(9),
        send(HELLO, HELLO, RECORD),
        send(HTTP, HTTP, port=40_002).close(),
        send(HELLO, HTTP, port=40_003),
        CapturedConnection(("127.0.0.1", 40_004)).open().close(),
    ]
    midstream = send(RECORD, RECORD, port=40_005).packets[3:]
    packets = [packet for each in connections for packet in each.packets]
    return sorted([*packets, *midstream], key=lambda packet: packet.ts)


@pytest.mark.parametrize("span_size", [24 * 1024 * 1024, 100], indirect=True)
def test_no_byte_of_them_is_read_again(span_size: int) -> None:
    capture = build_pcap(mixed_packets())

    rows = [row for row in assert_rows_of_pipeline(capture) if row["tls"]]
    # Without a SYN the first endpoint counts as the client.
    assert sorted(int(str(row["client_port"])) for row in rows) == [9092, 40_001, 40_003]
    assert [HALF_TLS in str(row["issues"]) for row in rows if row["client_port"] in {40_001, 40_003}].count(True) == 1
    assert sorted(others_of(capture)) == [
        ("not_kafka", 2 * len(HTTP) + len(RECORD)),
        ("tls", 3 * len(RECORD)),
        ("tls", len(HELLO) + len(HTTP) + len(RECORD)),
        ("tls", 2 * len(HELLO) + 3 * len(RECORD)),
    ]


def test_where_there_may_be_secrets_the_rows_of_tls_say_why_it_is_not_read() -> None:
    packets = mixed_packets()
    # A pcapng file may contain secrets.
    captures = (build_pcap(packets), KEY_LOG), (build_pcapng(packets), "")

    for capture, key_log in captures:
        options = Options(bodies=False, sessions=False, tls_keylog=key_log)
        details = [str(row["issues"]) for row in assert_rows_of_pipeline(capture, options=options) if row["tls"]]
        assert ["cannot be read" in detail for detail in details] == [True] * 3


def test_a_port_that_the_user_named_may_show_what_a_connection_is() -> None:
    capture, options = build_pcap(mixed_packets()), Options(ports=frozenset({9092}), sessions=False)

    rows = assert_rows_of_pipeline(capture, options=options)
    assert {row["status"] for row in rows} == {"ok", "undecodable"}
    assert assert_rows_of_pipeline(capture, options=Options(ports=frozenset({1}), sessions=False)) == []


def test_a_connection_whose_packets_lack_all_payload_is_nothing() -> None:
    packets = [packet._replace(stored_size=40) for packet in send(HELLO, RECORD).packets]

    assert others_of(build_pcap(packets)) == []
    assert assert_rows_of_pipeline(build_pcap(packets)) == []


def test_outcomes_have_the_flows_of_the_pipeline() -> None:
    reader = ColumnarReader(build_index(build_pcap(mixed_packets())), None, HEADERS_ONLY)
    outcomes = list(reader.outcomes("messages", issues=True))
    reader.close()

    flows = [outcome.flow for outcome in outcomes if isinstance(outcome, NonKafkaConnection)]
    assert sorted((flow.kind, flow.is_tls, flow.opener is None) for flow in flows) == [
        ("not_kafka", False, False),
        ("tls", True, False),
        ("tls", True, False),
        ("tls", True, True),
    ]


@pytest.mark.parametrize("count", [2, 3])
def test_they_are_merged_from_their_shards(count: int, tmp_path: Path) -> None:
    path = tmp_path / "mixed.pcap"
    path.write_bytes(build_pcap(mixed_packets()))
    (tmp_path / "work").mkdir()

    assert_indexes_equal(build_by_size(path, tmp_path / "work", 4_096, count), build_index(path))


def test_they_may_go_on_in_the_next_file_of_a_series() -> None:
    packets = mixed_packets()
    files = [build_index(build_pcap(part)) for part in (packets[:20], packets[20:])]

    rows = batch_rows(read_flow_batches(files, None, "messages", HEADERS_ONLY))

    whole = assert_rows_of_pipeline(build_pcap(packets))
    assert sorted(str(row["issues"]) for row in rows) == sorted(str(row["issues"]) for row in whole)


@pytest.mark.parametrize("span_size", [24 * 1024 * 1024, 200], indirect=True)
@pytest.mark.parametrize("stored_size", [40, 45, 200])
@pytest.mark.parametrize("data", [RECORD, HTTP, b"\0\0\0\1"])
def test_data_after_the_end_of_a_connection_that_is_not_read(data: bytes, stored_size: int, span_size: int) -> None:
    first = CapturedConnection(("127.0.0.1", 40_001)).open().send_client_bytes(data).close()
    later = first.send_client_bytes(data).packets.pop()
    other = connection_with_exchanges(3)
    packets = [packet._replace(stored_size=stored_size) for packet in first.packets]
    minute_ns = 60_000_000_000
    packets += [packet._replace(ts=packet.ts + minute_ns) for packet in other.packets]
    capture = build_pcap([*packets, later._replace(ts=packets[-1].ts + 1)])

    assert count_flows(capture) == 3
    assert_rows_of_pipeline(capture)
