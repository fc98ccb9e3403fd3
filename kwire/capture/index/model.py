"""The index of one capture, read from its columns: flows, packets and exchanges by span."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterator
from functools import cached_property
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from kwire.capture.files.source import source_name
from kwire.capture.index import column_schema
from kwire.capture.index.arrays import NO_NUMBERS, Ints
from kwire.capture.index.column_schema import PacketColumns, read_exchanges
from kwire.capture.index.columns import Columns, PagedColumn
from kwire.capture.index.flows.frame_columns import StreamGapRow
from kwire.capture.index.flows.frame_headers import StoredNumbers
from kwire.capture.index.flows.message_columns import ExchangeColumns, RequestColumns, missing_requests
from kwire.capture.index.flows.other_connections import OtherConnection
from kwire.capture.index.scan.files import CaptureFile, Source, UnpackedFile
from kwire.capture.index.scan.packet_headers import LINK_NAMES, endpoints_of_words
from kwire.capture.index.stored_payload import CaptureBytes, Extent, ReadableFile, StoredPayload
from kwire.capture.index.streams.flow_closing import PacketTimes
from kwire.capture.index.streams.flow_table import END_REASONS
from kwire.capture.index.streams.stream_pieces import AFTER_CAPTURE
from kwire.capture.model import CaptureIssue, Endpoint
from kwire.capture.tls.key_log import KeyLog

FlowKey = tuple[Endpoint, Endpoint]
"""The two endpoints of a flow, the smaller one first. All connections between them have the same."""


_CompletedRow = TypeVar("_CompletedRow", StreamGapRow, OtherConnection)
_COMPLETED_BY = attrgetter("completed_by")


class FlowInfo(NamedTuple):
    """A connection: times in nanoseconds, `bytes` of payload on the wire, one of `END_REASONS`.

    pair: the number of the endpoints. epoch: how many connections they had before. The times are also those of packets
    that belong to no connection; the first connection of endpoints stands for these where there is none.
    """

    pair: int
    epoch: int
    key: FlowKey
    link: str
    packets: int
    bytes: int
    first_ts: int
    last_ts: int
    end_reason: str

    @property
    def cost(self) -> int:
        """The work to read it, for dividing flows among tasks: its bytes, and 512 more for each packet."""
        return self.bytes + 512 * self.packets


class Index:
    """The index of a capture. It contains no payload, except that of IP fragments."""

    sidecar: str | None = None
    """The file that holds the columns, if any."""
    is_stream = False
    """Whether the capture is read once, while `parts` returns its parts."""
    is_built_for_reader = False
    """Whether it depends on the options of one reader."""
    tls_flows: Collection[int] = ()
    """The numbers of the flows that were decrypted, or could not be."""

    def __init__(self, source: Source, columns: Columns) -> None:
        """`columns` are those that `build_index` wrote, perhaps in another process."""
        self.source = source
        self.columns = columns
        metadata = columns.metadata
        self.size: int = metadata["size"]
        self.mtime_ns: int = metadata["mtime_ns"]
        self.packet_count: int = metadata["packet_count"]
        self.first_ts: int = metadata["first_ts"]
        self.last_ts: int = metadata["last_ts"]
        self.client_ids: list[str] = metadata["client_ids"]
        self.spans: list[tuple[int, int]] = [(base, size) for base, size in metadata["spans"]]
        self.stored: list[Extent] = [(at, size) for at, size in metadata["stored"]]
        """Position and size of the stored payload of each span."""
        self.gaps: list[StreamGapRow] = [StreamGapRow(*row) for row in metadata["gaps"]]
        """The bytes that were lost or skipped between frames."""
        self.others = [OtherConnection(*row) for row in metadata["others"]]
        """The flows that are not read as Kafka."""
        self.issues = [(number, CaptureIssue(*issue)) for number, issue in metadata["issues"]]
        """Issues of the capture, each with the number of the packet at which it was found."""

    def key_log(self, more: str = "") -> KeyLog:
        """The TLS secrets of the file, and those of more key log lines."""
        key_log = KeyLog(more)
        key_log.add_lines(self.secrets)
        # The message about missing secrets differs for a file format that can contain secrets.
        key_log.may_grow = bool(self.columns.metadata["may_have_secrets"])
        return key_log

    @cached_property
    def secrets(self) -> str:
        """The TLS secrets of the file, as lines of a key log. They are read from the capture: no index stores them."""
        ranges = self.columns.metadata["secrets_at"]
        if not ranges:
            return ""
        with CaptureFile(self.source) as file:
            return "\n".join(file.read(at, size).decode("latin-1") for at, size in ranges)

    @property
    def file(self) -> str:
        """The value of the column `file` of its rows."""
        return self.source.name if isinstance(self.source, UnpackedFile) else source_name(self.source)

    @cached_property
    def flows(self) -> list[FlowInfo]:
        """The flows, by number."""
        rows = zip(*(self.columns[f"flow.{name}"].tolist() for name in column_schema.FLOW_COLUMNS), strict=True)
        flows = []
        for pair, epoch, first_ts, last_ts, packets, size, link, _, end in rows:
            totals = packets, size, first_ts, last_ts
            flows.append(FlowInfo(pair, epoch, self.keys[pair], LINK_NAMES[link], *totals, END_REASONS[end]))
        return flows

    @cached_property
    def keys(self) -> list[FlowKey]:
        """The endpoints, by the numbers that packets and flows have."""
        return [endpoints_of_words(tuple(words)) for words in self.columns["pair.words"].reshape(-1, 5).tolist()]

    @cached_property
    def flow_numbers(self) -> dict[FlowKey, list[int]]:
        """The numbers of the connections of each pair of endpoints, in their order."""
        numbers: dict[FlowKey, list[int]] = {}
        for number, flow in enumerate(self.flows):
            numbers.setdefault(flow.key, []).append(number)
        return numbers

    @cached_property
    def file_starts(self) -> list[tuple[int, str]]:
        """For a series of files, the first time and the name of each, for the column `file`; empty for one file."""
        return []

    @property
    def file_indexes(self) -> list[tuple[int, Index]]:
        """The index of each file that this index covers, with the number of packets in the files before it."""
        return [(0, self)]

    def open_file(self) -> ReadableFile:
        """Open the capture, for reading by the offsets of the index; the caller closes it."""
        return CaptureBytes(CaptureFile(self.source), StoredPayload(self.columns, self.stored))

    def extents(self, part: int) -> list[Extent]:
        """The positions and sizes of the bytes of a part.

        What the end of the capture completes has none of its own; those of the last span are the closest ones.
        """
        if not self.spans:
            return []
        return [self.spans[part], *([self.stored[part]] if self.stored[part][1] else ())]

    def file_packet_numbers(self, numbers: Ints) -> Ints:
        """Convert packet numbers of the index to packet numbers of the file that contains the packet."""
        return numbers

    @property
    def openers(self) -> Ints:
        """By flow, the side that opened the connection; -1 if the capture does not show it."""
        return self.columns["flow.opener"]

    def flow(self, number: int) -> FlowInfo:
        """A flow by its number."""
        return self.flows[number]

    def opener(self, number: int) -> int:
        """The side that opened a flow, or the client; -1 if the capture does not show it."""
        return int(self.openers[number])

    def flow_rank(self, key: FlowKey) -> int:
        """The place of the latest connection of these endpoints among those that the end of the capture closes."""
        return self.flow_numbers[key][-1]

    def waiting_requests(self) -> RequestColumns:
        """The requests of a stream that wait for their responses, after its latest part."""
        return missing_requests(NO_NUMBERS)

    def parts(self) -> Iterator[int]:
        """The numbers of the parts: the spans, and what the end of the capture completes."""
        yield from range(len(self.spans))
        yield column_schema.UNANSWERED_PART

    def read_packets(self, part: int) -> PacketColumns:
        """The packets of one span."""
        return PacketColumns(*(self.columns[f"{part}.{name}"] for name in PacketColumns._fields))

    def packet_times(self, part: int) -> PacketTimes:
        """Number and time of all packets of one span."""
        return PacketTimes(*(self.columns[f"{part}.{name}"].astype(np.int64) for name in PacketTimes._fields))

    def read_exchanges(self, part: int) -> ExchangeColumns:
        """The exchanges that a span completes; -1: those that the end completes."""
        return read_exchanges(self.columns, part)

    def part_gaps(self, part: int) -> list[StreamGapRow]:
        """The bytes that a part shows to be lost, or skips."""
        return self._rows_of_part(self.gaps, part)

    def part_others(self, part: int) -> list[OtherConnection]:
        """The flows that are not read as Kafka and end in a part."""
        return self._rows_of_part(self.others, part)

    def _rows_of_part(self, rows: list[_CompletedRow], part: int) -> list[_CompletedRow]:
        """Those of the rows, in the order in which they were complete, that a part completes."""
        lasts = [0, *self.columns["parts.last"].tolist()]
        begin, end = (lasts[part], lasts[part + 1]) if part >= 0 else (lasts[-1], AFTER_CAPTURE)
        first, stop = (bisect_right(rows, number, key=_COMPLETED_BY) for number in (begin, end))
        return rows[first:stop]

    def found_issues(self) -> Iterator[CaptureIssue]:
        """The issues of the capture, in the order of its packets."""
        return (issue for _, index in self.file_indexes for _, issue in index.issues)

    def fragments(self, part: int) -> tuple[int, Ints, Ints]:
        """The body fragments of a part: the number of the first one, positions and sizes."""
        # What the end of the capture completes is read with the bytes of the last span.
        columns, part = self.columns, part if part >= 0 else len(self.spans) - 1
        at, size = (columns[f"{part}.fragments.{name}"].astype(np.int64) for name in ("at", "size"))
        return int(columns["fragments.first"][part]), at, size

    def body_fragments(self) -> tuple[StoredNumbers, StoredNumbers]:
        """File offset and size of the fragments of bodies, by the fragment numbers that frames have."""
        firsts = self.columns["fragments.first"]
        return PagedColumn(self.columns, "fragments.at", firsts), PagedColumn(self.columns, "fragments.size", firsts)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the columns with the index."""
        columns = {name: np.array(self.columns[name]) for name in self.columns}
        return _restore_index, (self.source, columns, self.columns.metadata)


def _restore_index(source: str | bytes, named_columns: dict[str, npt.NDArray[Any]], metadata: dict[str, Any]) -> Index:
    columns = Columns()
    columns.metadata = metadata
    for name, column in named_columns.items():
        columns.add_column(name, column)
    return Index(source, columns)
