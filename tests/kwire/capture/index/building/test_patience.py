"""A segment that comes very late leaves its flow clean, unless its receiver had it long before."""

from __future__ import annotations

import struct

import pytest

from kwire.capture import arrow, index
from kwire.capture.index.building import patience
from kwire.capture.index.walking import walk
from kwire.capture.index.walking.spans import SPAN_SIZE
from kwire.capture.options import Options
from kwire.capture.pipeline import rows
from tests.kwire.capture.wire import Talk, Wire, pcap

OPTIONS = Options(bodies=False, sessions=False)
COUNT = 400


def requests(*, ids: int = 0) -> list[Wire]:
    """What a client sends without an answer: three packets that open the connection, then a request in each."""
    talk = Talk().open()
    for number in range(COUNT):
        talk.asks(struct.pack(">hhih", 16, 0, number, ids) + b"x" * ids)
    return talk.wires


def moved(wires: list[Wire], place: int, to: int) -> list[Wire]:
    """One packet comes later, or earlier; all have their times in order."""
    out = list(wires)
    out.insert(to, out.pop(place))
    return [wire._replace(ts=own.ts) for wire, own in zip(out, wires, strict=True)]


def acknowledged(like: Wire, sent: Wire) -> Wire:
    """A packet of the broker, which has everything up to the end of what the client has sent."""
    payload = struct.unpack_from(">H", sent.packet, 2)[0] - 40
    ack = (struct.unpack_from(">I", sent.packet, 24)[0] + payload) & 0xFFFFFFFF
    packet = like.packet[:28] + struct.pack(">I", ack) + like.packet[32:33] + b"\x10" + like.packet[34:]
    return Wire(sent.ts + 1, packet)


def whys(capture: bytes) -> list[str]:
    return [flow.why for flow in index.built(capture).flows]


def assert_same(capture: bytes) -> None:
    found = [row for batch in arrow.batches(capture, "messages", OPTIONS) for row in batch.to_pylist()]
    expected = arrow.record_batch(list(rows(capture, "messages", OPTIONS)), "messages").to_pylist()
    assert sorted(map(repr, found)) == sorted(map(repr, expected))


@pytest.mark.parametrize("span_size", [SPAN_SIZE, 2_048])
@pytest.mark.parametrize("places", [(10, 74), (10, 75), (10, 390), (200, 330)])
def test_what_was_lost_on_the_way_may_come_again_late(
    places: tuple[int, int], span_size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walk, "SPAN_SIZE", span_size)
    capture = pcap(moved(requests(), *places))

    assert whys(capture) == ["clean"]
    assert_same(capture)


@pytest.mark.parametrize("span_size", [SPAN_SIZE, 2_048])
def test_two_holes_at_once(span_size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walk, "SPAN_SIZE", span_size)
    capture = pcap(moved(moved(requests(), 50, 250), 20, 360))

    assert whys(capture) == ["clean"]
    assert_same(capture)


@pytest.mark.parametrize("span_size", [SPAN_SIZE, 2_048])
@pytest.mark.parametrize("sent", [9, 11, 120])
def test_what_the_receiver_has_was_only_not_captured(
    sent: int, span_size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walk, "SPAN_SIZE", span_size)
    wires = requests()
    late = moved(wires, 10, 300)
    late.insert(150, acknowledged(wires[1], wires[sent])._replace(ts=late[149].ts))
    capture = pcap(late)

    assert whys(capture) == ["clean" if sent == 9 else "disorder"]
    assert_same(capture)


def test_a_hole_behind_which_much_waits_is_left_to_the_generators(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("COUNT_MAX", 100), ("SIZE_MAX", 30_000)):
        with monkeypatch.context() as patched:
            patched.setattr(patience, name, value)
            capture = pcap(moved(requests(ids=300), 10, 300))
            assert whys(capture) == ["disorder"]
            assert_same(capture)


def test_a_hole_that_nobody_fills_is_left_to_the_generators() -> None:
    wires = requests()
    capture = pcap([*wires[:30], *wires[31:]])

    assert whys(capture) == ["cut"]
    assert_same(capture)
