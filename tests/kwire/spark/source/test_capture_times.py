"""The time span of a capture, from both ends of the file or from its index."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import pytest

from kwire.capture import index
from kwire.spark.source import capture_times
from kwire.spark.source.capture_times import TimeSpan
from tests.support.captures.rotated_captures import records_of

CAPTURES = Path(__file__).parents[3] / "captures"
PLAIN = sorted(file for file in CAPTURES.iterdir() if file.suffix in (".pcap", ".pcapng"))
SHARE = CAPTURES / "small_share.pcap"


def span_by_index(file: Path) -> TimeSpan:
    found = index.build_index(file)
    return TimeSpan(found.first_ts, found.last_ts)


@pytest.mark.parametrize("file", PLAIN, ids=lambda file: file.name)
def test_the_packets_at_both_ends_give_the_time_span(file: Path) -> None:
    assert capture_times.read_end_times(str(file)) == span_by_index(file)


@pytest.mark.parametrize("cut", [0, 5, 20], ids=["whole", "inside_a_header", "inside_a_packet"])
def test_the_end_of_a_long_file_is_found_if_its_last_packet_is_cut(tmp_path: Path, cut: int) -> None:
    head, records = records_of(SHARE)
    file = tmp_path / "long.pcap"
    file.write_bytes(head + b"".join(records * 40) + records[-1][:cut])

    assert file.stat().st_size > 2 * 1024 * 1024
    assert capture_times.read_end_times(str(file)) == span_by_index(SHARE)


def test_the_end_of_a_long_pcapng_is_found_backwards(tmp_path: Path) -> None:
    small = next(file for file in PLAIN if file.suffix == ".pcapng")
    whole = small.read_bytes()
    preamble = capture_times._preamble(whole)
    file = tmp_path / "long.pcapng"
    file.write_bytes(preamble + whole[len(preamble) :] * (3 * 1024 * 1024 // len(whole)))

    assert capture_times.read_end_times(str(file)) == span_by_index(small)


def test_packets_of_an_interface_that_the_middle_of_a_file_describes_do_not_shorten_its_times(tmp_path: Path) -> None:
    def block(kind: int, body: bytes) -> bytes:
        size = struct.pack("<I", len(body) + 12)
        return struct.pack("<I", kind) + size + body + size

    def packet(interface: int, second: int) -> bytes:
        stamp = second * 1_000_000
        return block(6, struct.pack("<IIIII", interface, stamp >> 32, stamp & 0xFFFFFFFF, 1000, 1000) + bytes(1000))

    interface = block(1, struct.pack("<HHI", 101, 0, 0))
    head = block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1)) + interface
    early = b"".join(packet(0, 1000 + number) for number in range(3000))
    file = tmp_path / "grown.pcapng"
    file.write_bytes(head + early + interface + b"".join(packet(number % 2, 9000 + number) for number in range(3000)))

    assert capture_times.read_end_times(str(file)) is None


def test_a_file_without_readable_ends_has_no_time_span(tmp_path: Path) -> None:
    head, records = records_of(SHARE)
    contents = {
        "empty.pcap": head,
        "nothing.pcap": b"",
        "other.pcap": b"no capture at all" * 1000,
        "packed.pcap.gz": gzip.compress(SHARE.read_bytes()),
        # The first packet is later than the last one.
        "backwards.pcap": head + b"".join(records[-20:] * 200) + b"".join(records[:20] * 200),
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)

    assert [name for name in (*contents, "gone.pcap") if capture_times.read_end_times(str(tmp_path / name))] == []


def test_an_index_gives_exact_times_and_ends_give_estimates(tmp_path: Path) -> None:
    span, cache = span_by_index(SHARE), str(tmp_path)

    before = capture_times.find_time_spans([str(SHARE)], cache, 2.0)
    unknown = capture_times.find_time_spans([str(SHARE)], cache, None)
    index.open_index(SHARE, cache=cache)
    after = capture_times.find_time_spans([str(SHARE)], cache, 2.0)

    assert before == {str(SHARE): TimeSpan(span.first - 2 * 10**9, span.last + 2 * 10**9)}
    assert unknown == {}
    assert after == {str(SHARE): span}
