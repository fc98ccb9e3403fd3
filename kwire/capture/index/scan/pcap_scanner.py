"""Scan a pcap file: record by record, a span of the file at a time.

Only finding the records is serial; their headers are parsed together.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np

from kwire.accelerator import NATIVE
from kwire.capture.files import pcap
from kwire.capture.index.arrays import Ints
from kwire.capture.index.scan.files import CaptureFile
from kwire.capture.index.scan.packet_headers import gather_bytes
from kwire.capture.index.scan.resync import PcapLayout, guess_pcap_position
from kwire.capture.index.scan.spans import RecordPosition, RecordScanner, ScanState, Span
from kwire.capture.model import CaptureIssue

_HEAD = {order: struct.Struct(order + "IIII") for order in "<>"}
_FILE_HEAD_SIZE = 24


class PcapScanner(RecordScanner[Ints]):
    """Scans the records of a pcap file."""

    may_have_secrets = False

    def __init__(self, file: CaptureFile, magic: bytes, span_size: int) -> None:
        """`magic` is one of `pcap.MAGICS`."""
        super().__init__(file, span_size)
        order, unit, header_size = pcap.MAGICS[magic]
        self._head = file.read(4, _FILE_HEAD_SIZE - 4)
        is_whole = len(self._head) == _FILE_HEAD_SIZE - 4
        head = self._head.ljust(_FILE_HEAD_SIZE - 4, b"\0")
        self._link = struct.unpack_from(order + "I", head, 16)[0] & 0xFFFF
        is_swapped = struct.unpack_from(order + "HH", head) in {(2, 0), (2, 1), (2, 2)}
        self.layout = PcapLayout(order, unit, header_size, 12 if is_swapped else 8)
        self.first = RecordPosition(_FILE_HEAD_SIZE if is_whole else file.size)

    def read_spans(self, stop: int, state: ScanState) -> Iterator[Span]:
        """The packets of records from the position of `state` up to `stop`, a multiple of the span size."""
        order, unit, header_size, captured_at = self.layout
        for base, data, offsets, end in self._read_chunks(stop, state):
            if not len(offsets):
                continue
            headers = gather_bytes(data, offsets, 16).view(np.dtype(order + "u4")).astype(np.int64)
            stamps = headers[:, 0] * 1_000_000_000 + headers[:, 1] * unit
            captured, size = headers[:, captured_at // 4], headers[:, 5 - captured_at // 4]
            links = np.full(len(offsets), self._link, dtype=np.int64)
            numbers = state.number_packets(stamps)
            sizes = np.maximum(size, captured)
            yield Span(base, data, end, numbers, stamps, offsets + header_size, captured, sizes, links)

    def guess_position(self, start: int, stop: int) -> RecordPosition | None:
        """Guess the position of the first record between two offsets without a scan."""
        return guess_pcap_position(self._file, self.layout, self.first, start, stop)

    def report_end(self, state: ScanState) -> None:
        """Add the issue at the end of the complete records, if any, as the streaming reader reports it."""
        if len(self._head) < _FILE_HEAD_SIZE - 4:
            state.issues.append(CaptureIssue("file_truncated", "the file ends inside its header", 0, 0))
            return
        # Bytes that were appended to the file since it was opened do not count.
        if state.position.at < self._file.size:
            rest = self._file.read(state.position.at, self.layout.header_size)
            state.issues.append(self._truncation_issue(rest, state.packet_count + 1, state.last_ts))

    def _find_records(self, data: bytes, limit: int, state: ScanState) -> tuple[Ints, int]:
        """Offsets of the complete records that begin before the limit, and where the first other record begins."""
        offsets, at = find_records(data, limit, self.layout)
        state.position = RecordPosition(state.position.at + at)
        return offsets, at

    def _truncation_issue(self, rest: bytes, number: int, ts: int) -> CaptureIssue:
        if len(rest) < self.layout.header_size:
            return CaptureIssue("file_truncated", f"the file ends inside the header of packet {number}", number, ts)
        fields = _HEAD[self.layout.order].unpack_from(rest)
        ts, captured = fields[0] * 1_000_000_000 + fields[1] * self.layout.unit, fields[self.layout.captured_at // 4]
        if captured > pcap.PACKET_SIZE_MAX:
            detail = f"packet {number} claims {captured} bytes; the rest is not read"
            return CaptureIssue("file_corrupt", detail, number, ts)
        return CaptureIssue("file_truncated", f"the file ends inside packet {number}", number, ts)


def find_records(data: bytes, limit: int, layout: PcapLayout) -> tuple[Ints, int]:
    """Offsets of the complete records that begin before the limit, and where the first other record begins."""
    if NATIVE is None:
        return find_records_in_python(data, limit, layout)
    order, _, header_size, captured_at = layout
    native_layout = header_size, captured_at, order == ">", pcap.PACKET_SIZE_MAX
    offsets, at = NATIVE.find_pcap_records(data, limit, native_layout)
    return np.frombuffer(offsets, dtype=np.int64), at


def find_records_in_python(data: bytes, limit: int, layout: PcapLayout) -> tuple[Ints, int]:
    """The same without the accelerator."""
    order, _, header_size, captured_at = layout
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
