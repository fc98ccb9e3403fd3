"""Conditions that the head of an exchange decides: what fails them is left out before its bodies are decoded.

They follow SQL: a comparison with a null is unknown, and what is unknown is left out. Conditions on other columns are
for whoever reads the rows; here they only let everything pass.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from kwire import registry
from kwire.capture.exchange import Exchange
from kwire.capture.message_topics import topics_of
from kwire.capture.rows import conn_id
from kwire.capture.talks import address
from kwire.capture.values import Lost
from kwire.capture.where.fields import TOPICS
from kwire.capture.where.where import Where

if TYPE_CHECKING:
    from kwire.capture.exchange import Outcome
    from kwire.capture.rows import Row
    from kwire.capture.topic_names import TopicNames
    from kwire.capture.values import Flow

_TESTS: dict[str, Callable[[Any, Any], bool]] = {
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

_OF_FLOW: dict[str, Callable[[Flow], object]] = {
    "conn_id": conn_id,
    "stream_epoch": lambda flow: flow.epoch,
    "client_ip": lambda flow: address(flow.ends[flow.client_side][0]),
    "client_port": lambda flow: flow.ends[flow.client_side][1],
    "broker_ip": lambda flow: address(flow.ends[1 - flow.client_side][0]),
    "broker_port": lambda flow: flow.ends[1 - flow.client_side][1],
    "link": lambda flow: flow.link,
}

_OF_REQUEST = ("api_key", "api_name", "api_version", "client_id")

_TIMES: dict[str, tuple[str, str]] = {
    "req_ts": ("request", "ts"),
    "req_end_ts": ("request", "end_ts"),
    "resp_ts": ("response", "ts"),
    "resp_end_ts": ("response", "end_ts"),
}

# The times of a row that its exchange's own times tell, by level.
_TIMES_OF = {
    "messages": frozenset({"req_ts", "resp_ts"}),
    "partitions": frozenset({"ts"}),
    "share_acquired": frozenset({"ts"}),
    "share_acks": frozenset({"ts"}),
    "records": frozenset({"ts"}),
}

_API_NAMES: dict[object, str] = {key: registry.api_name(key) for key in registry.API_KEYS}

TIMES = "times"
"""What names both times of an exchange: the first of its request, the first of its response."""
COLUMNS = frozenset({*_OF_FLOW, *_OF_REQUEST, *_TIMES, "req_packet"})
"""What else a condition may name. `tls` is not here: it is known of a connection, but may change while that is read."""


@dataclass(frozen=True, slots=True)
class Condition:
    """One column compared with a value; times are microseconds.

    `test` is a key of `_TESTS`, or one of these. `where` has a part of a filter as its value: the text, the level, and
    the number of the part.
    `share` holds from the first number of its value up to the second, for unknown ones where the first is 0: so shares
    that follow each other have everything once.
    """

    column: str
    test: str
    value: Any = None
    is_negated: bool = False

    def holds(self, value: object) -> bool:
        """Whether it is true of this value; unknown is not."""
        if self.test == "null":
            return (value is None) is not self.is_negated
        if self.test == "share":
            begin, end = self.value
            return bool(begin <= (value or 0) < end)
        if self.test == "where":
            text, level, number = self.value
            if self.column == "api_key" and value is None:
                return True  # A raw token has a name and no key: its row decides.
            rows = _rows_of_times(level, value) if self.column == TIMES else [_row(self.column, value)]
            return any(_where(text, level).part_passes(number, row) for row in rows)
        if value is None:
            return False
        return _TESTS[self.test](value, self.value) is not self.is_negated


@dataclass(frozen=True, slots=True)
class Only:
    """All of these must hold.

    `rows` are text and level of a filter that only rows decide which tell all topics of their message.
    """

    conditions: tuple[Condition, ...]
    rows: tuple[str, str] | None = None

    @property
    def columns(self) -> frozenset[str]:
        """The columns that are looked at."""
        return frozenset(condition.column for condition in self.conditions)

    def allows(self, outcome: Outcome) -> bool:
        """Whether an outcome may have rows that are wanted. What is neither exchange nor loss is always wanted."""
        if isinstance(outcome, Lost):
            # It has no request: of shares of one connection, the first has it.
            return all(condition.holds(None) for condition in self.conditions if condition.test == "share")
        if not isinstance(outcome, Exchange):
            return True
        return all(condition.holds(_value(outcome, condition.column)) for condition in self.conditions)

    def wants(self, row: Row, outcome: Outcome, names: TopicNames) -> bool:
        """Whether a row of an outcome passes `rows`."""
        if self.rows is None:
            return True
        return _where(*self.rows).passes({**row, TOPICS: topics_of(outcome, names)})


def of_filter(text: str, level: str) -> tuple[Condition, ...]:
    """The parts of a filter in the language of `kwire.capture.where` that heads decide.

    Raises: FilterError, ValueError.
    """
    found = []
    for number, columns in _where(text, level).parts():
        # The key of an API tells its name; an unknown one has no name, so that this does not tell the key.
        own = columns - {"api_name"} if "api_key" in columns else columns
        if len(own) > 1 or not own <= COLUMNS:
            if own and own <= _TIMES_OF.get(level, frozenset()):
                found.append(Condition(TIMES, "where", (text, level, number)))
        elif own:
            (column,) = own
            found.append(Condition(column, "where", (text, level, number)))
    return tuple(found)


@lru_cache(maxsize=64)
def _where(text: str, level: str) -> Where:
    return Where(text, level)


def _row(column: str, value: object) -> dict[str, object]:
    """The row of one column that filters look at: its times are nanoseconds, and an API has its name too."""
    if column == "api_key":
        return {"api_key": value, "api_name": _API_NAMES.get(value)}
    return {column: value * 1_000 if column in _TIMES and isinstance(value, int) else value}


def _rows_of_times(level: str, value: Any) -> list[dict[str, object]]:
    """The times of the rows that an exchange may have, nanoseconds, by its own."""
    asked, answered = (None if each is None else each * 1_000 for each in value)
    either = answered if asked is None else asked
    # A record is in the request or in the response.
    times = {"share_acks": (asked,), "share_acquired": (answered,), "records": (asked, answered)}
    return [{"req_ts": asked, "resp_ts": answered, "ts": own} for own in times.get(level, (either,))]


def _value(exchange: Exchange, column: str) -> object:
    if column == TIMES:
        return _value(exchange, "req_ts"), _value(exchange, "resp_ts")
    if column in _OF_FLOW:
        return _OF_FLOW[column](exchange.flow)
    if column in _TIMES:
        name, when = _TIMES[column]
        side = getattr(exchange, name)
        return None if side is None else getattr(side.frame, when) // 1000
    if column == "req_packet":
        return None if exchange.request is None else exchange.request.frame.packet
    return getattr(exchange.request, column, None)
