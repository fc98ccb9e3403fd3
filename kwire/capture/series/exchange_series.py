"""Read the exchanges of a series of captures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kwire.capture.columnar.reader import ColumnarReader
from kwire.capture.rows.levels import options_for_level
from kwire.capture.series.series_reader import SeriesReader

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kwire.capture.kafka.exchange import Outcome
    from kwire.capture.options import Options
    from kwire.capture.tls.key_log import KeyLog


class ExchangeSeries(SeriesReader):
    """Reads the exchanges of a series."""

    def __init__(self, level: str, options: Options, keys: KeyLog) -> None:
        """For rows of one level. `keys` are the secrets of TLS connections."""
        super().__init__(level, options, keys)
        self._reader = self._open_reader()
        self._sessions = self._reader.new_sessions(level)

    def __getstate__(self) -> dict[str, Any]:
        """The state between two files, with what is known of the clients."""
        state = super().__getstate__()
        del state["_reader"]
        return {**state, "_known_clients": self._reader.clients.known}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore what `__getstate__` returned."""
        known_clients = state.pop("_known_clients")
        super().__setstate__(state)
        self._reader = self._open_reader()
        self._reader.clients.known = known_clients

    def _open_reader(self) -> ColumnarReader:
        return ColumnarReader(self._index, None, options_for_level(self._options, self._level))

    def _read_parts(self, parts: Iterable[int]) -> Iterator[Outcome]:
        for _, outcome in self._reader.outcomes_of_parts(self._sessions, parts, issues=False):
            yield outcome
