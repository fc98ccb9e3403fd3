"""Build rows of messages of which one side, or both, are incomplete, by columns: the complete side is decoded."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from kwire.capture.columnar import body_columns, json_columns
from kwire.capture.columnar.body_columns import BodyColumns, exchanges_by_version, message_name
from kwire.capture.columnar.decode_plan import message_plan
from kwire.capture.columnar.span_data import NO_DATA
from kwire.capture.index.flows.frame_columns import DAMAGES
from kwire.capture.index.flows.message_columns import ExchangeColumns, body_offsets
from kwire.capture.kafka.message_decoder import API_VERSIONS, damage_detail
from kwire.capture.model import RowIssue
from kwire.capture.rows.columns import arrow_schema
from kwire.capture.rows.message_rows import GAP, STATUSES, TRUNCATED

if TYPE_CHECKING:
    from collections.abc import Collection

    from kwire.capture.columnar.body_reader import BodyReader
    from kwire.capture.columnar.span_data import SpanData
    from kwire.capture.index.arrays import Bools, Ints
    from kwire.capture.options import Options

_COUNTS = ("n_topics", "n_partitions")
_LOST = DAMAGES.index("gap")


class DamagedRows:
    """The rows of some incomplete exchanges of a part.

    chosen: those whose rows can be built here. exchanges: these. is_asked, is_answered: which of these have a complete
    request, or response.
    """

    def __init__(
        self,
        bodies: BodyReader,
        span: SpanData,
        exchanges: ExchangeColumns,
        incomplete: Ints,
        columns: Collection[str],
    ) -> None:
        """Args: exchanges: of a part. incomplete: those of which a side is marked as damaged. columns: those that will
        be built.
        """
        rows = incomplete[_are_usual(exchanges.select(incomplete))]
        exchanges = exchanges.select(rows)
        damages = [bodies.find_damages(frames) for frames in (exchanges.request.frame, exchanges.response.frame)]
        is_whole = [side.cause < 0 for side in damages]
        request = exchanges.request._replace(body=body_offsets(exchanges.request.body))
        exchanges = ExchangeColumns(request, exchanges.response, exchanges.completed_by)
        needed = body_columns.COLUMNS.intersection(columns)
        self._span = span if needed else NO_DATA
        self._decoded = BodyColumns(self._span, exchanges, needed, *is_whole)
        self._rows = np.nonzero(self._decoded.is_good)[0]
        self._damages = [side.select(self._rows) for side in damages]
        self.chosen = rows[self._rows]
        self.exchanges = exchanges.select(self._rows)
        self.is_asked, self.is_answered = (side.cause < 0 for side in self._damages)

    def select(self, chosen: Ints) -> DamagedRows:
        """Some of the rows. Args: chosen: a part of `chosen`."""
        part = copy(self)
        places = np.searchsorted(self.chosen, chosen)
        part.chosen, part._rows, part.exchanges = chosen, self._rows[places], self.exchanges.select(places)
        part._damages = [side.select(places) for side in self._damages]
        part.is_asked, part.is_answered = self.is_asked[places], self.is_answered[places]
        return part

    def build_column(self, name: str) -> pa.Array:
        """One of the columns that depend on bodies."""
        kind = arrow_schema("messages").field(name).type
        if name == "issues":
            return pa.array([[issue._asdict() for issue in issues] for issues in self.issues()], type=kind)
        if name == "status":
            return pa.array(self.statuses(), type=kind)
        column = self._decoded.build_column(name, self._rows)
        if name not in _COUNTS:
            return column
        return pa.array(column.to_numpy(), type=kind, mask=~(self.is_asked | self.is_answered))

    def json_texts(self, name: str, options: Options, *, is_escaped: bool = False) -> list[str | None]:
        """One of the columns of bodies as JSON; null for an incomplete body."""
        is_whole = self.is_asked if name == "body_request" else self.is_answered
        rows = np.nonzero(is_whole)[0]
        texts: list[str | None] = [None] * len(is_whole)
        made = json_columns.json_texts(name, self._span, self.exchanges.select(rows), options, is_escaped=is_escaped)
        for row, text in zip(rows.tolist(), made, strict=True):
            texts[row] = text
        return texts

    def _is_lost(self) -> Bools:
        request, response = self._damages
        is_lost: Bools = (request.cause == _LOST) | (response.cause == _LOST)
        return is_lost

    def statuses(self) -> list[str]:
        """The column `status`."""
        return [GAP if each else TRUNCATED for each in self._is_lost().tolist()]

    def status_numbers(self) -> Ints:
        """The index of each status in `STATUSES`."""
        numbers: Ints = np.where(self._is_lost(), STATUSES.index(GAP), STATUSES.index(TRUNCATED))
        return numbers

    def issues(self) -> list[list[RowIssue]]:
        """The issues of each row."""
        frames = self.exchanges.request.frame, self.exchanges.response.frame
        issues: list[list[RowIssue]] = [[] for _ in self.chosen]
        for side, (causes, counts), frame in zip(("request", "response"), self._damages, frames, strict=True):
            rows: Ints = np.nonzero(causes >= 0)[0]
            columns = (rows, causes[rows], counts[rows], frame.size[rows])
            for row, cause, have, size in zip(*(column.tolist() for column in columns), strict=True):
                kind, detail = damage_detail(DAMAGES[cause], have, size)
                issues[row].append(RowIssue(kind, side, "", have, detail))
        return issues


def _are_usual(exchanges: ExchangeColumns) -> Bools:
    """Which exchanges have no other issues: their API and version are known, and the response has the same version."""
    out = np.zeros(len(exchanges), dtype=np.bool_)
    for api_key, version, is_member in exchanges_by_version(exchanges):
        if api_key >= 0 and api_key != API_VERSIONS:
            out |= is_member & (message_plan(message_name(api_key, "Request"), version) is not None)
    return out & (exchanges.response.frame.size >= 0)
