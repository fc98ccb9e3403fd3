"""Damaged captures: packets out of order, lost or cut. All present data is read, and all missing data is reported."""

from __future__ import annotations

import random
import struct
from collections import Counter
from itertools import accumulate, pairwise

import pytest

from kwire import read_capture
from kwire.capture.model import Row
from kwire.capture.options import Options
from kwire.capture.reader import read_rows
from kwire.capture.rows.message_rows import STATUSES
from kwire.headers import encode_response
from kwire.messages.produce import ProduceResponse
from tests.support.captures.capture_files import (
    CAPTURES,
    SHARE,
    CapturedConnection,
    CapturedPacket,
    build_pcap,
    collect_issue_kinds,
    comparable_exchanges,
    read_capture_rows,
    read_ip_packets,
)
from tests.support.captures.conversations import produce_request
from tests.support.captures.index_captures import assert_rows_of_pipeline, connection_with_exchanges, keep_direction

pytestmark = pytest.mark.slow

ORIGINAL = list(read_rows(SHARE))
PACKETS = read_ip_packets()
FILES = ["aio", "ck", "ckz", "jshare", "kpy", "share", "txn"]


def has_payload(packet: CapturedPacket) -> bool:
    return len(packet.data) > 20 + (packet.data[32] >> 4) * 4


def exchange_keys(rows: list[Row]) -> list[tuple[object, ...]]:
    """Return the exchanges without their times."""
    keys = [(row["conn_id"], row["correlation_id"], row["api_name"], row["status"]) for row in rows]
    return sorted(keys, key=str)


def exchange_bodies(rows: list[Row]) -> set[tuple[object, ...]]:
    return {(row["conn_id"], row["correlation_id"], row["body_request"], row["body_response"]) for row in rows}


def exchanges_of(packets: list[CapturedPacket]) -> list[tuple[object, ...]]:
    return comparable_exchanges(read_capture_rows(build_pcap(packets)))


def delay_packets(packets: list[CapturedPacket], delay_ms: int, seed: int) -> list[CapturedPacket]:
    """Delay each packet and its time by up to `delay_ms`."""
    rng = random.Random(seed)
    return sorted(each._replace(ts=each.ts + rng.randrange(delay_ms * 1_000_000)) for each in packets)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("seed", range(5))
def test_reordered_packets_lose_nothing(name: str, seed: int) -> None:
    packets = read_ip_packets(CAPTURES / f"small_{name}.pcap")
    rows = read_capture_rows(build_pcap(delay_packets(packets, 4, seed)))

    assert exchange_keys(rows) == exchange_keys(list(read_rows(CAPTURES / f"small_{name}.pcap")))


@pytest.mark.parametrize("name", FILES)
def test_retransmissions_change_nothing(name: str) -> None:
    packets = read_ip_packets(CAPTURES / f"small_{name}.pcap")
    twice = [each for pair in pairwise([packets[0], *packets]) for each in (pair[1], pair[0])]

    assert exchanges_of(twice) == exchanges_of(packets)


def resegment_packets(packets: list[CapturedPacket], rng: random.Random) -> list[CapturedPacket]:
    """Split data packets into overlapping pieces."""
    output: list[CapturedPacket] = []
    for packet in packets:
        head = 20 + (packet.data[32] >> 4) * 4
        payload = packet.data[head:]
        if len(payload) < 10 or packet.data[33] & 0x07:
            output.append(packet)
            continue
        (seq,) = struct.unpack_from(">I", packet.data, 24)
        at = 0
        while at < len(payload):
            begin = max(at - rng.randrange(4), 0)
            end = min(at + rng.randrange(1, 400), len(payload))
            piece = packet.data[:24] + struct.pack(">I", (seq + begin) & 0xFFFFFFFF) + packet.data[28:head]
            piece += payload[begin:end]
            output.append(CapturedPacket(packet.ts, piece[:2] + struct.pack(">H", len(piece)) + piece[4:]))
            at = end
    return output


@pytest.mark.parametrize("name", FILES)
def test_overlapping_segments_are_reassembled(name: str) -> None:
    packets = read_ip_packets(CAPTURES / f"small_{name}.pcap")

    assert exchanges_of(resegment_packets(packets, random.Random(name))) == exchanges_of(packets)


@pytest.mark.parametrize("seed", range(3))
def test_overlap_and_disorder_together_lose_nothing(seed: int) -> None:
    rows = read_capture_rows(build_pcap(delay_packets(resegment_packets(PACKETS, random.Random(seed)), 5, seed)))

    assert exchange_keys(rows) == exchange_keys(ORIGINAL)


def test_sequence_numbers_may_wrap() -> None:
    def moved(packet: CapturedPacket) -> CapturedPacket:
        seq, ack = struct.unpack_from(">II", packet.data, 24)
        ends = struct.unpack_from(">4s4sHH", packet.data, 12)
        is_first = (ends[0], ends[2]) < (ends[1], ends[3])
        key = frozenset(ends)
        mine, theirs = (shift(key, True), shift(key, False)) if is_first else (shift(key, False), shift(key, True))
        fields = struct.pack(">II", (seq + mine) & 0xFFFFFFFF, (ack + theirs) & 0xFFFFFFFF)
        return packet._replace(data=packet.data[:24] + fields + packet.data[32:])

    starts: dict[tuple[frozenset[object], bool], int] = {}

    def shift(key: frozenset[object], first: bool) -> int:
        """Return the shift with which a side begins just before the wrap."""
        return starts.setdefault((key, first), 0)

    for packet in PACKETS:
        ends = struct.unpack_from(">4s4sHH", packet.data, 12)
        if packet.data[33] & 0x02:
            (seq,) = struct.unpack_from(">I", packet.data, 24)
            starts[frozenset(ends), (ends[0], ends[2]) < (ends[1], ends[3])] = 2**32 - 100 - seq

    assert len(starts) > 10
    assert exchanges_of([moved(each) for each in PACKETS]) == comparable_exchanges(ORIGINAL)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("seed", range(8))
def test_lost_packets_are_reported_and_add_no_false_rows(name: str, seed: int) -> None:
    path = CAPTURES / f"small_{name}.pcap"
    packets, rng = read_ip_packets(path), random.Random(seed)
    stored = [each for each in packets if not has_payload(each) or rng.random() >= 0.05]
    rows = read_capture_rows(build_pcap(stored))

    truth = {row[:2] for row in exchange_bodies(list(read_rows(path)))}
    whole = [row for row in rows if row["status"] == "ok"]
    assert exchange_bodies(whole) <= exchange_bodies(list(read_rows(path)))
    assert {row[:2] for row in exchange_bodies([row for row in rows if row["api_key"] is not None])} <= truth
    assert not [row for row in rows if row["status"] == "undecodable"]
    lost = len(packets) - len(stored)
    assert (lost > 0) == bool({"lost", "gap"} & collect_issue_kinds(rows))
    # A packet carries one or two frames; with each lost packet at most a few exchanges are lost.
    assert len(whole) >= len(list(read_rows(path))) - 4 - 3 * lost


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("share", [0.2, 0.33, 0.5, 0.7])
def test_a_capture_that_begins_midstream_is_read_from_the_next_frame_on(name: str, share: float) -> None:
    path = CAPTURES / f"small_{name}.pcap"
    packets = read_ip_packets(path)
    packets = packets[int(len(packets) * share) :]
    rows = read_capture_rows(build_pcap(packets))
    start = packets[0].ts

    asked_since = [row for row in read_rows(path) if int(str(row["req_ts"])) >= start]
    expected = {row[:3] for row in exchange_bodies(asked_since)}
    assert expected <= {row[:3] for row in exchange_bodies(rows)}
    assert {row["status"] for row in rows} <= {"ok", "no_response", "no_request", "gap"}


def test_a_capture_that_begins_inside_a_large_frame_skips_its_rest() -> None:
    packets = read_ip_packets(CAPTURES / "small_aio.pcap")
    first = next(index for index, each in enumerate(packets) if len(each.data) > 10_000)

    rows = read_capture_rows(build_pcap(resegment_packets(packets[first:], random.Random(1))[3:]))
    assert [row["status"] for row in rows].count("ok") > 10
    assert "midstream" in collect_issue_kinds(rows)
    # The truncated Produce is not a request, but its response is captured.
    assert [row["correlation_id"] for row in rows if row["status"] == "no_request"] == [4]


@pytest.mark.parametrize(("count", "size"), [(4, 300), (60, 5_000), (12, 400_000)])
@pytest.mark.parametrize("is_answered", [True, False])
def test_midstream_requests_may_begin_inside_packets(count: int, size: int, is_answered: bool) -> None:
    rng = random.Random(size)
    asked = [produce_request(number, bytes(size + rng.randrange(100))) for number in range(count)]
    stream = b"".join(struct.pack(">i", len(each)) + each for each in asked)[100:]
    ends = list(accumulate(4 + len(each) for each in asked))
    connection, done = CapturedConnection(), 0
    for at in range(0, len(stream), 1448):
        connection.send_client_bytes(stream[at : at + 1448])
        while is_answered and done < count and ends[done] - 100 <= at + 1448:
            connection.send_responses(encode_response(ProduceResponse(), 9, done))
            done += 1

    rows = read_capture_rows(build_pcap(connection.packets))
    requests = [row for row in rows if row["api_name"] == "Produce"]
    assert [row["correlation_id"] for row in requests] == list(range(1, count))
    assert {row["status"] for row in requests} == {"ok" if is_answered else "no_response"}
    assert comparable_exchanges(read_capture(build_pcap(connection.packets)).to_pylist()) == comparable_exchanges(rows)


def test_packets_cut_by_the_snaplen_have_correct_frame_sizes() -> None:
    rows = read_capture_rows(build_pcap([each._replace(stored_size=128) for each in PACKETS]))
    exchanges = [row for row in rows if row["api_key"] is not None]

    sizes = {(row["conn_id"], row["correlation_id"]): (row["req_bytes"], row["resp_bytes"]) for row in ORIGINAL}
    assert len(exchanges) == len(ORIGINAL)
    assert {row["status"] for row in exchanges} == {"ok", "truncated"}
    for row in exchanges:
        size = sizes[row["conn_id"], row["correlation_id"]]
        assert row["req_bytes"] == size[0]
        assert row["resp_bytes"] in {size[1], None}


def test_a_capture_of_one_direction_is_read() -> None:
    asked = read_capture_rows(build_pcap(keep_direction(PACKETS, from_client=True)))
    to_clients = build_pcap(keep_direction(PACKETS, from_client=False))
    responses = read_capture_rows(to_clients, ports=frozenset({21092}))

    assert Counter(row["status"] for row in asked if row["api_key"] is not None) == {"no_response": len(ORIGINAL)}
    assert Counter(row["status"] for row in responses if row["resp_bytes"]) == {"no_request": len(ORIGINAL)}
    # The acknowledgements show the size of the other direction.
    assert {row["status"] for row in [*asked, *responses]} == {"no_response", "no_request", "gap"}
    assert collect_issue_kinds(responses) == {"lost"}
    # A gap has the time of the packet that showed it.
    times = [int(str(row["req_ts"] or row["resp_ts"])) for row in [*asked, *responses]]
    assert PACKETS[0].ts <= min(times) <= max(times) <= PACKETS[-1].ts


@pytest.mark.parametrize("is_closed", [True, False])
@pytest.mark.parametrize("from_client", [True, False])
def test_a_gap_of_the_side_that_was_not_captured_has_the_time_of_the_packet_that_showed_it(
    from_client: bool, is_closed: bool
) -> None:
    connection = connection_with_exchanges(3)
    packets = connection.close().packets if is_closed else connection.packets
    seen = keep_direction(packets, from_client=from_client)
    capture, options = build_pcap(seen), Options(bodies=False, sessions=False, ports=frozenset({9092}))
    [gap] = [row for row in read_rows(capture, "messages", options) if row["status"] == "gap"]

    assert gap["resp_ts" if from_client else "req_ts"] == seen[-1].ts
    assert_rows_of_pipeline(capture, options=options)


def test_reused_ports_are_another_connection() -> None:
    def ports(packet: CapturedPacket) -> frozenset[int]:
        return frozenset(struct.unpack_from(">HH", packet.data, 20))

    opened = {ports(each) for each in PACKETS if each.data[33] & 0x02}
    moved = []
    for each in [packet for packet in PACKETS if ports(packet) in opened]:
        numbers = [(number + 77_777) & 0xFFFFFFFF for number in struct.unpack_from(">II", each.data, 24)]
        data = each.data[:24] + struct.pack(">II", *numbers) + each.data[32:]
        moved.append(CapturedPacket(each.ts + 10**9, data))
    rows = read_capture_rows(build_pcap(PACKETS + moved))

    again = [row for row in rows if row["stream_epoch"] == 1]
    assert {row["status"] for row in rows} == {"ok"}
    assert len(rows) == len(ORIGINAL) + len(again)
    assert exchange_bodies(again) == exchange_bodies([row for row in ORIGINAL if row["client_port"] != 41778])


def test_any_damage_gives_rows_with_every_column_and_a_known_status() -> None:
    rng = random.Random(7)
    for _ in range(30):
        data = bytearray(build_pcap(PACKETS))
        for _ in range(40):
            data[rng.randrange(24, len(data))] = rng.randrange(256)
        for row in read_capture_rows(bytes(data)):
            assert list(row) == list(ORIGINAL[0])
            assert row["status"] in STATUSES
