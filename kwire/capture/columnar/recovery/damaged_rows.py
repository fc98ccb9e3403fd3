"""Build rows of messages of which one side, or both, are incomplete, by columns: the complete side is decoded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from kwire.capture.columnar import body_columns
from kwire.capture.columnar.batch_merge import RowBatch
from kwire.capture.columnar.body_columns import BodyColumns, exchanges_by_version, message_name
from kwire.capture.columnar.decode_plan import message_plan
from kwire.capture.columnar.recovery.recovery_builder import body_offsets
from kwire.capture.columnar.span_data import NO_DATA
from kwire.capture.index.flows.pairing import ExchangeColumns
from kwire.capture.kafka.message_decoder import API_VERSIONS, damage_detail
from kwire.capture.model import RowIssue
from kwire.capture.rows.columns import arrow_schema
from kwire.capture.rows.message_rows import GAP, TRUNCATED

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kwire.capture.columnar.body_reader import BodyReader
    from kwire.capture.columnar.span_data import SpanData
    from kwire.capture.index.arrays import Bools
    from kwire.capture.index.flows.frame_scan import FrameColumns

_COUNTS = ("n_topics", "n_partitions")


class DamagedRows:
    """The rows of some exchanges of a part. `chosen`: those of them whose rows can be built here."""

    def __init__(self, bodies: BodyReader, span: SpanData, exchanges: ExchangeColumns, columns: Sequence[str]) -> None:
        """Args: exchanges: of any kind. columns: those that will be built."""
        body = body_offsets(exchanges.request.body)
        is_possible = (body >= 0) & (exchanges.response.frame.size >= 0) & _is_usual(exchanges)
        rows = np.nonzero(is_possible)[0]
        exchanges = exchanges.select(rows)
        self._damages = [
            _read_damages(bodies, frames) for frames in (exchanges.request.frame, exchanges.response.frame)
        ]
        self._is_whole = [np.array([each is None for each in side], dtype=np.bool_) for side in self._damages]
        request = exchanges.request._replace(body=body[rows])
        self._exchanges = ExchangeColumns(request, exchanges.response, exchanges.completed_by)
        needed = body_columns.COLUMNS.intersection(columns)
        self._decoded = BodyColumns(span if needed else NO_DATA, self._exchanges, needed, *self._is_whole)
        self._rows = np.nonzero(self._decoded.is_good)[0]
        self.chosen = rows[self._rows]

    def build_batch(self, columns: Sequence[str], build_column: Callable[[str, ExchangeColumns], pa.Array]) -> RowBatch:
        """The rows. Args: build_column: builds the columns that do not depend on bodies."""
        schema, exchanges = arrow_schema("messages"), self._exchanges.select(self._rows)
        arrays = [
            self._build_column(name) if name in body_columns.COLUMNS else build_column(name, exchanges)
            for name in columns
        ]
        batch = pa.RecordBatch.from_arrays(arrays, schema=pa.schema([schema.field(name) for name in columns]))
        return RowBatch(batch, exchanges.request.frame.ts, exchanges.request.frame.offset)

    def _build_column(self, name: str) -> pa.Array:
        kind = arrow_schema("messages").field(name).type
        rows = self._rows
        if name == "issues":
            return pa.array([self._issues(row) for row in rows.tolist()], type=kind)
        if name == "status":
            return pa.array([self._status(row) for row in rows.tolist()], type=kind)
        column = self._decoded.build_column(name, rows)
        if name not in _COUNTS:
            return column
        is_known = (self._is_whole[0] | self._is_whole[1])[rows]
        return pa.array(column.to_numpy(), type=kind, mask=~is_known)

    def _issues(self, row: int) -> list[dict[str, Any]]:
        frames = self._exchanges.request.frame, self._exchanges.response.frame
        issues = []
        for name, side, frame in zip(("request", "response"), self._damages, frames, strict=True):
            damage = side[row]
            if damage is not None:
                kind, detail = damage_detail(damage[0], damage[1], int(frame.size[row]))
                issues.append(RowIssue(kind, name, "", damage[1], detail)._asdict())
        return issues

    def _status(self, row: int) -> str:
        damages = [side[row] for side in self._damages]
        return GAP if any(damage is not None and damage[0] == "gap" for damage in damages) else TRUNCATED


def _read_damages(bodies: BodyReader, frames: FrameColumns) -> list[tuple[str, int] | None]:
    """The damage of each frame, and how many of its bytes precede the first missing one; None for a whole frame."""
    rows = zip(frames.at.tolist(), frames.fragment_count.tolist(), frames.size.tolist(), strict=True)
    return [bodies.find_damage(at, count, size) if at < 0 else None for at, count, size in rows]


def _is_usual(exchanges: ExchangeColumns) -> Bools:
    """Which exchanges have no other issues: their API and version are known, and the response has the same version."""
    out = np.zeros(len(exchanges), dtype=np.bool_)
    for api_key, version, is_member in exchanges_by_version(exchanges):
        if api_key >= 0 and api_key != API_VERSIONS and (exchanges.request.body[is_member] < -1).any():
            out |= is_member & (message_plan(message_name(api_key, "Request"), version) is not None)
    return out
