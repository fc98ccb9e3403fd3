"""Read the levels `flows` and `packets` of an index: from the headers of packets, without their payload."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import numpy as np
import pyarrow as pa

from kwire.capture.index.arrays import NO_NUMBERS, Ints
from kwire.capture.index.model import FlowKey, Index
from kwire.capture.index.parallel.ranges import headers_from_columns
from kwire.capture.index.rebuilt import rebuild_flows
from kwire.capture.index.streams.connections import Connections, DividedSpan
from kwire.capture.index.streams.flow_table import FlowTable
from kwire.capture.optional_dependencies import require_cryptography
from kwire.capture.options import Options
from kwire.capture.traffic.connection_facts import IndexedFacts
from kwire.capture.traffic.row_columns import RowSettings
from kwire.capture.traffic.traffic_batches import TrafficBatches


def read_traffic(
    index: Index,
    flows: Collection[FlowKey] | None,
    level: str,
    options: Options,
    columns: Sequence[str],
    *,
    has_ns: bool = False,
) -> Iterator[pa.RecordBatch]:
    """The rows of chosen flows, with these columns. Args: flows: None for all. has_ns: as in `RowSettings`."""
    if options.has_key_logs:
        require_cryptography()
    starts = index.file_starts if options.name is None else ()
    settings = RowSettings(columns, options.name or index.file, starts, options.ports, has_ns)
    pairs = _choose_pairs(index, flows)
    table = FlowTable()
    connections = Connections(table)
    facts = IndexedFacts(rebuild_flows(index, flows, options), table, pairs)
    batches = TrafficBatches(level, settings)
    numbers = np.full(len(index.keys), -1, dtype=np.int64)
    numbers[pairs] = np.arange(len(pairs))
    for part in range(len(index.spans) if len(pairs) else 0):
        packets = index.read_packets(part)
        pair = numbers[packets.pair]
        chosen = None if len(pairs) == len(numbers) else np.nonzero(pair >= 0)[0]
        headers = headers_from_columns(packets._asdict(), chosen)
        pair = pair if chosen is None else pair[chosen]
        span = connections.divide_packets(headers, pair, index.packet_times(part))
        yield from batches.add_span(headers, pair, span, facts)
    yield from batches.finish(DividedSpan(connections.end_all(), NO_NUMBERS, []), facts)


def _choose_pairs(index: Index, flows: Collection[FlowKey] | None) -> Ints:
    """The numbers of the endpoints of flows, ascending."""
    return np.array([number for number, key in enumerate(index.keys) if flows is None or key in flows], dtype=np.int64)
