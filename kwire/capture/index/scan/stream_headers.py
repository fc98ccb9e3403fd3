"""Parse the headers of packets that are read once, span by span, from one file or several."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from kwire.capture.index.arrays import Ints
from kwire.capture.index.scan.header_pass import HeaderPass
from kwire.capture.index.scan.packet_headers import PacketHeaders
from kwire.capture.index.scan.packet_spans import span_of_packets
from kwire.capture.index.scan.spans import SPAN_SIZE, RecordPosition, ScanState, Span
from kwire.capture.merged_issues import MergedIssues
from kwire.capture.model import CaptureError, CaptureIssue, NoPacket, Packet

# The packets of a batch: the first batches are small, so that their rows come soon.
_COUNT_FIRST, _COUNT_MAX = 1_000, 128_000

Packets = Iterable[Span | Packet | CaptureIssue | NoPacket]


class HeaderBatch(NamedTuple):
    """The TCP packets of a batch, and the bytes that they have.

    headers: with positions in the data. numbers, in_files: the numbers of all packets, here and in their files.
    """

    headers: PacketHeaders
    data: bytes
    numbers: Ints
    in_files: Ints


class StreamHeaders:
    """Parses packets; their numbers continue from file to file. It can be pickled between files.

    packet_count: the number of the latest packet. last_ts: the latest time of a packet.
    """

    def __init__(self) -> None:
        """No packet was read yet."""
        self.packet_count = self.last_ts = 0
        # The number of packets before the file that is read.
        self._file_begin = 0
        # Where the numbers of packets begin again, as in the next file of a series: here, and in that file.
        self._number_starts: tuple[list[int], list[int]] = [1], [1]
        self._open_file()

    def read_batches(self, packets: Packets) -> Iterator[HeaderBatch]:
        """Read the packets of one file: those that are available, up to the limits. `end_file` must follow."""
        return map(self._parse_span, self._collect_spans(packets))

    def note_batch(self, batch: HeaderBatch) -> None:
        """Note the numbers of packets whose headers were read elsewhere; they are above `packet_count`."""
        numbers, in_files, (starts, file_starts) = batch.numbers, batch.in_files, self._number_starts
        shift = np.append(starts[-1] - file_starts[-1], numbers - in_files)
        for at in np.nonzero(np.diff(shift))[0].tolist():
            starts.append(int(numbers[at]))
            file_starts.append(int(in_files[at]))
        self.packet_count = int(numbers[-1])

    def end_file(self) -> list[tuple[int, CaptureIssue]]:
        """The issues of the file that ends, each with the number of the packet at which it was found."""
        state, found = ScanState(RecordPosition(0), self.packet_count), list[tuple[int, CaptureIssue]]()
        for number, issue in self._headers.close(state, self._issues.numbered):
            in_file = int(self.file_packet_numbers(np.array([issue.packet], dtype=np.int64))[0])
            found.append((number, issue._replace(packet=in_file) if issue.packet else issue))
        self._file_begin = self.packet_count
        self._open_file()
        return found

    def file_packet_numbers(self, numbers: Ints) -> Ints:
        """Convert packet numbers to those of the file that contains the packet; -1 stays."""
        starts, file_starts = (np.array(column, dtype=np.int64) for column in self._number_starts)
        at = np.maximum(np.searchsorted(starts, numbers, "right") - 1, 0)
        return np.where(numbers < 0, numbers, numbers - starts[at] + file_starts[at])

    def __getstate__(self) -> dict[str, Any]:
        """What later files need."""
        return {name: value for name, value in vars(self).items() if name not in {"_headers", "_issues"}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore what `__getstate__` returned."""
        vars(self).update(state)
        self._open_file()

    def _open_file(self) -> None:
        self._headers, self._issues = HeaderPass(), MergedIssues()

    def _parse_span(self, span: Span) -> HeaderBatch:
        in_files, first = span.number, self.packet_count + 1
        span = replace(span, base=0, number=np.arange(first, first + len(in_files)))
        self._headers.stored_at = len(span.data)
        headers = self._headers.read_span(span)
        batch = HeaderBatch(headers, span.data + self._headers.take_stored(), span.number, in_files)
        self.last_ts = max(self.last_ts, int(span.ts.max()))
        self.note_batch(batch)
        return batch

    def _collect_spans(self, packets: Packets) -> Iterator[Span]:
        """The packets in spans: those that are available, up to the limits."""
        batch: list[Packet] = []
        size, count_max = 0, _COUNT_FIRST
        try:
            for item in packets:
                if isinstance(item, CaptureIssue):
                    packet = item.packet + self._file_begin if item.packet else 0
                    self._issues.add(self.packet_count + len(batch), item._replace(packet=packet))
                    continue
                if isinstance(item, Packet):
                    batch.append(item)
                    size += len(item.data)
                    if len(batch) < count_max and size < SPAN_SIZE:
                        continue
                    count_max = min(2 * count_max, _COUNT_MAX)
                if batch:
                    yield span_of_packets(batch)
                    batch, size = [], 0
                if isinstance(item, Span):
                    yield item
        except (CaptureError, OSError):
            # What was read before has its rows.
            if batch:
                yield span_of_packets(batch)
            raise
        if batch:
            yield span_of_packets(batch)
