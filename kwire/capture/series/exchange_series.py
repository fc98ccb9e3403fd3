"""Read the exchanges of a series of captures, by columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from kwire.capture.columnar.reader import ColumnarReader
from kwire.capture.index.column_schema import UNANSWERED_PART
from kwire.capture.index.stream_index import StreamIndex
from kwire.capture.model import CaptureError
from kwire.capture.rows.levels import options_for_level
from kwire.capture.series.series_reader import SeriesReader

if TYPE_CHECKING:
    from kwire.capture.index.scan.packet_headers import PacketHeaders
    from kwire.capture.index.scan.stream_headers import HeaderBatch
    from kwire.capture.kafka.exchange import Outcome
    from kwire.capture.model import CaptureIssue, Packet
    from kwire.capture.options import Options
    from kwire.capture.tls.key_log import KeyLog


class ExchangeSeries(SeriesReader):
    """Reads the exchanges of a series."""

    def __init__(self, level: str, options: Options, keys: KeyLog) -> None:
        """For rows of one level. `keys` are the secrets of TLS connections."""
        super().__init__(options)
        self._level = level
        self._options = options
        self._index = StreamIndex("", (), options, keys, may_get_keys=True)
        self._reader = self._open_reader()
        self._sessions = self._reader.new_sessions(level)

    def read_headers(self, batch: HeaderBatch) -> Iterator[Outcome]:
        """As in `SeriesReader`."""
        self._index.add_headers(batch)
        yield from self._read_parts((0,))

    def expire(self, before_ts: int) -> Iterator[Outcome]:
        """As in `SeriesReader`."""
        if self._index.has_packets:
            self._index.expire(before_ts)
            yield from self._read_parts((0,))

    def close(self) -> Iterator[Outcome]:
        """As in `SeriesReader`."""
        self._index.add_end()
        yield from self._read_parts((UNANSWERED_PART,))

    def __getstate__(self) -> dict[str, Any]:
        """The state between two files, with what is known of the clients."""
        return {**super().__getstate__(), "_known_clients": self._reader.clients.known}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore what `__getstate__` returned."""
        known_clients = state.pop("_known_clients")
        super().__setstate__(state)
        self._reader = self._open_reader()
        self._reader.clients.known = known_clients

    def _open_reader(self) -> ColumnarReader:
        self._index.select_packets = self._select_packets
        return ColumnarReader(self._index, None, options_for_level(self._options, self._level))

    def _read_packets(self, packets: Iterable[Packet | CaptureIssue], *, issues: bool) -> Iterator[Outcome]:
        failure: CaptureError | OSError | None = None
        try:
            yield from self._read_parts(self._index.read_file(packets))
        except (CaptureError, OSError) as error:
            failure = error
        found = self._index.end_file()
        if issues:
            yield from (issue for _, issue in found)
        if failure is not None:
            raise failure

    def _read_parts(self, parts: Iterable[int]) -> Iterator[Outcome]:
        """The outcomes of parts; what only these needed is dropped behind them."""
        yield from self._reader.outcomes_of_parts(self._sessions, parts, issues=False)
        if self._index.has_packets:
            self._index.drop_part()

    def _select_packets(self, headers: PacketHeaders) -> PacketHeaders:
        """The packets between the hosts that are read."""
        if len(headers.number):
            self._note_times(int(headers.ts[0]), int(headers.ts.max()))
        return headers if self._hosts is None else headers.select(np.nonzero(self._hosts.includes(headers.ends))[0])
