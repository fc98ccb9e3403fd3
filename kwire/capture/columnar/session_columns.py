"""Build the session columns: only messages that change sessions or name topics are decoded, most of them in part."""

from __future__ import annotations

from functools import cache, partial
from struct import calcsize
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from kwire.accelerator import NATIVE
from kwire.capture.columnar.body_columns import exchanges_by_version
from kwire.capture.columnar.decode_plan import StructPlan, message_plan
from kwire.capture.columnar.lazy_message import LazyMessage
from kwire.capture.index.flows.message_columns import body_offsets
from kwire.capture.kafka.exchange import Exchange
from kwire.capture.kafka.fetch_sessions import FINAL_EPOCH, FetchSession
from kwire.capture.kafka.session_tracker import FETCH, SESSION_API_KEYS, SessionExchange, SessionTracker
from kwire.capture.kafka.topic_names import TopicNames
from kwire.capture.rows.column import Phase
from kwire.capture.rows.columns import arrow_schema, message_columns
from kwire.capture.rows.session_values import SESSION_VALUES
from kwire.registry import DEFAULT_EDITION, api_name, codec_of_version, header_versions, known_api_keys
from kwire.schema import load_schema
from kwire.schema.spec import STRUCT_CODES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from kwire.capture.columnar.exchange_builder import ExchangeBuilder
    from kwire.capture.columnar.span_data import SpanData
    from kwire.capture.index.arrays import Bools, Ints
    from kwire.capture.index.flows.message_columns import ExchangeColumns

# The session of a full fetch of a client without fetch sessions.
STATELESS = FetchSession(None, FINAL_EPOCH, None)

COLUMNS = message_columns(Phase.SESSION)


SessionValues = dict[str, list[object]]
"""The values of each of the columns, for each exchange of a part."""


def build_column(values: SessionValues, name: str, rows: Ints) -> pa.Array:
    """One of the columns for some of the exchanges of a part."""
    of_rows = values[name]
    return pa.array([of_rows[row] for row in rows.tolist()], type=arrow_schema("messages").field(name).type)


class FetchBodies(NamedTuple):
    """What can be read of exchanges without building them, by row.

    is_asked, is_answered: whose requests and responses are valid and in the data of the span. is_cut: whose requests
    are incomplete, so that they change no session.
    """

    span: SpanData
    is_asked: Bools
    is_answered: Bools
    is_cut: Bools

    @classmethod
    def of_valid(cls, span: SpanData, is_good: Bools) -> FetchBodies:
        """Where both bodies are valid, or none is read. A response may be missing."""
        return cls(span, is_good, is_good, np.zeros(len(is_good), dtype=np.bool_))


class SessionColumns:
    """Tracks the sessions of a capture, exchange by exchange in the order of completion."""

    def __init__(self, builder: ExchangeBuilder, topics: Mapping[str, str]) -> None:
        """`topics`: the names that the user provided."""
        self._builder = builder
        self._sessions = SessionTracker()
        self._names = TopicNames(topics)

    def build_values(self, exchanges: ExchangeColumns, is_good: Bools, span: SpanData) -> SessionValues:
        """The values of the columns for the exchanges of a part. Args: is_good: both bodies are valid."""
        bodies = FetchBodies.of_valid(span, is_good)
        out: SessionValues = {name: [None] * len(exchanges) for name in SESSION_VALUES}
        rows = np.nonzero(_is_relevant(exchanges))[0]
        is_stateless = find_stateless_fetches(exchanges, rows, bodies)
        for row in rows[is_stateless].tolist():
            self._set_values(out, row, STATELESS)
        rows = rows[~is_stateless]
        found = session_exchanges(self._builder, exchanges, rows, bodies)
        for row, exchange in zip(rows.tolist(), found, strict=True):
            if isinstance(exchange, Exchange):
                for side in (exchange.request, exchange.response):
                    if side is not None and side.body is not None:
                        self._names.learn(side.body)
                session = self._sessions.follow(exchange)
            else:
                session = self._sessions.follow_request(exchange)
            if session is not None:
                self._set_values(out, row, session)
        return out

    def _set_values(self, out: SessionValues, row: int, session: FetchSession) -> None:
        for name, read_value in SESSION_VALUES.items():
            out[name][row] = read_value(session, self._names)


def session_exchanges(
    builder: ExchangeBuilder, exchanges: ExchangeColumns, rows: Ints, bodies: FetchBodies
) -> Iterator[Exchange | SessionExchange]:
    """The exchanges of these rows: what sessions need of valid fetches, and whole exchanges otherwise."""
    is_lazy = np.isin(exchanges.request.api_key[rows], SESSION_API_KEYS) & bodies.is_asked[rows]
    chosen = rows[is_lazy]
    lazy = _lazy_exchanges(builder, exchanges.select(chosen), bodies.is_answered[chosen], bodies.span)
    built = builder.build_exchanges(exchanges.select(rows[~is_lazy]))
    return (next(lazy) if each_is_lazy else next(built)[1] for each_is_lazy in is_lazy.tolist())


def find_stateless_fetches(exchanges: ExchangeColumns, rows: Ints, bodies: FetchBodies) -> Bools:
    """Which of these exchanges are full fetches without a session: `STATELESS`. They change no session."""
    request, span = exchanges.request, bodies.span
    is_stateless = np.zeros(len(rows), dtype=np.bool_)
    is_fetch = bodies.is_asked[rows] & (request.api_key[rows] == FETCH)
    for version in np.unique(request.api_version[rows[is_fetch]]).tolist():
        fields = session_fields(version)
        if fields is None:
            continue
        which = np.nonzero(is_fetch & (request.api_version[rows] == version))[0]
        places = (span.positions(request.frame.at[rows[which]]) + body_offsets(request.body[rows[which]]))[:, None]
        head = np.frombuffer(span.data, dtype=np.uint8)[places + np.arange(fields[1] + 4)]
        session_id, epoch = (head[:, at : at + 4].copy().view(">i4")[:, 0] for at in fields)
        is_stateless[which] = (session_id == 0) & (epoch == FINAL_EPOCH)
    return is_stateless


@cache
def session_fields(version: int) -> tuple[int, int] | None:
    """Where session id and epoch are in a Fetch request; None for versions without sessions."""
    sizes, at = dict[str, int](), 0
    for field in load_schema("FetchRequest", DEFAULT_EDITION).fields:
        if version in field.versions and not field.is_tagged(version):
            code = STRUCT_CODES.get(field.type)
            if code is None:
                break
            sizes[field.snake_name] = at
            at += calcsize(f">{code}")
    places = sizes.get("session_id"), sizes.get("session_epoch")
    return None if places[0] is None or places[1] is None else (places[0], places[1])


def _lazy_exchanges(
    builder: ExchangeBuilder, exchanges: ExchangeColumns, is_answered: Bools, span: SpanData
) -> Iterator[SessionExchange]:
    request, response = exchanges.request, exchanges.response
    request_at = span.positions(request.frame.at) + body_offsets(request.body)
    is_answered = is_answered & (response.frame.size >= 0)
    response_at = np.where(~is_answered, -1, span.positions(response.frame.at) + 4)
    columns = (exchanges.flow, request.api_key, request.api_version, request.frame.ts, request_at, response_at)
    data = span.data
    for flow_number, api_key, version, ts, at, after_id in zip(*(column.tolist() for column in columns), strict=True):
        flow, (read_request, response_name, tags) = builder.build_flow(flow_number), _message_readers(api_key, version)
        body = read_request(data, at)
        answer = LazyMessage(response_name, version, data, after_id + tags) if after_id >= 0 else None
        yield SessionExchange(flow.ends[1 - flow.client_side], api_key, version, ts, body, answer)


@cache
def _message_readers(api_key: int, version: int) -> tuple[Callable[[bytes, int], Any], str, int]:
    """A function that reads the request, the name of the response, and the size of the empty tags in its header."""
    name = api_name(api_key)
    read: Callable[[bytes, int], Any]
    if NATIVE is None:
        read = partial(LazyMessage, f"{name}Request", version)
    else:
        # The accelerator decodes all of a request sooner than Python code the first fields.
        read = _request_reader(f"{name}Request", version)
    return read, f"{name}Response", int(header_versions(api_key, version)[1] > 0)


def _request_reader(name: str, version: int) -> Callable[[bytes, int], Any]:
    read = codec_of_version(name, version).readers[version]
    return lambda data, at: read(data, at)[0]


def _is_relevant(exchanges: ExchangeColumns) -> Bools:
    """Which exchanges belong to sessions, or may name topics."""
    is_relevant = np.zeros(len(exchanges), dtype=np.bool_)
    for api_key, version, chosen in exchanges_by_version(exchanges):
        is_relevant |= chosen & _is_relevant_api(api_key, version)
    return is_relevant


@cache
def _is_relevant_api(api_key: int, version: int) -> bool:
    if api_key in SESSION_API_KEYS:
        return True
    if api_key not in known_api_keys():
        return False
    name = api_name(api_key)
    plans = [message_plan(f"{name}Request", version), message_plan(f"{name}Response", version)]
    # A message that only the message decoder can read may name any topic.
    return any(plan is None or _names_topics(plan.struct) for plan in plans)


def _names_topics(struct: StructPlan) -> bool:
    """Whether topics in the struct may have both name and id."""
    steps = [*struct.steps, *struct.tagged.values()]
    uses = {step.use for step in steps}
    return {"name", "topic_id"} <= uses or any(step.inner is not None and _names_topics(step.inner) for step in steps)
