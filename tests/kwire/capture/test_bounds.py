"""Memory limits: buffers have a limit for all connections together, so memory does not grow with the capture."""

from __future__ import annotations

import io
import itertools
import struct
from pathlib import Path

import pytest

from kwire.capture.index.flows import flow_pairing, pending_requests, waiting_limits
from kwire.capture.kafka import client_detection, exchange_pairing, frame_resync, topic_names
from kwire.capture.kafka.topic_names import TopicNames
from kwire.capture.options import Options
from kwire.capture.reader import read_rows
from kwire.headers import encode_request, encode_response
from kwire.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic
from kwire.messages.produce import ProduceRequest
from kwire.messages.sasl_handshake import SaslHandshakeRequest
from tests.support.captures.capture_files import (
    SHARE,
    CapturedConnection,
    CapturedPacket,
    build_pcap,
    peak_memory,
    read_capture_rows,
)
from tests.support.captures.conversations import produce_request
from tests.support.captures.index_captures import keep_direction

pytestmark = pytest.mark.slow

MIB = 1 << 20
VERSIONS = b"\0\x12\0\3\0\0\0\1\0\x02me\0\x02a\x02b\0"


def peak_memory_of(data: bytes) -> int:
    return peak_memory(data, bodies=False, ports=frozenset({9092}))


def packets_after_gaps(connections: int, packets: int, size: int) -> list[CapturedPacket]:
    """Interleaved connections whose first data packet was not captured."""
    talks = []
    for number in range(connections):
        connection = CapturedConnection(("10.0.0.1", 10_000 + number)).open().send_client_bytes(b"lost")
        for _ in range(packets):
            connection.send_client_bytes(bytes(size))
        talks.append([*connection.packets[:3], *connection.packets[4:]])
    return list(itertools.chain.from_iterable(zip(*talks, strict=True)))


def test_segments_after_gaps_share_a_memory_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    data = build_pcap(packets_after_gaps(64, 32, 8_192))

    assert len(data) > 16 * MIB
    # The data after the gaps is skipped, since there is no request.
    monkeypatch.setattr("kwire.capture.kafka.frame_resync.SEARCH_SIZE_MAX", 1 << 14)
    assert peak_memory_of(data) < 8 * MIB


def test_requests_without_responses_share_a_memory_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    connection = CapturedConnection().open()
    for number in range(600):
        connection.send_requests(produce_request(number, bytes(50_000)))
    data = build_pcap(keep_direction(connection.packets, from_client=True))

    monkeypatch.setattr(exchange_pairing, "PENDING_SIZE_MAX", 2 * MIB)
    # The reorder buffer of rows has its own limit.
    assert peak_memory_of(data) < 20 * MIB
    rows = read_capture_rows(data)
    assert [row["correlation_id"] for row in rows] == list(range(600))
    assert {row["status"] for row in rows} == {"no_response"}
    assert "too many requests were waiting for answers" in str(rows[0]["issues"])
    assert "the capture ends before an answer" in str(rows[-1]["issues"])


def test_pending_requests_are_limited_in_number(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (waiting_limits, flow_pairing, pending_requests):
        monkeypatch.setattr(module, "PENDING_REQUESTS_MAX", 3)
    request = [encode_request(MetadataRequest(topics=None), 12, number, "me") for number in range(6)]
    response = encode_response(MetadataResponse(), 12, 5)

    rows = CapturedConnection().open().send_requests(*request).send_responses(response).read_rows()
    assert [row["status"] for row in rows] == ["no_response"] * 5 + ["ok"]
    assert [row["in_flight"] for row in rows] == [0, 1, 2, 3, 3, 3]
    assert ["was dropped" in str(row["issues"]) for row in rows] == [True, True, True, False, False, False]


def test_pending_sasl_tokens_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (waiting_limits, flow_pairing, pending_requests):
        monkeypatch.setattr(module, "PENDING_REQUESTS_MAX", 3)
    start = encode_request(SaslHandshakeRequest("GSSAPI"), 0, 1, "me")

    rows = CapturedConnection().open().send_requests(start, *[b"\x60token" * 9] * 5).read_rows()
    assert [row["api_name"] for row in rows] == ["SaslHandshake", *["SaslToken"] * 5]
    assert ["was dropped" in str(row["issues"]) for row in rows] == [True, True, True, False, False, False]


def test_responses_without_requests_share_a_memory_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    packets = []
    for number in range(8):
        connection = CapturedConnection(("10.0.0.1", 10_000 + number)).open()
        for each in range(40):
            connection.send_responses(each.to_bytes(4, "big") + bytes(60_000))
        packets += connection.packets
    data = build_pcap(packets)

    # A connection buffers its data until it is clear that the client sends nothing.
    monkeypatch.setattr(client_detection, "UNDECIDED_SIZE_MAX", 100_000)
    monkeypatch.setattr(exchange_pairing, "PENDING_SIZE_MAX", 2 * MIB)
    assert len(data) > 16 * MIB
    assert peak_memory_of(data) < 8 * MIB
    rows = read_capture_rows(data, ports=frozenset({9092}))
    assert len(rows) == 8 * 40
    assert {row["status"] for row in rows} == {"no_request"}


def test_topic_names_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_names, "NAMES_MAX", 5)
    names = TopicNames({})
    for number in range(10):
        names.learn(MetadataResponse(topics=[MetadataResponseTopic(name="t", topic_id=bytes([number + 1] * 16))]))

    assert len(names.names_by_id()) == 5


class OnlyRead:
    """A file object with `read` only, as for a remote store or a pipe."""

    def __init__(self, data: bytes, at_most: int) -> None:
        self._file = io.BytesIO(data)
        self._at_most = at_most

    def read(self, size: int, /) -> bytes:
        return self._file.read(min(size, self._at_most))


@pytest.mark.parametrize("level", ["messages", "flows", "packets"])
@pytest.mark.parametrize("at_most", [1, 7, 1 << 20])
def test_a_file_that_cannot_seek_is_read_as_it_comes(level: str, at_most: int) -> None:
    rows = list(read_rows(OnlyRead(SHARE.read_bytes(), at_most), level, Options(name="x")))

    assert rows == list(read_rows(SHARE, level, Options(name="x")))


def test_a_file_object_in_text_mode_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_text("hello", encoding="utf-8")
    with path.open(encoding="utf-8") as file, pytest.raises(ValueError, match="read in binary mode"):
        list(read_rows(file))  # type: ignore[arg-type]


def packets_with_beginning(connections: int, packets: int, first: bytes) -> list[CapturedPacket]:
    """Interleaved connections that begin with `first` and continue with zeros."""
    talks = []
    for number in range(connections):
        connection = CapturedConnection(("10.0.0.1", 10_000 + number)).open()
        connection.send_requests(VERSIONS).send_client_bytes(first)
        for _ in range(packets):
            connection.send_client_bytes(bytes(16_384))
        talks.append(connection.packets)
    return list(itertools.chain.from_iterable(zip(*talks, strict=True)))


def test_incomplete_frames_take_no_memory_above_a_limit() -> None:
    size = 32 * 16_384
    request = encode_request(ProduceRequest(acks=1, timeout_ms=9), 9, 7, "me")
    frame_size = len(request) + size
    data = build_pcap(packets_with_beginning(16, 32, struct.pack(">i", frame_size) + request))

    assert len(data) > 8 * MIB
    assert peak_memory_of(data) < 6 * MIB
    rows = [row for row in read_capture_rows(data) if row["api_name"] == "Produce"]
    assert len(rows) == 16
    assert {row["correlation_id"] for row in rows} == {7}
    assert {row["req_bytes"] for row in rows} == {frame_size + 4}


def test_frame_searches_share_a_memory_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    data = build_pcap(packets_with_beginning(16, 32, b"\x7f\xff\xff\xff"))

    assert len(data) > 8 * MIB
    monkeypatch.setattr(frame_resync, "PARTIAL_SIZE_MAX", MIB)
    assert peak_memory_of(data) < 4 * MIB
    lost = [row for row in read_capture_rows(data) if row["status"] == "undecodable"]
    assert len(lost) == 16
    assert all(f"{32 * 16_384 + 4} skipped" in str(row["issues"]) for row in lost)


def test_a_search_that_found_its_frame_buffers_nothing() -> None:
    packets = []
    for number in range(32):
        connection = CapturedConnection(("10.0.0.1", 10_000 + number)).open()
        connection.send_requests(VERSIONS).send_client_bytes(b"\x7f\xff\xff\xff")
        for _ in range(16):
            connection.send_client_bytes(bytes(16_384))
        packets += connection.send_requests(VERSIONS).packets
    data = build_pcap(packets)

    assert len(data) > 8 * MIB
    assert peak_memory_of(data) < 4 * MIB
