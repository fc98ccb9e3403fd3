"""The exchanges of a part of a capture with their bodies decoded in columns, as `ExchangeRows` or as objects."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kwire.capture.columnar import body_columns, session_columns
from kwire.capture.columnar.body_columns import BodyColumns
from kwire.capture.columnar.damaged_rows import DamagedRows
from kwire.capture.columnar.formats.exchange_rows import ExchangeRows
from kwire.capture.columnar.session_columns import FetchBodies
from kwire.capture.columnar.span_data import NO_DATA
from kwire.capture.kafka.session_tracker import SESSION_API_KEYS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    import pyarrow as pa

    from kwire.capture.columnar.filtered.part_sessions import PartSessions
    from kwire.capture.columnar.reader import ColumnarReader
    from kwire.capture.columnar.session_columns import SessionValues
    from kwire.capture.index.arrays import Ints
    from kwire.capture.index.flows.message_columns import ExchangeColumns
    from kwire.capture.kafka.exchange import Exchange
    from kwire.capture.kafka.fetch_sessions import FetchSession


class DecodedPart:
    """The exchanges of a part.

    is_wanted: which may match all conditions; all at first. is_good: which have valid bodies, as far as columns need
    them. damaged: incomplete ones that are read in columns too. sessions, session_values: where they are tracked.
    """

    def __init__(
        self,
        reader: ColumnarReader,
        part: int,
        exchanges: ExchangeColumns,
        plain: Ints,
        columns: Collection[str],
        *,
        with_damaged: bool,
    ) -> None:
        """Decode what the columns need of the exchanges `plain`, and, if wanted, of incomplete ones."""
        self._reader = reader
        self.exchanges = exchanges
        self.plain = plain
        self.span = NO_DATA
        self.is_wanted = np.ones(len(exchanges), dtype=np.bool_)
        self.is_good = exchanges.request.body >= 0
        self.damaged: DamagedRows | None = None
        self.sessions: PartSessions | None = None
        self.session_values: SessionValues | None = None
        needed = body_columns.COLUMNS.intersection(columns)
        incomplete = np.nonzero((exchanges.request.body < -1) & with_damaged)[0]
        if needed:
            self.span = reader.read_span_data(part, exchanges.select(np.union1d(plain, incomplete)))
            self._decoded = BodyColumns(self.span, exchanges.select(plain), needed)
            self.is_good = np.zeros(len(exchanges), dtype=np.bool_)
            self.is_good[plain] = self._decoded.is_good
        if len(incomplete):
            self.damaged = DamagedRows(reader.bodies, self.span, exchanges, incomplete, needed)

    def rows(self, chosen: Ints) -> ExchangeRows:
        """Some of the exchanges that are plain; those that are not good have no valid columns of bodies."""
        exchanges, places = self.exchanges.select(chosen), np.searchsorted(self.plain, chosen)

        def build_column(name: str) -> pa.Array:
            if name in body_columns.COLUMNS:
                return self._decoded.build_column(name, places)
            if self.session_values is not None and name in session_columns.COLUMNS:
                return session_columns.build_column(self.session_values, name, chosen)
            return self._reader.header_columns.build_column(name, exchanges)

        return ExchangeRows(exchanges, self.span, self._sessions_of(chosen), build_column)

    def damaged_rows(self, chosen: Ints) -> ExchangeRows:
        """Some of the exchanges of `damaged`."""
        assert self.damaged is not None
        damaged = self.damaged.select(chosen)

        def build_column(name: str) -> pa.Array:
            if name in body_columns.COLUMNS:
                return damaged.build_column(name)
            return self._reader.header_columns.build_column(name, damaged.exchanges)

        return ExchangeRows(damaged.exchanges, self.span, self._sessions_of(chosen), build_column, damaged)

    def build_exchanges(self, chosen: Ints) -> Iterator[Exchange]:
        """Some of the exchanges, as objects."""
        built = self._reader.exchange_builder.build_exchanges(self.exchanges.select(chosen))
        for row, (_, exchange) in zip(chosen.tolist(), built, strict=True):
            if self.sessions is not None:
                exchange.session = self.sessions.get(row)
            yield exchange

    def fetch_bodies(self) -> FetchBodies:
        """What sessions can be read of."""
        damaged = self.damaged
        if damaged is None:
            return FetchBodies.of_valid(self.span, self.is_good)
        is_asked, is_answered, is_cut = self.is_good.copy(), self.is_good.copy(), np.zeros_like(self.is_good)
        is_asked[damaged.chosen], is_answered[damaged.chosen] = damaged.is_asked, damaged.is_answered
        is_cut[damaged.chosen] = ~damaged.is_asked
        return FetchBodies(self.span, is_asked, is_answered, is_cut)

    def _sessions_of(self, chosen: Ints) -> list[FetchSession | None]:
        sessions: list[FetchSession | None] = [None] * len(chosen)
        if self.sessions is not None:
            is_fetch = np.isin(self.exchanges.request.api_key[chosen], SESSION_API_KEYS)
            for at in np.nonzero(is_fetch)[0].tolist():
                sessions[at] = self.sessions.get(int(chosen[at]))
        return sessions
