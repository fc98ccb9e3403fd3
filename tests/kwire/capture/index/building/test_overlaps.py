"""Segments that bring bytes again, cut otherwise than the first time, leave a flow clean; the bytes seen first stay."""

from __future__ import annotations

import random
import struct

import pytest

from kwire.capture import arrow, index
from kwire.capture.halves import Half, Held
from kwire.capture.index.building.overlaps import Row, settled
from kwire.capture.index.walking import walk
from kwire.capture.index.walking.spans import SPAN_SIZE
from kwire.capture.options import Options
from kwire.capture.pipeline import rows
from kwire.capture.values import Data, Flow, Segment
from tests.kwire.capture.index.kit import FILES, again, payload_of
from tests.kwire.capture.wire import Wire, ip_packets, pcap

OPTIONS = Options(bodies=False, sessions=False)
NOWHERE = (b"", 0)


def resent(wires: list[Wire], chance: random.Random) -> list[Wire]:
    """Parts of segments come again, some of them together with a part of the next; some come before the whole."""
    placed = [(float(place), wire) for place, wire in enumerate(wires)]
    last: dict[bytes, Wire] = {}
    for place, wire in enumerate(wires):
        payload, ends = payload_of(wire), wire.packet[12:24]
        before = last.get(ends)
        if not payload or len(payload) > 3000:
            continue
        last[ends] = wire
        if chance.random() > 0.1:
            continue
        own, data = wire, payload
        if before is not None and seq_of(before) + len(payload_of(before)) == seq_of(wire):
            own, data = before, payload_of(before) + payload
        begin = chance.randrange(len(data))
        end = chance.randrange(begin, len(data)) + 1
        placed.append((place + chance.choice((-1.5, -0.5, 0.5, 1.5, 5.5, 30.5)), again(own, begin, data[begin:end])))
    placed.sort(key=lambda each: each[0])
    return [wire._replace(ts=wires[min(max(int(place), 0), len(wires) - 1)].ts) for place, wire in placed]


def seq_of(wire: Wire) -> int:
    seq: int = struct.unpack_from(">I", wire.packet, 24)[0]
    return seq


def assert_same(capture: bytes) -> None:
    found = [row for batch in arrow.batches(capture, "messages", OPTIONS) for row in batch.to_pylist()]
    expected = arrow.record_batch(list(rows(capture, "messages", OPTIONS)), "messages").to_pylist()
    assert sorted(map(repr, found)) == sorted(map(repr, expected))


@pytest.mark.parametrize("span_size", [SPAN_SIZE, 4_096])
def test_captures_with_parts_of_segments_again(span_size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walk, "SPAN_SIZE", span_size)
    chance = random.Random(span_size)

    for path in FILES:
        for _ in range(3):
            assert_same(pcap(resent(ip_packets(path)[:300], chance)))


def test_a_part_of_each_segment_again_leaves_all_flows_clean() -> None:
    for path in FILES:
        wires = ip_packets(path)[:300]
        twice = []
        for wire in wires:
            rest = payload_of(wire)[3:]
            twice += [wire, again(wire, 3, rest)] if rest else [wire]
        plain, doubled = (index.built(pcap(each)) for each in (wires, twice))

        whys = zip(plain.flows, doubled.flows, strict=True)
        assert all(after.is_clean for before, after in whys if before.is_clean)
        assert_same(pcap(twice))


def test_a_probe_of_a_quiet_connection_leaves_it_clean() -> None:
    wires = ip_packets()
    probes = [again(wire, -1, b"\0") for wire in wires if payload_of(wire)]
    capture = pcap(sorted([*wires, *probes], key=lambda each: each.ts))

    assert "clean" in {flow.why for flow in index.built(capture).flows}
    assert_same(capture)


def test_what_is_new_of_places_is_what_is_new_of_bytes() -> None:
    chance = random.Random(9)
    for _ in range(200):
        given = [
            Row(chance.randrange(100, 300), chance.randrange(1, 60), 1_000 * number, number, number, number)
            for number in range(1, 30)
        ]
        half = Half(Flow((NOWHERE, NOWHERE), 0, ""), 0, Held())
        half.start = half.next = half.acked = 100
        expected = []
        for row in given:
            payload = bytes([row.number]) * row.size
            segment = Segment(row.ts, "", NOWHERE, NOWHERE, 0, 0, 0, payload, 0, row.number)
            for event in half.add(row.offset, segment, row.number):
                assert isinstance(event, Data)
                expected.append((100 + event.offset, event.payload))

        found = list(settled(given, 100))
        ended = 100
        delivered = []
        for row in found:
            own = next(each for each in given if each.number == row.number)
            assert row.at - own.at == row.offset - own.offset
            if row.offset == ended:
                ended += row.size
                delivered.append((row.offset, bytes([row.number]) * row.size))
        assert delivered == expected
