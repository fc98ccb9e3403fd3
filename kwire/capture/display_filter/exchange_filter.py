"""Evaluates exchange filters: conditions on message headers that exclude exchanges before their bodies are decoded.

Comparisons follow SQL: a comparison with null is unknown, and unknown results exclude. Conditions on columns that are
not in headers are not evaluated here; the reader of the rows evaluates them.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from kwire import registry
from kwire.capture.display_filter.display_filter import DisplayFilter
from kwire.capture.display_filter.fields import TOPICS
from kwire.capture.kafka.exchange import Exchange, TrafficRow
from kwire.capture.kafka.message_topics import outcome_topic_names
from kwire.capture.model import CONNECTION_VALUES, NonKafkaConnection, StreamGap
from kwire.capture.options import ExchangeCondition

if TYPE_CHECKING:
    from kwire.capture.kafka.exchange import Outcome
    from kwire.capture.kafka.topic_names import TopicNames
    from kwire.capture.model import Row
    from kwire.capture.options import ExchangeFilter, Options

_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "in": lambda value, values: value in values,
    "starts": str.startswith,
    "ends": str.endswith,
    "contains": operator.contains,
}

_REQUEST_COLUMNS = ("api_key", "api_name", "api_version", "client_id")

_TIME_COLUMNS: dict[str, tuple[str, str]] = {
    "req_ts": ("request", "ts"),
    "req_end_ts": ("request", "end_ts"),
    "resp_ts": ("response", "ts"),
    "resp_end_ts": ("response", "end_ts"),
}

# The time columns of a level that the times of the exchange determine.
_DETERMINED_TIMES = {
    "messages": frozenset({"req_ts", "resp_ts"}),
    "partitions": frozenset({"ts"}),
    "share_acquired": frozenset({"ts"}),
    "share_acks": frozenset({"ts"}),
    "records": frozenset({"ts"}),
}

_API_NAMES: dict[object, str] = {key: registry.api_name(key) for key in registry.known_api_keys()}

TIMES = "times"
"""Pseudo column with two times of an exchange: the first of its request and the first of its response."""
COLUMNS = frozenset({*CONNECTION_VALUES, *_REQUEST_COLUMNS, *_TIME_COLUMNS, "req_packet"} - {"tls"})
"""The other columns of conditions. `tls` is not one of them, since it may change while a connection is read."""


def condition_holds(condition: ExchangeCondition, value: object) -> bool:
    """Whether the condition is true of this value. An unknown result counts as false."""
    if condition.test == "null":
        return (value is None) is not condition.is_negated
    if condition.test == "share":
        begin, end = condition.value
        return bool(begin <= (value or 0) < end)
    if condition.test == "where":
        text, level, number = condition.value
        if condition.column == "api_key" and value is None:
            return True  # A raw token has an API name without a key: its row is evaluated.
        rows = _time_rows(level, value) if condition.column == TIMES else [_column_row(condition.column, value)]
        return any(_display_filter(text, level).part_matches(number, row) for row in rows)
    if value is None:
        return False
    return _COMPARISONS[condition.test](value, condition.value) is not condition.is_negated


def is_selected(outcome: Outcome, options: Options) -> bool:
    """Whether the options include this outcome. Connections and packets belong to no API."""
    if isinstance(outcome, TrafficRow):
        return True
    if isinstance(outcome, NonKafkaConnection):
        # Connections that are neither Kafka nor TLS have no row, unless the user named the port of a broker.
        return not options.apis and (outcome.kind == "tls" or bool(options.ports))
    if options.exchange_filter is not None and not matches_exchange(options.exchange_filter, outcome):
        return False
    if not options.apis:
        return True
    return isinstance(outcome, Exchange) and outcome.request is not None and outcome.request.api_name in options.apis


def matches_exchange(exchange_filter: ExchangeFilter, outcome: Outcome) -> bool:
    """Whether an outcome may have matching rows. Outcomes that are neither exchange nor stream gap always match."""
    conditions = exchange_filter.conditions
    if isinstance(outcome, StreamGap):
        # It has no request: where the requests of a connection are divided among tasks, the first task has it.
        return all(condition_holds(condition, None) for condition in conditions if condition.test == "share")
    if not isinstance(outcome, Exchange):
        return True
    return all(condition_holds(condition, _column_value(outcome, condition.column)) for condition in conditions)


def matches_row(exchange_filter: ExchangeFilter, row: Row, outcome: Outcome, names: TopicNames) -> bool:
    """Whether a row of an outcome passes the filter's `row_filter`."""
    if exchange_filter.row_filter is None:
        return True
    return _display_filter(*exchange_filter.row_filter).matches({**row, TOPICS: outcome_topic_names(outcome, names)})


def exchange_conditions(text: str, level: str) -> tuple[ExchangeCondition, ...]:
    """The conditions of a display filter that headers decide.

    Raises: FilterError, ValueError.
    """
    conditions = []
    for number, columns in _display_filter(text, level).parts():
        # The key of an API determines its name, but the name of an unknown API does not determine its key.
        needed = columns - {"api_name"} if "api_key" in columns else columns
        if len(needed) > 1 or not needed <= COLUMNS:
            if needed and needed <= _DETERMINED_TIMES.get(level, frozenset()):
                conditions.append(ExchangeCondition(TIMES, "where", (text, level, number)))
        elif needed:
            (column,) = needed
            conditions.append(ExchangeCondition(column, "where", (text, level, number)))
    return tuple(conditions)


@lru_cache(maxsize=64)
def _display_filter(text: str, level: str) -> DisplayFilter:
    return DisplayFilter(text, level)


def _column_row(column: str, value: object) -> dict[str, object]:
    """A row with one column, for display filters: times are nanoseconds, and an API key comes with its name."""
    if column == "api_key":
        return {"api_key": value, "api_name": _API_NAMES.get(value)}
    return {column: value * 1_000 if column in _TIME_COLUMNS and isinstance(value, int) else value}


def _time_rows(level: str, value: Any) -> list[dict[str, object]]:
    """Rows with the times, in nanoseconds, that the rows of an exchange may have."""
    request_ts, response_ts = (None if ts is None else ts * 1_000 for ts in value)
    first_ts = response_ts if request_ts is None else request_ts
    # A record is in the request or in the response.
    times = {"share_acks": (request_ts,), "share_acquired": (response_ts,), "records": (request_ts, response_ts)}
    return [{"req_ts": request_ts, "resp_ts": response_ts, "ts": ts} for ts in times.get(level, (first_ts,))]


def _column_value(exchange: Exchange, column: str) -> object:
    if column == TIMES:
        return _column_value(exchange, "req_ts"), _column_value(exchange, "resp_ts")
    if column in CONNECTION_VALUES:
        return CONNECTION_VALUES[column](exchange.flow)
    if column in _TIME_COLUMNS:
        name, when = _TIME_COLUMNS[column]
        side = getattr(exchange, name)
        return None if side is None else getattr(side.frame, when) // 1000
    if column == "req_packet":
        return None if exchange.request is None else exchange.request.frame.packet
    return getattr(exchange.request, column, None)
