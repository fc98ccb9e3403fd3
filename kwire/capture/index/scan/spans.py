"""A capture file divided into spans, which are read at once, and the position and state of a scan.

Span boundaries are multiples of the span size: a span has the packets whose records begin between two of them. So the
boundaries do not depend on where a scan began, and ranges that different processes scan fit together.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from kwire.capture.files.pcap import PACKET_SIZE_MAX
from kwire.capture.files.pcapng_blocks import Interface
from kwire.capture.files.source import Reader
from kwire.capture.index.arrays import Ints
from kwire.capture.index.scan.files import CaptureFile, FileReader
from kwire.capture.merged_issues import MergedIssues
from kwire.capture.model import CaptureIssue

# How much of the file is read at once: more than the largest packet.
SPAN_SIZE = 24 * 1024 * 1024
# This many bytes more are read for the last record of a span; more for a longer record, so that it is complete.
_BEHIND_SIZE = 256 * 1024
_LONGEST_SIZE = PACKET_SIZE_MAX + 2 * 1024 * 1024

Records = TypeVar("Records")


@dataclass(slots=True)
class Span:
    """A part of the file and its packets, in their order. `at` is an offset in `data`.

    extent: size of the records in `data`; more bytes may follow them. number: packet number, from 1 where the scan
    began. ts: nanoseconds. at, captured: offset and captured size of the packet. size: on the wire. link: link type.
    """

    base: int
    data: bytes
    extent: int
    number: Ints
    ts: Ints
    at: Ints
    captured: Ints
    size: Ints
    link: Ints


class RecordPosition(NamedTuple):
    """Where the next record begins, and the state to read it: for pcapng, byte order and interfaces.

    is_nanoseconds: whether an Ixia file has shown that it counts nanoseconds.
    """

    at: int
    order: str = "<"
    interfaces: tuple[Interface, ...] = ()
    is_nanoseconds: bool = False


@dataclass(slots=True)
class ScanState:
    """The state of a scan: its position and its results other than packets.

    is_ended: whether the next record is not a complete one. last_ts: of the last packet. key_logs: offset and size in
    the file of each TLS key log. issues: those of records. before: number of packets in the file before the scan began.
    depends_on_before: whether issues or times depend on `before`, or on `last_ts` when the scan began.
    """

    position: RecordPosition
    packet_count: int = 0
    is_ended: bool = False
    last_ts: int = 0
    issues: MergedIssues = field(default_factory=MergedIssues)
    key_logs: list[tuple[int, int]] = field(default_factory=list)
    before: int = 0
    depends_on_before: bool = False

    def number_packets(self, times: Ints) -> Ints:
        """Count the packets of these times, which are the next ones; return their numbers."""
        first = self.packet_count + 1
        self.packet_count += len(times)
        self.last_ts = int(times[-1])
        return np.arange(first, first + len(times), dtype=np.int64)


class Chunk(NamedTuple, Generic[Records]):
    """One read of the file: the records that begin in it, and where the next record begins."""

    base: int
    data: bytes
    records: Records
    end: int


class RecordScanner(ABC, Generic[Records]):
    """Scans the records of a capture file, a span at a time. `first` is the position of the first record."""

    may_have_secrets: bool
    first: RecordPosition

    def __init__(self, file: CaptureFile, span_size: int) -> None:
        """`file` stays open while it is scanned."""
        self._file = file
        self._span_size = span_size

    def read_spans(self, stop: int, state: ScanState) -> Iterator[Span]:
        """The packets of records from the position of `state` up to `stop`, a multiple of the span size."""
        for chunk in self._read_chunks(stop, state):
            span = self.make_span(chunk, state)
            if span is not None:
                yield span

    @abstractmethod
    def make_span(self, chunk: Chunk[Records], state: ScanState) -> Span | None:
        """The packets of records that were found; None if there are none. Advances `state`."""

    @abstractmethod
    def guess_position(self, start: int, stop: int) -> RecordPosition | None:
        """Guess the position of the first record between two offsets without a scan; None if there seems to be none."""

    def report_end(self, state: ScanState) -> None:
        """Add the issue at the end of the complete records, if any."""
        for item in self.read_rest(FileReader(self._file, state.position.at), state):
            assert isinstance(item, CaptureIssue)
            state.issues.add(state.packet_count, item)

    @abstractmethod
    def read_rest(self, reader: Reader, state: ScanState) -> Iterator[object]:
        """What the streaming reader yields behind the complete records: the issue about the damage."""

    def find_positions(self, stops: list[int]) -> Iterator[RecordPosition]:
        """For each of these offsets, the position of the first record that does not begin before it."""
        state = ScanState(self.first)
        for stop in stops:
            for _ in self._read_chunks(stop, state):
                pass
            yield state.position

    @abstractmethod
    def find_records(self, data: bytes, limit: int, state: ScanState) -> tuple[Records, int]:
        """The records of `data` that begin before the limit, and the offset of the next one. Advances `state`."""

    def _read_chunks(self, stop: int, state: ScanState) -> Iterator[Chunk[Records]]:
        at, is_long = state.position.at, False
        while at < min(stop, self._file.size) and not state.is_ended:
            limit = (at // self._span_size + 1) * self._span_size - at
            size = max(limit + _BEHIND_SIZE, _LONGEST_SIZE if is_long else 0)
            data = self._file.read(at, size)
            records, end = self.find_records(data, limit, state)
            if not end and not is_long and len(data) == size:
                # The record is longer than the bytes that were read: read it once more, as a whole.
                is_long = True
                continue
            is_long = False
            state.is_ended |= not end
            yield Chunk(at, data, records, end)
            at += end
