"""Read the levels `flows` and `packets` of a capture that is read once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from kwire.capture.index.stream_index import StreamIndex
from kwire.capture.kafka.exchange import TrafficRow
from kwire.capture.options import Options
from kwire.capture.rows.columns import level_columns
from kwire.capture.traffic.connection_facts import StagedFacts
from kwire.capture.traffic.row_columns import RowSettings
from kwire.capture.traffic.traffic_batches import TrafficBatches


def read_stream_traffic(index: StreamIndex, level: str, options: Options) -> Iterator[tuple[int, list[TrafficRow]]]:
    """The number of each part, and its rows; for the level `packets` also those of connections, with their kinds."""
    levels = {level: [column.name for column in level_columns(level)]}
    if level == "packets":
        levels["flows"] = ["kind"]
    makers = {name: StreamTraffic(index, name, options, columns, has_ns=True) for name, columns in levels.items()}
    for part in index.parts():
        batches = ((name, batch) for name, maker in makers.items() for batch in maker.read_part(part))
        yield part, [TrafficRow(name, row) for name, batch in batches for row in batch.to_pylist()]


class StreamTraffic:
    """Makes the rows of one level, part by part."""

    def __init__(
        self, index: StreamIndex, level: str, options: Options, columns: Sequence[str], *, has_ns: bool
    ) -> None:
        """Args: has_ns: as in `RowSettings`."""
        self._index = index
        settings = RowSettings(columns, options.name or index.file, (), options.ports, has_ns)
        self._batches = TrafficBatches(level, settings)

    def read_part(self, part: int) -> Iterator[pa.RecordBatch]:
        """The rows that the latest part completes. Args: part: its number."""
        latest = self._index.latest
        if part >= 0:
            return self._batches.add_span(latest.headers, latest.pair, latest.divided, self._facts())
        return self._batches.finish(latest.divided, self._facts())

    def flush(self) -> Iterator[pa.RecordBatch]:
        """The rows of connections that are closed and wait for others before them."""
        return self._batches.flush(self._facts())

    def _facts(self) -> StagedFacts:
        index = self._index
        others = {row.flow: row.kind for row in index.latest.others}
        return StagedFacts(index.table, others, index.find_ends, index.file_packet_numbers, tls_flows=index.tls_flows)
