"""The default of a field, from the text in its schema."""

from __future__ import annotations

import math

from kwire import uuids
from kwire.schema.spec import INTEGER_RANGES, Default
from kwire.schema.versions import Versions


def parse_default(type_name: str, given: object, nullable: Versions, versions: Versions, valid: Versions) -> Default:
    """The default of a field of this type; `given` is None when the schema has no default.

    Raises: ValueError when the default does not fit the type.
    """
    text = _to_text(given)
    if text == "null" and type_name not in INTEGER_RANGES and type_name not in {"bool", "float64", "uuid"}:
        if not nullable.covers(versions.intersect(valid)):
            raise ValueError("default null, but the field is not nullable in all its versions")
        return None
    if type_name in INTEGER_RANGES:
        return _parse_integer(type_name, text)
    match type_name:
        case "bool":
            return _parse_boolean(text)
        case "float64":
            return _parse_float(text)
        case "uuid":
            return uuids.from_text(text) if text else uuids.ZERO
        case "string":
            return text
    if text:
        raise ValueError(f"default {text!r}: {type_name} can only be empty or null by default")
    return b"" if type_name in {"bytes", "records"} else ()


def _to_text(given: object) -> str:
    if given is None:
        return ""
    if isinstance(given, bool):
        return str(given).lower()
    if isinstance(given, (str, int, float)):
        return str(given)
    raise ValueError(f"default {given!r} is not a text")


def _parse_integer(type_name: str, text: str) -> int:
    try:
        value = int(text, 0) if text else 0
    except ValueError:
        raise ValueError(f"default {text!r} is not an integer") from None
    low, high = INTEGER_RANGES[type_name]
    if not low <= value <= high:
        raise ValueError(f"default {text} does not fit {type_name}")
    return value


def _parse_boolean(text: str) -> bool:
    if text not in {"", "true", "false"}:
        raise ValueError(f"default {text!r} is neither true nor false")
    return text == "true"


def _parse_float(text: str) -> float:
    try:
        value = float(text or 0)
    except ValueError:
        raise ValueError(f"default {text!r} is not a number") from None
    if math.isnan(value):
        raise ValueError("default NaN is not equal to itself")
    return value
