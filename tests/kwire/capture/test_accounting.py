"""Complete accounting: frames and reported gaps cover every stream from its first byte to its last."""

from __future__ import annotations

import random
import ssl
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kwire.capture.files.packet_reader import read_packets
from kwire.capture.kafka.exchange import Exchange
from kwire.capture.model import (
    CaptureIssue,
    Flow,
    FlowClosed,
    Frame,
    FrameEvent,
    MissingBytes,
    NonKafkaConnection,
    StreamData,
    StreamEvent,
    StreamGap,
)
from kwire.capture.options import Options
from kwire.capture.tls.key_log import KeyLog
from tests.support.capture_model.detection import extract_frames
from tests.support.capture_model.exchange_pairing import pair_exchanges
from tests.support.capture_model.packet_dissection import dissect_packets
from tests.support.capture_model.reassembly import reassemble_streams
from tests.support.captures.capture_files import (
    CAPTURES,
    CapturedConnection,
    CapturedPacket,
    build_pcap,
    read_ip_packets,
)
from tests.support.captures.index_captures import keep_direction, mirror_packets
from tests.support.captures.tls_captures import record_tls_capture

pytestmark = pytest.mark.slow

FILES = ["aio", "ck", "ckz", "jshare", "kpy", "share", "tlskey", "txn"]
PACKETS = {name: read_ip_packets(CAPTURES / f"small_{name}.pcap") for name in FILES}


class StreamAccounting:
    """Compares the bytes of each connection with its frames and gaps."""

    def __init__(self, data: bytes, options: Options | None = None, keys: str = "") -> None:
        self.ends: dict[Flow, list[int]] = defaultdict(lambda: [0, 0])
        self.bytes: dict[Flow, int] = defaultdict(int)
        self.spans: dict[tuple[Flow, bool], list[tuple[int, int]]] = defaultdict(list)
        self.skipped_connections: dict[Flow, int] = {}
        self.frames = 0
        self.sides = 0
        options = options or Options()
        events = self._count_input(reassemble_streams(dissect_packets(read_packets(data))))
        found = extract_frames(events, options, KeyLog(keys))
        for outcome in pair_exchanges(self._count_output(found), options):
            if isinstance(outcome, Exchange):
                self.sides += (outcome.request is not None) + (outcome.response is not None)

    def _count_input(self, events: Iterable[StreamEvent | CaptureIssue]) -> Iterator[StreamEvent | CaptureIssue]:
        for event in events:
            if isinstance(event, StreamData | MissingBytes):
                size = len(event.payload) if isinstance(event, StreamData) else event.size
                assert size > 0
                assert event.offset == self.ends[event.flow][event.side]
                self.ends[event.flow][event.side] += size
                self.bytes[event.flow] += size if isinstance(event, StreamData) else 0
            yield event

    def _count_output(self, events: Iterable[FrameEvent | CaptureIssue]) -> Iterator[FrameEvent | CaptureIssue]:
        for event in events:
            if isinstance(event, Frame):
                self.frames += 1
                self.spans[event.flow, event.is_request].append((event.offset, event.offset + 4 + event.size))
                assert (event.damage is None) == (len(event.data) == event.size)
            elif isinstance(event, StreamGap):
                end = event.offset + event.missing + event.skipped
                self.spans[event.flow, event.is_request].append((event.offset, end))
            elif isinstance(event, NonKafkaConnection):
                self.skipped_connections[event.flow] = event.size
            elif isinstance(event, FlowClosed):
                self.close(event.flow)
            yield event

    def close(self, flow: Flow) -> None:
        """Check that frames and gaps cover both streams completely, without overlap."""
        if flow in self.skipped_connections:
            assert self.skipped_connections[flow] == self.bytes[flow]
            return
        if flow.is_tls:
            # The size of the decrypted stream is not known here; the frames must at least be contiguous.
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


def drop_packets(packets: list[CapturedPacket], rng: random.Random) -> list[CapturedPacket]:
    return [each for each in packets if rng.random() >= 0.05]


def drop_beginning(packets: list[CapturedPacket], rng: random.Random) -> list[CapturedPacket]:
    return packets[rng.randrange(len(packets) - 1) :]


def drop_end(packets: list[CapturedPacket], rng: random.Random) -> list[CapturedPacket]:
    return packets[: rng.randrange(1, len(packets))]


def cut_packets(packets: list[CapturedPacket], rng: random.Random) -> list[CapturedPacket]:
    stored = rng.choice((60, 70, 96, 128, 300))
    return [each._replace(stored_size=stored) for each in packets]


def reorder_packets(packets: list[CapturedPacket], rng: random.Random) -> list[CapturedPacket]:
    return sorted(each._replace(ts=each.ts + rng.randrange(4_000_000)) for each in packets)


def duplicate_packets(packets: list[CapturedPacket], rng: random.Random) -> list[CapturedPacket]:
    return [each for packet in packets for each in [packet] * rng.choice((1, 1, 2))]


def keep_one_direction(packets: list[CapturedPacket], rng: random.Random) -> list[CapturedPacket]:
    return keep_direction(packets, from_client=rng.random() < 0.5)


def corrupt_payloads(packets: list[CapturedPacket], rng: random.Random) -> list[CapturedPacket]:
    """Change bytes of TCP payloads."""
    output = []
    for captured_packet in packets:
        packet = bytearray(captured_packet.data)
        if rng.random() < 0.2 and len(packet) > 60:
            packet[rng.randrange(52, len(packet))] = rng.randrange(256)
        output.append(captured_packet._replace(data=bytes(packet)))
    return output


COMBINED = (corrupt_payloads, cut_packets, duplicate_packets, reorder_packets, drop_packets, drop_beginning)


def apply_all(packets: list[CapturedPacket], rng: random.Random) -> list[CapturedPacket]:
    for damage in COMBINED:
        packets = damage(packets, rng)
    return packets


DAMAGES = [*COMBINED, drop_end, mirror_packets, keep_one_direction, apply_all]


@pytest.mark.parametrize("name", FILES)
def test_complete_captures_are_accounted_for(name: str) -> None:
    accounting = StreamAccounting(build_pcap(PACKETS[name]))

    assert accounting.ends
    assert accounting.sides == accounting.frames
    assert bool(accounting.skipped_connections) == (name == "tlskey")


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_copies_are_accounted_for(name: str, damage: object) -> None:
    assert callable(damage)
    for seed in range(8):
        accounting = StreamAccounting(build_pcap(damage(PACKETS[name], random.Random(f"{name} {seed}"))))
        assert accounting.sides == accounting.frames


@pytest.mark.parametrize("name", FILES)
def test_bytes_changed_anywhere_in_a_file_are_accounted_for(name: str) -> None:
    for seed in range(10):
        rng = random.Random(f"{name} {seed}")
        data = bytearray(build_pcap(PACKETS[name]))
        for _ in range(30):
            data[rng.randrange(24, len(data))] = rng.randrange(256)
        StreamAccounting(bytes(data))


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_copies_of_tls_are_accounted_for(version: ssl.TLSVersion, damage: object) -> None:
    assert callable(damage)
    recording = record_tls_capture(version, count=40)
    known = StreamAccounting(build_pcap(recording.packets), keys=recording.key_log).frames
    for seed in range(8):
        damaged = damage(recording.packets, random.Random(seed))
        accounting = StreamAccounting(build_pcap(damaged), keys=recording.key_log)
        assert accounting.frames <= known
        assert accounting.skipped_connections or accounting.frames


def test_a_single_packet_of_tls_is_counted_as_it_was_captured_and_not_as_it_decrypts() -> None:
    recording = record_tls_capture(ssl.TLSVersion.TLSv1_3, count=3)
    for packet in recording.packets:
        StreamAccounting(build_pcap([packet]), keys=recording.key_log)


def test_bytes_changed_anywhere_in_a_capture_of_tls_are_accounted_for() -> None:
    recording = record_tls_capture(ssl.TLSVersion.TLSv1_3, count=20)
    for seed in range(60):
        rng = random.Random(seed)
        data = bytearray(build_pcap(recording.packets))
        for _ in range(rng.choice((1, 5, 30))):
            data[rng.randrange(24, len(data) if seed % 2 else 5000)] = rng.randrange(256)
        StreamAccounting(bytes(data), keys=recording.key_log)


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
    connection = CapturedConnection().open()
    for is_request, piece in pieces:
        if piece:
            (connection.send_client_bytes if is_request else connection.send_server_bytes)(piece)
    packets = [each for index, each in enumerate(connection.close().packets) if index not in lost]

    StreamAccounting(build_pcap(packets), Options(ports=frozenset({9092} if with_port else ())))
