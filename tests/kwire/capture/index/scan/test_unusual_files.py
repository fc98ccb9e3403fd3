"""Unusual and damaged files are indexed with the packets and the issues of the streaming reader."""

from __future__ import annotations

import gzip
import random
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from kwire.capture import Options, index
from kwire.capture.files.packet_reader import read_packets
from kwire.capture.index.scan import scanner, spans
from kwire.capture.index.scan.files import unpack_capture
from kwire.capture.reader import open_index, read_batches
from tests.support.capture_model.indexed_segments import read_segments
from tests.support.capture_model.packet_dissection import dissect_packets
from tests.support.capture_model.pipeline import read_rows
from tests.support.captures.capture_files import (
    CapturedPacket,
    build_block,
    build_interface,
    build_option,
    build_packet_block,
    build_pcap,
    build_section,
    read_ip_packets,
)
from tests.support.captures.index_captures import (
    FILES,
    assert_rows_of_pipeline,
    batch_rows,
    fragment_packet,
    split_issues,
)
from tests.support.captures.range_indexes import assert_indexes_equal, build_by_ranges, plan

pytestmark = pytest.mark.slow

PACKETS = read_ip_packets()
LONG = next(packet for packet in PACKETS if len(packet.data) > 100)


def assert_streamed_packets(capture: bytes) -> index.Index:
    """The index has the segments and issues of the streaming reader."""
    found = index.build_index(capture)
    assert split_issues(read_segments([found])) == split_issues(list(dissect_packets(read_packets(capture))))
    return found


def assert_same_by_ranges(capture: bytes, folder: Path) -> None:
    """Ranges have the same index, whether their beginnings are known or guessed."""
    path = folder / "capture"
    path.write_bytes(capture)
    expected = index.build_index(path)
    for walks in (True, False):
        ranges, positions = plan(path, 3 * 4096, walks=walks)
        assert_indexes_equal(build_by_ranges(path, folder, ranges, positions, 2), expected)


@pytest.fixture
def small_spans(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scanner, "SPAN_SIZE", 4096)
    monkeypatch.setattr(spans, "_BEHIND_SIZE", 1024)


def old_packet(packet: CapturedPacket, order: str = "<", *, number: int = 0, size: int | None = None) -> bytes:
    stored = len(packet.data) if size is None else size
    ticks = packet.ts // 1000
    head = struct.pack(order + "HHIIII", number, 7, ticks >> 32, ticks & 0xFFFFFFFF, stored, len(packet.data))
    return build_block(2, head + packet.data, order)


def simple_packet(packet: CapturedPacket, order: str = "<") -> bytes:
    return build_block(3, struct.pack(order + "I", len(packet.data)) + packet.data, order)


def claiming_packet(packet: CapturedPacket, order: str = "<") -> bytes:
    """An enhanced packet that claims more bytes than its block has."""
    ticks, size = packet.ts // 1000, len(packet.data)
    head = struct.pack(order + "IIIII", 0, ticks >> 32, ticks & 0xFFFFFFFF, size + 9, size + 9)
    return build_block(6, head + packet.data, order)


def dropped(count: int, order: str = "<") -> bytes:
    return build_block(
        5, struct.pack(order + "III", 0, 0, 0) + build_option(5, struct.pack(order + "Q", count), order), order
    )


def make_blocks(seed: int, *, count: int = 60) -> bytes:
    """A pcapng file of good and unusual blocks, perhaps damaged somewhere."""
    chance, order = random.Random(seed), "<"
    packets = iter(PACKETS)
    unusual_share = chance.choice((0.03, 0.3, 1.0))
    out = [build_section(), *[build_interface(snaplen=chance.choice((0, 100)))] * chance.randrange(3)]
    for packet, _ in zip(packets, range(count), strict=False):
        if chance.random() > unusual_share:
            out.append(build_packet_block(packet.ts // 1000, packet.data, order))
            continue
        kind = chance.randrange(12)
        if kind == 0:
            order = chance.choice("<>")
            out += [build_section(order), build_interface(order, link=chance.choice((101, 147)))]
        else:
            out.append(
                (
                    old_packet(packet, order),
                    old_packet(packet, order, number=chance.choice((0, 4))),
                    old_packet(packet, order, size=len(packet.data) + 99),
                    simple_packet(packet, order),
                    claiming_packet(packet, order),
                    build_packet_block(packet.ts // 1000, packet.data, order, number=chance.randrange(3)),
                    build_block(chance.choice((1, 2, 3, 5, 6, 10)), bytes(chance.choice((0, 4, 8, 16))), order),
                    dropped(chance.randrange(3), order),
                    build_interface(order),
                    build_block(0xBAD, bytes(chance.choice((0, 7, 5000))), order),
                    build_block(10, struct.pack(order + "II", 0x544C534B, 4) + b"text", order),
                )[kind - 1]
            )
    data = bytearray(b"".join(out))
    damage = chance.randrange(4)
    if damage == 1:
        del data[chance.randrange(4, len(data)) :]
    elif damage == 2:
        data[chance.randrange(12, len(data))] ^= 1 << chance.randrange(8)
    elif damage == 3:
        data += chance.choice((b"\0", b"\6\0\0\0\3\0\0\0", struct.pack("<II", 6, 1 << 30), bytes(40), b"\xff" * 40))
    return bytes(data)


@pytest.mark.parametrize("seeds", [range(at, at + 40) for at in range(0, 120, 40)])
def test_any_blocks_have_the_packets_and_issues_of_the_streaming_reader(seeds: range) -> None:
    for seed in seeds:
        assert_streamed_packets(make_blocks(seed))


@pytest.mark.usefixtures("small_spans")
@pytest.mark.parametrize("seeds", [range(at, at + 5) for at in range(1000, 1015, 5)])
def test_any_blocks_have_the_same_index_in_small_spans_and_ranges(seeds: range, tmp_path: Path) -> None:
    for seed in seeds:
        capture = make_blocks(seed, count=150)
        assert_streamed_packets(capture)
        assert_same_by_ranges(capture, tmp_path)


BLOCKS: dict[str, Callable[[CapturedPacket], bytes]] = {
    "simple packets": simple_packet,
    "old packets": old_packet,
    "an unknown interface": lambda packet: build_packet_block(packet.ts // 1000, packet.data, number=5),
    "a claim": claiming_packet,
    "short packets": lambda packet: build_block(6, bytes(8)),
    "short statistics": lambda packet: build_block(5, b""),
    "drops": lambda packet: dropped(packet.ts % 1000 + 1),
}


@pytest.mark.parametrize("share", [1, 2, 40])
@pytest.mark.parametrize("name", BLOCKS)
def test_unusual_blocks_have_the_rows_of_the_streaming_reader(name: str, share: int) -> None:
    blocks = [build_section(), build_interface()]
    for number, packet in enumerate(PACKETS):
        is_unusual = number % share == share // 2
        blocks.append(BLOCKS[name](packet) if is_unusual else build_packet_block(packet.ts // 1000, packet.data))

    assert_rows_of_pipeline(b"".join(blocks))


@pytest.mark.usefixtures("small_spans")
@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("nanoseconds", [False, True])
@pytest.mark.parametrize("damage", [b"", b"\0" * 7, struct.pack("<IIII", 1, 1_000_001, 5, 5), b"\xff" * 16])
def test_ixias_files_have_the_packets_of_the_streaming_reader(
    order: str, nanoseconds: bool, damage: bytes, tmp_path: Path
) -> None:
    # The first fractions do not show that they are nanoseconds.
    packets = [each._replace(ts=each.ts - each.ts % 10**9 + number * 10_000) for number, each in enumerate(PACKETS)]
    plain = build_pcap(packets, order=order, nanoseconds=nanoseconds)
    ixia = struct.pack(order + "I", 0x1C0001AC) + plain[4:24] + bytes(4) + plain[24:] + damage

    found = assert_streamed_packets(ixia)
    assert found.packet_count == len(packets)
    assert len(found.spans) > 2
    assert_same_by_ranges(ixia, tmp_path)
    for size in (4, 20, 27):
        assert_streamed_packets(ixia[:size])


def test_a_pcap_file_cut_anywhere_has_the_issue_of_the_streaming_reader() -> None:
    capture = build_pcap(PACKETS[:3])
    for size in range(4, len(capture)):
        assert_streamed_packets(capture[:size])
    assert_streamed_packets(capture + struct.pack("<IIII", 5, 5, 1 << 25, 1 << 25))


@pytest.mark.parametrize(
    "packets",
    [
        [PACKETS[0]._replace(stored_size=30)] * 20_000,
        [fragment_packet(LONG)[0]._replace(ts=number * 10**10) for number in range(12_000)],
    ],
    ids=["cut headers", "incomplete fragments"],
)
def test_any_number_of_issues_is_one_in_the_index(packets: list[CapturedPacket]) -> None:
    capture = build_pcap(packets)
    found = assert_streamed_packets(capture)
    rows = batch_rows(read_batches(capture))

    assert len(found.issues) == 1
    assert [row["issues"] for row in rows] == [row["issues"] for row in read_rows(capture)]


def test_any_number_of_different_issues_is_limited_in_the_index() -> None:
    blocks = [dropped(1 + number % 1500) for number in range(12_000)]
    capture = b"".join([build_section(), build_interface(), *blocks])

    assert len(assert_streamed_packets(capture).issues) == 1001
    assert_rows_of_pipeline(capture)


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress], ids=["gzip", "zstd"])
def test_a_damaged_compressed_capture_is_indexed_up_to_the_damage(pack: Callable[[bytes], bytes]) -> None:
    plain = FILES[0].read_bytes()
    pcapng = b"".join([build_section(), build_interface(), *(build_packet_block(*each[:2]) for each in PACKETS)])
    for whole in (plain, pcapng):
        middle = len(whole) // 2
        first = pack(whole[:middle])
        damaged = [first + b"no frame, and no member", first + pack(whole[middle:])[:-20], pack(whole) + b"nothing"]
        for packed in damaged:
            found = index.build_index(unpack_capture(packed))
            expected = split_issues(dissect_packets(read_packets(packed)))
            assert split_issues(read_segments([found])) == expected
            assert expected[1][-1].kind == "file_truncated"


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress], ids=["gzip", "zstd"])
def test_a_large_compressed_capture_is_indexed_up_to_the_limit(pack: Callable[[bytes], bytes]) -> None:
    plain = build_pcap(PACKETS[:4])
    packed = pack(plain)
    for limit in (*range(4, len(plain), 5), len(plain) - 1, len(plain)):
        found = index.build_index(unpack_capture(packed, limit))
        expected = split_issues(dissect_packets(read_packets(packed, None, limit)))
        assert split_issues(read_segments([found])) == expected
        assert bool(expected[1]) == (limit < len(plain))

    options = Options(unpacked_size_max=100)
    assert open_index(packed, unpacked_size_max=100) is not None
    (row,) = batch_rows(read_batches(packed, options=options))
    assert [row["issues"]] == [each["issues"] for each in read_rows(packed, options=options)]
