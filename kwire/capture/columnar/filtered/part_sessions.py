"""Track the fetch sessions of the exchanges of a part, in the order of completion."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kwire.capture.columnar.session_columns import STATELESS, find_stateless_fetches, session_exchanges
from kwire.capture.kafka.exchange import Exchange
from kwire.capture.kafka.session_tracker import SESSION_API_KEYS, SessionTracker

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kwire.capture.columnar.exchange_builder import ExchangeBuilder
    from kwire.capture.columnar.session_columns import FetchBodies
    from kwire.capture.index.arrays import Ints
    from kwire.capture.index.flows.message_columns import ExchangeColumns
    from kwire.capture.kafka.fetch_sessions import FetchSession
    from kwire.capture.kafka.session_tracker import SessionExchange

# This many exchanges are read at once.
_SLICE_SIZE = 2048


class PartSessions:
    """The sessions of the fetches of a part, tracked as far as they are needed."""

    def __init__(
        self,
        sessions: SessionTracker,
        builder: ExchangeBuilder,
        exchanges: ExchangeColumns,
        bodies: FetchBodies,
    ) -> None:
        """For the exchanges of a part."""
        self._sessions = sessions
        fetches: Ints = np.nonzero(np.isin(exchanges.request.api_key, SESSION_API_KEYS) & ~bodies.is_cut)[0]
        is_stateless = find_stateless_fetches(exchanges, fetches, bodies)
        self._values: dict[int, FetchSession | None] = dict.fromkeys(fetches[is_stateless].tolist(), STATELESS)
        self._found = self._read_exchanges(builder, exchanges, fetches[~is_stateless], bodies)
        self._reached = -1

    def get(self, row: int) -> FetchSession | None:
        """The session of a row; None for one without."""
        while self._reached < row and row not in self._values and self._track_next():
            pass
        return self._values.get(row)

    def follow_rest(self) -> None:
        """Track the fetches that are left."""
        while self._track_next():
            pass

    def _track_next(self) -> bool:
        found = next(self._found, None)
        if found is None:
            return False
        self._reached, exchange = found
        if isinstance(exchange, Exchange):
            self._values[self._reached] = self._sessions.follow(exchange)
        else:
            self._values[self._reached] = self._sessions.follow_request(exchange)
        return True

    def _read_exchanges(
        self, builder: ExchangeBuilder, exchanges: ExchangeColumns, fetches: Ints, bodies: FetchBodies
    ) -> Iterator[tuple[int, Exchange | SessionExchange]]:
        for at in range(0, len(fetches), _SLICE_SIZE):
            rows = fetches[at : at + _SLICE_SIZE]
            found = session_exchanges(builder, exchanges, rows, bodies)
            yield from zip(rows.tolist(), found, strict=True)
