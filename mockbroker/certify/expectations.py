"""What cases expect, and how an expectation fails."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mockbroker.journal import Exchange

#: Exchanges that decide: one, several, or a question to the history.
Exchanges = Exchange[Any, Any] | Iterable[Exchange[Any, Any]] | None


class ExpectationFailed(AssertionError):
    """The client did not do what the source demands. expected, seen: sentences; numbers: of the deciding exchanges."""

    def __init__(self, expected: str, seen: str = "", numbers: tuple[int, ...] = ()) -> None:
        super().__init__(f"expected: {expected}; seen: {seen}" if seen else f"expected: {expected}")
        self.expected = expected
        self.seen = seen
        self.numbers = numbers


class Unsupported(Exception):
    """The driver lacks a capability or a setting that the case needs."""


class NotExercised(Exception):
    """The client did nothing that the rule of the case is about, so that it cannot be judged."""


def exchange_numbers(exchanges: Exchanges) -> tuple[int, ...]:
    """The numbers of exchanges."""
    if exchanges is None:
        return ()
    if isinstance(exchanges, Exchange):
        return (exchanges.number,)
    return tuple(exchange.number for exchange in exchanges)
