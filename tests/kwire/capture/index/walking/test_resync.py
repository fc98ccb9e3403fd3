"""Where a record begins in the middle of a file is guessed well, and in bounded time whatever the file holds."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.capture.index.walking import walk
from kwire.capture.index.walking.files import File
from tests.kwire.capture.index.kit import FILES
from tests.kwire.capture.wire import Wire, enhanced, interface, ip_packets, option, pcap, section

WIRES = ip_packets()
CLOCK = option(9, b"\x09")
MADE = {
    "pcap": pcap(WIRES),
    "nanoseconds, big-endian": pcap(WIRES, order=">", nanoseconds=True),
    "snaplen": pcap([each._replace(kept=60) for each in WIRES]),
    "pcapng": section() + interface(options=CLOCK) + b"".join(enhanced(*each[:2]) for each in WIRES),
}


@pytest.fixture(autouse=True, scope="module")
def any_place() -> Iterator[None]:
    """Ranges begin anywhere: each byte is of the grid."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(walk, "SPAN_SIZE", 1)
        yield


def guesses(capture: Path | bytes, start: int) -> tuple[int | None, int | None]:
    """The place that is guessed from here on, and the true one."""
    with File(capture) as file:
        way = walk.walk(file, capture)
        found = way.guess(start, file.size)
        (truly,) = way.places([start])
        return None if found is None else found.at, truly.at if truly.at < file.size else None


@given(data=st.data(), name=st.sampled_from(sorted(MADE)))
def test_the_first_record_behind_any_place_is_found(data: st.DataObject, name: str) -> None:
    capture = MADE[name]
    # In front of that are no packets; too near to the end there are too few records to tell.
    start = data.draw(st.integers(60, len(capture) * 3 // 4))

    found, truly = guesses(capture, start)
    assert found is not None
    assert found == truly


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_first_record_behind_places_of_real_captures_is_found(path: Path) -> None:
    size = path.stat().st_size
    for part in range(1, 8):
        found, truly = guesses(path, size * part // 10)
        assert found == truly


@pytest.mark.parametrize("noise", [bytes(300_000), b"\xff" * 300_000, b"\x06\0\0\0" * 75_000], ids=["0", "1", "6"])
@pytest.mark.parametrize("name", MADE)
def test_noise_has_no_record(name: str, noise: bytes) -> None:
    with File(MADE[name] + noise) as file:
        way = walk.walk(file, b"")

        assert way.guess(len(MADE[name]), file.size) is None


def test_many_records_that_lead_nowhere_cost_no_more_than_few() -> None:
    empty = struct.pack("<IIII", WIRES[0].ts // 10**9, 0, 1, 1) + b"\0"
    capture = pcap([Wire(WIRES[0].ts, b"\xff" * 40_000)]) + empty * 28_000 + b"\xff" * 40_000
    begun = time.process_time()
    with File(capture) as file:
        assert walk.walk(file, capture).guess(1_000, file.size) is None

    # Each of the chains alone has up to 28,000 records: without memory it would be minutes.
    assert time.process_time() - begun < 20
