"""Stage 3 of parallel indexing: build the flows of one shard from the packets of all ranges."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kwire.capture.index import column_schema
from kwire.capture.index.arrays import NO_NUMBERS, Ints
from kwire.capture.index.column_schema import read_exchanges, write_exchanges
from kwire.capture.index.columns import Columns, new_columns_file
from kwire.capture.index.flows.flow_builder import LIMITS, FlowBuilder
from kwire.capture.index.flows.frame_columns import KIND_KEY, BodyFragments, FileWindow, StreamGapRow
from kwire.capture.index.flows.message_columns import ExchangeColumns
from kwire.capture.index.flows.other_connections import OtherConnection
from kwire.capture.index.parallel.join_ranges import JoinedRanges, WorkFolder
from kwire.capture.index.parallel.ranges import headers_from_columns
from kwire.capture.index.scan.files import CaptureFile, Source
from kwire.capture.index.scan.packet_headers import PacketHeaders, endpoints_of_words
from kwire.capture.index.stored_payload import STORED_BASE, CaptureBytes
from kwire.capture.index.streams.flow_closing import PacketTimes

# Headers are read up to this far after the start of a frame.
_PADDING_SIZE = 64
# Of each flow, what the merge needs.
_FLOW_COLUMNS = (*column_schema.FLOW_COLUMNS, "numbered_in", "end_packet")


def build_shard(source: Source, folder: WorkFolder, shard: int) -> None:
    """Build the flows of a shard of the joined ranges, and write the results to the shard's file."""
    joined = JoinedRanges(folder)
    pairs = joined.shard_pairs(shard)
    shard_pairs = np.full(len(joined.words), -1, dtype=np.int64)
    shard_pairs[pairs] = np.arange(len(pairs))
    with new_columns_file(folder.shard_path(shard)) as columns, CaptureFile(source) as file:
        read = CaptureBytes(file, joined.stored).read
        builder = FlowBuilder(read, lambda pair: endpoints_of_words(tuple(joined.words[pairs[pair]].tolist())))
        totals = []
        for span in range(len(joined.extents)):
            packets = joined.read_packets(span)
            pair = shard_pairs[packets["pair"]]
            chosen = np.nonzero(pair >= 0)[0]
            headers = headers_from_columns(packets, chosen)
            times = PacketTimes(*(packets[name].astype(np.int64) for name in PacketTimes._fields))
            result = builder.add_span(headers, pair[chosen], _read_window(file, headers), times)
            totals.append(result.totals)
            write_exchanges(columns, span, result.exchanges)
            _write_fragments(columns, f"{span}.fragments", result.fragments)
        end = builder.finish_flows()
        write_exchanges(columns, column_schema.UNANSWERED_PART, end.exchanges)
        _write_fragments(columns, "end.fragments", end.fragments)
        flows = builder.flows
        flows.pair[: len(flows)] = pairs[flows.pair[: len(flows)]]
        for name in _FLOW_COLUMNS:
            columns.add_column(f"flow.{name}", getattr(flows, name)[: len(flows)])
        columns.add_column("totals", np.array(totals, dtype=np.int64).reshape(-1))
        others = builder.take_others()
        columns.metadata = {"client_ids": builder.client_ids, "gaps": builder.take_gaps(), "others": others}


class ShardFile:
    """The file of a shard, for reading. flows: the numbers of its flows in the index (`number_flows`)."""

    def __init__(self, folder: WorkFolder, shard: int) -> None:
        """Raises: OSError, BadColumnsError."""
        self._columns = Columns.read_new_file(folder.shard_path(shard))
        self.client_ids: list[str] = self._columns.metadata["client_ids"]
        self.totals: Ints = self._columns["totals"].reshape(-1, len(LIMITS))
        """By span, the totals that are limited for all shards together."""
        self.flows: Ints = NO_NUMBERS

    def read_exchanges(self, span: int) -> ExchangeColumns:
        """The exchanges that a span completes; -1: those that the end of the capture completes."""
        request, response, completed_by = read_exchanges(self._columns, span)
        request = request._replace(frame=request.frame._replace(side=self._renumber_sides(request.frame.side)))
        response = response._replace(frame=response.frame._replace(side=self._renumber_sides(response.frame.side)))
        return ExchangeColumns(request, response, completed_by)

    def read_fragments(self, part: int | str) -> BodyFragments:
        """The body fragments of a span or of the `end`."""
        fragments = BodyFragments(*(self._columns[f"{part}.fragments.{name}"] for name in BodyFragments._fields))
        side, kind = fragments.side % KIND_KEY, fragments.side // KIND_KEY
        return fragments._replace(side=self._renumber_sides(side) + kind * KIND_KEY)

    def read_gaps(self) -> list[StreamGapRow]:
        """The stream gaps of all flows."""
        rows = (StreamGapRow(*row) for row in self._columns.metadata["gaps"])
        return [row._replace(flow=int(self.flows[row.flow])) for row in rows]

    def read_other_connections(self) -> list[OtherConnection]:
        """The flows that are not read as Kafka."""
        rows = (OtherConnection(*row) for row in self._columns.metadata["others"])
        return [row._replace(flow=int(self.flows[row.flow])) for row in rows]

    def read_flow_column(self, name: str) -> Ints:
        """A column of the shard's flows."""
        return self._columns[f"flow.{name}"]

    def _renumber_sides(self, side: Ints) -> Ints:
        """The sides with the flow numbers of the index; -1, for no side, is unchanged."""
        return np.where(side < 0, side, 2 * self.flows[side >> 1] + (side & 1)) if len(side) else side


def number_flows(shards: Sequence[ShardFile]) -> None:
    """Number the flows of all shards as one process does: by span, those of new endpoints first, by their endpoints."""
    names = "epoch", "pair", "numbered_in"
    epoch, pair, numbered_in = (np.concatenate([shard.read_flow_column(name) for shard in shards]) for name in names)
    order = np.lexsort((epoch, pair, epoch > 0, numbered_in))
    numbers = np.empty(len(order), dtype=np.int64)
    numbers[order] = np.arange(len(order))
    stop = 0
    for shard in shards:
        begin, stop = stop, stop + len(shard.read_flow_column("pair"))
        shard.flows = numbers[begin:stop]


def _write_fragments(columns: Columns, name: str, fragments: BodyFragments) -> None:
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
