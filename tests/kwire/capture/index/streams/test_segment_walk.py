"""Segments may repeat bytes with other boundaries; the bytes that were captured first are used."""

from __future__ import annotations

import random
import struct

import pytest

from kwire.capture import index
from kwire.capture.index.scan.spans import SPAN_SIZE
from tests.support.captures.capture_files import CapturedPacket, build_pcap, read_ip_packets
from tests.support.captures.index_captures import (
    FILES,
    assert_rows_of_pipeline,
    send_bytes,
    tcp_payload,
)

pytestmark = pytest.mark.slow


def resend_parts(packets: list[CapturedPacket], chance: random.Random) -> list[CapturedPacket]:
    """Repeat parts of segments, some with a part of the next segment, some before the original."""
    ordered = [(float(place), packet) for place, packet in enumerate(packets)]
    last: dict[bytes, CapturedPacket] = {}
    for place, packet in enumerate(packets):
        payload, ends = tcp_payload(packet), packet.data[12:24]
        before = last.get(ends)
        if not payload or len(payload) > 3000:
            continue
        last[ends] = packet
        if chance.random() > 0.1:
            continue
        own, data = packet, payload
        if before is not None and seq_of(before) + len(tcp_payload(before)) == seq_of(packet):
            own, data = before, tcp_payload(before) + payload
        begin = chance.randrange(len(data))
        end = chance.randrange(begin, len(data)) + 1
        to = place + chance.choice((-1.5, -0.5, 0.5, 1.5, 5.5, 30.5))
        ordered.append((to, send_bytes(own, begin, data[begin:end])))
    ordered.sort(key=lambda each: each[0])
    return [packet._replace(ts=packets[min(max(int(place), 0), len(packets) - 1)].ts) for place, packet in ordered]


def seq_of(packet: CapturedPacket) -> int:
    seq: int = struct.unpack_from(">I", packet.data, 24)[0]
    return seq


@pytest.mark.parametrize("span_size", [SPAN_SIZE, 4_096], indirect=True)
def test_captures_with_repeated_parts_of_segments(span_size: int) -> None:
    chance = random.Random(span_size)

    for path in FILES:
        for _ in range(3):
            assert_rows_of_pipeline(build_pcap(resend_parts(read_ip_packets(path)[:300], chance)))


def test_a_repeated_part_of_each_segment_changes_no_flow() -> None:
    for path in FILES:
        packets = read_ip_packets(path)[:300]
        twice = []
        for packet in packets:
            rest = tcp_payload(packet)[3:]
            twice += [packet, send_bytes(packet, 3, rest)] if rest else [packet]
        original, doubled = (index.build_index(build_pcap(each)) for each in (packets, twice))

        flow_pairs = zip(original.flows, doubled.flows, strict=True)
        assert all(before[:4] == after[:4] for before, after in flow_pairs)
        assert_rows_of_pipeline(build_pcap(twice))


def test_keepalive_probes() -> None:
    packets = read_ip_packets()
    probes = [send_bytes(packet, -1, b"\0") for packet in packets if tcp_payload(packet)]
    capture = build_pcap(sorted([*packets, *probes], key=lambda each: each.ts))

    assert_rows_of_pipeline(capture)
