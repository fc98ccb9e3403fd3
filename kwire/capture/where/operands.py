"""What stands behind an operator: numbers, spans, sizes, times, names of errors and APIs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from difflib import get_close_matches
from fractions import Fraction
from typing import NamedTuple

from kwire import registry
from kwire.capture.rows import STATUSES
from kwire.capture.where.fields import Field, Kind
from kwire.error_codes import ErrorCode

_SPANS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 10**9, "m": 60 * 10**9, "h": 3_600 * 10**9}
_SIZES = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}
# Thirty digits are more than any column holds, and keep arithmetic cheap.
_NUMBER = re.compile(r"(-?\d{1,30}(?:\.\d{1,30})?)([a-zA-Zµ]*)")
_TIME_OF_DAY = re.compile(r"([01]\d|2[0-3]):([0-5]\d)(?::([0-5]\d)(?:\.(\d{1,9}))?)?")
_INSTANT = re.compile(r"(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d(?::\d\d)?)(?:\.(\d{1,9}))?)?(Z|[+-]\d\d:\d\d)?")


class OperandError(ValueError):
    """A value that does not fit its field; says what was expected."""


class TimeOfDay(NamedTuple):
    """Nanoseconds since midnight, of any day."""

    ns: int


Operand = str | int | Fraction | TimeOfDay


def operand(field: Field, text: str) -> Operand:
    """The value that the text means for this field: text is compared with texts, all others with numbers.

    Raises: OperandError when it means none.
    """
    if field.kind is Kind.TEXT:
        return text
    return _READERS[field.kind](field, text)


def _number(field: Field, text: str) -> Operand:
    found = _NUMBER.fullmatch(text)
    if found is None or found[2]:
        raise OperandError(f"{field.name} is compared with a number, not with {text!r}")
    return _exact(Fraction(found[1]))


def span_ns(text: str) -> Fraction | None:
    """A number with a unit of time, as 20ms, in nanoseconds; None when it is none."""
    found = _NUMBER.fullmatch(text)
    unit = _SPANS.get(found[2].replace("µ", "u")) if found is not None else None
    return None if found is None or unit is None else Fraction(found[1]) * unit


def _span(field: Field, text: str) -> Operand:
    span = span_ns(text)
    if span is not None:
        return _exact(span / field.unit)
    found = _NUMBER.fullmatch(text)
    if found is None or found[2]:
        raise OperandError(f"{field.name} is compared with a span of time, as 20ms or 1.5s, not with {text!r}")
    # The column's own name tells its unit; behind a short name a bare number would be a guess.
    if field.name not in field.columns and Fraction(found[1]):
        raise OperandError(f"{text!r} needs a unit: ns, us, ms, s, m or h, as in {field.name}>20ms")
    return _exact(Fraction(found[1]))


def _size(field: Field, text: str) -> Operand:
    found = _NUMBER.fullmatch(text)
    if found is None or found[2].lower() not in _SIZES:
        raise OperandError(f"{field.name} is compared with a size, as 512 or 64KiB, not with {text!r}")
    return _exact(Fraction(found[1]) * _SIZES[found[2].lower()])


def _exact(value: Fraction) -> int | Fraction:
    return value.numerator if value.denominator == 1 else value


def _time(field: Field, text: str) -> Operand:
    of_day = _TIME_OF_DAY.fullmatch(text)
    if of_day is not None:
        hour, minute, second = int(of_day[1]), int(of_day[2]), int(of_day[3] or 0)
        return TimeOfDay((hour * 3_600 + minute * 60 + second) * 10**9 + _fraction(of_day[4]))
    found = _INSTANT.fullmatch(text)
    examples = "08:59:24.98 (UTC, of any day) or 2026-11-21T08:59:24Z"
    wanted = f"{field.name} is compared with a time, as {examples}, not with {text!r}"
    if found is None:
        raise OperandError(wanted)
    zone = "+00:00" if found[4] in (None, "Z") else found[4]
    try:
        moment = datetime.fromisoformat(f"{found[1]}T{found[2] or '00:00'}{zone}").astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise OperandError(wanted) from error
    return int(moment.timestamp()) * 10**9 + _fraction(found[3])


def _fraction(digits: str | None) -> int:
    return int((digits or "").ljust(9, "0"))


def _bool(field: Field, text: str) -> Operand:
    words = {"true": 1, "yes": 1, "1": 1, "false": 0, "no": 0, "0": 0}
    if text.lower() not in words:
        raise OperandError(f"{field.name} is compared with true or false, not with {text!r}")
    return words[text.lower()]


def _error(field: Field, text: str) -> Operand:
    if re.fullmatch(r"-?\d{1,9}", text):
        return int(text)
    return int(ErrorCode[_among(text, ErrorCode.__members__, "an error of Kafka, by name or number")])


def _api(field: Field, text: str) -> Operand:
    if re.fullmatch(r"\d{1,9}", text):
        return int(text)
    names = [registry.api_name(key) for key in registry.API_KEYS]
    return _among(text, [*names, "SaslToken"], "an API, by name or number")


def _status(field: Field, text: str) -> Operand:
    return _among(text, STATUSES, "a status")


def _among(text: str, names: Iterable[str], what: str) -> str:
    """The name as it is written, whatever the case."""
    known = {name.lower(): name for name in names}
    if text.lower() not in known:
        raise OperandError(f"{text!r} is not {what}{nearest(text, known.values())}")
    return known[text.lower()]


def nearest(text: str, names: Iterable[str]) -> str:
    """Words that tell what may have been meant, if anything comes near: a name that holds the text, or one like it."""
    known = {name.lower(): name for name in names}
    word = text.lower()
    holding = [name for name in known if len(word) > 2 and word in name]
    found = sorted(holding, key=lambda name: (not name.startswith(word), len(name))) or get_close_matches(word, known)
    return f"; did you mean {known[found[0]]}?" if found else ""


_READERS: Mapping[Kind, Callable[[Field, str], Operand]] = {
    Kind.API: _api,
    Kind.ERROR: _error,
    Kind.STATUS: _status,
    Kind.NUMBER: _number,
    Kind.DURATION: _span,
    Kind.SIZE: _size,
    Kind.TIME: _time,
    Kind.BOOL: _bool,
}
