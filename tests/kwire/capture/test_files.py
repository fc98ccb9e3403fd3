"""The same traffic in every file format must give the same rows."""

from __future__ import annotations

import gzip
import io
import struct
import subprocess
from pathlib import Path

import pytest

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
    for source in (SHARE, str(SHARE), packed, *in_memory):
        assert matched(list(rows(source))) == ORIGINAL
    with SHARE.open("rb") as file:
        assert matched(list(rows(file))) == ORIGINAL
        assert not file.closed


def test_what_is_no_capture_is_refused_by_name() -> None:
    for data in (b"", b"GET ", b"\x00" * 100, gzip.compress(b"nothing")):
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
