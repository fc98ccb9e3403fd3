"""Scan a pcap file: record by record, a span of the file at a time.

Only finding the records is serial; their headers are parsed together.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np

from kwire.accelerator import NATIVE
from kwire.capture.files import pcap
from kwire.capture.files.pcap import PcapLayout
from kwire.capture.files.source import Reader
from kwire.capture.index.arrays import Ints
from kwire.capture.index.scan.files import CaptureFile, FileReader
from kwire.capture.index.scan.packet_headers import gather_bytes
from kwire.capture.index.scan.resync import guess_pcap_position
from kwire.capture.index.scan.spans import Chunk, RecordPosition, RecordScanner, ScanState, Span
from kwire.capture.model import CaptureIssue


class PcapScanner(RecordScanner[Ints]):
    """Scans the records of a pcap file."""

    may_have_secrets = False

    def __init__(self, file: CaptureFile, span_size: int) -> None:
        """The magic number of `file` is one of a pcap file."""
        super().__init__(file, span_size)
        reader = FileReader(file, 0)
        layout = pcap.read_layout(reader, reader.magic)
        self._is_whole = layout is not None
        self._head_error = reader.error or "the file ends inside its header"
        self.layout = layout or PcapLayout("<", 1000, 16, 8)
        self.first = RecordPosition(reader.at if layout else file.size)

    def make_span(self, chunk: Chunk[Ints], state: ScanState) -> Span | None:
        """The packets of records that were found; None if there are none."""
        order, unit, header_size, captured_at, link, is_ixia = self.layout
        base, data, offsets, end = chunk
        if not len(offsets):
            return None
        headers = gather_bytes(data, offsets, 16).view(np.dtype(order + "u4")).astype(np.int64)
        units: Ints | int = unit
        if is_ixia:
            is_nanoseconds = state.position.is_nanoseconds
            has_nanoseconds = np.logical_or.accumulate(headers[:, 1] >= pcap.MICROSECONDS) | is_nanoseconds
            units = np.where(has_nanoseconds, 1, unit)
            state.position = state.position._replace(is_nanoseconds=bool(has_nanoseconds[-1]))
        stamps = headers[:, 0] * 1_000_000_000 + headers[:, 1] * units
        captured, size = headers[:, captured_at // 4], headers[:, 5 - captured_at // 4]
        links = np.full(len(offsets), link, dtype=np.int64)
        numbers = state.number_packets(stamps)
        sizes = np.maximum(size, captured)
        return Span(base, data, end, numbers, stamps, offsets + header_size, captured, sizes, links)

    def guess_position(self, start: int, stop: int) -> RecordPosition | None:
        """Guess the position of the first record between two offsets without a scan."""
        return guess_pcap_position(self._file, self.layout, self.first, start, stop)

    def read_rest(self, reader: Reader, state: ScanState) -> Iterator[object]:
        """What the streaming reader yields behind the complete records."""
        if not self._is_whole:
            return iter([CaptureIssue("file_truncated", self._head_error, 0, 0)])
        layout = self.layout._replace(unit=1) if state.position.is_nanoseconds else self.layout
        return pcap.read_records(reader, layout, state.packet_count, state.last_ts)

    def find_records(self, data: bytes, limit: int, state: ScanState) -> tuple[Ints, int]:
        """Offsets of the complete records that begin before the limit, and where the first other record begins."""
        offsets, at = find_records(data, limit, self.layout)
        state.position = state.position._replace(at=state.position.at + at)
        rest = data[at : at + self.layout.header_size]
        if len(rest) == self.layout.header_size:
            (captured,) = struct.unpack_from(self.layout.order + "I", rest, self.layout.captured_at)
            state.is_ended |= captured > pcap.PACKET_SIZE_MAX
        return offsets, at


def find_records(data: bytes, limit: int, layout: PcapLayout) -> tuple[Ints, int]:
    """Offsets of the complete records that begin before the limit, and where the first other record begins."""
    if NATIVE is None:
        return find_records_in_python(data, limit, layout)
    order, _, header_size, captured_at, *_ = layout
    native_layout = header_size, captured_at, order == ">", pcap.PACKET_SIZE_MAX
    offsets, at = NATIVE.find_pcap_records(data, limit, native_layout)
    return np.frombuffer(offsets, dtype=np.int64), at


def find_records_in_python(data: bytes, limit: int, layout: PcapLayout) -> tuple[Ints, int]:
    """The same without the accelerator."""
    order, _, header_size, captured_at, *_ = layout
    unpack = struct.Struct(order + "I").unpack_from
    offsets: list[int] = []
    append = offsets.append
    at, last = 0, min(len(data) - header_size, limit - 1)
    end = len(data)
    size_max = pcap.PACKET_SIZE_MAX
    while at <= last:
        (captured,) = unpack(data, at + captured_at)
        following = at + header_size + captured
        if following > end or captured > size_max:
            break
        append(at)
        at = following
    return np.array(offsets, dtype=np.int64), at
