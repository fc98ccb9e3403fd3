"""Responses that were captured before their requests are paired as in the streaming pipeline."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from kwire.capture.index.scan.spans import SPAN_SIZE
from kwire.capture.kafka.exchange_pairing import ORPHANS_MAX
from tests.support.captures.capture_files import CapturedConnection, CapturedPacket, build_pcap, read_ip_packets
from tests.support.captures.index_captures import (
    FILES,
    assert_rows_of_pipeline,
    connection_with_exchanges,
    count_flows,
    request_bytes,
    response_bytes,
)

pytestmark = pytest.mark.slow


def swap_packets(packets: Sequence[CapturedPacket], first: int, second: int) -> list[CapturedPacket]:
    """Swap two packets, but not their times."""
    out = list(packets)
    out[first], out[second] = out[second]._replace(ts=out[first].ts), out[first]._replace(ts=out[second].ts)
    return out


@pytest.mark.parametrize("span_size", [SPAN_SIZE, 400], indirect=True)
def test_a_response_may_precede_its_request(span_size: int) -> None:

    for place in range(5, 21, 2):
        capture = build_pcap(swap_packets(connection_with_exchanges(10).close().packets, place, place + 1))
        assert count_flows(capture) == 1
        found = assert_rows_of_pipeline(capture)
        assert {row["status"] for row in found} == {"ok"}
        assert [row["in_flight"] for row in found] == [0] * 10


@pytest.mark.parametrize("span_size", [SPAN_SIZE, 400], indirect=True)
def test_responses_may_precede_several_requests_and_be_reordered(span_size: int) -> None:
    chance = random.Random(span_size)

    for _ in range(40):
        connection = CapturedConnection().open()
        for first in range(0, 30, 3):
            ids = range(first, first + 3)
            order = chance.sample(ids, 3)
            connection.send_requests(*map(request_bytes, ids)).send_responses(response_bytes(order[0]))
            connection.send_responses(*map(response_bytes, order[1:]))
        packets = connection.close().packets
        for _ in range(4):
            place = chance.randrange(5, len(packets) - 5)
            packets = swap_packets(packets, place, place + 1)
        capture = build_pcap(packets)
        assert count_flows(capture) == 1
        assert_rows_of_pipeline(capture)


def test_many_responses_of_one_connection_may_be_early_if_few_wait_at_a_time() -> None:
    connection, count = CapturedConnection().open(), 2 * ORPHANS_MAX
    connection.exchange(request_bytes(0), response_bytes(0))
    for first in range(1, count, 4):
        ids = range(first, first + 4)
        connection.send_responses(*map(response_bytes, ids)).send_requests(*map(request_bytes, ids))
    capture = build_pcap(connection.packets)

    assert count_flows(capture) == 1
    assert {row["status"] for row in assert_rows_of_pipeline(capture)} == {"ok"}


def test_a_response_long_before_a_request_does_not_belong_to_it() -> None:
    packets = connection_with_exchanges(10).close().packets
    late = [packet._replace(ts=packet.ts + 200_000_000) for packet in packets[8:]]
    capture = build_pcap(swap_packets([*packets[:8], *late], 7, 8))

    assert count_flows(capture) == 1
    assert "no_request" in {row["status"] for row in assert_rows_of_pipeline(capture)}


@pytest.mark.parametrize("count", [1, 2])
def test_responses_without_a_request_have_rows(count: int) -> None:
    connection = connection_with_exchanges(5).send_responses(*[response_bytes(77)] * count)
    capture = build_pcap(connection.packets)

    assert count_flows(capture) == 1
    rows = assert_rows_of_pipeline(capture)
    assert [row["correlation_id"] for row in rows if row["status"] == "no_request"] == [77] * count


def test_of_two_early_responses_of_one_id_the_last_belongs_to_the_request() -> None:
    connection = connection_with_exchanges(1)
    connection.send_responses(response_bytes(5)).send_responses(response_bytes(5)).send_requests(request_bytes(5))
    connection.exchange(request_bytes(6), response_bytes(6))
    capture = build_pcap(connection.packets)

    assert count_flows(capture) == 1
    rows = assert_rows_of_pipeline(capture)
    found = [(row["status"], row["req_packet"], row["resp_packet"]) for row in rows if row["correlation_id"] == 5]
    assert sorted(found, key=repr) == [("no_request", None, 6), ("ok", 8, 7)]


def test_the_first_request_may_come_after_its_response() -> None:
    packets = read_ip_packets(FILES[0])
    head = next(place for place, packet in enumerate(packets) if packet.data[56:58] == b"\0\x12")
    capture = build_pcap(swap_packets(packets, head, head + 2))

    assert_rows_of_pipeline(capture)


@pytest.mark.parametrize("span_size", [SPAN_SIZE, 8_192], indirect=True)
def test_captures_with_many_reordered_packets(span_size: int) -> None:
    chance = random.Random(span_size)

    for path in FILES:
        packets = read_ip_packets(path)[:600]
        keyed = [(place + chance.choice((0, 0, 0, 2.5, 4.5)), place) for place in range(len(packets))]
        moved = [packets[own]._replace(ts=packets[place].ts) for place, (_, own) in enumerate(sorted(keyed))]
        assert_rows_of_pipeline(build_pcap(moved))


@pytest.mark.parametrize("count", [ORPHANS_MAX - 56, ORPHANS_MAX + 44])
def test_the_oldest_early_responses_have_no_request_when_too_many_wait(count: int) -> None:
    connection = connection_with_exchanges(1)
    ids = range(1, count + 1)
    connection.send_responses(*map(response_bytes, ids)).send_requests(*map(request_bytes, ids))
    capture = build_pcap(connection.packets)

    assert count_flows(capture) == 1
    statuses = [row["status"] for row in assert_rows_of_pipeline(capture)]
    assert statuses.count("no_request") == statuses.count("no_response") == max(0, count - ORPHANS_MAX)
