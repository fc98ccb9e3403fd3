"""Read the connections and packets of a series of captures, for the levels `flows` and `packets`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.capture.kafka.exchange import TrafficRow
from kwire.capture.rows.columns import level_columns
from kwire.capture.series.series_reader import SeriesReader
from kwire.capture.traffic.stream_traffic import StreamTraffic

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

    from kwire.capture.kafka.exchange import Outcome
    from kwire.capture.options import Options
    from kwire.capture.tls.key_log import KeyLog


class TrafficSeries(SeriesReader):
    """Reads the connections of a series, or its packets."""

    def __init__(self, level: str, options: Options, keys: KeyLog) -> None:
        """For rows of one level. `keys` are the secrets of TLS connections."""
        super().__init__(level, options, keys)
        columns = [column.name for column in level_columns(level)]
        self._traffic = StreamTraffic(self._index, level, options, columns, has_ns=True)

    def _read_parts(self, parts: Iterable[int]) -> Iterator[Outcome]:
        part = None
        for part in parts:
            yield from self._rows(self._traffic.read_part(part))
        if part is not None:
            # The rows of closed connections do not wait for those of the next file.
            yield from self._rows(self._traffic.flush())

    def _rows(self, batches: Iterator[pa.RecordBatch]) -> Iterator[TrafficRow]:
        return (TrafficRow(self._level, row) for batch in batches for row in batch.to_pylist())
