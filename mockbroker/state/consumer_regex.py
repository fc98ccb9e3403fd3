"""Subscriptions by regular expression: which topics a SubscribedTopicRegex means."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from kwire.error_codes import ErrorCode
from kwire.regex import Pattern, PatternError
from mockbroker.kafka_error import KafkaError

#: The pieces of an expression, quoted and escaped ones whole; counts that are too long for a number of Java's.
_PIECES = re.compile(r"\\Q.*?(?:\\E|\Z)|\\.|\{(?:\d+,)?\d{9,}|.", re.DOTALL)
_ANY_BYTE = r"\C"


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
        _must_be_of_java(regex)
        return Pattern(regex)
    except PatternError as problem:
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION, f"SubscribedTopicRegex {regex!r} is no expression: {problem}"
        ) from None


def _must_be_of_java(regex: str) -> None:
    """Refuse what RE2 takes, and Kafka's RE2/J does not; pinned by the conversation other-consumer-regex-forms."""
    for piece in _PIECES.finditer(regex):
        if piece[0] == _ANY_BYTE:
            raise PatternError("invalid escape sequence", _ANY_BYTE)
        if len(piece[0]) > 1 and piece[0].startswith("{"):
            raise PatternError("invalid repeat count", piece[0])
