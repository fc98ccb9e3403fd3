"""What cases expect, and how an expectation fails."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from mockbroker.certify.seen_values import describe_seen
from mockbroker.journal import Exchange

#: How many exchanges decide where none is named.
_LAST_MAX = 6
#: Exchanges that decide: one, several, or a question to the history.
Exchanges = Exchange[Any, Any] | Iterable[Exchange[Any, Any]] | None


class ExpectationFailed(AssertionError):
    """The client did not do what the source demands.

    expected: a sentence; seen: a sentence or a value (seen_values.py); numbers: of the deciding exchanges.
    """

    def __init__(self, expected: str, seen: object = "", numbers: tuple[int, ...] = ()) -> None:
        self.expected = expected
        self.seen = describe_seen(seen)
        self.numbers = numbers
        super().__init__(f"expected: {expected}; seen: {self.seen}" if self.seen else f"expected: {expected}")


class Unsupported(Exception):
    """The driver lacks a capability or a setting that the case needs."""


class NotExercised(Exception):
    """The client did nothing that the rule of the case is about, so that it cannot be judged."""


def describe_evidence(seen: object, exchanges: Exchanges) -> str:
    """What was seen; where the case does not say it (an empty text), the exchanges that decide."""
    if seen != "":
        return describe_seen(seen)
    if exchanges is None:
        return "it was not so"
    return describe_seen([exchanges] if isinstance(exchanges, Exchange) else exchanges)


def exchange_numbers(exchanges: Exchanges) -> tuple[int, ...]:
    """The numbers of exchanges."""
    if exchanges is None:
        return ()
    if isinstance(exchanges, Exchange):
        return (exchanges.number,)
    return tuple(exchange.number for exchange in exchanges)


def last_of(exchanges: Sequence[Exchange[Any, Any]], apis: Sequence[str]) -> list[Exchange[Any, Any]]:
    """The last exchanges of these APIs; of any API if there is none of these."""
    return ([each for each in exchanges if each.api_name in apis] or list(exchanges))[-_LAST_MAX:]
