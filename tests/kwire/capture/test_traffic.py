"""The levels `flows` and `packets`: what connections and their packets say of the network."""

from __future__ import annotations

import random
import ssl
import struct
import subprocess
from collections import Counter
from collections.abc import Sequence

import pytest

from kwire.capture import traffic
from kwire.capture.ip import segments
from kwire.capture.packets import packets
from kwire.capture.pcapng_write import TcpConversation
from kwire.capture.pipeline import rows
from kwire.capture.rows import Row
from kwire.capture.values import Segment
from tests import needs
from tests.kwire.capture.test_accounting import DAMAGES, doubled, lossy
from tests.kwire.capture.tls_wire import recorded
from tests.kwire.capture.wire import CAPTURES, Talk, Wire, ip_packets, pcap, read

NAMES = ["aio", "ck", "ckz", "jshare", "kpy", "share", "tlskey", "txn"]
# ApiVersions v0 and its answer.
ASKED = b"\0\x12\0\0\0\0\0\x01\0\x02me"
ANSWERED = b"\0\0\0\x01\0\0\0\0\0\0"
MS = 1_000_000


def of(name: str, level: str) -> list[Row]:
    return list(rows(CAPTURES / f"small_{name}.pcap", level))


def exchanged(count: int = 1) -> list[Wire]:
    """A connection with so many requests: three packets to open it, two for each exchange, three to close it."""
    talk = Talk().open()
    for _ in range(count):
        talk.asks(ASKED).answers(ANSWERED)
    return talk.close().wires


def oddities(wires: Sequence[Wire]) -> list[object]:
    return [row["oddity"] for row in read(pcap(wires), "packets")]


def tcp(wire: Wire) -> tuple[int, int]:
    """Sequence number and flags."""
    seq, flags = struct.unpack_from(">I5xB", wire.packet, 24)
    return seq, flags


def patched(wire: Wire, at: int, value: bytes) -> Wire:
    """With other bytes in the TCP header."""
    packet = bytearray(wire.packet)
    packet[20 + at : 20 + at + len(value)] = value
    return wire._replace(packet=bytes(packet))


@pytest.mark.parametrize("name", NAMES)
def test_connections_of_both_levels_are_those_of_the_messages(name: str) -> None:
    flows, told = of(name, "flows"), of(name, "packets")

    keys = {(row["conn_id"], row["stream_epoch"]) for row in of(name, "messages")}
    assert keys <= {(row["conn_id"], row["stream_epoch"]) for row in flows}
    assert {(row["conn_id"], row["stream_epoch"]) for row in told} == {
        (row["conn_id"], row["stream_epoch"]) for row in flows
    }
    assert [row["number"] for row in told] == list(range(1, len(ip_packets(CAPTURES / f"small_{name}.pcap")) + 1))
    for flow in flows:
        mine = [row for row in told if row["conn_id"] == flow["conn_id"]]
        by_client = [row for row in mine if row["from_client"]]
        assert len(by_client) == flow["packets_client"]
        assert len(mine) - len(by_client) == flow["packets_broker"]
        assert sum(int(str(row["payload_bytes"])) for row in by_client) == flow["bytes_client"]
        assert (mine[0]["number"], mine[-1]["number"]) == (flow["first_packet"], flow["last_packet"])
        assert {(row["source_ip"], row["source_port"]) for row in by_client} == {
            (flow["client_ip"], flow["client_port"])
        }


@pytest.mark.parametrize("name", NAMES)
def test_wireshark_finds_the_same_retransmissions_and_round_trips(name: str) -> None:
    tshark = needs.tool("tshark")
    fields = ("frame.number", "tcp.analysis.retransmission", "tcp.analysis.zero_window", "tcp.analysis.initial_rtt")
    command = [tshark, "-r", str(CAPTURES / f"small_{name}.pcap"), "-T", "fields", "-e", "tcp.stream"]
    command += [part for each in fields for part in ("-e", each)]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    found = [line.split("\t") for line in lines]

    told, flows = of(name, "packets"), of(name, "flows")
    assert [row["number"] for row in told if row["oddity"]] == [int(each[1]) for each in found if each[2]]
    assert not any(each[3] for each in found)
    assert sum(int(str(row["zero_windows_client"])) for row in flows) == 0
    round_trips = {each[0]: round(float(each[4]) * 1_000_000) for each in found if each[4]}
    assert Counter(round_trips.values()) == Counter(row["rtt_us"] for row in flows if row["rtt_us"] is not None)


def test_a_flow_tells_its_kind_its_end_and_what_it_carried() -> None:
    (flow,) = read(pcap(exchanged(3)), "flows")

    assert flow["conn_id"] == "127.0.0.1:40000>127.0.0.1:9092"
    assert (flow["kind"], flow["tls"], flow["ended"]) == ("kafka", False, "fin")
    assert (flow["packets_client"], flow["packets_broker"]) == (7, 5)
    assert (flow["bytes_client"], flow["bytes_broker"]) == (3 * (4 + len(ASKED)), 3 * (4 + len(ANSWERED)))
    assert flow["rtt_us"] == 2000
    assert (flow["first_packet"], flow["last_packet"]) == (1, 12)


def test_connections_that_are_not_kafka_are_flows_too() -> None:
    browsing = Talk(broker=("127.0.0.1", 80)).open().client_bytes(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n" * 4).wires
    idle = Talk(broker=("127.0.0.1", 81)).open().wires
    made = recorded(ssl.TLSVersion.TLSv1_3, count=2)

    flows = read(pcap(browsing + idle + made.wires), "flows")
    assert [(row["broker_port"], row["kind"], row["tls"]) for row in flows][:2] == [
        (80, "not_kafka", False),
        (81, "no_data", False),
    ]
    assert [(row["kind"], row["tls"]) for row in flows][2:] == [("tls", True)]
    opened = read(pcap(made.wires), "flows", tls_keylog=made.keys)
    assert [(row["kind"], row["tls"]) for row in opened] == [("kafka", True)]
    assert [row["broker_port"] for row in read(pcap(browsing + idle), "flows", ports=frozenset({81}))] == [81]
    assert {row["target_port"] for row in read(pcap(browsing + idle), "packets", ports=frozenset({81}))} == {81, 40_000}


def test_a_connection_ends_as_it_does() -> None:
    conversation = TcpConversation(("127.0.0.1", 40_000), ("127.0.0.1", 9092))
    opened = [*conversation.open(), *conversation.from_client(struct.pack(">i", len(ASKED)) + ASKED)]
    reset = [Wire(1 + index, each) for index, each in enumerate([*opened, *conversation.reset()])]
    again = Talk(isn=(900_000, 800_000), start=5_000).open().wires

    assert [row["ended"] for row in read(pcap(reset), "flows")] == ["rst"]
    assert [row["ended"] for row in read(pcap(reset[:-1]), "flows")] == ["end"]
    reused = read(pcap(reset[:-1] + again), "flows")
    assert [(row["ended"], row["stream_epoch"]) for row in reused] == [("reuse", 0), ("end", 1)]


@pytest.mark.parametrize("by_client", [True, False])
@pytest.mark.parametrize("how", ["close", "reset"])
def test_who_ends_a_connection_is_who_says_so_first(how: str, by_client: bool) -> None:
    conversation = TcpConversation(("127.0.0.1", 40_000), ("127.0.0.1", 9092))
    opened = [*conversation.open(), *conversation.from_client(struct.pack(">i", len(ASKED)) + ASKED)]
    wires = [Wire(1 + at, each) for at, each in enumerate([*opened, *getattr(conversation, how)(by_client=by_client)])]

    assert [row["ended_by"] for row in read(pcap(wires), "flows")] == ["client" if by_client else "broker"]
    assert [row["ended_by"] for row in read(pcap(wires[: len(opened)]), "flows")] == [None]


def test_what_is_sent_again_is_a_retransmission_and_what_was_overtaken_is_not() -> None:
    wires = exchanged(4)
    twice = [*wires[:4], wires[3], *wires[4:]]
    # The second request comes behind the third: nobody waited for it.
    overtaken = [*wires[:5], wires[7]._replace(ts=wires[4].ts + MS), wires[5]._replace(ts=wires[4].ts + 2 * MS)]
    # The same, but a second later.
    again = [*overtaken[:-1], overtaken[-1]._replace(ts=wires[4].ts + 1000 * MS)]

    assert [found for found in enumerate(oddities(twice), 1) if found[1]] == [(5, "retransmission")]
    assert [found for found in enumerate(oddities(overtaken), 1) if found[1]] == [(7, "out_of_order")]
    assert [found for found in enumerate(oddities(again), 1) if found[1]] == [(7, "retransmission")]
    assert [row["retransmits_client"] for row in read(pcap(twice), "flows")] == [1]
    assert [row["retransmits_client"] for row in read(pcap(overtaken), "flows")] == [0]


def test_a_packet_with_old_and_new_bytes_overlaps() -> None:
    first, second = (list(TcpConversation(("127.0.0.1", 1), ("127.0.0.1", 2)).from_client(b"x" * n)) for n in (30, 50))

    assert oddities([Wire(1, first[0]), Wire(2, second[0])]) == [None, "overlap"]
    assert oddities([Wire(1, second[0]), Wire(2, first[0])]) == [None, "retransmission"]


def test_a_keep_alive_is_no_retransmission() -> None:
    wires = exchanged(2)
    seq = tcp(wires[3])[0] + 4 + len(ASKED) - 1
    probe = bytearray(wires[3].packet[:41])
    probe[2:4] = struct.pack(">H", 41)
    probe[24:28] = struct.pack(">I", seq)

    assert oddities([*wires[:4], Wire(wires[3].ts, bytes(probe)), *wires[4:]]) == [None] * (len(wires) + 1)


def test_without_a_syn_the_first_packets_may_come_in_any_order() -> None:
    wires = exchanged(4)[3:]

    assert oddities([wires[2], wires[0], *wires[3:]])[1] == "out_of_order"


def test_an_empty_packet_shows_how_far_its_sender_has_come() -> None:
    wires = exchanged(1)
    *others, fin, answer, acknowledgement = wires

    # The client's FIN comes behind the last acknowledgement, whose number is one more.
    assert oddities([*others, answer, acknowledgement, fin])[-2:] == [None, "out_of_order"]


def test_sequence_numbers_wrap_without_becoming_odd() -> None:
    talk = Talk(isn=(2**32 - 20, 2**32 - 5)).open()
    for _ in range(6):
        talk.asks(ASKED).answers(ANSWERED)

    assert set(oddities(talk.wires)) == {None}


def test_zero_windows_are_counted_but_not_those_of_resets() -> None:
    wires = exchanged(2)
    full = [*wires[:4], patched(wires[4], 14, b"\0\0"), *wires[5:]]
    reset = Wire(wires[-1].ts, TcpConversation(("127.0.0.1", 40_000), ("127.0.0.1", 9092)).reset()[0])

    (flow,) = read(pcap([*full, patched(reset, 14, b"\0\0")]), "flows")
    assert (flow["zero_windows_client"], flow["zero_windows_broker"]) == (0, 1)
    assert [row["window"] for row in read(pcap(full), "packets")][3:6] == [65_535, 0, 65_535]


def test_lost_bytes_are_those_that_no_packet_brought() -> None:
    wires = exchanged(40)
    kept = [wire for index, wire in enumerate(wires) if index != 5]

    (flow,) = read(pcap(kept), "flows")
    assert (flow["lost_bytes_client"], flow["lost_bytes_broker"]) == (4 + len(ASKED), 0)
    cut = read(pcap([wire._replace(kept=42) for wire in wires]), "packets")
    assert cut[3]["payload_bytes"] == 2
    assert cut[3]["missing_bytes"] == 4 + len(ASKED) - 2


def test_a_handshake_that_was_not_captured_has_no_round_trip() -> None:
    wires = exchanged(2)

    assert [read(pcap(wires[start:]), "flows")[0]["rtt_us"] for start in range(4)] == [2000, None, None, None]
    # The acknowledgement was lost: the next packet of the client says nothing of the way.
    later = [*wires[:2], *wires[5:]]
    assert read(pcap(later), "flows")[0]["rtt_us"] is None


def test_a_stray_packet_belongs_to_no_connection() -> None:
    wires = exchanged(1)

    (row,) = read(pcap(wires[2:3]), "packets")
    assert (row["flags"], row["source_port"], row["target_port"]) == ("ACK", 40_000, 9092)
    assert (row["conn_id"], row["stream_epoch"], row["from_client"]) == (None, None, None)


def test_packets_wait_until_the_client_is_known_but_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    # An answer comes first: only the request behind it shows who the client is.
    wires = exchanged(3)[4:]

    assert [row["from_client"] for row in read(pcap(wires), "packets")][:3] == [False, True, False]
    monkeypatch.setattr(traffic, "HELD_PACKETS_MAX", 0)
    hasty = read(pcap(wires), "packets")
    assert hasty[0]["from_client"] is None
    assert [row["number"] for row in hasty] == list(range(1, len(wires) + 1))


def test_packets_keep_the_order_of_the_file_whatever_their_times() -> None:
    wires = [each._replace(ts=each.ts + random.Random(1).randrange(50 * MS)) for each in exchanged(9)]
    random.Random(2).shuffle(wires)

    assert [row["number"] for row in read(pcap(wires), "packets")] == list(range(1, len(wires) + 1))


def test_flags_are_told_by_name() -> None:
    assert traffic.flags_text(0) == ""
    assert traffic.flags_text(0x12) == "SYN,ACK"
    assert traffic.flags_text(0xFF) == "FIN,SYN,RST,PSH,ACK,URG,ECE,CWR"


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", ["ck", "share", "txn"])
def test_every_packet_is_told_once_and_counted_once_whatever_the_damage(name: str, damage: object) -> None:
    assert callable(damage)
    for seed in range(3):
        data = pcap(damage(ip_packets(CAPTURES / f"small_{name}.pcap"), random.Random(f"{name} {seed}")))
        found, flows = read(data, "packets"), read(data, "flows")
        carried = [each for each in segments(packets(data)) if isinstance(each, Segment)]

        assert [row["number"] for row in found] == [each.packet for each in carried]
        assert sum(int(str(row["payload_bytes"])) for row in found) == sum(len(each.payload) for each in carried)
        counted = sum(int(str(row["packets_client"])) + int(str(row["packets_broker"])) for row in flows)
        assert counted == len([row for row in found if row["conn_id"] is not None])
        assert {row["kind"] for row in flows} <= {"kafka", "not_kafka", "tls", "no_data"}
        # A packet that came twice, or a duplicate of one, is odd; nothing is in a copy that only lacks packets.
        assert damage is not doubled or any(row["oddity"] == "retransmission" for row in found)


def test_a_flow_loses_what_its_messages_lack() -> None:
    data = pcap(lossy(ip_packets(CAPTURES / "small_ck.pcap"), random.Random(4)))

    lost = {row["conn_id"] for row in read(data) if row["status"] == "gap"}
    assert lost
    assert lost <= {
        row["conn_id"] for row in read(data, "flows") if row["lost_bytes_client"] or row["lost_bytes_broker"]
    }
