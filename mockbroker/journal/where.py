"""Conditions on fields of the request: by name or dotted path, by a filter, and by a function of the request."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from kwire import uuids
from kwire.redact import CONFIG_MESSAGES, MASK
from mockbroker.journal.condition import Condition, Subject, join_values
from mockbroker.journal.exchange import Exchange
from mockbroker.journal.exchange_filter import ExchangeFilter
from mockbroker.journal.message_values import type_at, values_at


def where_conditions(where: object, subject: Subject) -> list[Condition]:
    """The conditions of `where`: a mapping of fields, or a function of the request.

    Raises: ValueError for a field that requests of the API do not have, or a value that it cannot have.
    """
    if callable(where):
        return [_predicate_condition(where)]
    if not isinstance(where, Mapping):
        raise TypeError(f"where={where!r}: expected a mapping of fields or a function of the request")
    return [_field_condition(str(path), wanted, subject) for path, wanted in where.items()]


def filter_condition(text: str, subject: Subject) -> Condition:
    """The condition of `filter`, in the language of `kwire decode -Y` on exchanges and, with an API, its requests.

    Raises: ValueError for invalid syntax, and for an unknown field.
    """
    api = subject.request_classes[0].__name__.removesuffix("Request") if subject.request_classes else None
    exchange_filter = ExchangeFilter(text, api, subject.topic_names)
    return Condition(f"filter {text!r}", exchange_filter.matches, lambda _: f"filter {text!r} is false")


def _field_condition(path: str, wanted: object, subject: Subject) -> Condition:
    names = tuple(path.split("."))
    if not subject.request_classes:
        raise ValueError(f"where {path}={wanted!r}: fields can be compared only in requests of one API")
    _check_value(path, wanted, subject.request_classes)
    compare = wanted if callable(wanted) else lambda value: _is_equal(value, wanted)
    text = f"{path}: {getattr(wanted, '__name__', wanted)}" if callable(wanted) else f"{path}={wanted!r}"

    def values(exchange: Exchange[Any, Any]) -> list[object]:
        return list(values_at(exchange.request, names)) if exchange.request is not None else []

    return Condition(
        text,
        lambda exchange: any(compare(value) for value in values(exchange)),
        lambda exchange: f"{path} {MASK if _is_secret(exchange, names) else join_values(values(exchange))}",
    )


def _predicate_condition(predicate: Callable[[Any], bool]) -> Condition:
    name = getattr(predicate, "__name__", repr(predicate))
    text = "where" if name == "<lambda>" else f"where {name}"
    return Condition(
        text,
        lambda exchange: exchange.request is not None and bool(predicate(exchange.request)),
        lambda _: f"{text} is false",
    )


def _check_value(path: str, wanted: object, classes: tuple[type[msgspec.Struct], ...]) -> None:
    """Raises: ValueError for a field that no class has, or a number or text for a field of another type."""
    errors = []
    for cls in classes:
        try:
            kind = type_at(cls, tuple(path.split(".")))
        except ValueError as error:
            errors.append(error)
            continue
        simple = isinstance(wanted, int | str) and not isinstance(wanted, bool) and kind in (int, str, bool)
        if simple and not isinstance(wanted, kind):  # type: ignore[arg-type]
            raise ValueError(f"{path}={wanted!r}: the field has values of type {kind.__name__}")  # type: ignore[attr-defined]
        return
    raise errors[0]


def _is_equal(value: object, wanted: object) -> bool:
    if isinstance(value, bytes) and isinstance(wanted, str):
        return len(value) == len(uuids.ZERO) and uuids.to_text(value) == wanted
    if isinstance(value, tuple) and isinstance(wanted, list):
        return list(value) == wanted
    return value == wanted


def _is_secret(exchange: Exchange[Any, Any], path: tuple[str, ...]) -> bool:
    """Whether a field may contain a secret as text; bytes are never shown."""
    return path[-1] == "value" and type(exchange.request).__name__ in CONFIG_MESSAGES
