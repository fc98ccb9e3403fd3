"""Parses the operands of display filters: numbers, durations, sizes, times, and names of errors and APIs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from difflib import get_close_matches
from fractions import Fraction
from typing import NamedTuple

from kwire import registry
from kwire.capture.display_filter.fields import FieldKind, FilterField
from kwire.capture.rows.message_rows import STATUSES
from kwire.error_codes import ErrorCode

_DURATION_UNITS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 10**9, "m": 60 * 10**9, "h": 3_600 * 10**9}
_SIZE_UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}
# No column has more digits; the limit keeps arithmetic fast.
_NUMBER = re.compile(r"(-?\d{1,30}(?:\.\d{1,30})?)([a-zA-Zµ]*)")
_TIME_OF_DAY = re.compile(r"([01]\d|2[0-3]):([0-5]\d)(?::([0-5]\d)(?:\.(\d{1,9}))?)?")
_INSTANT = re.compile(r"(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d(?::\d\d)?)(?:\.(\d{1,9}))?)?(Z|[+-]\d\d:\d\d)?")


class OperandError(ValueError):
    """The value is not valid for its field; the message has what was expected."""


class TimeOfDay(NamedTuple):
    """Nanoseconds since midnight, of any day."""

    ns: int


Operand = str | int | Fraction | TimeOfDay


def parse_operand(field: FilterField, text: str) -> Operand:
    """The value of the text for this field: text fields are compared with text, all others with numbers.

    Raises: OperandError for an invalid value.
    """
    if field.kind is FieldKind.TEXT:
        return text
    return _PARSERS[field.kind](field, text)


def _parse_number(field: FilterField, text: str) -> Operand:
    match = _NUMBER.fullmatch(text)
    if match is None or match[2]:
        raise OperandError(f"{field.name} is compared with a number, not with {text!r}")
    return _as_int_if_whole(Fraction(match[1]))


def parse_duration_ns(text: str) -> Fraction | None:
    """A duration with a unit, as 20ms, in nanoseconds; None if the text is no duration."""
    match = _NUMBER.fullmatch(text)
    unit = _DURATION_UNITS.get(match[2].replace("µ", "u")) if match is not None else None
    return None if match is None or unit is None else Fraction(match[1]) * unit


def _parse_duration(field: FilterField, text: str) -> Operand:
    duration_ns = parse_duration_ns(text)
    if duration_ns is not None:
        return _as_int_if_whole(duration_ns / field.unit)
    match = _NUMBER.fullmatch(text)
    if match is None or match[2]:
        raise OperandError(f"{field.name} is compared with a duration, as 20ms or 1.5s, not with {text!r}")
    # The name of a column contains its unit. For a short name, a number without a unit is ambiguous.
    if field.name not in field.columns and Fraction(match[1]):
        raise OperandError(f"{text!r} needs a unit: ns, us, ms, s, m or h, as in {field.name}>20ms")
    return _as_int_if_whole(Fraction(match[1]))


def _parse_size(field: FilterField, text: str) -> Operand:
    match = _NUMBER.fullmatch(text)
    if match is None or match[2].lower() not in _SIZE_UNITS:
        raise OperandError(f"{field.name} is compared with a size, as 512 or 64KiB, not with {text!r}")
    return _as_int_if_whole(Fraction(match[1]) * _SIZE_UNITS[match[2].lower()])


def _as_int_if_whole(value: Fraction) -> int | Fraction:
    return value.numerator if value.denominator == 1 else value


def _parse_time(field: FilterField, text: str) -> Operand:
    time_of_day = _TIME_OF_DAY.fullmatch(text)
    if time_of_day is not None:
        hour, minute, second = int(time_of_day[1]), int(time_of_day[2]), int(time_of_day[3] or 0)
        return TimeOfDay((hour * 3_600 + minute * 60 + second) * 10**9 + _fraction_ns(time_of_day[4]))
    match = _INSTANT.fullmatch(text)
    examples = "08:59:24.98 (UTC, of any day) or 2026-11-21T08:59:24Z"
    message = f"{field.name} is compared with a time, as {examples}, not with {text!r}"
    if match is None:
        raise OperandError(message)
    zone = "+00:00" if match[4] in (None, "Z") else match[4]
    try:
        moment = datetime.fromisoformat(f"{match[1]}T{match[2] or '00:00'}{zone}").astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise OperandError(message) from error
    return int(moment.timestamp()) * 10**9 + _fraction_ns(match[3])


def _fraction_ns(digits: str | None) -> int:
    return int((digits or "").ljust(9, "0"))


def _parse_bool(field: FilterField, text: str) -> Operand:
    words = {"true": 1, "yes": 1, "1": 1, "false": 0, "no": 0, "0": 0}
    if text.lower() not in words:
        raise OperandError(f"{field.name} is compared with true or false, not with {text!r}")
    return words[text.lower()]


def _parse_error(field: FilterField, text: str) -> Operand:
    if re.fullmatch(r"-?\d{1,9}", text):
        return int(text)
    return int(ErrorCode[_find_name(text, ErrorCode.__members__, "an error of Kafka, by name or number")])


def _parse_api(field: FilterField, text: str) -> Operand:
    if re.fullmatch(r"\d{1,9}", text):
        return int(text)
    names = [registry.api_name(key) for key in registry.known_api_keys()]
    return _find_name(text, [*names, "SaslToken"], "an API, by name or number")


def _parse_status(field: FilterField, text: str) -> Operand:
    return _find_name(text, STATUSES, "a status")


def _find_name(text: str, names: Iterable[str], description: str) -> str:
    """The name in its own case; the text may be in any case."""
    known = {name.lower(): name for name in names}
    if text.lower() not in known:
        raise OperandError(f"{text!r} is not {description}{suggest_name(text, known.values())}")
    return known[text.lower()]


def suggest_name(text: str, names: Iterable[str]) -> str:
    """A hint with the most similar name: one that contains the text, or a close match. Empty if there is none."""
    known = {name.lower(): name for name in names}
    word = text.lower()
    containing = [name for name in known if len(word) > 2 and word in name]
    containing.sort(key=lambda name: (not name.startswith(word), len(name)))
    matches = containing or get_close_matches(word, known)
    return f"; did you mean {known[matches[0]]}?" if matches else ""


_PARSERS: Mapping[FieldKind, Callable[[FilterField, str], Operand]] = {
    FieldKind.API: _parse_api,
    FieldKind.ERROR: _parse_error,
    FieldKind.STATUS: _parse_status,
    FieldKind.NUMBER: _parse_number,
    FieldKind.DURATION: _parse_duration,
    FieldKind.SIZE: _parse_size,
    FieldKind.TIME: _parse_time,
    FieldKind.BOOL: _parse_bool,
}
