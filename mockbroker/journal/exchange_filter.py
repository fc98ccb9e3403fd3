"""Conditions on exchanges in the language of `kwire decode -Y`; with an API also on the fields of its request."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

from kwire.capture.display_filter.fields import FieldKind, FilterField, Row, Values
from kwire.capture.display_filter.parser import parse_filter_of_fields
from kwire.capture.display_filter.tokenizer import FilterError
from kwire.error_codes import ErrorCode, name_of
from mockbroker.journal.condition import TopicNames
from mockbroker.journal.exchange import Exchange
from mockbroker.journal.field_filter import request_fields
from mockbroker.journal.message_values import REQUEST_NAMES, failure_codes, find_values
from mockbroker.journal.topic_condition import exchange_topics

#: The keys of rows of these filters: the exchange, its request, and the names of topics.
_EXCHANGE, _REQUEST, _TOPIC_NAMES = "exchange", "request", "topic_names"
#: The length field of a frame, which the sizes of `kwire decode` include, bytes.
_LENGTH_SIZE = 4
_MS_IN_NS = 1_000_000

_Read = Callable[[Exchange[Any, Any], TopicNames], Iterable[object]]


class ExchangeFilter:
    """A parsed condition on exchanges. Fields that `kwire decode -Y` also has have its names and units.

    With an API, names of fields of its request take precedence.
    """

    def __init__(self, text: str, api: str | None, topic_names: TopicNames) -> None:
        """Parse the text. Raises: ValueError for invalid syntax and for unknown fields."""
        fields = {**_FIELDS, **request_fields(api)} if api is not None else _FIELDS
        subject = f"a {api} request" if api is not None else "exchanges of any API; fields of requests need the API"
        try:
            expression = parse_filter_of_fields(text, fields, subject)
        except FilterError as error:
            raise ValueError(f"filter {text!r}: {error}") from error
        self._matches: Callable[[Row], bool] = expression.matches
        self._topic_names = topic_names

    def matches(self, exchange: Exchange[Any, Any]) -> bool:
        """Whether the condition is true for an exchange."""
        row = {_EXCHANGE: exchange, _REQUEST: exchange.request, _TOPIC_NAMES: self._topic_names}
        return self._matches(row)


def _values(read: _Read) -> Values:
    def values(row: Row) -> Sequence[object]:
        exchange = cast("Exchange[Any, Any]", row[_EXCHANGE])
        return [value for value in read(exchange, cast(TopicNames, row[_TOPIC_NAMES])) if value is not None]

    return values


def _no_values(row: Row) -> Sequence[object]:
    return ()


def _text(name: str, read: _Read) -> FilterField:
    return FilterField(name, FieldKind.TEXT, (_EXCHANGE,), _values(read), _no_values)


def _number(name: str, read: _Read, kind: FieldKind = FieldKind.NUMBER, unit: int = 1) -> FilterField:
    return FilterField(name, kind, (_EXCHANGE,), _no_values, _values(read), unit)


def _named(name: str, kind: FieldKind, read_name: _Read, read_number: _Read) -> FilterField:
    return FilterField(name, kind, (_EXCHANGE,), _values(read_name), _values(read_number))


def _codes(exchange: Exchange[Any, Any]) -> list[int]:
    """The codes of the errors in a response; NONE alone if there are none; nothing without a response."""
    if exchange.response is None:
        return []
    return failure_codes(exchange.response) or [int(ErrorCode.NONE)]


def _latency(exchange: Exchange[Any, Any]) -> int | None:
    return None if exchange.answered_ms is None else exchange.answered_ms - exchange.arrived_ms


def _named_in_request(exchange: Exchange[Any, Any], name: str) -> Iterable[object]:
    return find_values(exchange.request, REQUEST_NAMES[name]) if exchange.request is not None else ()


def _response_size(exchange: Exchange[Any, Any]) -> int | None:
    return None if exchange.answered_ms is None else exchange.response_bytes + _LENGTH_SIZE


_LIST: tuple[FilterField, ...] = (
    _named("api", FieldKind.API, lambda e, _: (e.api_name,), lambda e, _: (e.api_key,)),
    _named("error", FieldKind.ERROR, lambda e, _: map(name_of, _codes(e)), lambda e, _: _codes(e)),
    _text("client", lambda e, _: (e.client_id,)),
    _text("topic", lambda e, names: dict.fromkeys(topic.name for topic in exchange_topics(e, names))),
    _number("partition", lambda e, names: {index for topic in exchange_topics(e, names) for index in topic.partitions}),
    _text("group", lambda e, _: _named_in_request(e, "group")),
    _text("member", lambda e, _: _named_in_request(e, "member")),
    _number("latency", lambda e, _: (_latency(e),), FieldKind.DURATION, _MS_IN_NS),
    _number("version", lambda e, _: (e.api_version,)),
    _number("correlation", lambda e, _: (e.correlation_id,)),
    _text("user", lambda e, _: (e.principal.partition(":")[2],)),
    _number("req_bytes", lambda e, _: (e.request_bytes + _LENGTH_SIZE,), FieldKind.SIZE),
    _number("resp_bytes", lambda e, _: (_response_size(e),), FieldKind.SIZE),
    _number("number", lambda e, _: (e.number,)),
    _number("node", lambda e, _: (e.node_id,)),
    _number("connection", lambda e, _: (e.connection_id,)),
    _text("fault", lambda e, _: e.faults),
    _text("closed", lambda e, _: (e.closed,)),
)
_FIELDS: Mapping[str, FilterField] = {field.name: field for field in _LIST}
