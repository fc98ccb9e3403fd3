"""Subscriptions by regular expression: the topics of a SubscribedTopicRegex."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from kwire.error_codes import ErrorCode
from kwire.regex import Pattern, PatternError
from mockbroker.kafka_error import KafkaError

#: The parts of an expression, quoted and escaped ones as a whole; counts that are too long for a Java int.
_PIECES = re.compile(r"\\Q.*?(?:\\E|\Z)|\\.|\{(?:\d+,)?\d{9,}|.", re.DOTALL)
_ANY_BYTE = r"\C"


def match_names(regex: str, names: Iterable[str]) -> frozenset[str]:
    """The names that the whole expression matches. Raises: INVALID_REGULAR_EXPRESSION."""
    pattern = compile_regex(regex)
    return frozenset(name for name in names if pattern.matches(name))


@lru_cache(maxsize=256)
def compile_regex(regex: str) -> Pattern:
    """Compile an expression. Raises: INVALID_REGULAR_EXPRESSION."""
    try:
        _reject_non_java_syntax(regex)
        return Pattern(regex)
    except PatternError as problem:
        message = f"SubscribedTopicRegex {regex!r} is not a valid expression: {problem}"
        raise KafkaError(ErrorCode.INVALID_REGULAR_EXPRESSION, message) from None


def _reject_non_java_syntax(regex: str) -> None:
    """Reject syntax that RE2 accepts and Kafka's RE2/J does not; pinned by other-consumer-regex-forms."""
    for piece in _PIECES.finditer(regex):
        if piece[0] == _ANY_BYTE:
            raise PatternError("invalid escape sequence", _ANY_BYTE)
        if len(piece[0]) > 1 and piece[0].startswith("{"):
            raise PatternError("invalid repeat count", piece[0])
