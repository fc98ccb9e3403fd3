"""Responses that were captured before their requests meet them as the generators let them meet."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence

import pytest

from kwire.capture import arrow, index
from kwire.capture.index.walking import walk
from kwire.capture.index.walking.spans import SPAN_SIZE
from kwire.capture.options import Options
from kwire.capture.pipeline import rows
from tests.kwire.capture.index.kit import FILES
from tests.kwire.capture.wire import Talk, Wire, ip_packets, pcap

OPTIONS = Options(bodies=False, sessions=False)


def asked(number: int) -> bytes:
    return struct.pack(">hhih", 16, 0, number, -1)


def answered(number: int) -> bytes:
    return struct.pack(">ihi", number, 0, 0)


def exchanges(count: int) -> list[Wire]:
    """Of each exchange the request is packet 3 + 2 n, the answer the next."""
    talk = Talk().open()
    for number in range(count):
        talk.asks(asked(number)).answers(answered(number))
    return talk.close().wires


def swapped(wires: Sequence[Wire], first: int, second: int) -> list[Wire]:
    """Two packets in each other's place, each with the time of that."""
    out = list(wires)
    out[first], out[second] = (
        wires[second]._replace(ts=wires[first].ts),
        wires[first]._replace(ts=wires[second].ts),
    )
    return out


def whys(capture: bytes) -> list[str]:
    return [flow.why for flow in index.built(capture).flows]


def assert_same(capture: bytes) -> list[dict[str, object]]:
    found = [row for batch in arrow.batches(capture, "messages", OPTIONS) for row in batch.to_pylist()]
    expected = arrow.record_batch(list(rows(capture, "messages", OPTIONS)), "messages").to_pylist()
    assert sorted(map(repr, found)) == sorted(map(repr, expected))
    return found


@pytest.mark.parametrize("span_size", [SPAN_SIZE, 400])
def test_an_answer_may_come_before_its_request(span_size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walk, "SPAN_SIZE", span_size)

    for place in range(5, 21, 2):
        capture = pcap(swapped(exchanges(10), place, place + 1))
        assert whys(capture) == ["clean"]
        found = assert_same(capture)
        assert {row["status"] for row in found} == {"ok"}
        assert [row["in_flight"] for row in found] == [0] * 10


@pytest.mark.parametrize("span_size", [SPAN_SIZE, 400])
def test_answers_may_come_before_several_requests_and_in_another_order(
    span_size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walk, "SPAN_SIZE", span_size)
    chance = random.Random(span_size)

    for _ in range(40):
        talk = Talk().open()
        for first in range(0, 30, 3):
            order = chance.sample(range(first, first + 3), 3)
            talk.asks(*map(asked, range(first, first + 3))).answers(*map(answered, order[:1]))
            talk.answers(*map(answered, order[1:]))
        wires = talk.close().wires
        for _ in range(4):
            place = chance.randrange(5, len(wires) - 5)
            wires = swapped(wires, place, place + 1)
        capture = pcap(wires)
        assert whys(capture) == ["clean"]
        assert_same(capture)


def test_an_answer_that_came_long_before_is_left_to_the_generators() -> None:
    wires = exchanges(10)
    late = [wire._replace(ts=wire.ts + 200_000_000) for wire in wires[8:]]
    capture = pcap(swapped([*wires[:8], *late], 7, 8))

    assert whys(capture) == ["pairing"]
    assert "no_request" in {row["status"] for row in assert_same(capture)}


@pytest.mark.parametrize("count", [1, 2])
def test_answers_that_nobody_asked_for_are_left_to_the_generators(count: int) -> None:
    talk = Talk().open()
    for number in range(5):
        talk.asks(asked(number)).answers(answered(number))
    capture = pcap(talk.answers(*[answered(77)] * count).wires)

    assert whys(capture) == ["pairing"]
    assert_same(capture)


def test_two_answers_of_one_number_before_its_request_are_left_to_the_generators() -> None:
    talk = Talk().open().asks(asked(0)).answers(answered(0))
    talk.answers(answered(5)).answers(answered(5)).asks(asked(5)).asks(asked(6)).answers(answered(6))
    capture = pcap(talk.wires)

    assert whys(capture) == ["pairing"]
    assert_same(capture)


def test_who_the_client_is_may_come_late_and_is_left_to_the_generators() -> None:
    wires = ip_packets(FILES[0])
    head = next(
        place
        for place, wire in enumerate(wires)
        if len(wire.packet) > 60 and wire.packet[56:58] == struct.pack(">h", 18)
    )
    capture = pcap(swapped(wires, head, head + 2))

    assert_same(capture)


@pytest.mark.parametrize("span_size", [SPAN_SIZE, 8_192])
def test_captures_in_which_all_is_a_little_out_of_order(span_size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walk, "SPAN_SIZE", span_size)
    chance = random.Random(span_size)

    for path in FILES:
        wires = ip_packets(path)[:600]
        keyed = [(place + chance.choice((0, 0, 0, 2.5, 4.5)), place) for place in range(len(wires))]
        assert_same(pcap([wires[own]._replace(ts=wires[place].ts) for place, (_, own) in enumerate(sorted(keyed))]))
