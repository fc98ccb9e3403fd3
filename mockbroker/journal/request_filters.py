"""Filters of questions to the history: each becomes a `Condition`, which can also name what a request has instead."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any, TypedDict

import msgspec

from mockbroker.journal.condition import Condition, Subject, join_values
from mockbroker.journal.exchange import Exchange
from mockbroker.journal.message_values import REQUEST_NAMES, find_values, has_field
from mockbroker.journal.topic_condition import topic_condition
from mockbroker.journal.where import filter_condition, where_conditions

#: Conditions on fields of the request: their values by name or dotted path, or a function of the request.
Where = Mapping[str, object] | Callable[[Any], bool]


class RequestFilters(TypedDict, total=False):
    """What a request must have; filters that are not given match every request.

    client_id: of the request's header. node, connection: numbers. principal: as "User:alice". version: of the API.
    group, member, transactional_id: that the request names, at any depth. topic: a name, which the request or its
    response names, by the topic's id too. partition: an index, of that topic if one is given. where: conditions on
    fields of the request, `{"max_records": 500, "topics.topic_id": ...}`, or a function of the request. filter: a
    condition in the language of `kwire decode -Y` on exchanges, "latency>20ms and error!=0", with an API also on fields
    of its request, "acks=0 and timeout_ms>500". after: only later requests than this exchange, or the one with this
    number.
    """

    client_id: str | None
    node: int
    connection: int
    principal: str
    version: int
    group: str
    member: str
    transactional_id: str
    topic: str
    partition: int
    where: Where
    filter: str
    after: int | Exchange[Any, Any]


#: Filters by a field of the exchange itself.
_EXCHANGE_FIELDS = {
    "client_id": "client_id",
    "node": "node_id",
    "connection": "connection_id",
    "principal": "principal",
    "version": "api_version",
}
#: The key of FindCoordinator for each kind of coordinator.
_COORDINATOR_KEYS = {"group": 0, "transactional_id": 1}
_FILTER_NAMES = tuple(RequestFilters.__annotations__)


def build_conditions(filters: Mapping[str, object], subject: Subject) -> list[Condition]:
    """The conditions of filters.

    Raises: TypeError for an unknown filter; ValueError for one that no request of the API can fulfil.
    """
    conditions: list[Condition] = []
    for name, wanted in filters.items():
        if name in _EXCHANGE_FIELDS:
            conditions.append(_exchange_condition(name, _EXCHANGE_FIELDS[name], wanted))
        elif name in REQUEST_NAMES:
            conditions.append(_named_value_condition(name, wanted, subject))
        elif name == "after":
            conditions.append(_after_condition(wanted))
        elif name == "where":
            conditions += where_conditions(wanted, subject)
        elif name == "filter":
            conditions.append(filter_condition(str(wanted), subject))
        elif name not in ("topic", "partition"):
            raise TypeError(_describe_unknown_filter(name, subject))
    if "topic" in filters or "partition" in filters:
        conditions.append(topic_condition(filters.get("topic"), filters.get("partition"), subject))
    return conditions


def number_of(exchange: object) -> int:
    """The number of an exchange, or that number itself. Raises: TypeError for anything else."""
    if isinstance(exchange, Exchange):
        return exchange.number
    if isinstance(exchange, int):
        return exchange
    raise TypeError(f"after={exchange!r}: expected an exchange or its number")


def _after_condition(wanted: object) -> Condition:
    number = number_of(wanted)
    return Condition(
        f"after #{number}", lambda exchange: exchange.number > number, lambda exchange: f"before #{number}"
    )


def _exchange_condition(name: str, field: str, wanted: object) -> Condition:
    return Condition(
        f"{name}={wanted!r}",
        lambda exchange: bool(getattr(exchange, field) == wanted),
        lambda exchange: f"{name} {getattr(exchange, field)!r}",
    )


def _named_value_condition(name: str, wanted: object, subject: Subject) -> Condition:
    fields = REQUEST_NAMES[name]
    kind = _COORDINATOR_KEYS.get(name)

    def values(exchange: Exchange[Any, Any]) -> list[object]:
        request = exchange.request
        if request is None:
            return []
        if exchange.api_name == "FindCoordinator" and kind == request.key_type:
            return [request.key, *request.coordinator_keys]
        return [value for value in find_values(request, fields) if value is not None]

    known = [cls for cls in subject.request_classes if has_field(cls, fields) or (kind is not None and _finds(cls))]
    if subject.request_classes and not known:
        raise ValueError(f"{name}={wanted!r}: {subject.request_classes[0].__name__} names no {name}")
    return Condition(
        f"{name}={wanted!r}",
        lambda exchange: wanted in values(exchange),
        lambda exchange: f"{name} {join_values(values(exchange))}",
    )


def _finds(request_class: type[msgspec.Struct]) -> bool:
    return request_class.__name__ == "FindCoordinatorRequest"


def _describe_unknown_filter(name: str, subject: Subject) -> str:
    for cls in subject.request_classes:
        if name in {field.name for field in msgspec.structs.fields(cls)}:
            return f"{name!r} is not a filter; for the field of the request, where={{{name!r}: ...}}"
    nearest = get_close_matches(name, _FILTER_NAMES, n=1)
    hint = f"did you mean {nearest[0]!r}?" if nearest else f"the filters are {', '.join(_FILTER_NAMES)}"
    return f"{name!r} is not a filter; {hint}"
