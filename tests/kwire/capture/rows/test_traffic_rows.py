"""Rows of the levels `flows` and `packets`."""

from __future__ import annotations

import random
import ssl
import struct
import subprocess
from collections import Counter
from collections.abc import Sequence

import pytest

from kwire.capture.export.pcapng_writer import TcpConversation
from kwire.capture.model import Row
from kwire.capture.reader import read_rows
from kwire.capture.traffic import packet_batches
from tests.support import needs
from tests.support.captures.capture_files import (
    CAPTURES,
    CapturedConnection,
    CapturedPacket,
    build_pcap,
    read_capture_rows,
    read_ip_packets,
    with_identification,
)
from tests.support.captures.tls_captures import record_tls_capture

pytestmark = pytest.mark.slow

NAMES = ["aio", "ck", "ckz", "jshare", "kpy", "share", "tlskey", "txn"]
# ApiVersions v0 and its answer.
ASKED = b"\0\x12\0\0\0\0\0\x01\0\x02me"
ANSWERED = b"\0\0\0\x01\0\0\0\0\0\0"
MS = 1_000_000


def read_level(name: str, level: str) -> list[Row]:
    return list(read_rows(CAPTURES / f"small_{name}.pcap", level))


def connection_keys(rows: list[Row]) -> set[tuple[object, object]]:
    return {(row["conn_id"], row["stream_epoch"]) for row in rows}


def exchange_packets(count: int = 1) -> list[CapturedPacket]:
    """A connection with so many requests: three packets to open it, two for each exchange, three to close it."""
    connection = CapturedConnection().open()
    for _ in range(count):
        connection.exchange(ASKED, ANSWERED)
    return connection.close().packets


def flow_rows(packets: Sequence[CapturedPacket], **options: object) -> list[Row]:
    return read_capture_rows(build_pcap(packets), "flows", **options)


def packet_rows(packets: Sequence[CapturedPacket], **options: object) -> list[Row]:
    return read_capture_rows(build_pcap(packets), "packets", **options)


def anomalies(packets: Sequence[CapturedPacket]) -> list[object]:
    return [row["anomaly"] for row in packet_rows(packets)]


def with_header_bytes(packet: CapturedPacket, at: int, value: bytes) -> CapturedPacket:
    """With other bytes in the TCP header."""
    return packet._replace(data=packet.data[: 20 + at] + value + packet.data[20 + at + len(value) :])


@pytest.mark.parametrize("name", NAMES)
def test_both_levels_have_the_connections_of_the_messages(name: str) -> None:
    flows, packets = read_level(name, "flows"), read_level(name, "packets")

    assert connection_keys(read_level(name, "messages")) <= connection_keys(flows)
    assert connection_keys(packets) == connection_keys(flows)
    count = len(read_ip_packets(CAPTURES / f"small_{name}.pcap"))
    assert [row["number"] for row in packets] == list(range(1, count + 1))
    for flow in flows:
        flow_packets = [row for row in packets if row["conn_id"] == flow["conn_id"]]
        by_client = [row for row in flow_packets if row["from_client"]]
        assert len(by_client) == flow["packets_client"]
        assert len(flow_packets) - len(by_client) == flow["packets_broker"]
        assert sum(int(str(row["payload_bytes"])) for row in by_client) == flow["bytes_client"]
        assert (flow_packets[0]["number"], flow_packets[-1]["number"]) == (flow["first_packet"], flow["last_packet"])
        client = flow["client_ip"], flow["client_port"]
        assert {(row["source_ip"], row["source_port"]) for row in by_client} == {client}


@pytest.mark.parametrize("name", NAMES)
def test_wireshark_finds_the_same_retransmissions_and_round_trips(name: str) -> None:
    tshark = needs.tool("tshark")
    fields = ("frame.number", "tcp.analysis.retransmission", "tcp.analysis.zero_window", "tcp.analysis.initial_rtt")
    command = [tshark, "-r", str(CAPTURES / f"small_{name}.pcap"), "-T", "fields", "-e", "tcp.stream"]
    command += [part for field in fields for part in ("-e", field)]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    rows = [line.split("\t") for line in lines]

    packets, flows = read_level(name, "packets"), read_level(name, "flows")
    assert [row["number"] for row in packets if row["anomaly"]] == [int(row[1]) for row in rows if row[2]]
    assert not any(row[3] for row in rows)
    assert sum(int(str(row["zero_windows_client"])) for row in flows) == 0
    round_trips = {row[0]: round(float(row[4]) * 1_000_000) for row in rows if row[4]}
    assert Counter(round_trips.values()) == Counter(row["rtt_us"] for row in flows if row["rtt_us"] is not None)


def test_a_flow_has_its_kind_its_end_and_its_counts() -> None:
    (flow,) = flow_rows(exchange_packets(3))

    assert flow["conn_id"] == "127.0.0.1:40000>127.0.0.1:9092"
    assert (flow["kind"], flow["tls"], flow["ended"]) == ("kafka", False, "fin")
    assert (flow["packets_client"], flow["packets_broker"]) == (7, 5)
    assert (flow["bytes_client"], flow["bytes_broker"]) == (3 * (4 + len(ASKED)), 3 * (4 + len(ANSWERED)))
    assert flow["rtt_us"] == 2000
    assert (flow["first_packet"], flow["last_packet"]) == (1, 12)


def test_connections_that_are_not_kafka_are_flows_too() -> None:
    asked = b"GET / HTTP/1.1\r\nHost: here\r\n\r\n" * 4
    browsing = CapturedConnection(broker=("127.0.0.1", 80)).open().send_client_bytes(asked).packets
    idle = CapturedConnection(broker=("127.0.0.1", 81)).open().packets
    tls_capture = record_tls_capture(ssl.TLSVersion.TLSv1_3, count=2)

    flows = flow_rows(browsing + idle + tls_capture.packets)
    assert [row["broker_port"] for row in flows][:2] == [80, 81]
    assert [(row["kind"], row["tls"]) for row in flows] == [("not_kafka", False), ("no_data", False), ("tls", True)]
    opened = flow_rows(tls_capture.packets, tls_keylog=tls_capture.key_log)
    assert [(row["kind"], row["tls"]) for row in opened] == [("kafka", True)]
    assert [row["broker_port"] for row in flow_rows(browsing + idle, ports=frozenset({81}))] == [81]
    assert {row["target_port"] for row in packet_rows(browsing + idle, ports=frozenset({81}))} == {81, 40_000}


def test_a_flow_has_the_reason_of_its_end() -> None:
    conversation = TcpConversation(("127.0.0.1", 40_000), ("127.0.0.1", 9092))
    opened = [*conversation.open(), *conversation.from_client(struct.pack(">i", len(ASKED)) + ASKED)]
    reset = [CapturedPacket(1 + index, each) for index, each in enumerate([*opened, *conversation.reset()])]
    again = CapturedConnection(isn=(900_000, 800_000), start=5_000).open().packets

    assert [row["ended"] for row in flow_rows(reset)] == ["rst"]
    assert [row["ended"] for row in flow_rows(reset[:-1])] == ["end"]
    reused = flow_rows(reset[:-1] + again)
    assert [(row["ended"], row["stream_epoch"]) for row in reused] == [("reuse", 0), ("end", 1)]


@pytest.mark.parametrize("by_client", [True, False])
@pytest.mark.parametrize("how", ["close", "reset"])
def test_ended_by_is_the_sender_of_the_first_fin_or_rst(how: str, by_client: bool) -> None:
    conversation = TcpConversation(("127.0.0.1", 40_000), ("127.0.0.1", 9092))
    opened = [*conversation.open(), *conversation.from_client(struct.pack(">i", len(ASKED)) + ASKED)]
    sent = [*opened, *getattr(conversation, how)(by_client=by_client)]
    packets = [CapturedPacket(1 + at, each) for at, each in enumerate(sent)]

    assert [row["ended_by"] for row in flow_rows(packets)] == ["client" if by_client else "broker"]
    assert [row["ended_by"] for row in flow_rows(packets[: len(opened)])] == [None]


def test_a_retransmission_is_not_a_packet_out_of_order() -> None:
    packets = exchange_packets(4)
    # A copy of the packet would have its IP identification.
    twice = [*packets[:4], with_identification(packets[3], 0xFFFF), *packets[4:]]
    # The second request comes after the third: it is out of order, not retransmitted.
    ts = packets[4].ts
    overtaken = [*packets[:5], packets[7]._replace(ts=ts + MS), packets[5]._replace(ts=ts + 2 * MS)]
    # The same, but a second later.
    again = [*overtaken[:-1], overtaken[-1]._replace(ts=ts + 1000 * MS)]

    cases = ((twice, (5, "retransmission")), (overtaken, (7, "out_of_order")), (again, (7, "retransmission")))
    for sent, expected in cases:
        assert [found for found in enumerate(anomalies(sent), 1) if found[1]] == [expected]
    assert [row["retransmits_client"] for row in flow_rows(twice)] == [1]
    assert [row["retransmits_client"] for row in flow_rows(overtaken)] == [0]


def test_a_packet_with_old_and_new_bytes_overlaps() -> None:
    first, second = (list(TcpConversation(("127.0.0.1", 1), ("127.0.0.1", 2)).from_client(b"x" * n)) for n in (30, 50))

    assert anomalies([CapturedPacket(1, first[0]), CapturedPacket(2, second[0])]) == [None, "overlap"]
    assert anomalies([CapturedPacket(1, second[0]), CapturedPacket(2, first[0])]) == [None, "retransmission"]


def test_a_keep_alive_is_no_retransmission() -> None:
    packets = exchange_packets(2)
    probe = bytearray(packets[3].data[:41])
    probe[2:4] = struct.pack(">H", 41)
    probe[24:28] = struct.pack(">I", struct.unpack_from(">I", probe, 24)[0] + 4 + len(ASKED) - 1)
    probed = [*packets[:4], CapturedPacket(packets[3].ts, bytes(probe)), *packets[4:]]

    assert anomalies(probed) == [None] * len(probed)


def test_without_a_syn_the_first_packets_may_come_in_any_order() -> None:
    packets = exchange_packets(4)[3:]

    assert anomalies([packets[2], packets[0], *packets[3:]])[1] == "out_of_order"


def test_an_empty_packet_shows_the_position_of_its_sender() -> None:
    *others, fin, answer, acknowledgement = exchange_packets(1)

    # The client's FIN comes after the last acknowledgement, whose number is one more.
    assert anomalies([*others, answer, acknowledgement, fin])[-2:] == [None, "out_of_order"]


def test_wrapped_sequence_numbers_are_no_anomaly() -> None:
    connection = CapturedConnection(isn=(2**32 - 20, 2**32 - 5)).open()
    for _ in range(6):
        connection.exchange(ASKED, ANSWERED)

    assert set(anomalies(connection.packets)) == {None}


def test_zero_windows_are_counted_but_not_those_of_resets() -> None:
    packets = exchange_packets(2)
    full = [*packets[:4], with_header_bytes(packets[4], 14, b"\0\0"), *packets[5:]]
    reset = CapturedPacket(packets[-1].ts, TcpConversation(("127.0.0.1", 40_000), ("127.0.0.1", 9092)).reset()[0])

    (flow,) = flow_rows([*full, with_header_bytes(reset, 14, b"\0\0")])
    assert (flow["zero_windows_client"], flow["zero_windows_broker"]) == (0, 1)
    assert [row["window"] for row in packet_rows(full)][3:6] == [65_535, 0, 65_535]


def test_lost_bytes_are_those_without_a_packet() -> None:
    packets = exchange_packets(40)

    (flow,) = flow_rows([*packets[:5], *packets[6:]])
    assert (flow["lost_bytes_client"], flow["lost_bytes_broker"]) == (4 + len(ASKED), 0)
    cut = packet_rows([packet._replace(stored_size=42) for packet in packets])
    assert cut[3]["payload_bytes"] == 2
    assert cut[3]["missing_bytes"] == 4 + len(ASKED) - 2


def test_without_a_captured_handshake_there_is_no_round_trip_time() -> None:
    packets = exchange_packets(2)

    assert [flow_rows(packets[start:])[0]["rtt_us"] for start in range(4)] == [2000, None, None, None]
    # The acknowledgement was lost: the next packet of the client does not show the round trip time.
    assert flow_rows([*packets[:2], *packets[5:]])[0]["rtt_us"] is None


def test_a_stray_packet_belongs_to_no_connection() -> None:
    (row,) = packet_rows(exchange_packets(1)[2:3])

    assert (row["flags"], row["source_port"], row["target_port"]) == ("ACK", 40_000, 9092)
    assert (row["conn_id"], row["stream_epoch"], row["from_client"]) == (None, None, None)


def test_packets_wait_for_the_client_side_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    # A response comes first: only the request after it shows which side is the client.
    packets = exchange_packets(3)[4:]

    assert [row["from_client"] for row in packet_rows(packets)][:3] == [False, True, False]
    monkeypatch.setattr(packet_batches, "PENDING_PACKETS_MAX", 0)
    hasty = packet_rows(packets)
    assert hasty[0]["from_client"] is None
    assert [row["number"] for row in hasty] == list(range(1, len(packets) + 1))


def test_packets_keep_the_order_of_the_file_if_times_are_not_in_order() -> None:
    packets = [each._replace(ts=each.ts + random.Random(1).randrange(50 * MS)) for each in exchange_packets(9)]
    random.Random(2).shuffle(packets)

    assert [row["number"] for row in packet_rows(packets)] == list(range(1, len(packets) + 1))
