"""Stage 3 of parallel indexing: build the flows of one shard from the packets of all ranges."""

from __future__ import annotations

import numpy as np

from kwire.capture.index import column_schema
from kwire.capture.index.arrays import Ints
from kwire.capture.index.column_schema import read_exchanges, write_exchanges
from kwire.capture.index.columns import Columns, new_columns_file
from kwire.capture.index.flows.flow_builder import LIMITS, FlowBuilder
from kwire.capture.index.flows.flow_closing import PacketTimes
from kwire.capture.index.flows.frame_columns import KIND_KEY, BodyFragments, FileWindow, StreamGapRow
from kwire.capture.index.flows.message_columns import ExchangeColumns, renumber_flows, renumber_sides
from kwire.capture.index.parallel.join_ranges import JoinedRanges, WorkFolder
from kwire.capture.index.parallel.ranges import headers_from_columns
from kwire.capture.index.scan.files import CaptureFile, Source
from kwire.capture.index.scan.packet_headers import PacketHeaders
from kwire.capture.index.stored_payload import STORED_BASE, CaptureBytes

# Headers are read up to this far after the start of a frame.
_PADDING_SIZE = 64


def build_shard(source: Source, folder: WorkFolder, shard: int) -> None:
    """Build the flows of a shard of the joined ranges, and write the results to the shard's file."""
    joined = JoinedRanges(folder)
    flows = joined.shard_flows(shard)
    shard_flows = np.full(len(joined.words), -1, dtype=np.int64)
    shard_flows[flows] = np.arange(len(flows))
    with new_columns_file(folder.shard_path(shard)) as columns, CaptureFile(source) as file:
        # Limits for all flows together are checked by the merge.
        builder = FlowBuilder(CaptureBytes(file, joined.stored).read, is_limited=joined.shards == 1)
        totals = []
        for span in range(len(joined.extents)):
            packets = joined.read_packets(span)
            flow = shard_flows[packets["flow"]]
            chosen = np.nonzero(flow >= 0)[0]
            headers = headers_from_columns(packets, chosen)
            times = PacketTimes(*(packets[name].astype(np.int64) for name in PacketTimes._fields))
            result = builder.add_span(headers, flow[chosen], _read_window(file, headers), times)
            totals.append(result.totals)
            write_exchanges(columns, span, renumber_flows(result.exchanges, flows))
            _write_fragments(columns, f"{span}.fragments", result.fragments, flows)
        end = builder.finish_flows()
        write_exchanges(columns, column_schema.UNANSWERED_PART, renumber_flows(end.exchanges, flows))
        _write_fragments(columns, "end.fragments", end.fragments, flows)
        for name in column_schema.FLOW_COLUMNS:
            columns.add_column(f"flow.{name}", getattr(builder.flows, name)[: len(flows)])
        columns.add_column("flow.end_packet", builder.flows.end_packet[: len(flows)])
        columns.add_column("totals", np.array(totals, dtype=np.int64).reshape(-1))
        gaps = [gap._replace(flow=int(flows[gap.flow])) for gap in builder.gaps()]
        columns.metadata = {"client_ids": builder.client_ids, "gaps": gaps}


class ShardFile:
    """The file of a shard, for reading. Flows have the numbers of the index."""

    def __init__(self, folder: WorkFolder, shard: int) -> None:
        """Raises: OSError, BadColumnsError."""
        self._columns = Columns.read_new_file(folder.shard_path(shard))
        self.client_ids: list[str] = self._columns.metadata["client_ids"]
        self.totals: Ints = self._columns["totals"].reshape(-1, len(LIMITS))
        """By span, the totals that are limited for all shards together."""

    def read_exchanges(self, span: int) -> ExchangeColumns:
        """The exchanges that a span completes; -1: those that the end of the capture completes."""
        return read_exchanges(self._columns, span)

    def read_fragments(self, part: int | str) -> BodyFragments:
        """The body fragments of a span or of the `end`."""
        return BodyFragments(*(self._columns[f"{part}.fragments.{name}"] for name in BodyFragments._fields))

    def read_gaps(self) -> list[StreamGapRow]:
        """The stream gaps of all flows."""
        return [StreamGapRow(*row) for row in self._columns.metadata["gaps"]]

    def read_flow_column(self, name: str) -> Ints:
        """A column of the shard's flows."""
        return self._columns[f"flow.{name}"]


def _write_fragments(columns: Columns, name: str, fragments: BodyFragments, flows: Ints) -> None:
    side, kind = fragments.side % KIND_KEY, fragments.side // KIND_KEY
    fragments = fragments._replace(side=renumber_sides(side, flows) + kind * KIND_KEY)
    for field, column in fragments._asdict().items():
        columns.add_column(f"{name}.{field}", column)


def _read_window(file: CaptureFile, headers: PacketHeaders) -> FileWindow:
    """The part of the file that contains the payloads of these packets."""
    has_payload = np.nonzero((headers.at < STORED_BASE) & (headers.captured > 0))[0]
    if not len(has_payload):
        return FileWindow(0, b"")
    base = int(headers.at[has_payload].min())
    end = int((headers.at[has_payload] + headers.captured[has_payload]).max())
    return FileWindow(base, file.read(base, end - base + _PADDING_SIZE))
