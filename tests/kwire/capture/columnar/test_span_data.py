"""A span has the bytes of the frames that it is read for, also of those that arrived in several segments."""

from __future__ import annotations

import numpy as np
import pytest

from kwire.capture import index
from kwire.capture.columnar.reader import ColumnarReader
from kwire.capture.columnar.span_data import SpanReader
from kwire.capture.index.scan import scanner
from kwire.capture.options import Options
from tests.support.captures.capture_files import build_pcap, read_ip_packets
from tests.support.captures.index_captures import FILES, assert_rows_of_pipeline, fragment_packet, split_segment

(AIO,) = (path for path in FILES if path.stem == "small_aio")


def split_capture(size: int) -> bytes:
    """A capture whose segments have at most this many bytes."""
    return build_pcap([piece for each in read_ip_packets(AIO) for piece in split_segment(each, size)])


def check_frames(capture: bytes, step: int) -> tuple[int, int]:
    """Compare each `step`th frame with its bytes in the file; returns how many of them are in their spans, and all."""
    found_index = index.build_index(capture)
    reader = ColumnarReader(found_index, None, Options())
    spans, found, total = SpanReader(found_index, reader.bodies.read_span), 0, 0
    for part, exchanges in reader.read_parts():
        chosen = exchanges.select(np.arange(0, len(exchanges), step))
        span = spans.read_span(part, chosen.request.frame, chosen.response.frame)
        for frames in (chosen.request.frame, chosen.response.frame):
            rows = np.nonzero(frames.size >= 0)[0]
            positions = span.positions(frames.at[rows]).tolist()
            columns = (column[rows].tolist() for column in (frames.at, frames.fragment_count, frames.size))
            for position, at, count, size in zip(positions, *columns, strict=True):
                total += 1
                if position >= 0:
                    found += 1
                    assert span.data[position : position + size] == reader.bodies.read_frame(at, count, size)
    reader.close()
    return found, total


@pytest.mark.parametrize("step", [1, 7])
@pytest.mark.parametrize("size", [40, 1448])
def test_all_frames_of_a_capture_of_one_span(size: int, step: int) -> None:
    found, total = check_frames(split_capture(size), step)

    assert found == total > 5


@pytest.mark.parametrize("size", [60, 1448])
def test_all_frames_that_came_in_fragments(size: int) -> None:
    pieces = [piece for each in read_ip_packets(AIO) for piece in split_segment(each, size)]

    found, total = check_frames(build_pcap([part for piece in pieces for part in fragment_packet(piece)]), 1)
    assert found == total > 5


def test_frames_that_begin_in_the_span_before_are_not_in_the_span(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scanner, "SPAN_SIZE", 4096)
    capture = split_capture(40)

    found, total = check_frames(capture, 1)
    assert total / 2 < found < total
    assert_rows_of_pipeline(capture)
    assert_rows_of_pipeline(capture, "partitions", Options())
