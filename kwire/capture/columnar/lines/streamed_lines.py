"""Make lines of exchanges of the streaming pipeline: those deferred are decoded together, in columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from kwire.capture.columnar import body_columns
from kwire.capture.columnar.body_columns import has_tags, message_name
from kwire.capture.columnar.streamed_batches import DeferredExchanges
from kwire.capture.index.flows.message_columns import ExchangeColumns
from kwire.capture.kafka.deferred_decoder import DeferredRequest, DeferredResponse, is_deferred
from kwire.capture.kafka.exchange import Exchange
from kwire.capture.kafka.session_tracker import SESSION_API_KEYS, SessionExchange, SessionTracker
from kwire.capture.rows.columns import arrow_schema
from kwire.primitives import FAILURES
from kwire.registry import codec_of_version

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    import msgspec

    from kwire.capture.columnar.damaged_rows import DamagedRows
    from kwire.capture.columnar.header_columns import HeaderColumns
    from kwire.capture.columnar.span_data import SpanData
    from kwire.capture.kafka.deferred_decoder import DeferredDecoder
    from kwire.capture.kafka.exchange import Outcome
    from kwire.capture.kafka.fetch_sessions import FetchSession


class LineRows(NamedTuple):
    """Exchanges to make lines of: valid ones without issues, or incomplete ones.

    sessions: by row. build_column: builds any column that depends neither on sessions nor on whole bodies. damaged:
    the exchanges, if they are incomplete.
    """

    exchanges: ExchangeColumns
    span: SpanData
    sessions: list[FetchSession | None]
    build_column: Callable[[str], pa.Array]
    damaged: DamagedRows | None = None


def is_line(outcome: Outcome, after: int) -> bool:
    """Whether an outcome may become a line: a deferred exchange of the usual kind, from behind packet `after`."""
    if not isinstance(outcome, Exchange) or not is_deferred(outcome):
        return False
    flow, request = outcome.flow, outcome.request
    return flow.epoch == 0 and not flow.is_tls and request is not None and request.frame.packet > after


def select_lines(
    numbered: Sequence[tuple[int, Exchange]], headers: HeaderColumns, columns: Collection[str]
) -> tuple[LineRows, list[Exchange]]:
    """The rows of deferred exchanges with valid bodies, and the other exchanges.

    Args: numbered: each with the number of the packet that completed it. headers: builds columns that depend on the
        headers only. columns: those that lines have.
    """
    exchanges = [exchange for _, exchange in numbered]
    batch = DeferredExchanges(exchanges)
    decoded = body_columns.BodyColumns(batch.span, batch.exchanges, body_columns.COLUMNS & {"status", *columns})
    is_good = decoded.is_good & batch.has_valid_client_id
    good = np.nonzero(is_good)[0]
    completed_by = np.array([number for number, _ in numbered], dtype=np.int64)
    chosen = ExchangeColumns(batch.exchanges.request, batch.exchanges.response, completed_by).select(good)
    types = {field.name: field.type for field in arrow_schema("messages")}

    def build_column(name: str) -> pa.Array:
        """A column of the valid exchanges."""
        if name in body_columns.COLUMNS:
            return decoded.build_column(name, good)
        own = batch.build_column(name, types[name])
        return headers.build_column(name, chosen) if own is None else own.take(pa.array(good))

    sessions = [exchanges[row].session for row in good.tolist()]
    others = [exchanges[row] for row in np.nonzero(~is_good)[0].tolist()]
    return LineRows(chosen, batch.span, sessions, build_column), others


def follow_deferred(sessions: SessionTracker, decoder: DeferredDecoder, exchange: Exchange) -> FetchSession | None:
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
