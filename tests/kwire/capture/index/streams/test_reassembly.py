"""A gap is given up as the streaming pipeline gives it up: by acknowledgements, or for what is buffered after it."""

from __future__ import annotations

import struct

import pytest

from kwire.capture.index.scan.spans import SPAN_SIZE
from kwire.capture.index.streams import segment_walk
from kwire.capture.tcp import stream_limits
from tests.support.captures.capture_files import CapturedConnection, CapturedPacket, build_pcap
from tests.support.captures.index_captures import (
    assert_rows_of_pipeline,
    connection_with_exchanges,
    count_flows,
    request_bytes,
)

pytestmark = pytest.mark.slow

COUNT = 400


def requests(*, id_size: int = 0) -> list[CapturedPacket]:
    """Requests of a client without responses: three packets that open the connection, then one request in each."""
    connection = CapturedConnection().open()
    for number in range(COUNT):
        connection.send_requests(request_bytes(number, "x" * id_size))
    return connection.packets


def move_packet(packets: list[CapturedPacket], position: int, to: int) -> list[CapturedPacket]:
    """Move one packet; the times of all packets stay in order."""
    out = list(packets)
    out.insert(to, out.pop(position))
    return [packet._replace(ts=own.ts) for packet, own in zip(out, packets, strict=True)]


def acknowledgement(like: CapturedPacket, sent: CapturedPacket) -> CapturedPacket:
    """A packet of the broker that acknowledges all bytes up to the end of the client's packet."""
    payload = struct.unpack_from(">H", sent.data, 2)[0] - 40
    ack = (struct.unpack_from(">I", sent.data, 24)[0] + payload) & 0xFFFFFFFF
    packet = like.data[:28] + struct.pack(">I", ack) + like.data[32:33] + b"\x10" + like.data[34:]
    return CapturedPacket(sent.ts + 1, packet)


@pytest.mark.parametrize("span_size", [SPAN_SIZE, 2_048], indirect=True)
@pytest.mark.parametrize("places", [(10, 74), (10, 75), (10, 390), (200, 330)])
def test_lost_segments_may_be_retransmitted_late(places: tuple[int, int], span_size: int) -> None:
    capture = build_pcap(move_packet(requests(), *places))

    assert count_flows(capture) == 1
    assert_rows_of_pipeline(capture)


@pytest.mark.parametrize("span_size", [SPAN_SIZE, 2_048], indirect=True)
def test_two_gaps_at_once(span_size: int) -> None:
    capture = build_pcap(move_packet(move_packet(requests(), 50, 250), 20, 360))

    assert count_flows(capture) == 1
    assert_rows_of_pipeline(capture)


@pytest.mark.parametrize("span_size", [SPAN_SIZE, 2_048], indirect=True)
def test_a_gap_is_filled_behind_another_that_stays_until_the_end(span_size: int) -> None:
    packets = connection_with_exchanges(100).packets
    late = move_packet(packets, 121, 151)
    capture = build_pcap([*late[:146], *late[147:]])

    rows = assert_rows_of_pipeline(capture)
    assert [row["status"] for row in rows if row["req_packet"] is not None].count("ok") == 99


@pytest.mark.parametrize("span_size", [SPAN_SIZE, 2_048], indirect=True)
@pytest.mark.parametrize("sent", [9, 11, 120])
def test_segments_that_the_receiver_acknowledged_were_only_not_captured(sent: int, span_size: int) -> None:
    packets = requests()
    late = move_packet(packets, 10, 300)
    late.insert(150, acknowledgement(packets[1], packets[sent])._replace(ts=late[149].ts))
    capture = build_pcap(late)

    assert count_flows(capture) == 1
    assert_rows_of_pipeline(capture)


@pytest.mark.parametrize("span_size", [SPAN_SIZE, 2_048], indirect=True)
def test_a_gap_with_many_segments_after_it_is_given_up(span_size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("BUFFERED_COUNT_MAX", 100), ("BUFFERED_SIZE_MAX", 30_000)):
        with monkeypatch.context() as patched:
            patched.setattr(segment_walk, name, value)
            patched.setattr(stream_limits, name, value)
            capture = build_pcap(move_packet(requests(id_size=300), 10, 300))
            assert count_flows(capture) == 1
            assert_rows_of_pipeline(capture)


@pytest.mark.parametrize("span_size", [SPAN_SIZE, 2_048], indirect=True)
def test_a_gap_that_is_never_filled_is_given_up_at_the_end(span_size: int) -> None:
    packets = requests()
    capture = build_pcap([*packets[:30], *packets[31:]])

    assert count_flows(capture) == 1
    assert_rows_of_pipeline(capture)
