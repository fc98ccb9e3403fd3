"""Build rows of exchanges of the streaming pipeline: those deferred are decoded together, in columns."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from kwire.capture.columnar import body_columns, json_columns
from kwire.capture.columnar.batch_merge import RowBatch
from kwire.capture.columnar.body_walker import PADDING_SIZE
from kwire.capture.columnar.header_columns import CLIENT_COLUMNS, FLOW_COLUMNS
from kwire.capture.columnar.span_data import SpanData
from kwire.capture.index.flows.frame_columns import FrameColumns
from kwire.capture.index.flows.message_columns import ExchangeColumns, RequestColumns, ResponseColumns
from kwire.capture.kafka.deferred_decoder import DeferredDecoder, is_deferred
from kwire.capture.kafka.exchange import Exchange
from kwire.capture.model import connection_columns
from kwire.capture.rows.columns import arrow_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from kwire.capture.columnar.header_columns import HeaderColumns
    from kwire.capture.index.arrays import Bools, Ints
    from kwire.capture.kafka.exchange import Outcome
    from kwire.capture.model import Frame, Row
    from kwire.capture.options import Options

_CONNECTION_COLUMNS = frozenset({*FLOW_COLUMNS, "stream_epoch", "tls"})
_HEADER_SIZE = 10
_FRAME_FIELDS = attrgetter("ts", "end_ts", "offset", "size", "packet")


class StreamedBatches:
    """Builds the rows of messages of one capture."""

    def __init__(
        self,
        columns: Sequence[str],
        options: Options,
        *,
        empty: Collection[str],
        headers: HeaderColumns,
        decoder: DeferredDecoder,
        build_rows: Callable[[Outcome], list[Row]],
    ) -> None:
        """`empty`: the columns that the options leave empty. `build_rows` builds the rows of other outcomes."""
        self._columns = columns
        self._empty = empty
        self._headers = headers
        self._decoder = decoder
        self._options = options
        self._build_rows = build_rows
        self._needed = body_columns.COLUMNS.intersection(columns) | {"status"}
        self._types = {field.name: field.type for field in arrow_schema("messages")}

    def build(self, outcomes: Iterable[Outcome]) -> tuple[list[RowBatch], list[Row]]:
        """The rows of outcomes: those that are built by columns, and those that are built one by one."""
        rows: list[Row] = []
        deferred: list[Exchange] = []
        for outcome in outcomes:
            if not isinstance(outcome, Exchange):
                rows += self._build_rows(outcome)
            elif is_deferred(outcome):
                deferred.append(outcome)
            else:
                rows += self._build_rows(self._decoder.complete(outcome))
        if not deferred:
            return [], rows
        batch = DeferredExchanges(deferred)
        decoded = body_columns.BodyColumns(batch.span, batch.exchanges, self._needed)
        is_good = decoded.is_good & batch.has_valid_client_id
        for row in np.nonzero(~is_good)[0].tolist():
            rows += self._build_rows(self._decoder.complete(deferred[row]))
        good = np.nonzero(is_good)[0]
        chosen = batch.exchanges.select(good)
        arrays = [self._build_column(name, batch, decoded, good, chosen) for name in self._columns]
        fields = [pa.field(name, self._types[name]) for name in self._columns]
        record_batch = pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))
        return [RowBatch(record_batch, chosen.request.frame.ts, chosen.request.frame.offset)], rows

    def _build_column(
        self,
        name: str,
        batch: DeferredExchanges,
        decoded: body_columns.BodyColumns,
        good: Ints,
        chosen: ExchangeColumns,
    ) -> pa.Array:
        kind = self._types[name]
        if name in self._empty:
            return pa.nulls(len(good), kind)
        if name in body_columns.COLUMNS:
            return decoded.build_column(name, good)
        if name in json_columns.COLUMNS:
            return pa.array(json_columns.json_texts(name, batch.span, chosen, self._options), type=kind)
        own = batch.build_column(name, kind)
        return self._headers.build_column(name, chosen) if own is None else own.take(pa.array(good))


class DeferredExchanges:
    """Deferred exchanges as columns. `span`: the bytes of all their frames."""

    def __init__(self, exchanges: list[Exchange]) -> None:
        self._exchanges = exchanges
        requests = [exchange.request for exchange in exchanges]
        responses = [exchange.response for exchange in exchanges]
        request_frames = [request.frame for request in requests if request is not None]
        answered = np.array([response is not None for response in responses], dtype=np.bool_)
        response_frames = [response.frame for response in responses if response is not None]
        datas = [frame.data for frame in (*request_frames, *response_frames)]
        sizes = np.array(list(map(len, datas)), dtype=np.int64)
        at = np.cumsum(sizes) - sizes
        self.span = SpanData(0, b"".join([*datas, bytes(PADDING_SIZE)]), sum(map(len, datas)))
        count = len(exchanges)
        zeros = np.zeros(count, dtype=np.int64)
        fields = attrgetter(
            "api_key", "api_version", "correlation_id", "body_at", "expects_response", "number", "in_flight"
        )
        api_key, version, correlation_id, body, expects, number, in_flight = _columns(map(fields, requests), 7)
        frame = _frame_columns(request_frames, at[:count], np.ones(count, dtype=np.bool_))
        request = RequestColumns(frame, api_key, version, correlation_id, zeros, body, expects, number, in_flight)
        frame = _frame_columns(response_frames, at[count:], answered)
        order_ok = np.full(count, -1, dtype=np.int64)
        order_ok[answered] = [bool(response.order_ok) for response in responses if response is not None]
        self.exchanges = ExchangeColumns(request, ResponseColumns(frame, order_ok, order_ok), zeros)
        self._client_ids, self.has_valid_client_id = _client_ids(request_frames)

    def build_column(self, name: str, kind: pa.DataType) -> pa.Array | None:
        """A column that does not depend on an index; None for other columns."""
        if name in _CONNECTION_COLUMNS:
            return self._connection_column(name, kind)
        if name in CLIENT_COLUMNS:
            return pa.array([getattr(exchange.client, name) for exchange in self._exchanges], type=kind)
        if name == "client_id":
            return self._client_ids
        if name in {"req_packet", "resp_packet"}:
            frame = (self.exchanges.request if name == "req_packet" else self.exchanges.response).frame
            return pa.array(frame.packet, type=kind, mask=frame.size < 0)
        return None

    def _connection_column(self, name: str, kind: pa.DataType) -> pa.Array:
        numbers: dict[int, int] = {}
        values: list[object] = []
        which = []
        for exchange in self._exchanges:
            flow = exchange.flow
            number = numbers.setdefault(id(flow), len(values))
            if number == len(values):
                values.append(connection_columns("", flow)[name])
            which.append(number)
        return pa.array(values, type=kind).take(pa.array(which, type=pa.int32()))


def _columns(rows: Iterable[tuple[Any, ...]], count: int) -> Ints:
    return np.array(list(rows), dtype=np.int64).reshape(-1, count).T


def _frame_columns(frames: list[Frame], at: Ints, is_present: Bools) -> FrameColumns:
    """Frames as columns; -1 where there is none."""
    ts, end_ts, offset, size, packet = _columns(map(_FRAME_FIELDS, frames), 5)
    present = {"ts": ts, "end_ts": end_ts, "offset": offset, "size": size, "packet": packet, "at": at}
    columns = {}
    for name in FrameColumns._fields:
        columns[name] = np.full(len(is_present), -1, dtype=np.int64)
        columns[name][is_present] = present.get(name, 0)
    return FrameColumns(**columns)


def _client_ids(frames: list[Frame]) -> tuple[pa.Array, Bools]:
    """The client ids, and whether each is valid."""
    known: dict[bytes, int] = {}
    which, texts, is_valid = [], list[str | None](), []
    for frame in frames:
        data = frame.data
        raw = data[8 : _HEADER_SIZE + max(int.from_bytes(data[8:10], "big", signed=True), 0)]
        number = known.setdefault(raw, len(texts))
        if number == len(texts):
            try:
                texts.append(None if raw == b"\xff\xff" else raw[2:].decode())
                is_valid.append(True)
            except UnicodeDecodeError:
                texts.append(None)
                is_valid.append(False)
        which.append(number)
    return pa.array(texts, type=pa.string()).take(pa.array(which)), np.array(is_valid, dtype=np.bool_)[which]
