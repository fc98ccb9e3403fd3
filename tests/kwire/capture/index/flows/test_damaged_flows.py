"""Flows with generated damage are read by columns as the streaming pipeline reads them."""

from __future__ import annotations

import random

import hypothesis
import pytest
from hypothesis import strategies

from kwire.capture.index.scan import scanner
from kwire.capture.options import Options
from tests.support.captures.capture_files import (
    CAPTURES,
    CapturedConnection,
    CapturedPacket,
    build_pcap,
    read_ip_packets,
)
from tests.support.captures.index_captures import (
    TOGETHER,
    assert_rows_of_pipeline,
    copy_connections,
    count_flows,
    join_captures,
    lose_packets,
    request_bytes,
    response_bytes,
)

NAMES = ("aio", "ck", "kpy", "share", "txn")
SMALL_SPAN = 16_384


def damage(packets: list[CapturedPacket], seed: int) -> bytes:
    """A capture with every kind of damage, each in an amount that the seed determines."""
    rng = random.Random(seed)
    lost, doubled, swapped, cut = (rng.choice((0.0, 0.0, share)) for share in (0.03, 0.05, 0.05, 0.1))
    if rng.random() < 0.2:
        packets = packets[rng.randrange(len(packets) // 2) :]
    snaplen = rng.choice((None, None, None, 100, 150, 400))
    out = []
    for packet in packets:
        if rng.random() < lost:
            continue
        stored = rng.randrange(60, 300) if rng.random() < cut else snaplen
        damaged = packet._replace(stored_size=stored)
        out += [damaged] * (2 if rng.random() < doubled else 1)
    for place in range(len(out) - 1):
        if rng.random() < swapped:
            other = min(place + rng.choice((1, 2, 5, 90)), len(out) - 1)
            first, second = out[place], out[other]
            out[place], out[other] = second._replace(ts=first.ts), first._replace(ts=second.ts)
    return build_pcap(out)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@hypothesis.settings(max_examples=15)
@hypothesis.given(seed=strategies.integers(0, 2**32))
def test_rows_of_generated_damage_are_those_of_the_pipeline(name: str, seed: int) -> None:
    capture = damage(read_ip_packets(CAPTURES / f"small_{name}.pcap"), seed)

    assert_rows_of_pipeline(capture)
    assert_rows_of_pipeline(capture, options=Options(sessions=False))


@pytest.mark.slow
@pytest.mark.parametrize("level", ["partitions", "records", "share_acquired", "share_acks"])
@pytest.mark.parametrize("name", ["share", "txn"])
@pytest.mark.parametrize(("share", "snaplen"), [(0.02, 1 << 18), (0.0, 150)])
def test_rows_of_other_levels_are_those_of_the_pipeline(name: str, share: float, snaplen: int, level: str) -> None:
    capture = lose_packets(copy_connections(CAPTURES / f"small_{name}.pcap", 3), share, snaplen=snaplen)

    assert_rows_of_pipeline(capture, level, Options())


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_state_continues_from_span_to_span(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scanner, "SPAN_SIZE", SMALL_SPAN)
    capture = damage(read_ip_packets(CAPTURES / "small_share.pcap"), seed)

    assert_rows_of_pipeline(capture)


def build_exchanges(count: int) -> CapturedConnection:
    """An open connection with exchanges."""
    connection = CapturedConnection().open()
    for number in range(count):
        connection.exchange(request_bytes(number, "writer"), response_bytes(number))
    return connection


def without(packets: list[CapturedPacket], *places: int) -> bytes:
    return build_pcap(packet for place, packet in enumerate(packets) if place not in places)


@pytest.mark.slow
def test_a_flow_without_one_packet_is_read_by_columns_whichever_it_is() -> None:
    packets = build_exchanges(60).close().packets
    damaged = [packets[:place] + packets[place + 1 :] for place in range(len(packets))]

    for first in range(0, len(damaged), TOGETHER):
        for captures in (damaged[first : first + 1], damaged[first : first + TOGETHER]):
            capture = join_captures(captures)
            assert count_flows(capture) == len(captures), first
            assert_rows_of_pipeline(capture)


@pytest.mark.slow
@pytest.mark.parametrize("span_size", [4_096, 8_192], indirect=True)
def test_a_segment_may_come_after_its_gap_was_given_up_in_an_earlier_span(span_size: int) -> None:
    for count in range(50, 130, 5):
        connection = build_exchanges(20)
        (*before, response), rest = connection.packets[:35], connection.packets[35:]
        # The broker sends nothing until the gap is given up.
        asked = len(connection.packets)
        for number in range(100, 100 + count):
            connection.send_requests(request_bytes(number))
        requests = connection.packets[asked:]
        answered = len(connection.packets)
        for number in range(100, 100 + count):
            connection.send_responses(response_bytes(number))
        late = response._replace(ts=requests[-1].ts + 1)
        capture = build_pcap([*before, *rest, *requests, late, *connection.packets[answered:]])
        assert count_flows(capture) == 1
        assert_rows_of_pipeline(capture)


def test_more_lost_requests_than_responses_may_wait() -> None:
    connection = CapturedConnection().open().exchange(request_bytes(0), response_bytes(0))
    before = len(connection.packets)
    for number in range(1, 400):
        connection.exchange(request_bytes(number), response_bytes(number))
    lost = [place for place in range(before, len(connection.packets)) if (place - before) % 4 == 0]
    capture = without(connection.packets, *lost)

    assert_rows_of_pipeline(capture)


def test_a_hostile_length_after_a_gap_is_skipped_as_in_the_pipeline() -> None:
    connection = build_exchanges(10)
    place = len(connection.packets)
    connection.send_requests(request_bytes(10))
    connection.send_requests(b"")
    packets = connection.packets
    for length in (b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x00\x00\x00\x00"):
        data = bytearray(packets[place].data)
        data[40:44] = length
        hostile = [*packets[:place], packets[place]._replace(data=bytes(data)), *packets[place + 1 :]]
        for lost in (9, 10, 11, 12):
            assert_rows_of_pipeline(without(hostile, lost))


def test_a_request_that_a_search_rejects_is_skipped_behind_a_gap() -> None:
    connection = build_exchanges(3)
    place = len(connection.packets)
    connection.exchange(request_bytes(3, "writer"), response_bytes(3))
    connection.send_requests(request_bytes(4, "a\tb")).send_responses(response_bytes(4))
    for number in range(5, 60):
        connection.exchange(request_bytes(number, "writer"), response_bytes(number))

    assert_rows_of_pipeline(without(connection.packets, place))
