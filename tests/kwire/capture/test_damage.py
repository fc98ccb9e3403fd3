"""Captures are out of order, incomplete and cut; what is there must be read, and what is not must be named."""

from __future__ import annotations

import random
import struct
from collections import Counter
from itertools import accumulate, pairwise

import pytest

from kwire import read_capture
from kwire.capture.pipeline import rows
from kwire.capture.rows import STATUSES, Row
from kwire.headers import encode_request, encode_response
from kwire.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from kwire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from kwire.records import Record, write_batch
from tests.kwire.capture.wire import CAPTURES, SHARE, Talk, Wire, ip_packets, issue_kinds, matched, pcap, read

ORIGINAL = list(rows(SHARE))
WIRES = ip_packets()
FILES = ["aio", "ck", "ckz", "jshare", "kpy", "share", "txn"]


def is_data(wire: Wire) -> bool:
    return len(wire.packet) > 20 + (wire.packet[32] >> 4) * 4


def what(found: list[Row]) -> list[tuple[object, ...]]:
    """Exchanges without their times."""
    keys = [(row["conn_id"], row["correlation_id"], row["api_name"], row["status"]) for row in found]
    return sorted(keys, key=str)


def bodies(found: list[Row]) -> set[tuple[object, ...]]:
    return {(row["conn_id"], row["correlation_id"], row["body_request"], row["body_response"]) for row in found}


def shuffled(wires: list[Wire], delay_ms: int, seed: int) -> list[Wire]:
    """Each packet is captured up to `delay_ms` late, and stamped then."""
    rng = random.Random(seed)
    return sorted(each._replace(ts=each.ts + rng.randrange(delay_ms * 1_000_000)) for each in wires)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("seed", range(5))
def test_reordered_packets_lose_nothing(name: str, seed: int) -> None:
    wires = ip_packets(CAPTURES / f"small_{name}.pcap")
    found = read(pcap(shuffled(wires, 4, seed)))

    assert what(found) == what(list(rows(CAPTURES / f"small_{name}.pcap")))


@pytest.mark.parametrize("name", FILES)
def test_retransmissions_change_nothing(name: str) -> None:
    wires = ip_packets(CAPTURES / f"small_{name}.pcap")
    twice = [each for pair in pairwise([wires[0], *wires]) for each in (pair[1], pair[0])]

    assert matched(read(pcap(twice))) == matched(read(pcap(wires)))


def resegmented(wires: list[Wire], rng: random.Random) -> list[Wire]:
    """Data packets are sent in pieces that overlap each other."""
    out: list[Wire] = []
    for wire in wires:
        head = 20 + (wire.packet[32] >> 4) * 4
        payload = wire.packet[head:]
        if len(payload) < 10 or wire.packet[33] & 0x07:
            out.append(wire)
            continue
        (seq,) = struct.unpack_from(">I", wire.packet, 24)
        at = 0
        while at < len(payload):
            begin = max(at - rng.randrange(4), 0)
            end = min(at + rng.randrange(1, 400), len(payload))
            piece = wire.packet[:24] + struct.pack(">I", (seq + begin) & 0xFFFFFFFF) + wire.packet[28:head]
            piece += payload[begin:end]
            out.append(Wire(wire.ts, piece[:2] + struct.pack(">H", len(piece)) + piece[4:]))
            at = end
    return out


@pytest.mark.parametrize("name", FILES)
def test_overlapping_segments_are_put_together(name: str) -> None:
    wires = ip_packets(CAPTURES / f"small_{name}.pcap")
    found = read(pcap(resegmented(wires, random.Random(name))))

    assert matched(found) == matched(read(pcap(wires)))


@pytest.mark.parametrize("seed", range(3))
def test_overlap_and_disorder_together_lose_nothing(seed: int) -> None:
    found = read(pcap(shuffled(resegmented(WIRES, random.Random(seed)), 5, seed)))

    assert what(found) == what(ORIGINAL)


def test_sequence_numbers_may_wrap() -> None:
    def moved(wire: Wire) -> Wire:
        seq, ack = struct.unpack_from(">II", wire.packet, 24)
        ends = struct.unpack_from(">4s4sHH", wire.packet, 12)
        is_first = (ends[0], ends[2]) < (ends[1], ends[3])
        key = frozenset(ends)
        mine, theirs = (shift(key, True), shift(key, False)) if is_first else (shift(key, False), shift(key, True))
        fields = struct.pack(">II", (seq + mine) & 0xFFFFFFFF, (ack + theirs) & 0xFFFFFFFF)
        return wire._replace(packet=wire.packet[:24] + fields + wire.packet[32:])

    starts: dict[tuple[frozenset[object], bool], int] = {}

    def shift(key: frozenset[object], first: bool) -> int:
        """Each side is moved so that it begins just before the wrap."""
        return starts.setdefault((key, first), 0)

    for wire in WIRES:
        ends = struct.unpack_from(">4s4sHH", wire.packet, 12)
        if wire.packet[33] & 0x02:
            (seq,) = struct.unpack_from(">I", wire.packet, 24)
            starts[frozenset(ends), (ends[0], ends[2]) < (ends[1], ends[3])] = 2**32 - 100 - seq

    assert len(starts) > 10
    assert matched(read(pcap([moved(each) for each in WIRES]))) == matched(ORIGINAL)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("seed", range(8))
def test_with_lost_packets_nothing_is_made_up_and_every_loss_is_named(name: str, seed: int) -> None:
    path = CAPTURES / f"small_{name}.pcap"
    wires, rng = ip_packets(path), random.Random(seed)
    kept = [each for each in wires if not is_data(each) or rng.random() >= 0.05]
    found = read(pcap(kept))

    truth = {row[:2] for row in bodies(list(rows(path)))}
    whole = [row for row in found if row["status"] == "ok"]
    assert bodies(whole) <= bodies(list(rows(path)))
    assert {row[:2] for row in bodies([row for row in found if row["api_key"] is not None])} <= truth
    assert not [row for row in found if row["status"] == "undecodable"]
    lost = len(wires) - len(kept)
    assert (lost > 0) == bool({"lost", "gap"} & issue_kinds(found))
    # One packet carries a frame or two; with each lost one at most a few exchanges go.
    assert len(whole) >= len(list(rows(path))) - 4 - 3 * lost


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("share", [0.2, 0.33, 0.5, 0.7])
def test_a_capture_that_begins_midstream_is_read_from_the_next_frame_on(name: str, share: float) -> None:
    path = CAPTURES / f"small_{name}.pcap"
    wires = ip_packets(path)
    wires = wires[int(len(wires) * share) :]
    found = read(pcap(wires))
    start = wires[0].ts

    asked_since = [row for row in rows(path) if int(str(row["req_ts"])) >= start]
    expected = {row[:3] for row in bodies(asked_since)}
    assert expected <= {row[:3] for row in bodies(found)}
    assert {row["status"] for row in found} <= {"ok", "no_response", "no_request", "gap"}


def test_midstream_inside_a_large_frame_passes_over_its_rest() -> None:
    wires = ip_packets(CAPTURES / "small_aio.pcap")
    first = next(index for index, each in enumerate(wires) if len(each.packet) > 10_000)

    found = read(pcap(resegmented(wires[first:], random.Random(1))[3:]))
    assert [row["status"] for row in found].count("ok") > 10
    assert "midstream" in issue_kinds(found)
    # The Produce that was cut is no request, but its response is there.
    assert [row["correlation_id"] for row in found if row["status"] == "no_request"] == [4]


@pytest.mark.parametrize(("count", "size"), [(4, 300), (60, 5_000), (12, 400_000)])
@pytest.mark.parametrize("is_answered", [True, False])
def test_midstream_packets_need_not_begin_with_requests(count: int, size: int, is_answered: bool) -> None:
    chance = random.Random(size)
    asked = [produced(number, size + chance.randrange(100)) for number in range(count)]
    stream = b"".join(struct.pack(">i", len(each)) + each for each in asked)[100:]
    ends = list(accumulate(4 + len(each) for each in asked))
    talk, done = Talk(), 0
    for at in range(0, len(stream), 1448):
        talk.client_bytes(stream[at : at + 1448])
        while is_answered and done < count and ends[done] - 100 <= at + 1448:
            talk.answers(encode_response(ProduceResponse(), 9, done))
            done += 1

    found = read(pcap(talk.wires))
    requests = [row for row in found if row["api_name"] == "Produce"]
    assert [row["correlation_id"] for row in requests] == list(range(1, count))
    assert {row["status"] for row in requests} == {"ok" if is_answered else "no_response"}
    assert matched(read_capture(pcap(talk.wires)).to_pylist()) == matched(found)


def test_requests_inside_the_records_of_an_answer_do_not_make_the_broker_a_client() -> None:
    inner = b"".join(struct.pack(">i", len(each)) + each for each in (produced(1, 90), produced(2, 90))) * 20
    data = FetchableTopicResponse("t", partitions=[PartitionData(0, records=write_batch([Record(0, 5, b"k", inner)]))])
    talk = Talk()
    for number in range(5):
        talk.answers(encode_response(FetchResponse(responses=[data]), 12, number))
        # The first request lies in two packets, so that none begins with it.
        request = encode_request(
            FetchRequest(topics=[FetchTopic("t", partitions=[FetchPartition(0)])]), 12, number + 1, "me"
        )
        framed = struct.pack(">i", len(request)) + request
        talk.client_bytes(framed[:9]).client_bytes(framed[9:])

    found = read(pcap(talk.wires))
    assert {row["broker_port"] for row in found} == {9092}
    assert [row["api_name"] for row in found if row["api_name"]] == ["Fetch"] * 5


def produced(correlation_id: int, size: int) -> bytes:
    batch = write_batch([Record(0, 5, b"k", bytes(size))])
    topics = [TopicProduceData("t", partition_data=[PartitionProduceData(0, batch)])]
    return encode_request(ProduceRequest(acks=1, timeout_ms=9, topic_data=topics), 9, correlation_id, "me")


def test_packets_cut_by_the_snaplen_are_truncated_and_their_frames_counted_right() -> None:
    found = read(pcap([each._replace(kept=128) for each in WIRES]))
    exchanges = [row for row in found if row["api_key"] is not None]

    sizes = {(row["conn_id"], row["correlation_id"]): (row["req_bytes"], row["resp_bytes"]) for row in ORIGINAL}
    assert len(exchanges) == len(ORIGINAL)
    assert {row["status"] for row in exchanges} == {"ok", "truncated"}
    for row in exchanges:
        size = sizes[row["conn_id"], row["correlation_id"]]
        assert row["req_bytes"] == size[0]
        assert row["resp_bytes"] in {size[1], None}


def test_one_direction_alone_is_read_too() -> None:
    to_broker = [each for each in WIRES if struct.unpack_from(">H", each.packet, 22)[0] == 21092]
    asked = read(pcap(to_broker))
    answered = read(pcap([each for each in WIRES if each not in to_broker]), ports=frozenset({21092}))

    assert Counter(row["status"] for row in asked if row["api_key"] is not None) == {"no_response": len(ORIGINAL)}
    assert Counter(row["status"] for row in answered if row["resp_bytes"]) == {"no_request": len(ORIGINAL)}
    # The acknowledgements tell how much of the other direction there was.
    assert {row["status"] for row in [*asked, *answered]} == {"no_response", "no_request", "gap"}
    assert issue_kinds(answered) == {"lost"}


def test_the_same_ports_again_are_another_connection() -> None:
    opened = {frozenset(struct.unpack_from(">HH", each.packet, 20)) for each in WIRES if each.packet[33] & 0x02}
    later = [
        each._replace(ts=each.ts + 10**9)
        for each in WIRES
        if frozenset(struct.unpack_from(">HH", each.packet, 20)) in opened
    ]
    moved = [
        each._replace(
            packet=each.packet[:24]
            + struct.pack(">II", *((part + 77_777) & 0xFFFFFFFF for part in struct.unpack_from(">II", each.packet, 24)))
            + each.packet[32:]
        )
        for each in later
    ]
    found = read(pcap(WIRES + moved))

    again = [row for row in found if row["stream_epoch"] == 1]
    assert {row["status"] for row in found} == {"ok"}
    assert len(found) == len(ORIGINAL) + len(again)
    assert bodies(again) == bodies([row for row in ORIGINAL if row["client_port"] != 41778])


def test_a_port_that_is_not_the_brokers_hides_everything() -> None:
    assert read(SHARE.read_bytes(), ports=frozenset({9092})) == []
    assert matched(read(SHARE.read_bytes(), ports=frozenset({21092}))) == matched(ORIGINAL)


def test_a_connection_that_is_not_kafka_is_a_row_only_where_a_port_was_named() -> None:
    talk = Talk().open().client_bytes(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").server_bytes(b"HTTP/1.1 200 OK\r\n")

    assert talk.rows() == []
    assert [row["status"] for row in talk.rows(ports=frozenset({9092}))] == ["undecodable"]
    assert issue_kinds(talk.rows(ports=frozenset({9092}))) == {"not_kafka"}


@pytest.mark.parametrize(
    "opening",
    [
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        struct.pack(">iI", 196, 0x00030000) + b"user\0postgres\0" + b"database\0" * 20,
        struct.pack(">iiqiqi", 44, 0, 0, 30_000, 0, 16) + bytes(17),
        struct.pack("<iiii", 58, 1, 0, 2004) + bytes(42),
    ],
    ids=["ssh", "http2", "postgres", "zookeeper", "mongodb"],
)
def test_other_protocols_are_not_taken_for_kafka(opening: bytes) -> None:
    assert Talk().open().client_bytes(opening).server_bytes(b"\0\0\0\x14" + bytes(20)).rows() == []
    assert Talk().client_bytes(opening).server_bytes(b"\0\0\0\x14" + bytes(20)).rows() == []
    half_open = Talk().open().client_bytes(opening).server_bytes(b"\0\0\0\x14" + bytes(20)).wires[1:]
    assert read(pcap(half_open)) == []


def test_whatever_is_damaged_a_row_has_every_column_and_a_known_status() -> None:
    rng = random.Random(7)
    for _ in range(30):
        data = bytearray(pcap(WIRES))
        for _ in range(40):
            data[rng.randrange(24, len(data))] = rng.randrange(256)
        for row in read(bytes(data)):
            assert list(row) == list(ORIGINAL[0])
            assert row["status"] in STATUSES
