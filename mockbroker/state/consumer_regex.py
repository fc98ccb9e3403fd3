"""Subscriptions by regular expression: which topics a SubscribedTopicRegex means."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError
from mockbroker.state.regex_match import Pattern
from mockbroker.state.regex_syntax import RegexError


def matching(regex: str, names: Iterable[str]) -> frozenset[str]:
    """The names that the whole expression matches.

    Raises: INVALID_REGULAR_EXPRESSION.
    """
    pattern = compiled(regex)
    return frozenset(name for name in names if pattern.matches(name))


@lru_cache(maxsize=256)
def compiled(regex: str) -> Pattern:
    """Read an expression.

    Raises: INVALID_REGULAR_EXPRESSION.
    """
    try:
        return Pattern(regex)
    except RegexError as problem:
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION, f"SubscribedTopicRegex {regex!r} has {problem}."
        ) from None
