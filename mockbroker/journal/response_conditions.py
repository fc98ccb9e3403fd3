"""Conditions on responses: their presence and their error codes."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

import msgspec

from kwire.error_codes import ErrorCode
from mockbroker.journal.condition import Condition
from mockbroker.journal.exchange import Exchange
from mockbroker.journal.message_values import error_codes, failure_codes

_CODES = frozenset(code.value for code in ErrorCode)


def error_condition(error: str | int) -> Condition:
    """The condition that a response has this error code, in any of its parts; NONE, or 0: no error in any part.

    Raises: ValueError for an unknown error code.
    """
    code = _find_error(error)

    def matches(exchange: Exchange[Any, Any]) -> bool:
        if exchange.response is None:
            return False
        codes = set(error_codes(exchange.response)) or {ErrorCode.NONE}
        return codes == {ErrorCode.NONE} if code is ErrorCode.NONE else code in codes

    def actual(exchange: Exchange[Any, Any]) -> str:
        return "no response" if exchange.response is None else f"error {describe_errors(exchange.response)}"

    return Condition(f"error={code.name}", matches, actual)


def answered_condition() -> Condition:
    """The condition that a request has its response."""
    return Condition("answered", lambda exchange: exchange.answered_ms is not None, lambda _: "no response")


def code_name(code: int) -> str:
    """The name of an error code; the number of one that Kafka does not have, as a fault may set it."""
    return ErrorCode(code).name if code in _CODES else str(code)


def describe_errors(response: msgspec.Struct) -> str:
    """The names of the errors of a response, NONE without one."""
    codes = failure_codes(response)
    return ", ".join(code_name(code) for code in codes) if codes else ErrorCode.NONE.name


def _find_error(error: str | int) -> ErrorCode:
    if isinstance(error, int):
        return ErrorCode(error)
    if error in ErrorCode.__members__:
        return ErrorCode[error]
    nearest = get_close_matches(error.upper(), ErrorCode.__members__, n=2)
    hint = f"did you mean {' or '.join(map(repr, nearest))}?" if nearest else "the names are those of Kafka"
    raise ValueError(f"{error!r} is not an error code; {hint}")
