"""Nothing is dropped silently: frames and what was passed over fill every stream from first byte to last."""

from __future__ import annotations

import random
import ssl
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kwire.capture.exchange import Exchange, exchanges
from kwire.capture.ip import segments
from kwire.capture.keylog import KeyLog
from kwire.capture.options import Options
from kwire.capture.packets import packets
from kwire.capture.reassembly import streams
from kwire.capture.talks import frames
from kwire.capture.values import Closed, Data, Flow, Foreign, Frame, FrameEvent, Gap, Lost, StreamEvent, Trouble
from tests.kwire.capture.tls_wire import recorded
from tests.kwire.capture.wire import CAPTURES, Talk, Wire, ip_packets, pcap

FILES = ["aio", "ck", "ckz", "jshare", "kpy", "share", "tlskey", "txn"]
WIRES = {name: ip_packets(CAPTURES / f"small_{name}.pcap") for name in FILES}


class Accounts:
    """What came in and what came out, for each connection."""

    def __init__(self, data: bytes, options: Options | None = None, keys: str = "") -> None:
        self.ends: dict[Flow, list[int]] = defaultdict(lambda: [0, 0])
        self.bytes: dict[Flow, int] = defaultdict(int)
        self.spans: dict[tuple[Flow, bool], list[tuple[int, int]]] = defaultdict(list)
        self.foreign: dict[Flow, int] = {}
        self.frames = 0
        self.sides = 0
        options = options or Options()
        found = frames(self._coming_in(streams(segments(packets(data)))), options, KeyLog(keys))
        for outcome in exchanges(self._going_out(found), options):
            if isinstance(outcome, Exchange):
                self.sides += (outcome.request is not None) + (outcome.response is not None)

    def _coming_in(self, events: Iterable[StreamEvent | Trouble]) -> Iterator[StreamEvent | Trouble]:
        for event in events:
            if isinstance(event, Data | Gap):
                size = len(event.payload) if isinstance(event, Data) else event.size
                assert size > 0
                assert event.offset == self.ends[event.flow][event.side]
                self.ends[event.flow][event.side] += size
                self.bytes[event.flow] += size if isinstance(event, Data) else 0
            yield event

    def _going_out(self, events: Iterable[FrameEvent | Trouble]) -> Iterator[FrameEvent | Trouble]:
        for event in events:
            if isinstance(event, Frame):
                self.frames += 1
                self.spans[event.flow, event.is_request].append((event.offset, event.offset + 4 + event.size))
                assert (event.damage is None) == (len(event.data) == event.size)
            elif isinstance(event, Lost):
                end = event.offset + event.missing + event.skipped
                self.spans[event.flow, event.is_request].append((event.offset, end))
            elif isinstance(event, Foreign):
                self.foreign[event.flow] = event.size
            elif isinstance(event, Closed):
                self.close(event.flow)
            yield event

    def close(self, flow: Flow) -> None:
        """Frames and losses must fill both streams, without a hole and without overlap."""
        if flow in self.foreign:
            assert self.foreign[flow] == self.bytes[flow]
            return
        if flow.is_tls:
            # What its records hold is known to the reader alone; it must at least have no hole.
            self.ends[flow] = [0, 0]
        elif flow.client is None:
            assert not self.bytes[flow]
            return
        for side, end in enumerate(self.ends[flow]):
            spans = sorted(self.spans[flow, side == flow.client])
            assert all(before[1] == after[0] for before, after in pairwise(spans)), spans
            assert (spans[0][0] if spans else 0) == 0
            # Only the last frame may be cut by the end of its stream.
            last = spans[-1][1] if spans else 0
            assert last >= end, (last, end)
            assert flow.is_tls or all(before[1] <= end for before in spans[:-1])


def lossy(wires: list[Wire], rng: random.Random) -> list[Wire]:
    return [each for each in wires if rng.random() >= 0.05]


def late(wires: list[Wire], rng: random.Random) -> list[Wire]:
    return wires[rng.randrange(len(wires) - 1) :]


def early(wires: list[Wire], rng: random.Random) -> list[Wire]:
    return wires[: rng.randrange(1, len(wires))]


def cut(wires: list[Wire], rng: random.Random) -> list[Wire]:
    kept = rng.choice((60, 70, 96, 128, 300))
    return [each._replace(kept=kept) for each in wires]


def disordered(wires: list[Wire], rng: random.Random) -> list[Wire]:
    return sorted(each._replace(ts=each.ts + rng.randrange(4_000_000)) for each in wires)


def doubled(wires: list[Wire], rng: random.Random) -> list[Wire]:
    return [each for wire in wires for each in [wire] * rng.choice((1, 1, 2))]


def corrupted(wires: list[Wire], rng: random.Random) -> list[Wire]:
    """Wrong bytes in what TCP carries."""
    out = []
    for wire in wires:
        packet = bytearray(wire.packet)
        if rng.random() < 0.2 and len(packet) > 60:
            packet[rng.randrange(52, len(packet))] = rng.randrange(256)
        out.append(wire._replace(packet=bytes(packet)))
    return out


def all_of_it(wires: list[Wire], rng: random.Random) -> list[Wire]:
    for damage in (corrupted, cut, doubled, disordered, lossy, late):
        wires = damage(wires, rng)
    return wires


DAMAGES = [lossy, late, early, cut, disordered, doubled, corrupted, all_of_it]


@pytest.mark.parametrize("name", FILES)
def test_whole_captures_are_accounted_for(name: str) -> None:
    accounts = Accounts(pcap(WIRES[name]))

    assert accounts.ends
    assert accounts.sides == accounts.frames
    assert bool(accounts.foreign) == (name == "tlskey")


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_copies_are_accounted_for(name: str, damage: object) -> None:
    assert callable(damage)
    for seed in range(8):
        accounts = Accounts(pcap(damage(WIRES[name], random.Random(f"{name} {seed}"))))
        assert accounts.sides == accounts.frames


@pytest.mark.parametrize("name", FILES)
def test_bytes_changed_anywhere_in_a_file_are_accounted_for(name: str) -> None:
    for seed in range(10):
        rng = random.Random(f"{name} {seed}")
        data = bytearray(pcap(WIRES[name]))
        for _ in range(30):
            data[rng.randrange(24, len(data))] = rng.randrange(256)
        Accounts(bytes(data))


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_copies_of_tls_are_accounted_for(version: ssl.TLSVersion, damage: object) -> None:
    assert callable(damage)
    made = recorded(version, count=40)
    known = Accounts(pcap(made.wires), keys=made.keys).frames
    for seed in range(8):
        accounts = Accounts(pcap(damage(made.wires, random.Random(seed))), keys=made.keys)
        assert accounts.frames <= known
        assert accounts.foreign or accounts.frames


def test_bytes_changed_anywhere_in_a_capture_of_tls_are_accounted_for() -> None:
    made = recorded(ssl.TLSVersion.TLSv1_3, count=20)
    for seed in range(60):
        rng = random.Random(seed)
        data = bytearray(pcap(made.wires))
        for _ in range(rng.choice((1, 5, 30))):
            data[rng.randrange(24, len(data) if seed % 2 else 5000)] = rng.randrange(256)
        Accounts(bytes(data), keys=made.keys)


PIECES = st.one_of(
    st.binary(max_size=40),
    st.sampled_from(
        [
            b"\0\0\0\x0e\0\x12\0\x03\0\0\0\x01\0\x02me\0\0",
            b"\0\0\0\x0a\0\x03\0\x0c\0\0\0\x02\xff\xff",
            b"\0\0\0\x04\0\0\0\x01",
            b"\x7f\xff\xff\xff",
            b"\x16\x03\x01\0\x05\x01\0\0\x01\0",
        ]
    ),
)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.booleans(), PIECES), max_size=12), st.sets(st.integers(0, 20)), st.booleans())
def test_any_conversation_is_accounted_for(pieces: list[tuple[bool, bytes]], lost: set[int], with_port: bool) -> None:
    talk = Talk().open()
    for is_request, piece in pieces:
        if piece:
            (talk.client_bytes if is_request else talk.server_bytes)(piece)
    wires = [each for index, each in enumerate(talk.close().wires) if index not in lost]

    Accounts(pcap(wires), Options(ports=frozenset({9092} if with_port else ())))
