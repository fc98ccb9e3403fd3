"""The same traffic in every file format must give the same rows."""

from __future__ import annotations

import gzip
import io
import os
import struct
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from kwire.capture import source
from kwire.capture.packets import packets
from kwire.capture.pcapng_write import PcapngWriter
from kwire.capture.pipeline import rows
from kwire.capture.values import CaptureError, Packet, Trouble
from tests import needs
from tests.kwire.capture.wire import (
    SHARE,
    Wire,
    block,
    enhanced,
    interface,
    ip_packets,
    issue_kinds,
    matched,
    option,
    pcap,
    read,
    section,
)

ORIGINAL = matched(list(rows(SHARE)))
WIRES = ip_packets()
TS = 1_700_000_000_123_456_789


def times(data: bytes) -> list[int]:
    return [each.ts for each in packets(data) if isinstance(each, Packet)]


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("nanoseconds", [False, True])
def test_pcap_in_both_byte_orders_and_both_units(order: str, nanoseconds: bool) -> None:
    assert matched(read(pcap(WIRES, order=order, nanoseconds=nanoseconds))) == ORIGINAL


def test_nanoseconds_are_kept() -> None:
    assert times(pcap([Wire(TS, b"")], nanoseconds=True)) == [TS]
    assert times(pcap([Wire(TS, b"")])) == [TS // 1000 * 1000]


@pytest.mark.parametrize("order", ["<", ">"])
def test_pcapng_in_both_byte_orders(order: str) -> None:
    blocks = [enhanced(each.ts // 1000, each.packet, order) for each in WIRES]

    assert matched(read(b"".join([section(order), interface(order), *blocks]))) == ORIGINAL


def test_sections_may_change_byte_order_and_number_their_interfaces_anew() -> None:
    half = len(WIRES) // 2
    first = [section("<"), interface("<"), *(enhanced(each.ts // 1000, each.packet) for each in WIRES[:half])]
    second = [section(">"), interface(">", link=1), interface(">")]
    second += [enhanced(each.ts // 1000, each.packet, ">", number=1) for each in WIRES[half:]]

    assert matched(read(b"".join(first + second))) == ORIGINAL


@pytest.mark.parametrize(
    ("options", "ticks", "ts"),
    [
        (b"", 1_500_000, 1_500_000_000),
        (option(9, b"\x06"), 1_500_000, 1_500_000_000),
        (option(9, b"\x09"), TS, TS),
        (option(9, b"\x03"), 1_500, 1_500_000_000),
        (option(9, b"\x94"), 3 * 2**19, 1_500_000_000),
        (option(9, b"\x00") + option(0, b""), 3, 3_000_000_000),
        (option(9, b"\x09") + option(14, struct.pack("<q", 7)), 5, 7_000_000_005),
        (option(1, b"a comment") + option(9, b"\x09"), TS, TS),
        (option(0, b"") + option(9, b"\x09"), 1_500_000, 1_500_000_000),
    ],
)
def test_the_interface_says_what_its_clock_counts(options: bytes, ticks: int, ts: int) -> None:
    assert times(section() + interface(options=options) + enhanced(ticks, b"")) == [ts]


def test_comments_unknown_blocks_and_old_packet_blocks_are_no_obstacle() -> None:
    out = [section(options=option(1, b"a section") + option(0, b"")), block(0x0BAD, b"custom" * 9), interface()]
    for number, each in enumerate(WIRES):
        ticks = each.ts // 1000
        if number % 2:
            head = struct.pack("<HHIIII", 0, 0, ticks >> 32, ticks & 0xFFFFFFFF, len(each.packet), len(each.packet))
            out.append(block(2, head + each.packet))
        else:
            out.append(enhanced(ticks, each.packet, options=option(1, b"hello") + option(0, b"")))
        out.append(block(4, b""))

    assert matched(read(b"".join(out))) == ORIGINAL


def test_simple_packets_have_no_time_but_are_read() -> None:
    out = [section(), interface(snaplen=65_536)]
    out += [block(3, struct.pack("<I", len(each.packet)) + each.packet) for each in WIRES]

    found = read(b"".join(out))
    # Without times they come in the order in which they ended.
    assert sorted(str(each[:4]) for each in matched(found)) == sorted(str(each[:4]) for each in ORIGINAL)
    assert {row["latency_us"] for row in found} == {0}


def test_a_simple_packet_longer_than_the_snaplen_is_cut_there() -> None:
    data = section() + interface(snaplen=4) + block(3, struct.pack("<I", 9) + b"abcd")

    (packet,) = packets(data)
    assert isinstance(packet, Packet)
    assert (packet.data, packet.size) == (b"abcd", 9)


def test_path_text_bytes_file_object_and_gzip_all_work(tmp_path: Path) -> None:
    packed = tmp_path / "packed.pcap.gz"
    packed.write_bytes(gzip.compress(SHARE.read_bytes()))

    class OnlyRead:
        def __init__(self, data: bytes) -> None:
            self._file = io.BytesIO(data)

        def read(self, size: int, /) -> bytes:
            return self._file.read(min(size, 777))

    data = SHARE.read_bytes()
    in_memory = (data, bytearray(data), memoryview(data), io.BytesIO(data), OnlyRead(data))
    for each in (SHARE, str(SHARE), packed, *in_memory):
        assert matched(list(rows(each))) == ORIGINAL
    with SHARE.open("rb") as file:
        assert matched(list(rows(file))) == ORIGINAL
        assert not file.closed


def zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(data)


DATA = SHARE.read_bytes()
PACKED = {
    "gzip": gzip.compress(DATA),
    "gzip of two members": gzip.compress(DATA[:9999]) + gzip.compress(DATA[9999:]),
    "zstd": zstd(DATA),
    "zstd of two frames": zstd(DATA[:9999]) + zstd(DATA[9999:]),
    "zstd after a skippable frame": b"\x50\x2a\x4d\x18\x03\x00\x00\x00abc" + zstd(DATA),
}


class Drop:
    """A file object that gives one byte at a time, as a slow pipe may."""

    def __init__(self, data: bytes) -> None:
        self._file = io.BytesIO(data)

    def read(self, size: int, /) -> bytes:
        return self._file.read(min(size, 1))


@pytest.mark.parametrize("name", PACKED)
def test_a_packed_capture_is_unpacked_on_the_fly_whatever_it_is_called(name: str) -> None:
    assert matched(read(PACKED[name])) == ORIGINAL
    assert matched(list(rows(Drop(PACKED[name])))) == ORIGINAL


def test_a_named_pipe_is_read_as_it_comes(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    def write() -> None:
        with pipe.open("wb", buffering=0) as file:
            for at in range(0, len(DATA), 4099):
                file.write(DATA[at : at + 4099])

    writer = threading.Thread(target=write)
    writer.start()
    found = list(rows(pipe))
    writer.join()

    assert matched(found) == ORIGINAL


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.ZstdCompressor().compress])
def test_what_was_unpacked_in_front_of_a_damage_is_read(pack: Callable[[bytes], bytes]) -> None:
    found = read(pack(SHARE.read_bytes()) + b"no frame, and no member")

    assert matched(found) == ORIGINAL
    assert issue_kinds(found) == {"file_truncated"}


def test_a_packed_file_that_ends_before_its_first_bytes_says_so() -> None:
    packed = zstandard.ZstdCompressor().compress(SHARE.read_bytes())

    with pytest.raises(CaptureError, match="the zstd stream ends before anything"):
        read(packed[: len(packed) // 2])


@pytest.mark.parametrize("pack", [gzip.compress, zstd])
def test_what_unpacks_to_too_much_is_read_so_far_and_says_so(
    pack: Callable[[bytes], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "UNPACKED_SIZE_FREE", len(DATA) + 1_000_000)
    comment = block(0x0BAD, bytes(16_000_000))
    blocks = [enhanced(each.ts // 1000, each.packet) for each in WIRES]
    found = read(pack(b"".join([section(), interface(), *blocks, comment])))

    assert matched(found) == ORIGINAL
    assert "unpacks to more than" in str(found[-1]["issues"])


def test_what_shrinks_as_captures_do_may_be_of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "UNPACKED_SIZE_FREE", 1000)

    assert matched(read(PACKED["gzip"])) == matched(read(PACKED["zstd"])) == ORIGINAL


def test_a_zstd_frame_that_asks_for_much_memory_is_refused() -> None:
    huge = zstandard.ZstdCompressionParameters(window_log=28, compression_level=1)
    packed = zstandard.ZstdCompressor(compression_params=huge).compressobj().compress(bytes(300_000_000))

    with pytest.raises(CaptureError, match="zstd stream is damaged"):
        read(packed)


def test_packet_lengths_of_old_pcap_files_stand_the_other_way_round() -> None:
    def old(data: bytes) -> bytes:
        out = [data[:6] + b"\x02\x00" + data[8:24]]
        at = 24
        while at < len(data):
            kept, size = struct.unpack_from("<II", data, at + 8)
            out.append(data[at : at + 8] + struct.pack("<II", size, kept) + data[at + 16 : at + 16 + kept])
            at += 16 + kept
        return b"".join(out)

    cut = [each._replace(kept=128) for each in WIRES]
    assert old(pcap(cut)) != pcap(cut)
    assert read(old(pcap(cut))) == read(pcap(cut))


def test_packet_headers_of_the_modified_format_are_longer() -> None:
    out = [struct.pack("<IHHiIII", 0xA1B2CD34, 2, 4, 0, 0, 65_535, 101)]
    for each in WIRES:
        seconds, fraction = divmod(each.ts, 1_000_000_000)
        size = len(each.packet)
        out.append(struct.pack("<IIIIIHBB", seconds, fraction // 1000, size, size, 1, 0x0800, 0, 0) + each.packet)

    assert matched(read(b"".join(out))) == ORIGINAL


def test_names_statistics_journals_secrets_and_custom_blocks_are_no_obstacle() -> None:
    out = [section(), interface()]
    for number, each in enumerate(WIRES):
        kind = (4, 5, 9, 10, 0x0BAD, 0x40000BAD, 0x80000001)[number % 7]
        out += [block(kind, struct.pack("<II", 0x57474B4C, 4) + b"some"), enhanced(each.ts // 1000, each.packet)]

    assert matched(read(b"".join(out))) == ORIGINAL


def test_a_file_of_interfaces_does_not_fill_the_memory() -> None:
    found = read(section() + interface() * 70_000)

    assert issue_kinds(found) == {"file_corrupt"}


def test_what_is_no_capture_is_refused_by_name() -> None:
    with pytest.raises(CaptureError, match="it is empty"):
        list(packets(b""))
    for data in (b"GET ", b"\x00" * 100, gzip.compress(b"nothing")):
        with pytest.raises(CaptureError, match="neither pcap nor pcapng"):
            read(data)
    with pytest.raises(CaptureError, match="binary"):
        list(rows(io.StringIO("text")))  # type: ignore[arg-type]
    with pytest.raises(CaptureError, match="not int"):
        list(rows(5))  # type: ignore[arg-type]


@pytest.mark.parametrize("make", [pcap, lambda wires: section() + interface() + enhanced(1, wires[0].packet)])
def test_a_file_that_ends_early_is_told_wherever_it_ends(make: object) -> None:
    assert callable(make)
    whole: bytes = make(WIRES[:1])
    boundaries = {len(whole), 24} if make is pcap else {len(whole), 28, 48}
    for size in range(4, len(whole)):
        found = read(whole[:size])
        expected = set() if size in boundaries else {"file_truncated"}
        assert issue_kinds(found) == expected, size
        assert all(row["status"] == "truncated" for row in found)


def test_a_damaged_gzip_stream_gives_what_came_before() -> None:
    packed = bytearray(gzip.compress(SHARE.read_bytes(), 0))
    packed = packed[: len(packed) // 2]
    found = read(bytes(packed))

    assert len(found) > 10
    assert found[-1]["status"] in {"truncated", "no_response"}
    assert "file_truncated" in issue_kinds(found)
    assert "gzip" in str([row["issues"] for row in found if row["api_key"] is None])


@pytest.mark.parametrize(
    "damage",
    [
        pcap([])[:24] + struct.pack("<IIII", 1, 1, 0x7FFFFFFF, 0x7FFFFFFF),
        section() + interface() + struct.pack("<II", 6, 13) + b"x",
        section() + interface() + struct.pack("<II", 6, 8),
        section() + interface() + struct.pack("<II", 6, 0x7FFFFFFC),
        section() + interface() + block(6, struct.pack("<IIIII", 0, 0, 0, 400, 400)),
        section() + interface() + block(6, b"1234"),
        section() + enhanced(1, b"no interface"),
        section() + interface()[:-4] + b"\0\0\0\0",
        section() + b"\x0a\x0d\x0d\x0a" + b"\0" * 40,
    ],
)
def test_corruption_inside_a_file_is_a_row_and_not_an_exception(damage: bytes) -> None:
    found = read(damage)

    assert [row["status"] for row in found] == ["undecodable"]
    assert issue_kinds(found) == {"file_corrupt"}


def test_an_absurd_clock_stays_within_64_bits() -> None:
    data = section() + interface(options=option(14, struct.pack("<q", 2**62))) + enhanced(2**63, b"")

    assert times(data) == [2**63 - 1]
    assert not any(isinstance(each, Trouble) for each in packets(data))


@pytest.mark.parametrize("kind", ["pcapng", "nsecpcap", "pcap"])
def test_what_wireshark_converts_reads_the_same(tmp_path: Path, kind: str) -> None:
    editcap = needs.tool("editcap")
    converted = tmp_path / "converted"
    subprocess.run([editcap, "-F", kind, str(SHARE), str(converted)], check=True)

    assert matched(list(rows(converted))) == ORIGINAL


def test_what_the_projects_own_writer_writes_reads_the_same() -> None:
    buffer = io.BytesIO()
    writer = PcapngWriter(buffer, comment="a comment", interface="lo")
    for number, wire in enumerate(WIRES):
        writer.write_packet(wire.ts, wire.packet, comment="seen" if number % 3 else None)

    assert matched(read(buffer.getvalue())) == ORIGINAL
