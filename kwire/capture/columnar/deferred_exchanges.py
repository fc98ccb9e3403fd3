"""Deferred exchanges of the streaming pipeline in columns: their bodies are decoded together."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from kwire.capture.columnar import body_columns
from kwire.capture.columnar.body_columns import has_tags, message_name
from kwire.capture.columnar.body_walker import PADDING_SIZE
from kwire.capture.columnar.formats.exchange_rows import ExchangeRows
from kwire.capture.columnar.header_columns import CLIENT_COLUMNS
from kwire.capture.columnar.span_data import SpanData
from kwire.capture.index.flows.frame_columns import FrameColumns
from kwire.capture.index.flows.message_columns import ExchangeColumns, RequestColumns, ResponseColumns
from kwire.capture.kafka.deferred_decoder import DeferredRequest, DeferredResponse
from kwire.capture.kafka.session_tracker import SESSION_API_KEYS, SessionExchange, SessionTracker
from kwire.capture.model import CONNECTION_VALUES
from kwire.capture.rows.columns import arrow_schema
from kwire.primitives import FAILURES
from kwire.registry import codec_of_version

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    import msgspec

    from kwire.capture.columnar.header_columns import HeaderColumns
    from kwire.capture.index.arrays import Bools, Ints
    from kwire.capture.kafka.deferred_decoder import DeferredDecoder
    from kwire.capture.kafka.exchange import Exchange
    from kwire.capture.kafka.fetch_sessions import FetchSession
    from kwire.capture.model import Frame

_HEADER_SIZE = 10
_FRAME_FIELDS = attrgetter("ts", "end_ts", "offset", "size", "packet")


def decode_deferred(
    exchanges: list[Exchange], completed_by: Ints, headers: HeaderColumns, columns: Collection[str]
) -> tuple[ExchangeRows, list[Exchange]]:
    """The rows of deferred exchanges with valid bodies, and the other exchanges.

    Args: completed_by: the packet that completed each. headers: builds columns that depend on the headers only.
        columns: those that are needed.
    """
    batch = _DeferredColumns(exchanges, completed_by)
    decoded = body_columns.BodyColumns(batch.span, batch.exchanges, body_columns.COLUMNS & {"status", *columns})
    is_good = decoded.is_good & batch.has_valid_client_id
    good = np.nonzero(is_good)[0]
    chosen = batch.exchanges.select(good)

    def build_column(name: str) -> pa.Array:
        if name in body_columns.COLUMNS:
            return decoded.build_column(name, good)
        own = batch.build_column(name)
        return headers.build_column(name, chosen) if own is None else own.take(pa.array(good))

    sessions = [exchanges[row].session for row in good.tolist()]
    others = [exchanges[row] for row in np.nonzero(~is_good)[0].tolist()]
    return ExchangeRows(chosen, batch.span, sessions, build_column), others


def follow_deferred(decoder: DeferredDecoder, sessions: SessionTracker, exchange: Exchange) -> FetchSession | None:
    """The session of an exchange that may be deferred; only the bodies of fetches are read."""
    request = exchange.request
    if not isinstance(request, DeferredRequest):
        return sessions.follow(exchange)
    if request.api_key not in SESSION_API_KEYS:
        return None
    bodies = _read_bodies(exchange, request)
    if bodies is None:
        return sessions.follow(decoder.complete(exchange))
    broker = exchange.flow.ends[1 - exchange.flow.client_side]
    return sessions.follow_request(SessionExchange(broker, request.api_key, request.version, request.frame.ts, *bodies))


def _read_bodies(exchange: Exchange, request: DeferredRequest) -> tuple[msgspec.Struct, msgspec.Struct | None] | None:
    """The bodies of a deferred exchange; None if a strict decoder does not accept them."""
    response, api_key, version = exchange.response, request.api_key, request.version
    assert api_key is not None
    try:
        data = request.frame.data
        asked, end = codec_of_version(message_name(api_key, "Request"), version).readers[version](data, request.body_at)
        if end != len(data):
            return None
        if response is None:
            return asked, None
        data, tags = response.frame.data, has_tags(api_key, version)
        if not isinstance(response, DeferredResponse) or (tags and data[4]):
            return None
        answered, end = codec_of_version(message_name(api_key, "Response"), version).readers[version](data, 4 + tags)
    except FAILURES:
        return None
    return (asked, answered) if end == len(data) else None


class _DeferredColumns:
    """Deferred exchanges as columns. `span`: the bytes of all their frames."""

    def __init__(self, exchanges: list[Exchange], completed_by: Ints) -> None:
        self._exchanges = exchanges
        requests = [exchange.request for exchange in exchanges]
        responses = [exchange.response for exchange in exchanges]
        request_frames = [request.frame for request in requests if request is not None]
        answered = np.array([response is not None for response in responses], dtype=np.bool_)
        response_frames = [response.frame for response in responses if response is not None]
        datas = [frame.data for frame in (*request_frames, *response_frames)]
        sizes = np.array(list(map(len, datas)), dtype=np.int64)
        at = np.cumsum(sizes) - sizes
        self.span = SpanData(b"".join([*datas, bytes(PADDING_SIZE)]), ((0, sum(map(len, datas))),))
        count = len(exchanges)
        zeros = np.zeros(count, dtype=np.int64)
        fields = attrgetter(
            "api_key", "api_version", "correlation_id", "body_at", "expects_response", "number", "in_flight"
        )
        api_key, version, correlation_id, body, expects, number, in_flight = _columns(map(fields, requests), 7)
        frame = _frame_columns(request_frames, at[:count], np.ones(count, dtype=np.bool_))
        request = RequestColumns(
            frame, api_key, version, correlation_id, zeros, body, expects, number, in_flight, marks=zeros
        )
        frame = _frame_columns(response_frames, at[count:], answered)
        order_ok = np.full(count, -1, dtype=np.int64)
        order_ok[answered] = [bool(response.order_ok) for response in responses if response is not None]
        self.exchanges = ExchangeColumns(request, ResponseColumns(frame, order_ok, order_ok), completed_by)
        self._client_ids, self.has_valid_client_id = _client_ids(request_frames)

    def build_column(self, name: str) -> pa.Array | None:
        """A column that does not depend on an index; None for other columns."""
        kind = arrow_schema("messages").field(name).type
        if name in CONNECTION_VALUES:
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
                values.append(CONNECTION_VALUES[name](flow))
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
