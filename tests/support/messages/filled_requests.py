"""Requests of every API whose numbers are chosen by their size, and whose texts are all the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from kwire import from_json
from kwire.schema.library import load_schema
from kwire.schema.spec import FieldSpec
from mockbroker.handlers import ROUTES

_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_OTHERS = {"bool": True, "uint16": 65_535, "uint32": (1 << 32) - 1, "float64": 1e308, "uuid": "AAAAAAAAAAAAAAAAAAAAAA"}
#: A number of so many bits.
Choose = Callable[[int], int]


def lowest(bits: int) -> int:
    """The smallest number of a size."""
    return -(1 << bits - 1)


def highest(bits: int) -> int:
    """The largest number of a size."""
    return (1 << bits - 1) - 1


def filled_request(api_key: int, choose: Choose, *, text: str = "t") -> tuple[msgspec.Struct, int]:
    """A request of the newest version of an API, with one element in each array, and the version."""
    version = ROUTES[api_key].versions[1]
    name = f"{ROUTES[api_key].name}Request"
    return from_json(name, version, _fill(load_schema(name).fields, version, choose, text)), version


def _fill(fields: tuple[FieldSpec, ...], version: int, choose: Choose, text: str) -> dict[str, Any]:
    present = [field for field in fields if version in field.versions]
    return {field.json_name: _make_value(field, field.type, version, choose, text) for field in present}


def _make_value(field: FieldSpec, kind: str, version: int, choose: Choose, text: str) -> Any:
    if kind.startswith("[]"):
        return [_make_value(field, kind[2:], version, choose, text)]
    if field.struct is not None:
        return _fill(field.struct.fields, version, choose, text)
    if kind in _BITS:
        return choose(_BITS[kind])
    return text if kind == "string" else _OTHERS.get(kind, "")
