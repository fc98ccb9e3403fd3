"""What waits for something else has a bound for all connections together: memory does not follow a capture's size."""

from __future__ import annotations

import io
import itertools
import struct
import tracemalloc
from pathlib import Path

import pytest

from kwire.capture import exchange, halves, search, talks, topic_names
from kwire.capture.options import Options
from kwire.capture.pipeline import rows
from kwire.capture.topic_names import TopicNames
from kwire.headers import encode_request, encode_response
from kwire.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic
from kwire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.messages.sasl_handshake import SaslHandshakeRequest
from kwire.records import Record, write_batch
from tests.kwire.capture.wire import SHARE, Talk, Wire, issue_kinds, pcap, read

MIB = 1 << 20
VERSIONS = b"\0\x12\0\3\0\0\0\1\0\x02me\0\x02a\x02b\0"


def peak(data: bytes, level: str = "messages") -> int:
    """How much memory reading takes beyond the capture itself, in bytes."""
    options = Options(bodies=False, ports=frozenset({9092}))
    tracemalloc.start()
    try:
        for _ in rows(data, level, options):
            pass
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def produce(size: int, correlation_id: int) -> bytes:
    batch = write_batch([Record(0, 5, b"k", bytes(size))])
    topics = [TopicProduceData("t", partition_data=[PartitionProduceData(0, batch)])]
    return encode_request(ProduceRequest(acks=1, timeout_ms=9, topic_data=topics), 9, correlation_id, "me")


def holes(connections: int, packets: int, size: int) -> list[Wire]:
    """Connections of which the first data packet was not captured, packet by packet side by side."""
    talks = []
    for number in range(connections):
        talk = Talk(("10.0.0.1", 10_000 + number)).open().client_bytes(b"lost")
        for _ in range(packets):
            talk.client_bytes(bytes(size))
        talks.append([*talk.wires[:3], *talk.wires[4:]])
    return list(itertools.chain.from_iterable(zip(*talks, strict=True)))


def test_packets_behind_holes_share_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    data = pcap(holes(64, 32, 16_384))

    assert len(data) > 32 * MIB
    assert peak(data) > 32 * MIB
    monkeypatch.setattr(halves, "HELD_SIZE_MAX", 2 * MIB)
    # What was behind the holes is then passed over for want of a request.
    monkeypatch.setattr("kwire.capture.search.HELD_SIZE_MAX", 1 << 14)
    assert peak(data) < 12 * MIB


def test_where_too_much_waits_those_go_on_that_began_to_wait_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(halves, "HELD_SIZE_MAX", 3500)
    ask = encode_request(MetadataRequest(topics=None), 12, 7, "me")
    first = Talk(("10.0.0.1", 1)).open().asks(ask).asks(ask).asks(ask).wires
    second = Talk(("10.0.0.1", 2)).open().asks(ask).asks(ask).wires
    filling = Talk(("10.0.0.1", 3)).open().client_bytes(b"x").client_bytes(bytes(2700)).wires
    late = second[3]
    # All have a hole; only the first one's was given up when its packet came, out of its turn.
    wires = [*first[:3], *first[4:], *second[:3], *second[4:], *filling[:3], *filling[4:], first[3], late]

    found = read(pcap([each._replace(ts=number) for number, each in enumerate(wires)]), ports=frozenset({9092}))
    of = {port: [row for row in found if row["client_port"] == port] for port in (1, 2)}
    assert [row["status"] for row in of[1]] == ["gap", "no_response", "no_response"]
    assert [row["status"] for row in of[2]] == ["no_response", "no_response"]


def test_requests_of_a_capture_without_answers_share_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    talk = Talk().open()
    for number in range(600):
        talk.asks(produce(50_000, number))
    one_sided = [each for each in talk.wires if each.packet[22:24] == (9092).to_bytes(2, "big")]
    data = pcap(one_sided)

    assert peak(data) > 25 * MIB
    monkeypatch.setattr(exchange, "HELD_SIZE_MAX", 2 * MIB)
    # Rows wait for others in a window of their own.
    assert peak(data) < 20 * MIB
    found = read(data)
    assert [row["correlation_id"] for row in found] == list(range(600))
    assert {row["status"] for row in found} == {"no_response"}
    assert "so many requests wait for answers" in str(found[0]["issues"])
    assert "the capture ends before an answer" in str(found[-1]["issues"])


def test_requests_that_wait_are_bounded_in_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "WAITING_MAX", 3)
    ask = [encode_request(MetadataRequest(topics=None), 12, number, "me") for number in range(6)]
    answer = encode_response(MetadataResponse(), 12, 5)

    found = Talk().open().asks(*ask).answers(answer).rows()
    assert [row["status"] for row in found] == ["no_response"] * 5 + ["ok"]
    assert [row["in_flight"] for row in found] == [0, 1, 2, 3, 3, 3]
    assert ["given up" in str(row["issues"]) for row in found] == [True, True, True, False, False, False]


def test_tokens_that_wait_are_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "WAITING_MAX", 3)
    start = encode_request(SaslHandshakeRequest("GSSAPI"), 0, 1, "me")

    found = Talk().open().asks(start, *[b"\x60token" * 9] * 5).rows()
    assert [row["api_name"] for row in found] == ["SaslHandshake", *["SaslToken"] * 5]
    assert ["given up" in str(row["issues"]) for row in found] == [True, True, True, False, False, False]


def test_responses_of_a_capture_without_requests_share_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    wires = []
    for number in range(8):
        talk = Talk(("10.0.0.1", 10_000 + number)).open()
        for each in range(40):
            talk.answers(each.to_bytes(4, "big") + bytes(60_000))
        wires += talk.wires
    data = pcap(wires)

    # Until it is clear that nothing of the client comes, a connection holds what there is.
    monkeypatch.setattr(talks, "UNDECIDED_SIZE_MAX", 100_000)
    assert peak(data) > 16 * MIB
    monkeypatch.setattr(exchange, "HELD_SIZE_MAX", 2 * MIB)
    assert peak(data) < 8 * MIB
    found = read(data, ports=frozenset({9092}))
    assert len(found) == 8 * 40
    assert {row["status"] for row in found} == {"no_request"}


def test_names_of_topics_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_names, "NAMES_MAX", 5)
    names = TopicNames({})
    for number in range(10):
        names.learn(MetadataResponse(topics=[MetadataResponseTopic(name="t", topic_id=bytes([number + 1] * 16))]))

    assert len(names.known()) == 5


class OnlyRead:
    """As little of a file as may be: what stands in a remote store, or behind a pipe."""

    def __init__(self, data: bytes, at_most: int) -> None:
        self._file = io.BytesIO(data)
        self._at_most = at_most

    def read(self, size: int, /) -> bytes:
        return self._file.read(min(size, self._at_most))


@pytest.mark.parametrize("level", ["messages", "flows", "packets"])
@pytest.mark.parametrize("at_most", [1, 7, 1 << 20])
def test_a_file_that_cannot_seek_is_read_as_it_comes(level: str, at_most: int) -> None:
    found = list(rows(OnlyRead(SHARE.read_bytes(), at_most), level, Options(name="x")))

    assert found == list(rows(SHARE, level, Options(name="x")))


def test_a_file_object_that_gives_no_bytes_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_text("hello", encoding="utf-8")
    with path.open(encoding="utf-8") as file, pytest.raises(ValueError, match="read in binary mode"):
        list(rows(file))  # type: ignore[arg-type]


def begun(connections: int, packets: int, first: bytes) -> list[Wire]:
    """Connections that each begin so and go on with zeros, packet by packet side by side."""
    talks = []
    for number in range(connections):
        talk = Talk(("10.0.0.1", 10_000 + number)).open().asks(VERSIONS).client_bytes(first)
        for _ in range(packets):
            talk.client_bytes(bytes(16_384))
        talks.append(talk.wires)
    return list(itertools.chain.from_iterable(zip(*talks, strict=True)))


def test_frames_that_are_not_whole_share_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    size = 32 * 16_384
    request = encode_request(ProduceRequest(acks=1, timeout_ms=9), 9, 7, "me")
    whole = len(request) + size
    data = pcap(begun(16, 32, struct.pack(">i", whole) + request))

    assert len(data) > 8 * MIB
    monkeypatch.setattr(search, "BEGUN_SIZE_MAX", MIB)
    assert peak(data) < 4 * MIB
    found = [row for row in read(data) if row["api_name"] == "Produce"]
    # Those that went on longest were read whole; of the others it is known what they were.
    assert len(found) == 16
    assert {row["correlation_id"] for row in found} == {7}
    assert {row["req_bytes"] for row in found} == {whole + 4}
    assert 8 <= sum(row["status"] == "truncated" for row in found) <= 16
    assert issue_kinds(found) >= {"much"}


def test_searches_for_frames_share_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    data = pcap(begun(16, 32, b"\x7f\xff\xff\xff"))

    assert len(data) > 8 * MIB
    monkeypatch.setattr(search, "BEGUN_SIZE_MAX", MIB)
    assert peak(data) < 4 * MIB
    lost = [row for row in read(data) if row["status"] == "undecodable"]
    assert len(lost) == 16
    assert all(f"{32 * 16_384 + 4} passed over" in str(row["issues"]) for row in lost)


def test_a_search_that_has_found_its_frame_holds_nothing() -> None:
    wires = []
    for number in range(32):
        talk = Talk(("10.0.0.1", 10_000 + number)).open().asks(VERSIONS).client_bytes(b"\x7f\xff\xff\xff")
        for _ in range(16):
            talk.client_bytes(bytes(16_384))
        wires += talk.asks(VERSIONS).wires
    data = pcap(wires)

    assert len(data) > 8 * MIB
    assert peak(data) < 4 * MIB
