"""Every file format gives the same rows for the same traffic."""

from __future__ import annotations

import gzip
import io
import os
import struct
import subprocess
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from kwire.capture.export.pcapng_writer import PcapngWriter
from kwire.capture.files import source
from kwire.capture.files.packet_reader import read_packets
from kwire.capture.model import NO_PACKET, CaptureError, CaptureIssue, NoPacket, Packet
from kwire.capture.options import Options
from kwire.capture.reader import read_rows
from tests.support import needs
from tests.support.captures.capture_files import (
    SHARE,
    CapturedPacket,
    build_block,
    build_interface,
    build_option,
    build_packet_block,
    build_pcap,
    build_pcapng,
    build_section,
    collect_issue_kinds,
    comparable_exchanges,
    read_capture_rows,
    read_exchanges,
    read_ip_packets,
)

pytestmark = pytest.mark.slow

ORIGINAL = read_exchanges(SHARE)
PACKETS = read_ip_packets()
TS = 1_700_000_000_123_456_789


def packet_times(data: bytes) -> list[int]:
    return [each.ts for each in read_packets(data) if isinstance(each, Packet)]


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("nanoseconds", [False, True])
def test_pcap_in_both_byte_orders_and_both_units(order: str, nanoseconds: bool) -> None:
    assert read_exchanges(build_pcap(PACKETS, order=order, nanoseconds=nanoseconds)) == ORIGINAL


def test_nanoseconds_are_preserved() -> None:
    assert packet_times(build_pcap([CapturedPacket(TS, b"")], nanoseconds=True)) == [TS]
    assert packet_times(build_pcap([CapturedPacket(TS, b"")])) == [TS // 1000 * 1000]


@pytest.mark.parametrize("order", ["<", ">"])
def test_pcapng_in_both_byte_orders(order: str) -> None:
    assert read_exchanges(build_pcapng(PACKETS, order)) == ORIGINAL


def test_sections_may_change_byte_order_and_renumber_interfaces() -> None:
    half = len(PACKETS) // 2
    first = [build_section("<"), build_interface("<")]
    first += [build_packet_block(each.ts // 1000, each.data) for each in PACKETS[:half]]
    second = [build_section(">"), build_interface(">", link=1), build_interface(">")]
    second += [build_packet_block(each.ts // 1000, each.data, ">", number=1) for each in PACKETS[half:]]

    assert read_exchanges(b"".join(first + second)) == ORIGINAL


@pytest.mark.parametrize(
    ("options", "ticks", "ts"),
    [
        (b"", 1_500_000, 1_500_000_000),
        (build_option(9, b"\x06"), 1_500_000, 1_500_000_000),
        (build_option(9, b"\x09"), TS, TS),
        (build_option(9, b"\x03"), 1_500, 1_500_000_000),
        (build_option(9, b"\x94"), 3 * 2**19, 1_500_000_000),
        (build_option(9, b"\x00") + build_option(0, b""), 3, 3_000_000_000),
        (build_option(9, b"\x09") + build_option(14, struct.pack("<q", 7)), 5, 7_000_000_005),
        (build_option(1, b"a comment") + build_option(9, b"\x09"), TS, TS),
        (build_option(0, b"") + build_option(9, b"\x09"), 1_500_000, 1_500_000_000),
    ],
)
def test_the_clock_unit_of_an_interface_is_used(options: bytes, ticks: int, ts: int) -> None:
    assert packet_times(build_section() + build_interface(options=options) + build_packet_block(ticks, b"")) == [ts]


def test_comments_unknown_blocks_and_old_packet_blocks_are_read() -> None:
    section = build_section(options=build_option(1, b"a section") + build_option(0, b""))
    output = [section, build_block(0x0BAD, b"custom" * 9), build_interface()]
    for number, each in enumerate(PACKETS):
        ticks = each.ts // 1000
        if number % 2:
            head = struct.pack("<HHIIII", 0, 0, ticks >> 32, ticks & 0xFFFFFFFF, len(each.data), len(each.data))
            output.append(build_block(2, head + each.data))
        else:
            comment = build_option(1, b"hello") + build_option(0, b"")
            output.append(build_packet_block(ticks, each.data, options=comment))
        output.append(build_block(4, b""))

    assert read_exchanges(b"".join(output)) == ORIGINAL


def test_simple_packets_have_no_time_but_are_read() -> None:
    output = [build_section(), build_interface(snaplen=65_536)]
    output += [build_block(3, struct.pack("<I", len(each.data)) + each.data) for each in PACKETS]

    rows = read_capture_rows(b"".join(output))
    # Without times they come in the order in which they ended.
    assert sorted(str(each[:4]) for each in comparable_exchanges(rows)) == sorted(str(each[:4]) for each in ORIGINAL)
    assert {row["latency_us"] for row in rows} == {0}


def test_a_simple_packet_is_cut_at_the_snaplen() -> None:
    data = build_section() + build_interface(snaplen=4) + build_block(3, struct.pack("<I", 9) + b"abcd")

    (packet,) = read_packets(data)
    assert isinstance(packet, Packet)
    assert (packet.data, packet.size) == (b"abcd", 9)


class OnlyRead:
    """A file object that returns at most `limit` bytes at a time, as a slow pipe may."""

    def __init__(self, data: bytes, limit: int) -> None:
        self._file = io.BytesIO(data)
        self._limit = limit

    def read(self, size: int, /) -> bytes:
        return self._file.read(min(size, self._limit))


class PartialSource:
    """A file object whose data comes in parts; `waits` has what was yielded before each wait for the next part."""

    def __init__(self, *parts: bytes) -> None:
        self._parts = deque(parts)
        self.found: list[Packet | CaptureIssue | NoPacket] = []
        self.waits: list[list[Packet | CaptureIssue | NoPacket]] = []

    def is_ready(self) -> bool:
        return not self._parts or bool(self._parts[0])

    def read(self, size: int, /) -> bytes:
        if not self.is_ready():
            self.waits.append(list(self.found))
            self._parts.popleft()
        if not self._parts:
            return b""
        data, self._parts[0] = self._parts[0][:size], self._parts[0][size:]
        return data

    def read_all(self) -> list[Packet]:
        for item in read_packets(self, with_markers=True):
            self.found.append(item)
        return [each for each in self.found if isinstance(each, Packet)]


FEW = {"pcap": build_pcap(PACKETS[:9]), "pcapng": build_pcapng(PACKETS[:9]) + build_block(0x0BAD, bytes(1_200_000))}


@pytest.mark.parametrize("make", [build_pcap, build_pcapng])
def test_a_marker_comes_before_the_wait_for_the_rest_of_a_packet(make: Callable[[list[CapturedPacket]], bytes]) -> None:
    data = make(PACKETS[:2])
    source = PartialSource(data[:-9], data[-9:-5], data[-5:])
    first, second = source.read_all()

    assert source.waits[0] == source.waits[1] == [first, NO_PACKET]
    assert source.waits[2] == source.found == [first, NO_PACKET, second, NO_PACKET]


@pytest.mark.parametrize("name", FEW)
@pytest.mark.parametrize("size", [13, 300, 5000])
def test_a_reader_waits_only_after_a_marker(name: str, size: int) -> None:
    data = FEW[name]
    source = PartialSource(*(data[at : at + size] for at in range(0, len(data), size)))

    assert source.read_all() == list(read_packets(data))
    assert all(found[-1] is NO_PACKET for found in source.waits if found)
    assert sum(item is NO_PACKET for item in source.found) <= len(source.waits)


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.ZstdCompressor().compress])
@pytest.mark.parametrize("size", [1, 7, 700, 100_000])
def test_a_reader_of_compressed_data_waits_only_after_a_marker(pack: Callable[[bytes], bytes], size: int) -> None:
    packed = [pack(build_pcap(PACKETS[:5])), pack(build_pcap(PACKETS[5:9])[24:])]
    data = b"".join(packed)
    source = PartialSource(*(data[at : at + size] for at in range(0, len(data), size)))

    assert source.read_all() == list(read_packets(FEW["pcap"]))
    assert all(found[-1] is NO_PACKET for found in source.waits if found)
    assert sum(item is NO_PACKET for item in source.found) <= len(source.waits) + 3


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.ZstdCompressor().compress])
def test_packets_of_compressed_data_come_as_soon_as_they_can_be_unpacked(pack: Callable[[bytes], bytes]) -> None:
    source = PartialSource(pack(build_pcap(PACKETS[:5])), pack(build_pcap(PACKETS[5:9])[24:]))
    source.read_all()

    assert [sum(isinstance(item, Packet) for item in found) for found in source.waits] == [5, 9]


def test_every_kind_of_source_is_read(tmp_path: Path) -> None:
    compressed = tmp_path / "compressed.pcap.gz"
    compressed.write_bytes(COMPRESSED["gzip"])
    in_memory = (DATA, bytearray(DATA), memoryview(DATA), io.BytesIO(DATA), OnlyRead(DATA, 777))
    for each in (SHARE, str(SHARE), compressed, *in_memory):
        assert read_exchanges(each) == ORIGINAL
    with SHARE.open("rb") as file:
        assert read_exchanges(file) == ORIGINAL
        assert not file.closed


def zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(data)


DATA = SHARE.read_bytes()
COMPRESSED = {
    "gzip": gzip.compress(DATA),
    "gzip of two members": gzip.compress(DATA[:9999]) + gzip.compress(DATA[9999:]),
    "zstd": zstd(DATA),
    "zstd of two frames": zstd(DATA[:9999]) + zstd(DATA[9999:]),
    "zstd after a skippable frame": b"\x50\x2a\x4d\x18\x03\x00\x00\x00abc" + zstd(DATA),
}


@pytest.mark.parametrize("name", COMPRESSED)
def test_compression_is_detected_by_content(name: str) -> None:
    assert read_exchanges(COMPRESSED[name]) == ORIGINAL
    assert read_exchanges(OnlyRead(COMPRESSED[name], 1)) == ORIGINAL


def test_a_named_pipe_is_read_as_it_comes(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    def write() -> None:
        with pipe.open("wb", buffering=0) as file:
            for at in range(0, len(DATA), 4099):
                file.write(DATA[at : at + 4099])

    writer = threading.Thread(target=write)
    writer.start()
    rows = list(read_rows(pipe))
    writer.join()

    assert comparable_exchanges(rows) == ORIGINAL


@pytest.mark.parametrize("pack", [gzip.compress, zstd])
def test_data_decompressed_before_damage_is_read(pack: Callable[[bytes], bytes]) -> None:
    rows = read_capture_rows(pack(DATA) + b"no frame, and no member")

    assert comparable_exchanges(rows) == ORIGINAL
    assert collect_issue_kinds(rows) == {"file_truncated"}


def test_a_compressed_file_without_data_is_reported() -> None:
    compressed = COMPRESSED["zstd"]

    with pytest.raises(CaptureError, match="the zstd stream ends before anything"):
        read_capture_rows(compressed[: len(compressed) // 2])


@pytest.mark.parametrize("pack", [gzip.compress, zstd])
def test_a_decompression_bomb_is_read_up_to_the_limit(
    pack: Callable[[bytes], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "DECOMPRESSED_SIZE_FREE", len(DATA) + 1_000_000)
    comment = build_block(0x0BAD, bytes(16_000_000))
    rows = read_capture_rows(pack(build_pcapng(PACKETS) + comment))

    assert comparable_exchanges(rows) == ORIGINAL
    assert "unpacks to more than" in str(rows[-1]["issues"])


@pytest.mark.parametrize("pack", [gzip.compress, zstd])
def test_the_limit_of_expansion_can_be_set(pack: Callable[[bytes], bytes]) -> None:
    packed = pack(build_pcapng(PACKETS) + build_block(0x0BAD, bytes(40_000_000)))

    too_small = list(read_rows(packed, "messages", Options(unpacked_size_max=len(DATA) + 2_000_000)))
    large = list(read_rows(packed, "messages", Options(unpacked_size_max=50_000_000)))
    by_default = list(read_rows(packed, "messages", Options()))

    assert "bytes, the limit that was set" in str(too_small[-1]["issues"])
    assert "--unpacked-max" in str(by_default[-1]["issues"])
    assert comparable_exchanges(large) == ORIGINAL
    assert collect_issue_kinds(large) == set()


@pytest.mark.parametrize("pack", [gzip.compress, zstd])
def test_a_small_file_of_many_packets_without_data_ends_soon(pack: Callable[[bytes], bytes]) -> None:
    packets = struct.pack("<IIII", 1, 1, 0, 0) * (1 << 22)
    packed = pack(build_pcap([])[:24] + packets)
    counted = sum(isinstance(item, Packet) for item in read_packets(packed, unpacked_max=1 << 20))

    assert len(packed) < 1 << 18
    assert counted == ((1 << 20) - 24) // 16


def test_a_normally_compressed_capture_may_have_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "DECOMPRESSED_SIZE_FREE", 1000)

    assert read_exchanges(COMPRESSED["gzip"]) == read_exchanges(COMPRESSED["zstd"]) == ORIGINAL


def test_a_zstd_frame_with_a_large_window_is_refused() -> None:
    huge = zstandard.ZstdCompressionParameters(window_log=28, compression_level=1)
    compressed = zstandard.ZstdCompressor(compression_params=huge).compressobj().compress(bytes(300_000_000))

    with pytest.raises(CaptureError, match="zstd stream is damaged"):
        read_capture_rows(compressed)


def test_packet_lengths_of_old_pcap_files_are_swapped() -> None:
    def old(data: bytes) -> bytes:
        output = [data[:6] + b"\x02\x00" + data[8:24]]
        at = 24
        while at < len(data):
            stored, size = struct.unpack_from("<II", data, at + 8)
            output.append(data[at : at + 8] + struct.pack("<II", size, stored) + data[at + 16 : at + 16 + stored])
            at += 16 + stored
        return b"".join(output)

    cut = [each._replace(stored_size=128) for each in PACKETS]
    assert old(build_pcap(cut)) != build_pcap(cut)
    assert read_capture_rows(old(build_pcap(cut))) == read_capture_rows(build_pcap(cut))


def test_packet_headers_of_the_modified_format_are_longer() -> None:
    output = [struct.pack("<IHHiIII", 0xA1B2CD34, 2, 4, 0, 0, 65_535, 101)]
    for each in PACKETS:
        seconds, fraction = divmod(each.ts, 1_000_000_000)
        size = len(each.data)
        output.append(struct.pack("<IIIIIHBB", seconds, fraction // 1000, size, size, 1, 0x0800, 0, 0) + each.data)

    assert read_exchanges(b"".join(output)) == ORIGINAL


def test_names_statistics_journals_secrets_and_custom_blocks_are_skipped() -> None:
    output = [build_section(), build_interface()]
    for number, each in enumerate(PACKETS):
        kind = (4, 5, 9, 10, 0x0BAD, 0x40000BAD, 0x80000001)[number % 7]
        output.append(build_block(kind, struct.pack("<II", 0x57474B4C, 4) + b"some"))
        output.append(build_packet_block(each.ts // 1000, each.data))

    assert read_exchanges(b"".join(output)) == ORIGINAL


def test_a_file_of_interfaces_does_not_fill_the_memory() -> None:
    rows = read_capture_rows(build_section() + build_interface() * 70_000)

    assert collect_issue_kinds(rows) == {"file_corrupt"}


def test_a_file_that_is_not_a_capture_is_refused_with_the_reason() -> None:
    with pytest.raises(CaptureError, match="it is empty"):
        list(read_packets(b""))
    for data in (b"GET ", b"\x00" * 100, gzip.compress(b"nothing")):
        with pytest.raises(CaptureError, match="neither pcap nor pcapng"):
            read_capture_rows(data)
    with pytest.raises(CaptureError, match="binary"):
        list(read_rows(io.StringIO("text")))  # type: ignore[arg-type]
    with pytest.raises(CaptureError, match="not int"):
        list(read_rows(5))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "make", [build_pcap, lambda packets: build_section() + build_interface() + build_packet_block(1, packets[0].data)]
)
def test_a_truncated_file_is_reported_at_any_length(make: object) -> None:
    assert callable(make)
    whole: bytes = make(PACKETS[:1])
    boundaries = {len(whole), 24} if make is build_pcap else {len(whole), 28, 48}
    for size in range(4, len(whole)):
        rows = read_capture_rows(whole[:size])
        expected = set() if size in boundaries else {"file_truncated"}
        assert collect_issue_kinds(rows) == expected, size
        assert all(row["status"] == "truncated" for row in rows)


def test_data_before_damage_in_a_gzip_stream_is_read() -> None:
    compressed = gzip.compress(DATA, 0)
    rows = read_capture_rows(compressed[: len(compressed) // 2])

    assert len(rows) > 10
    assert rows[-1]["status"] in {"truncated", "no_response"}
    assert "file_truncated" in collect_issue_kinds(rows)
    assert "gzip" in str([row["issues"] for row in rows if row["api_key"] is None])


@pytest.mark.parametrize(
    "damage",
    [
        build_pcap([])[:24] + struct.pack("<IIII", 1, 1, 0x7FFFFFFF, 0x7FFFFFFF),
        build_section() + build_interface() + struct.pack("<II", 6, 13) + b"x",
        build_section() + build_interface() + struct.pack("<II", 6, 8),
        build_section() + build_interface() + struct.pack("<II", 6, 0x7FFFFFFC),
        build_section() + build_interface() + build_block(6, struct.pack("<IIIII", 0, 0, 0, 400, 400)),
        build_section() + build_interface() + build_block(6, b"1234"),
        build_section() + build_packet_block(1, b"no interface"),
        build_section() + build_interface()[:-4] + b"\0\0\0\0",
        build_section() + b"\x0a\x0d\x0d\x0a" + b"\0" * 40,
    ],
)
def test_corruption_inside_a_file_is_an_issue_and_not_an_exception(damage: bytes) -> None:
    rows = read_capture_rows(damage)

    assert [row["status"] for row in rows] == ["undecodable"]
    assert collect_issue_kinds(rows) == {"file_corrupt"}


def test_times_are_limited_to_64_bits() -> None:
    offset = build_option(14, struct.pack("<q", 2**62))
    data = build_section() + build_interface(options=offset) + build_packet_block(2**63, b"")

    assert packet_times(data) == [2**63 - 1]
    assert not any(isinstance(each, CaptureIssue) for each in read_packets(data))


@pytest.mark.parametrize("kind", ["pcapng", "nsecpcap", "pcap"])
def test_files_converted_by_wireshark_give_the_same_rows(tmp_path: Path, kind: str) -> None:
    editcap = needs.tool("editcap")
    converted = tmp_path / "converted"
    subprocess.run([editcap, "-F", kind, str(SHARE), str(converted)], check=True)

    assert read_exchanges(converted) == ORIGINAL


def test_files_of_the_pcapng_writer_give_the_same_rows() -> None:
    buffer = io.BytesIO()
    writer = PcapngWriter(buffer, comment="a comment", interface="lo")
    for number, packet in enumerate(PACKETS):
        writer.write_packet(packet.ts, packet.data, comment="seen" if number % 3 else None)

    assert read_exchanges(buffer.getvalue()) == ORIGINAL
