"""Stage 4 of parallel indexing: merge the shards, span by span; the index is the same as that of one process."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from kwire.capture.index.arrays import Ints, concatenate_rows
from kwire.capture.index.build import renumber_client_ids
from kwire.capture.index.column_schema import FLOW_COLUMNS, UNANSWERED_PART
from kwire.capture.index.columns import Columns
from kwire.capture.index.flows import message_columns
from kwire.capture.index.flows.flow_builder import LIMITS
from kwire.capture.index.flows.frame_columns import BodyFragments, FrameColumns, sort_gaps
from kwire.capture.index.flows.message_columns import ExchangeColumns
from kwire.capture.index.flows.other_connections import sort_connections
from kwire.capture.index.index_writer import IndexWriter
from kwire.capture.index.parallel.join_ranges import JoinedRanges, WorkFolder, join_range_files
from kwire.capture.index.parallel.shards import ShardFile, build_shard, number_flows
from kwire.capture.index.scan.files import Source


def merge_shard_files(source: Source, folder: WorkFolder, columns: Columns) -> None:
    """Write the index of a file whose shards are all built."""
    joined = JoinedRanges(folder)
    shards = [ShardFile(folder, number) for number in range(joined.shards)]
    if len(shards) > 1 and bool((np.sum([shard.totals for shard in shards], axis=0) > LIMITS).any()):
        # What is dropped at the limit depends on all flows together, so one builder must build all of them.
        join_range_files(source, folder, joined.ranges, 1)
        build_shard(source, folder, 0)
        merge_shard_files(source, folder, columns)
        return
    writer = IndexWriter(columns)
    texts = [text for shard in shards for text in shard.client_ids]
    firsts = np.cumsum([0, *(len(shard.client_ids) for shard in shards[:-1])]).tolist()
    renumberings = [_ShardRenumbering(first) for first in firsts]
    number_flows(shards)
    end_packets = _merge_flow_column(shards, "end_packet")

    def merge_exchanges(part: int) -> ExchangeColumns:
        """The exchanges of a part in the order of completion."""
        parts = [renumber(shard.read_exchanges(part)) for shard, renumber in zip(shards, renumberings, strict=True)]
        merged = message_columns.concatenate_exchanges(parts)
        return merged.select(message_columns.completion_order(merged, end_packets)) if len(shards) > 1 else merged

    def write_span(stored: bytes, *span: Any) -> None:
        writer.stored.add_span(stored)
        writer.write_span(*span)

    fragment_count = 0
    # A thread writes one span while the next is merged.
    with ThreadPoolExecutor(1) as executor:
        pending_write: Future[None] | None = None
        for span, extent in enumerate(joined.extents):
            shard_fragments = [shard.read_fragments(span) for shard in shards]
            fragments = _merge_fragments(shard_fragments, renumberings, fragment_count)
            fragment_count += len(fragments.at)
            exchanges = renumber_client_ids(merge_exchanges(span), writer.clients, texts)
            packets = joined.read_packets(span)
            if pending_write is not None:
                pending_write.result()
            stored = joined.stored.read(*joined.stored.extents[span])
            pending_write = executor.submit(write_span, stored, extent, packets, exchanges, fragments)
        if pending_write is not None:
            pending_write.result()
    end_fragments = _merge_fragments([shard.read_fragments("end") for shard in shards], renumberings, fragment_count)
    unanswered = merge_exchanges(UNANSWERED_PART)
    unanswered = unanswered.select(np.argsort(unanswered.flow, kind="stable"))
    unanswered = renumber_client_ids(unanswered, writer.clients, texts)
    gaps = sort_gaps(gap for shard in shards for gap in shard.read_gaps())
    others = sort_connections(other for shard in shards for other in shard.read_other_connections())
    flows: dict[str, Any] = {name: _merge_flow_column(shards, name) for name in FLOW_COLUMNS}
    flows["words"] = joined.words
    writer.write_end(flows, unanswered, end_fragments, gaps, others)
    writer.write_metadata(joined.index)


def _merge_flow_column(shards: Sequence[ShardFile], name: str) -> Ints:
    """A column of flows, by their numbers in the index."""
    column = np.zeros(sum(len(shard.flows) for shard in shards), dtype=np.int64)
    for shard in shards:
        column[shard.flows] = shard.read_flow_column(name)
    return column


class _ShardRenumbering:
    """Gives the exchanges of a shard the fragment numbers of the index, and client ids in the list of all shards."""

    def __init__(self, first_client: int) -> None:
        """`first_client`: the number of its first client id in the list of all shards."""
        self._first_client = first_client
        self._columns = Columns()
        self._firsts = [0]

    def add_span(self, numbers: Ints) -> None:
        """Add the numbers of the fragments of one more span."""
        self._columns.add_column(str(len(self._firsts) - 1), numbers)
        self._firsts.append(self._firsts[-1] + len(numbers))

    def __call__(self, exchanges: ExchangeColumns) -> ExchangeColumns:
        """The exchanges with the new numbers."""
        request, response, completed_by = exchanges
        client_id = np.where(request.client_id < 0, request.client_id, request.client_id + self._first_client)
        request = request._replace(frame=self._renumber_frames(request.frame), client_id=client_id)
        response = response._replace(frame=self._renumber_frames(response.frame))
        return ExchangeColumns(request, response, completed_by)

    def _renumber_frames(self, frames: FrameColumns) -> FrameColumns:
        chosen = np.nonzero((frames.at < 0) & (frames.fragment_count > 0))[0]
        if not len(chosen):
            return frames
        fragment_numbers = -1 - frames.at[chosen]
        numbers = np.empty(len(fragment_numbers), dtype=np.int64)
        spans = np.searchsorted(self._firsts, fragment_numbers, "right") - 1
        for span in np.unique(spans).tolist():
            in_span = np.nonzero(spans == span)[0]
            numbers[in_span] = self._columns[str(span)][fragment_numbers[in_span] - self._firsts[span]]
        at = frames.at.copy()
        at[chosen] = -1 - numbers
        return frames._replace(at=at)


def _merge_fragments(
    parts: list[BodyFragments], renumberings: Sequence[_ShardRenumbering], before: int
) -> BodyFragments:
    """The fragments of all shards in the order of their sides. Args: before: number of fragments in earlier spans."""
    merged = concatenate_rows(*parts)
    order = np.argsort(merged.side, kind="stable")
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(before, before + len(order))
    first = 0
    for part, renumbering in zip(parts, renumberings, strict=True):
        renumbering.add_span(rank[first : first + len(part.at)])
        first += len(part.at)
    return merged.select(order)
