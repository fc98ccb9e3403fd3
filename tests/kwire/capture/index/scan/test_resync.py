"""The position of a record in the middle of a file is guessed correctly, and in bounded time for any file."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.capture.index.scan import scanner
from kwire.capture.index.scan.files import CaptureFile
from tests.support.captures.capture_files import (
    CapturedPacket,
    build_interface,
    build_option,
    build_packet_block,
    build_pcap,
    build_section,
    read_ip_packets,
)
from tests.support.captures.index_captures import FILES

PACKETS = read_ip_packets()
CLOCK = build_option(9, b"\x09")
MADE = {
    "pcap": build_pcap(PACKETS),
    "nanoseconds, big-endian": build_pcap(PACKETS, order=">", nanoseconds=True),
    "snaplen": build_pcap([each._replace(stored_size=60) for each in PACKETS]),
    "pcapng": build_section()
    + build_interface(options=CLOCK)
    + b"".join(build_packet_block(*each[:2]) for each in PACKETS),
}


@pytest.fixture(autouse=True, scope="module")
def every_byte_may_begin_a_range() -> Iterator[None]:
    """Ranges may begin anywhere: the span size is one byte."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scanner, "SPAN_SIZE", 1)
        yield


def guess_and_find(capture: Path | bytes, start: int) -> tuple[int | None, int | None]:
    """The guessed position of the first record from `start` on, and the real one."""
    with CaptureFile(capture) as file:
        records = scanner.open_scanner(file)
        found = records.guess_position(start, file.size)
        (expected,) = records.find_positions([start])
        return None if found is None else found.at, expected.at if expected.at < file.size else None


@given(data=st.data(), name=st.sampled_from(sorted(MADE)))
def test_the_first_record_after_any_offset_is_found(data: st.DataObject, name: str) -> None:
    capture = MADE[name]
    # There are no packets before this offset; too close to the end there are too few records.
    start = data.draw(st.integers(60, len(capture) * 3 // 4))

    found, expected = guess_and_find(capture, start)
    assert found is not None
    assert found == expected


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_first_record_after_offsets_of_real_captures_is_found(path: Path) -> None:
    size = path.stat().st_size
    for part in range(1, 8):
        found, expected = guess_and_find(path, size * part // 10)
        assert found == expected


@pytest.mark.parametrize("noise", [bytes(300_000), b"\xff" * 300_000, b"\x06\0\0\0" * 75_000], ids=["0", "1", "6"])
@pytest.mark.parametrize("name", MADE)
def test_noise_has_no_record(name: str, noise: bytes) -> None:
    with CaptureFile(MADE[name] + noise) as file:
        records = scanner.open_scanner(file)

        assert records.guess_position(len(MADE[name]), file.size) is None


def test_many_chains_that_end_soon_do_not_take_longer_than_few() -> None:
    empty = struct.pack("<IIII", PACKETS[0].ts // 10**9, 0, 1, 1) + b"\0"
    capture = build_pcap([CapturedPacket(PACKETS[0].ts, b"\xff" * 40_000)]) + empty * 28_000 + b"\xff" * 40_000
    started = time.process_time()
    with CaptureFile(capture) as file:
        assert scanner.open_scanner(file).guess_position(1_000, file.size) is None

    # Each chain alone has up to 28,000 records: without shared results this would take minutes.
    assert time.process_time() - started < 20
