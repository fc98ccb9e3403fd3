"""Subscriptions by regular expression, in RE2's language as Kafka's brokers read it, matched by Python's `re`.

What RE2 refuses is refused (look-around, back-references, possessive and atomic groups). What RE2 has and Python
has not is written anew where that is simple (`\\z`, `\\Q...\\E`, `[[:alpha:]]`), and refused by name where it is not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError

#: What Python takes and RE2 does not.
_NOT_IN_RE2 = re.compile(r"\(\?(?:[=!>]|<[=!]|P[=>]|\()|\\[1-9]|\\Z|(?:[*+?]|\{\d+(?:,\d*)?\})\+")
#: What RE2 takes and we do not.
_NOT_HERE = re.compile(r"\\[pPCx]")
_POSIX = {
    "alnum": "a-zA-Z0-9",
    "alpha": "a-zA-Z",
    "ascii": r"\x00-\x7f",
    "blank": r"\t ",
    "digit": "0-9",
    "lower": "a-z",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\t\n\v\f\r ",
    "upper": "A-Z",
    "word": r"\w",
    "xdigit": "0-9A-Fa-f",
}
_ESCAPED = re.compile(r"\\\\")


def matching(regex: str, names: Iterable[str]) -> frozenset[str]:
    """The names that the whole expression matches.

    Raises: INVALID_REGULAR_EXPRESSION.
    """
    pattern = compiled(regex)
    return frozenset(name for name in names if pattern.fullmatch(name))


@lru_cache(maxsize=256)
def compiled(regex: str) -> re.Pattern[str]:
    """Read an expression of RE2's language.

    Raises: INVALID_REGULAR_EXPRESSION, also for the parts of RE2 that this broker does not know.
    """
    plain = _ESCAPED.sub("  ", regex)  # An escaped backslash begins no other escape.
    for unknown, why in ((_NOT_IN_RE2, "RE2 has no such thing"), (_NOT_HERE, "this broker does not support it")):
        found = unknown.search(plain)
        if found is not None:
            raise _invalid(regex, f"{found.group()!r}: {why}")
    try:
        return re.compile(_translated(regex), re.ASCII)
    except re.error as problem:
        raise _invalid(regex, str(problem)) from None


def _translated(regex: str) -> str:
    quoted = re.sub(r"\\Q(.*?)(?:\\E|$)", lambda found: re.escape(found.group(1)), regex, flags=re.DOTALL)
    ended = re.sub(r"(?<!\\)((?:\\\\)*)\\z", r"\1\\Z", quoted)
    return re.sub(r"\[:(\w+):\]", lambda found: _POSIX.get(found.group(1), found.group()), ended)


def _invalid(regex: str, why: str) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_REGULAR_EXPRESSION, f"SubscribedTopicRegex {regex!r} is not a valid regular expression: {why}"
    )
