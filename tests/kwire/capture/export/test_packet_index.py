"""Packets are kept while an exchange may need them, and found by their position in the stream."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator

import pytest

from kwire.capture.export import packet_index
from kwire.capture.export.excerpt import Excerpt
from kwire.capture.export.packet_index import PacketIndex
from kwire.capture.files.packet_reader import read_packets
from kwire.capture.index.column_schema import UNANSWERED_PART
from kwire.capture.index.scan import stream_headers
from kwire.capture.options import Options
from kwire.capture.tls.key_log import KeyLog
from kwire.headers import encode_request, encode_response
from kwire.messages.metadata import MetadataRequest, MetadataResponse
from tests.support.captures.capture_files import CapturedConnection, CapturedPacket, build_pcap, fragment_ipv4

PART_SIZE = 10


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_headers, "_COUNT_FIRST", PART_SIZE)
    monkeypatch.setattr(stream_headers, "_COUNT_MAX", PART_SIZE)


def request_frame(number: int) -> bytes:
    return encode_request(MetadataRequest(topics=None), 12, number, "me")


def response_frame(number: int) -> bytes:
    return encode_response(MetadataResponse(cluster_id="c" * 30), 12, number)


def read_parts(packets: list[CapturedPacket]) -> Iterator[PacketIndex]:
    """The index after each part of a capture but the last."""
    index = PacketIndex("a", read_packets(build_pcap(packets)), Options(), KeyLog(""))
    for part in index.parts():
        if part != UNANSWERED_PART:
            yield index


def write_all(packets: list[CapturedPacket]) -> Excerpt:
    excerpt = Excerpt(io.BytesIO(), "test")
    for outcome in excerpt.read_outcomes(build_pcap(packets), Options(), KeyLog("")):
        excerpt.select_packets(outcome, "request", "response")
    excerpt.flush()
    return excerpt


@pytest.mark.parametrize("start", [1000, 0xFFFFFFFF - 500], ids=["far_from_the_wrap", "before_the_wrap"])
def test_packets_of_requests_are_written_when_responses_come_many_packets_later(start: int) -> None:
    connection = CapturedConnection(isn=(start, start)).open()
    for number in range(40):
        connection.send_requests(request_frame(number))
    connection.send_responses(*map(response_frame, range(20)))
    for number in range(20, 40):
        connection.send_responses(response_frame(number))

    excerpt = write_all(connection.packets)

    assert excerpt.incomplete == 0
    assert excerpt.written == 2 + 40 + 21


def test_the_packet_of_a_request_that_waits_is_kept_and_those_of_complete_exchanges_are_not() -> None:
    connection = CapturedConnection().open().send_requests(request_frame(0))
    for number in range(1, 100):
        connection.exchange(request_frame(number), response_frame(number))

    kept = [set(index.kept) for index in read_parts(connection.packets)]

    # The handshake, the request that waits, one that may be incomplete, and the latest part.
    assert all({1, 2, 4} <= numbers for numbers in kept)
    assert max(map(len, kept)) <= 4 + PART_SIZE


def test_packets_of_an_incomplete_frame_are_kept() -> None:
    frame = request_frame(1)
    frame = struct.pack(">i", len(frame)) + frame
    connection = CapturedConnection().open()
    for at in range(len(frame)):
        connection.send_client_bytes(frame[at : at + 1])

    excerpt = write_all(connection.send_responses(response_frame(1)).packets)

    assert excerpt.incomplete == 0
    assert excerpt.written == 2 + len(frame) + 1
    assert len(frame) > 2 * PART_SIZE


def test_packets_above_the_memory_limit_are_dropped_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packet_index, "BUFFERED_SIZE_MAX", 300)
    connection = CapturedConnection().open()
    for number in range(1, 30):
        connection.send_requests(request_frame(number))
    connection.send_responses(*map(response_frame, range(1, 30)))

    excerpt = write_all(connection.packets)

    assert 0 < excerpt.incomplete < 29
    for index in read_parts(connection.packets):
        assert len(index.kept) <= 300 // 40 + PART_SIZE


def test_packets_of_other_connections_are_not_kept() -> None:
    connection = CapturedConnection().open().send_client_bytes(b"GET / HTTP/1.1\r\n\r\n")
    for _ in range(200):
        connection.send_server_bytes(b"x" * 1000)

    assert max(len(index.kept) for index in read_parts(connection.packets)) <= 4 * PART_SIZE


def test_packets_of_closed_connections_are_not_kept() -> None:
    packets: list[CapturedPacket] = []
    for number in range(50):
        start = packets[-1].ts + 6_000_000_000 if packets else 10**18
        connection = CapturedConnection(client=("127.0.0.1", 40_000 + number), start=start)
        packets += connection.open().send_requests(request_frame(1)).close().packets

    assert max(len(index.kept) for index in read_parts(packets)) <= 3 * PART_SIZE


def test_a_request_that_came_in_ip_fragments_lacks_a_packet() -> None:
    packets = CapturedConnection().open().exchange(request_frame(1), response_frame(1)).packets
    at = next(at for at, packet in enumerate(packets) if len(packet.data) > 60)
    pieces = [packets[at]._replace(data=piece) for piece in fragment_ipv4(packets[at].data, 24, 1)]

    excerpt = write_all([*packets[:at], *pieces, *packets[at + 1 :]])

    assert excerpt.incomplete == 1
