"""Arbitrary bytes never raise anything but a named error, and never take more than their share of time."""

from __future__ import annotations

import random
import struct
import time
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from typing import cast

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kwire.capture import reassembly, source, talks, tls
from kwire.capture.arrow import record_batch
from kwire.capture.options import Options
from kwire.capture.pipeline import rows
from kwire.capture.rows import STATUSES
from kwire.capture.schemas import LEVELS
from kwire.capture.values import CaptureError
from kwire.headers import encode_request
from kwire.messages.api_versions import ApiVersionsRequest
from tests.kwire.capture.wire import (
    CAPTURES,
    SHARE,
    Talk,
    Wire,
    block,
    enhanced,
    interface,
    ip_packets,
    pcap,
    read,
    section,
)

WIRES = ip_packets()
VERSIONS = encode_request(ApiVersionsRequest("me", "1"), 3, 1, "me")
HEADS = [
    b"",
    struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65_535, 1),
    struct.pack(">IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65_535, 113),
    section() + interface(link=1),
    section(">") + interface(">"),
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


def check(data: bytes) -> None:
    """Every level gives rows with all their columns, or there is a CaptureError."""
    for level, columns in LEVELS.items():
        with suppress(CaptureError):
            found = read(data, level)
            for row in found:
                assert set(row) == {column.name for column in columns}
                assert row.get("status", "ok") in STATUSES
            assert record_batch(found, level).num_rows == len(found)


@relaxed
@given(st.sampled_from(HEADS), st.binary(max_size=400))
def test_any_file(head: bytes, rest: bytes) -> None:
    check(head + rest)


@relaxed
@given(st.sampled_from([1, 0, 101, 113, 276]), st.lists(st.binary(max_size=120), max_size=5))
def test_any_packet(link: int, packets: list[bytes]) -> None:
    records = b"".join(struct.pack("<IIII", 1, 1, len(each), len(each)) + each for each in packets)
    check(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65_535, link) + records)


@relaxed
@given(st.sampled_from([4, 17, 41, 47]), st.sampled_from(TUNNELS), st.binary(max_size=120))
def test_any_tunnel(protocol: int, head: bytes, rest: bytes) -> None:
    payload = head + rest
    packet = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(payload), 1, 0, 64, protocol, 0) + bytes(8) + payload
    check(pcap([Wire(1, packet)]))


RECORDS = st.builds(
    lambda kind, version, body: struct.pack(">BHH", kind, version, len(body)) + body,
    st.integers(19, 24),
    st.sampled_from([0x0301, 0x0303, 0x0304]),
    st.binary(max_size=80).flatmap(lambda rest: st.sampled_from([rest, b"\1\0\0\x30" + rest, b"\2\0\0\x30" + rest])),
)


@relaxed
@given(st.lists(st.tuples(st.booleans(), RECORDS), max_size=10))
def test_any_tls_records(records: list[tuple[bool, bytes]]) -> None:
    talk = Talk().open()
    for is_client, record in records:
        (talk.client_bytes if is_client else talk.server_bytes)(record)
    keys = f"CLIENT_RANDOM {'00' * 32} {'00' * 48}"
    for row in read(pcap(talk.wires), tls_keylog=keys):
        assert row["status"] in STATUSES


@relaxed
@given(st.lists(st.tuples(st.integers(1, 10), st.binary(max_size=120)), max_size=6))
def test_any_block(blocks: list[tuple[int, bytes]]) -> None:
    check(section() + interface() + b"".join(block(kind, body) for kind, body in blocks))


@relaxed
@given(st.binary(max_size=300), st.binary(max_size=300), st.booleans())
def test_any_conversation(asked: bytes, answered: bytes, is_open: bool) -> None:
    talk = Talk()
    if is_open:
        talk.open()
    check(pcap(talk.client_bytes(asked).server_bytes(answered).client_bytes(asked).wires))


FRAMES = st.builds(
    lambda key, version, correlation, rest: struct.pack(">hhi", key, version, correlation) + rest,
    st.integers(-2, 95),
    st.integers(-1, 20),
    st.integers(0, 3),
    st.binary(max_size=60).map(lambda rest: b"\0\x02me" + rest),
)


@relaxed
@given(st.lists(FRAMES, max_size=4), st.lists(st.binary(min_size=4, max_size=60), max_size=4))
def test_any_frames(asked: list[bytes], answered: list[bytes]) -> None:
    talk = Talk().open().asks(*asked)
    for number, each in enumerate(answered):
        talk.answers(struct.pack(">i", number) + each)
    check(pcap(talk.wires))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_real_captures_with_any_bytes_changed(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(["aio", "ckz", "jshare", "txn"]))
    capture = bytearray((CAPTURES / f"small_{name}.pcap").read_bytes())
    rng = random.Random(data.draw(st.integers(0, 2**32)))
    for _ in range(data.draw(st.integers(1, 60))):
        capture[rng.randrange(24, len(capture))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
    check(bytes(capture))


def test_a_search_through_zeros_lies_and_noise_takes_linear_time() -> None:
    rng = random.Random(3)
    lies = struct.pack(">ihhih", 14, 3, 9, 1, 2) + b"me\0\0"
    streams = [bytes(500_000), lies * 25_000, b"\x7f\xff\xff\xff" * 125_000, rng.randbytes(500_000)]
    for stream in streams:
        talk = Talk()
        for at in range(0, len(stream), 1000):
            talk.client_bytes(stream[at : at + 1000])
        begin = time.process_time()
        read(pcap(talk.wires), ports=frozenset({9092}))
        assert time.process_time() - begin < 20


def peak(data: bytes, **options: object) -> int:
    """How much memory reading takes beyond the capture itself, in bytes."""
    make = cast("Callable[..., Options]", Options)
    tracemalloc.start()
    try:
        for _ in rows(data, "messages", make(**options)):
            pass
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def undecided(count: int, content: bytes) -> list[Wire]:
    """The middle of many connections that never say what they are."""
    wires = []
    for number in range(count):
        talk = Talk(("10.0.0.1", 10_000 + number), isn=(1, 1))
        for _ in range(64):
            talk.client_bytes(content)
        wires += talk.wires
    return wires


def test_connections_that_never_say_what_they_are_share_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(talks, "UNDECIDED_TOTAL_MAX", 4 << 20)
    data = pcap(undecided(16, bytes(16_384)))

    assert len(data) > 16 << 20
    assert peak(data) < 10 << 20


def test_tls_that_waits_for_secrets_shares_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls, "HELD_TOTAL_MAX", 2 << 20)
    hello = b"\x16\x03\x01\0\x26\x01\0\0\x22\x03\x03" + bytes(32)
    record = b"\x17\x03\x03\x40\0" + bytes(16_384)
    wires = []
    for number in range(32):
        talk = Talk(("10.0.0.1", 10_000 + number)).open().client_bytes(hello)
        for _ in range(32):
            talk.client_bytes(record)
        wires += talk.wires
    blocks = b"".join(enhanced(each.ts // 1000, each.packet) for each in wires)

    assert len(blocks) > 16 << 20
    assert peak(section() + interface() + blocks) < 8 << 20


def test_a_scan_of_ports_does_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reassembly, "OPEN_MAX", 200)
    syn = Talk().open().wires[0]
    scan = []
    for number in range(5000):
        source = struct.pack(">HH", 1 + number // 1000, 1024 + number)
        scan.append(
            Wire(syn.ts + number * 1000, syn.packet[:12] + source + syn.packet[16:20] + source[2:] + syn.packet[22:])
        )
    talk = Talk(("127.0.0.9", 999), start=syn.ts).open().asks(VERSIONS)
    late = Wire(syn.ts + 6_000_000_000, talk.asks(VERSIONS).wires[-1].packet)

    assert peak(pcap(scan)) < 4 << 20
    found = read(pcap(sorted([*talk.wires[:-1], *scan, late])))
    assert [row["api_name"] for row in found if row["api_key"] is not None] == ["ApiVersions"] * 2


def test_a_bomb_takes_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "UNPACKED_SIZE_FREE", 48 << 20)
    bomb = zstandard.ZstdCompressor().compress(section() + interface() + block(0x0BAD, bytes(100 << 20)))

    assert len(bomb) < 1 << 20
    assert peak(bomb) < 24 << 20


def test_control_characters_of_a_capture_stay_text() -> None:
    data = SHARE.read_bytes().replace(b"t-share", b"\x1b[2Jab\x07"[:7])

    assert "\\u001b" in str([row["body_request"] for row in read(data)])
