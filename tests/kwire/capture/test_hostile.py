"""Hostile captures: arbitrary bytes raise only CaptureError, in limited time and memory."""

from __future__ import annotations

import random
import struct
import time
from contextlib import suppress

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kwire.capture.files import source
from kwire.capture.kafka import client_detection
from kwire.capture.model import CaptureError
from kwire.capture.rows.columns import LEVELS
from kwire.capture.rows.message_rows import STATUSES
from kwire.capture.rows.record_batches import make_record_batch
from kwire.capture.tls import tls_session
from kwire.headers import encode_request
from kwire.messages.api_versions import ApiVersionsRequest
from tests.support.captures.capture_files import (
    CAPTURES,
    SHARE,
    CapturedConnection,
    CapturedPacket,
    build_block,
    build_interface,
    build_packet_block,
    build_pcap,
    build_section,
    peak_memory,
    read_capture_rows,
    read_ip_packets,
)

pytestmark = pytest.mark.slow

PACKETS = read_ip_packets()
VERSIONS = encode_request(ApiVersionsRequest("me", "1"), 3, 1, "me")
HEADS = [
    b"",
    struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65_535, 1),
    struct.pack(">IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65_535, 113),
    build_section() + build_interface(link=1),
    build_section(">") + build_interface(">"),
    b"\x1f\x8b\x08\x00",
    b"\x28\xb5\x2f\xfd",
    b"\x50\x2a\x4d\x18",
]
TUNNELS = [
    b"",
    b"\x00\x00\x12\xb5\x00\x00\x00\x00\x08" + bytes(7),
    b"\x10\x00\x88\xbe" + bytes(24) + b"\x08\x00",
    b"\x30\x00\x22\xeb",
    b"\xb0\x00\x65\x58",
]
relaxed = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def check_levels(data: bytes) -> None:
    """Check that every level gives rows with all their columns, or raises CaptureError."""
    for level, columns in LEVELS.items():
        with suppress(CaptureError):
            rows = read_capture_rows(data, level)
            for row in rows:
                assert set(row) == {column.name for column in columns}
                assert row.get("status", "ok") in STATUSES
            assert make_record_batch(rows, level).num_rows == len(rows)


@relaxed
@given(st.sampled_from(HEADS), st.binary(max_size=400))
def test_any_file(head: bytes, rest: bytes) -> None:
    check_levels(head + rest)


@relaxed
@given(st.sampled_from([1, 0, 101, 113, 276]), st.lists(st.binary(max_size=120), max_size=5))
def test_any_packet(link: int, packets: list[bytes]) -> None:
    records = b"".join(struct.pack("<IIII", 1, 1, len(each), len(each)) + each for each in packets)
    check_levels(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65_535, link) + records)


@relaxed
@given(st.sampled_from([4, 17, 41, 47]), st.sampled_from(TUNNELS), st.binary(max_size=120))
def test_any_tunnel(protocol: int, head: bytes, rest: bytes) -> None:
    payload = head + rest
    packet = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(payload), 1, 0, 64, protocol, 0) + bytes(8) + payload
    check_levels(build_pcap([CapturedPacket(1, packet)]))


RECORDS = st.builds(
    lambda kind, version, body: struct.pack(">BHH", kind, version, len(body)) + body,
    st.integers(19, 24),
    st.sampled_from([0x0301, 0x0303, 0x0304]),
    st.binary(max_size=80).flatmap(lambda rest: st.sampled_from([rest, b"\1\0\0\x30" + rest, b"\2\0\0\x30" + rest])),
)


@relaxed
@given(st.lists(st.tuples(st.booleans(), RECORDS), max_size=10))
def test_any_tls_records(records: list[tuple[bool, bytes]]) -> None:
    connection = CapturedConnection().open()
    for is_client, record in records:
        (connection.send_client_bytes if is_client else connection.send_server_bytes)(record)
    keys = f"CLIENT_RANDOM {'00' * 32} {'00' * 48}"
    for row in read_capture_rows(build_pcap(connection.packets), tls_keylog=keys):
        assert row["status"] in STATUSES


@relaxed
@given(st.lists(st.tuples(st.integers(1, 10), st.binary(max_size=120)), max_size=6))
def test_any_block(blocks: list[tuple[int, bytes]]) -> None:
    check_levels(build_section() + build_interface() + b"".join(build_block(kind, body) for kind, body in blocks))


@relaxed
@given(st.binary(max_size=300), st.binary(max_size=300), st.booleans())
def test_any_conversation(requests: bytes, responses: bytes, is_open: bool) -> None:
    connection = CapturedConnection()
    if is_open:
        connection.open()
    connection.send_client_bytes(requests).send_server_bytes(responses).send_client_bytes(requests)
    check_levels(build_pcap(connection.packets))


FRAMES = st.builds(
    lambda key, version, correlation, rest: struct.pack(">hhi", key, version, correlation) + rest,
    st.integers(-2, 95),
    st.integers(-1, 20),
    st.integers(0, 3),
    st.binary(max_size=60).map(lambda rest: b"\0\x02me" + rest),
)


@relaxed
@given(st.lists(FRAMES, max_size=4), st.lists(st.binary(min_size=4, max_size=60), max_size=4))
def test_any_frames(requests: list[bytes], responses: list[bytes]) -> None:
    connection = CapturedConnection().open().send_requests(*requests)
    for number, each in enumerate(responses):
        connection.send_responses(struct.pack(">i", number) + each)
    check_levels(build_pcap(connection.packets))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_real_captures_with_any_bytes_changed(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(["aio", "ckz", "jshare", "txn"]))
    capture = bytearray((CAPTURES / f"small_{name}.pcap").read_bytes())
    rng = random.Random(data.draw(st.integers(0, 2**32)))
    for _ in range(data.draw(st.integers(1, 60))):
        capture[rng.randrange(24, len(capture))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
    check_levels(bytes(capture))


def test_a_search_in_zeros_false_lengths_and_noise_takes_linear_time() -> None:
    rng = random.Random(3)
    false_lengths = struct.pack(">ihhih", 14, 3, 9, 1, 2) + b"me\0\0"
    streams = [bytes(500_000), false_lengths * 25_000, b"\x7f\xff\xff\xff" * 125_000, rng.randbytes(500_000)]
    for stream in streams:
        connection = CapturedConnection()
        for at in range(0, len(stream), 1000):
            connection.send_client_bytes(stream[at : at + 1000])
        begin = time.process_time()
        read_capture_rows(build_pcap(connection.packets), ports=frozenset({9092}))
        assert time.process_time() - begin < 20


def undetected_packets(count: int, content: bytes) -> list[CapturedPacket]:
    """The middle of many connections whose protocol cannot be detected."""
    packets = []
    for number in range(count):
        connection = CapturedConnection(("10.0.0.1", 10_000 + number), isn=(1, 1))
        for _ in range(64):
            connection.send_client_bytes(content)
        packets += connection.packets
    return packets


def test_undetected_connections_share_a_memory_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_detection, "UNDECIDED_TOTAL_MAX", 4 << 20)
    data = build_pcap(undetected_packets(16, bytes(16_384)))

    assert len(data) > 16 << 20
    assert peak_memory(data) < 10 << 20


def test_tls_data_that_waits_for_secrets_shares_a_memory_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls_session, "TOTAL_BUFFERED_SIZE_MAX", 2 << 20)
    hello = b"\x16\x03\x01\0\x26\x01\0\0\x22\x03\x03" + bytes(32)
    record = b"\x17\x03\x03\x40\0" + bytes(16_384)
    packets = []
    for number in range(32):
        connection = CapturedConnection(("10.0.0.1", 10_000 + number)).open().send_client_bytes(hello)
        for _ in range(32):
            connection.send_client_bytes(record)
        packets += connection.packets
    blocks = b"".join(build_packet_block(each.ts // 1000, each.data) for each in packets)

    assert len(blocks) > 16 << 20
    assert peak_memory(build_section() + build_interface() + blocks) < 8 << 20


def test_a_connection_of_a_port_scan_takes_little_memory() -> None:
    syn = CapturedConnection().open().packets[0]
    scan = []
    for number in range(5000):
        source = struct.pack(">HH", 1 + number // 1000, 1024 + number)
        data = syn.data[:12] + source + syn.data[16:20] + source[2:] + syn.data[22:]
        scan.append(CapturedPacket(syn.ts + number * 1000, data))
    connection = CapturedConnection(("127.0.0.9", 999), start=syn.ts).open().send_requests(VERSIONS)
    late = CapturedPacket(syn.ts + 6_000_000_000, connection.send_requests(VERSIONS).packets[-1].data)

    assert peak_memory(build_pcap(scan)) < len(scan) * 2_000
    rows = read_capture_rows(build_pcap(sorted([*connection.packets[:-1], *scan, late])))
    assert [row["api_name"] for row in rows if row["api_key"] is not None] == ["ApiVersions"] * 2


def test_a_decompression_bomb_does_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "DECOMPRESSED_SIZE_FREE", 48 << 20)
    capture = build_section() + build_interface() + build_block(0x0BAD, bytes(100 << 20))
    bomb = zstandard.ZstdCompressor().compress(capture)

    assert len(bomb) < 1 << 20
    assert peak_memory(bomb) < 24 << 20


def test_control_characters_are_escaped() -> None:
    data = SHARE.read_bytes().replace(b"t-share", b"\x1b[2Jab\x07"[:7])

    assert "\\u001b" in str([row["body_request"] for row in read_capture_rows(data)])
