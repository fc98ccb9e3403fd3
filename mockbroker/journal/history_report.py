"""Exchanges as text: one line each, and the requests that are nearest to what an assertion expected."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from kwire.escape import one_line
from mockbroker.journal.condition import Condition, TopicNames
from mockbroker.journal.exchange import Exchange
from mockbroker.journal.message_values import find_values
from mockbroker.journal.response_conditions import describe_errors
from mockbroker.journal.topic_condition import describe_topics

#: How many exchanges a message lists.
SHOWN_MAX = 5
_GROUP_FIELDS = frozenset({"group_id"})


def describe_exchange(exchange: Exchange[Any, Any], topic_names: TopicNames) -> str:
    """An exchange in one line: number, API, client, node, group, topics, and its end."""
    client = repr(exchange.client_id) if exchange.client_id else exchange.client
    parts = [f"#{exchange.number} {exchange.api_name} v{exchange.api_version}", client, f"node {exchange.node_id}"]
    if exchange.request is not None:
        parts += [f"group {group}" for group in find_values(exchange.request, _GROUP_FIELDS) if group]
        topics = describe_topics(exchange, topic_names)
        parts += [topics] if topics else []
    return one_line(", ".join([*parts, _describe_end(exchange)]))


def _describe_end(exchange: Exchange[Any, Any]) -> str:
    if exchange.closed is not None:
        return f"connection closed: {exchange.closed}"
    if exchange.answered_ms is None:
        return "not read" if exchange.is_unread else "no response"
    error = describe_errors(exchange.response) if exchange.response is not None else "answered"
    return f"{error} after {exchange.answered_ms - exchange.arrived_ms} ms"


def describe_kind(api: str | None, conditions: Iterable[Condition], *, count: int | None = None) -> str:
    """What was asked for, as "3 Produce requests with client_id='a'"; without a count as one request."""
    noun = f"{api} request" if api else "request"
    head = noun if count is None else f"{count} {noun}{'' if count == 1 else 's'}"
    texts = ", ".join(condition.text for condition in conditions)
    return f"{head} with {texts}" if texts else head


def list_exchanges(exchanges: Sequence[Exchange[Any, Any]], topic_names: TopicNames) -> list[str]:
    """The newest of these exchanges, one line each, oldest first."""
    shown = [f"  {describe_exchange(exchange, topic_names)}" for exchange in exchanges[-SHOWN_MAX:]]
    hidden = len(exchanges) - len(shown)
    return [f"  ... {hidden} earlier", *shown] if hidden else shown


def list_nearest(
    candidates: Sequence[Exchange[Any, Any]], conditions: Sequence[Condition], topic_names: TopicNames
) -> list[str]:
    """The requests that fulfil most conditions without fulfilling all, each with what it has instead."""
    failed = [(exchange, [c for c in conditions if not c.matches(exchange)]) for exchange in candidates]
    near = sorted((entry for entry in failed if entry[1]), key=lambda entry: (len(entry[1]), -entry[0].number))
    return [
        f"  {describe_exchange(exchange, topic_names)}\n      {'; '.join(c.actual(exchange) for c in misses)}"
        for exchange, misses in near[:SHOWN_MAX]
    ]


def count_apis(exchanges: Iterable[Exchange[Any, Any]]) -> str:
    """How many requests of each API there are, as "3 Metadata, 1 Produce"."""
    counts = Counter(exchange.api_name for exchange in exchanges)
    return ", ".join(f"{count} {name}" for name, count in counts.most_common()) or "nothing"
