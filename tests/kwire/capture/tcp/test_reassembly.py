"""Reassembly: every byte of a stream is delivered once, from its first segment; and reused ports are distinguished."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator

import pytest

from kwire.capture.model import MissingBytes, Row, Segment, StreamData
from kwire.capture.reader import read_batches
from tests.support.capture_model.reassembly import reassemble_streams
from tests.support.captures.capture_files import CapturedPacket, build_pcap, read_capture_rows
from tests.support.captures.index_captures import batch_rows

CLIENT, BROKER = (b"\x0a\0\0\1", 40_000), (b"\x0a\0\0\2", 9092)
FIN, SYN, RST, PUSH, ACK = 1, 2, 4, 8, 16
SECOND = 1_000_000_000


class SegmentBuilder:
    """Builds the packets of a connection one by one; arguments can replace the correct sequence numbers."""

    def __init__(self, isn: tuple[int, int] = (1000, 5000), start: int = 1_700_000_000 * SECOND) -> None:
        self.packets: list[CapturedPacket] = []
        self.next_seq = list(isn)
        self.ts = start

    def send(
        self, side: int, flags: int, payload: bytes = b"", *, seq: int | None = None, ack: int | None = None
    ) -> None:
        ends = (CLIENT, BROKER) if side == 0 else (BROKER, CLIENT)
        numbers = self.next_seq[side] if seq is None else seq, self.next_seq[1 - side] if ack is None else ack
        numbers = numbers[0] & 0xFFFFFFFF, numbers[1] & 0xFFFFFFFF
        head = struct.pack(">HHIIBBHI", ends[0][1], ends[1][1], *numbers, 80, flags, 500, 0)
        ip = struct.pack(">BBHHHBBH", 0x45, 0, 40 + len(payload), 1, 0, 64, 6, 0) + ends[0][0] + ends[1][0]
        self.ts += 1_000_000
        self.packets.append(CapturedPacket(self.ts, ip + head + payload))
        if seq is None:
            self.next_seq[side] += len(payload) + bool(flags & (SYN | FIN))

    def open(self) -> SegmentBuilder:
        self.send(0, SYN, ack=0)
        self.send(1, SYN | ACK)
        self.send(0, ACK)
        return self

    def exchange(self, ids: range, *, pause: int = 0) -> SegmentBuilder:
        for correlation_id in ids:
            self.send(0, PUSH | ACK, request_frame(correlation_id))
            self.send(1, PUSH | ACK, response_frame(correlation_id))
            self.ts += pause
        return self


def request_frame(correlation_id: int) -> bytes:
    body = struct.pack(">hhih", 18, 3, correlation_id, 2) + b"me\0\2a\2b\0"
    return struct.pack(">i", len(body)) + body


def response_frame(correlation_id: int) -> bytes:
    body = struct.pack(">ihBib", correlation_id, 0, 1, 0, 0)
    return struct.pack(">i", len(body)) + body


def read_rows(packets: list[CapturedPacket], level: str = "messages") -> list[Row]:
    """Read the rows; the index must give the same."""
    rows = read_capture_rows(build_pcap(packets), level)
    by_index = batch_rows(read_batches(build_pcap(packets), level))
    names = ("correlation_id", "stream_epoch", "status", "kind", "ended", "lost_bytes_client", "lost_bytes_broker")
    columns = [name for name in names if name in rows[0]]
    assert [[row[name] for name in columns] for row in rows] == [[row[name] for name in columns] for row in by_index]
    return rows


def matched_ids(rows: list[Row]) -> list[tuple[object, object]]:
    """Epoch and correlation id of each request with its response; there must be no other rows."""
    assert {row["status"] for row in rows} == {"ok"}
    return [(row["stream_epoch"], row["correlation_id"]) for row in rows]


def random_pieces(rng: random.Random) -> Iterator[tuple[int, bytes]]:
    """Pieces of a stream: late, lost, or sent again in other sizes, some of them with other bytes."""
    size, at = rng.randrange(20, 400), 0
    stream = rng.randbytes(size)
    pieces: list[tuple[float, int, int]] = []
    while at < size:
        stop = min(size, at + rng.randrange(1, 40))
        pieces.append((len(pieces) + rng.random() * rng.choice((0, 0, 6)), at, stop))
        at = stop
    for _ in range(rng.randrange(8)):
        at = rng.randrange(size)
        pieces.append((rng.random() * len(pieces), at, min(size, at + rng.randrange(1, 60))))
    for index, (_, begin, stop) in enumerate(sorted(each for each in pieces if rng.random() > 0.1)):
        change = rng.choice((0, index + 1))
        yield begin, bytes(byte ^ change for byte in stream[begin:stop])


@pytest.mark.parametrize("isn", [5, 0xFFFFFF80, 0xFFFFFFFF, 1 << 31])
def test_of_repeated_bytes_the_first_are_used_also_after_a_gap(isn: int) -> None:
    for seed in range(500):
        sent = [Segment(1, "raw", CLIENT, BROKER, isn, 0, SYN, b"", 0)]
        first: dict[int, int] = {}
        for begin, payload in random_pieces(random.Random(seed)):
            sent.append(Segment(2, "raw", CLIENT, BROKER, isn + 1 + begin & 0xFFFFFFFF, 0, ACK, payload, 0))
            for offset, byte in enumerate(payload, begin):
                first.setdefault(offset, byte)
        found: dict[int, int] = {}
        end = 0
        for event in reassemble_streams(sent):
            if isinstance(event, StreamData | MissingBytes):
                assert event.offset == end
                end += len(event.payload) if isinstance(event, StreamData) else event.size
            if isinstance(event, StreamData):
                found |= dict(enumerate(event.payload, event.offset))

        assert found == first


@pytest.mark.parametrize("isn", [(0xFFFFFFFF, 0xFFFFFFFE), (0xFFFFFF00, 0xFFFFFFF0)])
def test_sequence_numbers_wrap_with_and_without_a_captured_syn(isn: tuple[int, int]) -> None:
    every = [(0, each) for each in range(30)]

    assert matched_ids(read_rows(SegmentBuilder(isn).open().exchange(range(30)).packets)) == every
    assert matched_ids(read_rows(SegmentBuilder(isn).exchange(range(30)).packets)) == every


def test_an_ignored_reset_does_not_end_the_connection() -> None:
    segments = SegmentBuilder().open().exchange(range(5))
    segments.send(1, RST, seq=segments.next_seq[1] + 900_000)
    segments.exchange(range(5, 25), pause=SECOND)

    assert matched_ids(read_rows(segments.packets)) == [(0, each) for each in range(25)]
    assert [row["ended"] for row in read_rows(segments.packets, "flows")] == ["end"]


def test_a_reset_with_data_in_flight_ends_the_connection() -> None:
    segments = SegmentBuilder().open().exchange(range(5))
    segments.send(0, RST | ACK)
    segments.send(1, PUSH | ACK, response_frame(9))
    segments.ts += 60 * SECOND
    other = SegmentBuilder((7, 8), segments.ts).open().exchange(range(3))

    assert [row["ended"] for row in read_rows(segments.packets + other.packets, "flows")] == ["rst", "end"]


def test_the_acknowledgement_of_a_reset_is_ignored() -> None:
    segments = SegmentBuilder().open().exchange(range(5))
    segments.send(0, RST | ACK, ack=segments.next_seq[1] + 300_000_000)

    assert matched_ids(read_rows(segments.packets)) == [(0, each) for each in range(5)]


@pytest.mark.parametrize("distance", [1 << 28, 1 << 29, 1 << 30])
def test_reused_ports_are_another_connection_without_a_captured_syn(distance: int) -> None:
    before = SegmentBuilder((1 << 31, 1 << 31)).open().exchange(range(5))
    behind = (1 << 31) - distance - 1000
    after = SegmentBuilder((behind, behind), before.ts).exchange(range(50, 70))

    rows = matched_ids(read_rows(before.packets + after.packets))
    assert rows == [(0, each) for each in range(5)] + [(1, each) for each in range(50, 70)]


def test_one_packet_with_a_wrong_number_is_not_another_connection() -> None:
    segments = SegmentBuilder((1 << 31, 1 << 31)).open().exchange(range(5))
    segments.send(0, PUSH | ACK, b"noise", seq=1_500_000_000)
    segments.exchange(range(5, 10))
    segments.send(1, PUSH | ACK, b"noise", seq=1_600_000_000)

    assert matched_ids(read_rows(segments.exchange(range(10, 15)).packets)) == [(0, each) for each in range(15)]


def test_an_ack_for_the_previous_connection_is_ignored() -> None:
    before = SegmentBuilder((900_000, 900_000)).open().exchange(range(5))
    after = SegmentBuilder((1000, 5000), before.ts)
    after.send(0, SYN, ack=0)
    after.send(1, ACK, seq=before.next_seq[1], ack=before.next_seq[0])
    after.send(1, SYN | ACK)
    after.send(0, ACK)
    after.exchange(range(5))

    packets = before.packets + after.packets
    assert matched_ids(read_rows(packets)) == [(epoch, each) for epoch in (0, 1) for each in range(5)]
    assert [row["lost_bytes_client"] for row in read_rows(packets, "flows")] == [0, 0]


@pytest.mark.parametrize("first", [0, 1])
def test_in_a_simultaneous_open_the_client_is_the_side_that_sends_requests(first: int) -> None:
    segments = SegmentBuilder()
    segments.send(first, SYN, ack=0)
    segments.send(1 - first, SYN, ack=0)
    for side in (0, 1):
        segments.send(side, SYN | ACK, seq=segments.next_seq[side] - 1)

    assert matched_ids(read_rows(segments.exchange(range(5)).packets)) == [(0, each) for each in range(5)]


def test_data_in_a_syn_is_read() -> None:
    segments = SegmentBuilder()
    segments.send(0, SYN, request_frame(0), ack=0)
    segments.send(1, SYN | ACK)
    segments.send(1, PUSH | ACK, response_frame(0))

    assert matched_ids(read_rows(segments.exchange(range(1, 5)).packets)) == [(0, each) for each in range(5)]


def test_keep_alive_probes_are_not_data() -> None:
    segments = SegmentBuilder().open().exchange(range(5))
    for _ in range(5):
        segments.ts += SECOND
        segments.send(0, ACK, b"\0", seq=segments.next_seq[0] - 1)
        segments.send(1, ACK)

    assert matched_ids(read_rows(segments.exchange(range(5, 9)).packets)) == [(0, each) for each in range(9)]


@pytest.mark.parametrize("flags", [SYN | RST, SYN | FIN])
def test_a_syn_with_fin_is_handled_the_same_by_the_index(flags: int) -> None:
    segments = SegmentBuilder()
    segments.send(0, flags, ack=0)
    segments.send(1, SYN | ACK)
    segments.send(0, ACK)

    assert {each for _, each in matched_ids(read_rows(segments.exchange(range(5)).packets))} == set(range(5))
