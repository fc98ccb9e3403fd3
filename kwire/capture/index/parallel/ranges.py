"""Stage 1 of parallel indexing: scan one range of the file and write its packets as columns to a file.

A range depends on earlier ranges only by its `RecordPosition` and by IP fragments; the join handles both. Until then,
packets and pairs of endpoints are numbered within their range.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from kwire.capture.files.pcapng_blocks import Interface
from kwire.capture.index.arrays import NO_NUMBERS, Ints, Words
from kwire.capture.index.column_schema import PACKET_TYPES
from kwire.capture.index.columns import Columns, Path_, new_columns_file
from kwire.capture.index.flows.endpoint_pairs import EndpointPairs
from kwire.capture.index.scan.files import CaptureFile, Source
from kwire.capture.index.scan.header_pass import HeaderPass
from kwire.capture.index.scan.packet_copies import CopyKeys
from kwire.capture.index.scan.packet_headers import PacketHeaders
from kwire.capture.index.scan.scanner import open_scanner
from kwire.capture.index.scan.spans import RecordPosition, ScanState
from kwire.capture.model import CaptureError, CaptureIssue

_DEFERRED_WIDTH = 6


class FileRange(NamedTuple):
    """The records that begin in this part of the file; both offsets are span boundaries, or the end of the file."""

    start: int
    stop: int


class RangeSummary(NamedTuple):
    """The results of a range other than its packets.

    begin: the position of its first record, perhaps a guess; None for no record. mtime_ns: of the file, when read.
    """

    begin: RecordPosition | None
    state: ScanState
    first_ts: int
    last_ts: int
    spans: list[tuple[int, int]]
    issues: list[tuple[int, CaptureIssue]]
    mtime_ns: int


def split_file(size: int, range_size: int, span_size: int) -> list[FileRange]:
    """Divide a file of this size into ranges of the given size, in whole spans; at least one range."""
    step = max(1, range_size // span_size) * span_size
    starts = range(0, max(size, 1), step)
    return [FileRange(start, min(start + step, max(size, 1))) for start in starts]


def read_range(
    source: Source, file_range: FileRange, begin: RecordPosition | None, path: Path_, before: tuple[int, int] = (0, 0)
) -> None:
    """Write the packets of a range to a file.

    Args: begin: the position of the first record; None if it must be guessed. After a wrong guess an error is not
    raised: then the summary has no `begin`. before: number of packets before the range, and the time of the last one; 0
    if they are not known.
    Raises: NotIndexed; CaptureError for records that begin at a known position; OSError.
    """
    with new_columns_file(path) as columns, CaptureFile(source) as file:
        summary = None
        try:
            summary = _scan_range(file, file_range, begin, columns, before)
        except CaptureError:
            if begin is not None:
                raise
        if summary is None:
            summary = RangeSummary(None, ScanState(RecordPosition(0)), 0, 0, [], [], file.mtime_ns)
        state = {name: getattr(summary.state, name) for name in ScanState.__slots__ if name != "issues"}
        columns.metadata = {**summary._asdict(), "state": state}


def _scan_range(
    file: CaptureFile, file_range: FileRange, begin: RecordPosition | None, columns: Columns, before: tuple[int, int]
) -> RangeSummary | None:
    scanner = open_scanner(file)
    start, stop = file_range
    position = begin or (scanner.first if start == 0 else scanner.guess_position(start, stop))
    if position is None:
        return None
    state = ScanState(position, before=before[0], last_ts=before[1])
    header_pass, endpoint_pairs = HeaderPass(defers=True), EndpointPairs()
    firsts = counts = NO_NUMBERS
    extents: list[tuple[int, int]] = []
    first_ts, last_ts = 2**63 - 1, 0
    for number, span in enumerate(scanner.read_spans(stop, state)):
        first_ts, last_ts = min(first_ts, int(span.ts.min())), max(last_ts, int(span.ts.max()))
        extents.append((span.base, span.extent))
        headers = header_pass.read_span(span)
        pair = endpoint_pairs.number_pairs(headers.ends)
        counts = np.append(counts, np.zeros(len(endpoint_pairs) - len(counts), dtype=np.int64))
        counts += np.bincount(pair, minlength=len(counts))
        new, at = np.unique(pair, return_index=True)
        firsts = np.append(firsts, headers.number[at[new >= len(firsts)]])
        for name, kind in PACKET_TYPES.items():
            column = pair if name == "pair" else getattr(headers, name)
            columns.add_column(f"{number}.{name}", column.astype(kind))
        columns.add_column(f"{number}.deferred", np.array(header_pass.deferred, dtype=np.int64).reshape(-1))
        header_pass.deferred.clear()
    columns.add_column("pair.words", endpoint_pairs.endpoint_table().reshape(-1))
    columns.add_column("pair.firsts", firsts)
    columns.add_column("pair.counts", counts)
    # Packets at its beginning may be copies of packets of the range before, which the join finds.
    columns.add_column("copies.head", header_pass.copies.head.to_words())
    columns.add_column("copies.latest", header_pass.copies.latest.to_words())
    return RangeSummary(position, state, first_ts, last_ts, extents, header_pass.close(state), file.mtime_ns)


class RangeFile:
    """The file of a range, for reading."""

    def __init__(self, path: Path_) -> None:
        """Raises: OSError, BadColumnsError."""
        self._columns = Columns.read_new_file(path)
        metadata = self._columns.metadata
        state = metadata["state"]
        self.summary = RangeSummary(
            begin=None if metadata["begin"] is None else _position_from_tree(metadata["begin"]),
            state=ScanState(
                position=_position_from_tree(state["position"]),
                packet_count=state["packet_count"],
                is_ended=state["is_ended"],
                last_ts=state["last_ts"],
                depends_on_before=state["depends_on_before"],
                key_logs=[(at, size) for at, size in state["key_logs"]],
            ),
            first_ts=metadata["first_ts"],
            last_ts=metadata["last_ts"],
            spans=[(base, size) for base, size in metadata["spans"]],
            issues=[(number, CaptureIssue(*issue)) for number, issue in metadata["issues"]],
            mtime_ns=metadata["mtime_ns"],
        )

    def read_pairs(self) -> tuple[Words, Ints, Ints]:
        """By pair of endpoints: its words, the number of its first packet, and its packet count."""
        columns = self._columns
        return columns["pair.words"].reshape(-1, 5), columns["pair.firsts"], columns["pair.counts"]

    def read_copy_keys(self) -> tuple[CopyKeys, CopyKeys]:
        """The keys at the beginning and at the end of the range, as in `CopyFinder`."""
        head, latest = (CopyKeys.from_words(self._columns[f"copies.{name}"]) for name in ("head", "latest"))
        return head, latest

    def read_packets(self, span: int) -> dict[str, Ints]:
        """The columns of the packets of a span."""
        return {name: self._columns[f"{span}.{name}"] for name in PACKET_TYPES}

    def read_deferred(self, span: int) -> list[tuple[int, ...]]:
        """The deferred fragments of a span, as in `HeaderPass.deferred`."""
        return [tuple(row) for row in self._columns[f"{span}.deferred"].reshape(-1, _DEFERRED_WIDTH).tolist()]


def headers_from_columns(packets: dict[str, Any], chosen: Ints | None = None) -> PacketHeaders:
    """Headers from these columns, or from some of their rows, without endpoints."""
    columns = {name: packets[name] if chosen is None else packets[name][chosen] for name in PACKET_TYPES}
    columns["ends"] = np.zeros((len(columns["number"]), 0), dtype=np.int64)
    return PacketHeaders(*(columns[name].astype(np.int64) for name in PacketHeaders._fields))


def _position_from_tree(tree: Sequence[Any]) -> RecordPosition:
    at, order, interfaces, is_nanoseconds = tree
    return RecordPosition(at, order, tuple(Interface(*interface) for interface in interfaces), is_nanoseconds)
