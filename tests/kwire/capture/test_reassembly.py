"""Bytes of a stream come once, those that were seen first; and only one connection's bytes make a stream."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator

import pytest

from kwire.capture import arrow
from kwire.capture.reassembly import streams
from kwire.capture.rows import Row
from kwire.capture.values import Data, Gap, Segment
from tests.kwire.capture.wire import Wire, pcap, read

CLIENT, BROKER = (b"\x0a\0\0\1", 40_000), (b"\x0a\0\0\2", 9092)
FIN, SYN, RST, PUSH, ACK = 1, 2, 4, 8, 16
SECOND = 1_000_000_000


class Wires:
    """A conversation packet by packet; what is given instead of the own numbers is made up."""

    def __init__(self, isn: tuple[int, int] = (1000, 5000), start: int = 1_700_000_000 * SECOND) -> None:
        self.made: list[Wire] = []
        self.next = list(isn)
        self.ts = start

    def send(
        self, side: int, flags: int, payload: bytes = b"", *, seq: int | None = None, ack: int | None = None
    ) -> None:
        ends = (CLIENT, BROKER) if side == 0 else (BROKER, CLIENT)
        numbers = self.next[side] if seq is None else seq, self.next[1 - side] if ack is None else ack
        head = struct.pack(
            ">HHIIBBHI", ends[0][1], ends[1][1], *(each & 0xFFFFFFFF for each in numbers), 80, flags, 500, 0
        )
        ip = struct.pack(">BBHHHBBH", 0x45, 0, 40 + len(payload), 1, 0, 64, 6, 0) + ends[0][0] + ends[1][0]
        self.ts += 1_000_000
        self.made.append(Wire(self.ts, ip + head + payload))
        if seq is None:
            self.next[side] += len(payload) + bool(flags & (SYN | FIN))

    def open(self) -> Wires:
        self.send(0, SYN, ack=0)
        self.send(1, SYN | ACK)
        self.send(0, ACK)
        return self

    def talk(self, ids: range, *, pause: int = 0) -> Wires:
        for correlation_id in ids:
            self.send(0, PUSH | ACK, asked(correlation_id))
            self.send(1, PUSH | ACK, answered(correlation_id))
            self.ts += pause
        return self


def asked(correlation_id: int) -> bytes:
    body = struct.pack(">hhih", 18, 3, correlation_id, 2) + b"me\0\2a\2b\0"
    return struct.pack(">i", len(body)) + body


def answered(correlation_id: int) -> bytes:
    body = struct.pack(">ihBib", correlation_id, 0, 1, 0, 0)
    return struct.pack(">i", len(body)) + body


def told(wires: list[Wire], level: str = "messages") -> list[Row]:
    """The rows, which the index must give as well."""
    found = read(pcap(wires), level)
    by_index = [row for batch in arrow.batches(pcap(wires), level) for row in batch.to_pylist()]
    names = ("correlation_id", "stream_epoch", "status", "kind", "ended", "lost_bytes_client", "lost_bytes_broker")
    chosen = [name for name in names if name in found[0]]
    assert [[row[name] for name in chosen] for row in found] == [[row[name] for name in chosen] for row in by_index]
    return found


def answers(found: list[Row]) -> list[tuple[object, object]]:
    """Epoch and correlation id of each request with its response; nothing else may have been told."""
    assert {row["status"] for row in found} == {"ok"}
    return [(row["stream_epoch"], row["correlation_id"]) for row in found]


def arrivals(rng: random.Random) -> Iterator[tuple[int, bytes]]:
    """Pieces of a stream: late, lost, sent again in other sizes, and some of those with other bytes."""
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
def test_of_bytes_that_come_again_those_seen_first_stay_also_behind_a_hole(isn: int) -> None:
    for seed in range(500):
        sent = [Segment(1, "raw", CLIENT, BROKER, isn, 0, SYN, b"", 0)]
        first: dict[int, int] = {}
        for begin, payload in arrivals(random.Random(seed)):
            sent.append(Segment(2, "raw", CLIENT, BROKER, isn + 1 + begin & 0xFFFFFFFF, 0, ACK, payload, 0))
            for place, byte in enumerate(payload, begin):
                first.setdefault(place, byte)
        found: dict[int, int] = {}
        end = 0
        for event in streams(sent):
            if isinstance(event, Data | Gap):
                assert event.offset == end
                end += len(event.payload) if isinstance(event, Data) else event.size
            if isinstance(event, Data):
                found |= dict(enumerate(event.payload, event.offset))

        assert found == first


@pytest.mark.parametrize("isn", [(0xFFFFFFFF, 0xFFFFFFFE), (0xFFFFFF00, 0xFFFFFFF0)])
def test_numbers_wrap_in_an_open_connection_and_in_one_that_began_before(isn: tuple[int, int]) -> None:
    every = [(0, each) for each in range(30)]

    assert answers(told(Wires(isn).open().talk(range(30)).made)) == every
    assert answers(told(Wires(isn).talk(range(30)).made)) == every


def test_a_reset_that_nobody_heeds_ends_nothing() -> None:
    wires = Wires().open().talk(range(5))
    wires.send(1, RST, seq=wires.next[1] + 900_000)
    wires.talk(range(5, 25), pause=SECOND)

    assert answers(told(wires.made)) == [(0, each) for each in range(25)]
    assert [row["ended"] for row in told(wires.made, "flows")] == ["end"]


def test_a_reset_while_bytes_are_under_way_ends_the_connection() -> None:
    wires = Wires().open().talk(range(5))
    wires.send(0, RST | ACK)
    wires.send(1, PUSH | ACK, answered(9))
    wires.ts += 60 * SECOND
    other = Wires((7, 8), wires.ts).open().talk(range(3))

    assert [row["ended"] for row in told(wires.made + other.made, "flows")] == ["rst", "end"]


def test_what_a_reset_acknowledges_was_not_lost() -> None:
    wires = Wires().open().talk(range(5))
    wires.send(0, RST | ACK, ack=wires.next[1] + 300_000_000)

    assert answers(told(wires.made)) == [(0, each) for each in range(5)]


@pytest.mark.parametrize("distance", [1 << 28, 1 << 29, 1 << 30])
def test_ports_taken_again_are_another_connection_also_where_its_syn_was_not_captured(distance: int) -> None:
    before = Wires((1 << 31, 1 << 31)).open().talk(range(5))
    behind = (1 << 31) - distance - 1000
    after = Wires((behind, behind), before.ts).talk(range(50, 70))

    found = answers(told(before.made + after.made))
    assert found == [(0, each) for each in range(5)] + [(1, each) for each in range(50, 70)]


def test_one_packet_with_a_wrong_number_is_no_other_connection() -> None:
    wires = Wires((1 << 31, 1 << 31)).open().talk(range(5))
    wires.send(0, PUSH | ACK, b"noise", seq=1_500_000_000)
    wires.talk(range(5, 10))
    wires.send(1, PUSH | ACK, b"noise", seq=1_600_000_000)

    assert answers(told(wires.talk(range(10, 15)).made)) == [(0, each) for each in range(15)]


def test_an_answer_for_the_connection_before_says_nothing_of_the_next() -> None:
    before = Wires((900_000, 900_000)).open().talk(range(5))
    after = Wires((1000, 5000), before.ts)
    after.send(0, SYN, ack=0)
    after.send(1, ACK, seq=before.next[1], ack=before.next[0])
    after.send(1, SYN | ACK)
    after.send(0, ACK)
    after.talk(range(5))

    assert answers(told(before.made + after.made)) == [(epoch, each) for epoch in (0, 1) for each in range(5)]
    assert [row["lost_bytes_client"] for row in told(before.made + after.made, "flows")] == [0, 0]


@pytest.mark.parametrize("first", [0, 1])
def test_where_both_sides_open_at_once_the_client_is_who_asks(first: int) -> None:
    wires = Wires()
    wires.send(first, SYN, ack=0)
    wires.send(1 - first, SYN, ack=0)
    for side in (0, 1):
        wires.send(side, SYN | ACK, seq=wires.next[side] - 1)

    assert answers(told(wires.talk(range(5)).made)) == [(0, each) for each in range(5)]


def test_data_in_a_syn_is_read() -> None:
    wires = Wires()
    wires.send(0, SYN, asked(0), ack=0)
    wires.send(1, SYN | ACK)
    wires.send(1, PUSH | ACK, answered(0))

    assert answers(told(wires.talk(range(1, 5)).made)) == [(0, each) for each in range(5)]


def test_probes_of_a_quiet_connection_are_no_data() -> None:
    wires = Wires().open().talk(range(5))
    for _ in range(5):
        wires.ts += SECOND
        wires.send(0, ACK, b"\0", seq=wires.next[0] - 1)
        wires.send(1, ACK)

    assert answers(told(wires.talk(range(5, 9)).made)) == [(0, each) for each in range(9)]


@pytest.mark.parametrize("odd", [SYN | RST, SYN | FIN])
def test_a_syn_that_ends_its_connection_means_the_same_by_the_index(odd: int) -> None:
    wires = Wires()
    wires.send(0, odd, ack=0)
    wires.send(1, SYN | ACK)
    wires.send(0, ACK)

    assert {each for _, each in answers(told(wires.talk(range(5)).made))} == set(range(5))
