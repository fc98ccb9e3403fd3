"""Conditions on the fields of a request, in the language of `kwire decode -Y`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import cast, get_args

import msgspec

from kwire.capture.display_filter.fields import FieldKind, FilterField, Row, Values
from kwire.capture.display_filter.parser import parse_filter_of_fields
from kwire.capture.display_filter.tokenizer import FilterError
from kwire.registry import API_KEYS, api_name, request_class
from mockbroker.journal.leaf_fields import FieldPath, leaf_fields, read_values

#: The key of the request in a row of these filters.
_REQUEST = "request"


class FieldFilter:
    """A parsed condition on requests of one API.

    A field is written with its path, `topics.partitions.partition_index`, or with its last part where that is the only
    one of the name; in an array the condition holds if it holds for one element.
    """

    def __init__(self, text: str, api: str) -> None:
        """Parse the text. Raises: ValueError for invalid syntax and for fields that the requests lack."""
        try:
            expression = parse_filter_of_fields(text, request_fields(api), f"a {api} request")
        except FilterError as error:
            raise ValueError(f"filter {text!r}: {error}") from error
        self._matches: Callable[[Row], bool] = expression.matches

    def matches(self, request: msgspec.Struct) -> bool:
        """Whether the condition is true for a request."""
        return self._matches({_REQUEST: request})


@cache
def request_fields(api: str) -> Mapping[str, FilterField]:
    """The fields of requests of an API by their paths and by short names; a row has the request as `request`."""
    paths = dict(leaf_fields(request_class(next(key for key in API_KEYS if api_name(key) == api))))
    short_names = [path[-1] for path in paths]
    fields: dict[str, FilterField] = {}
    for path, kind in paths.items():
        full_name = ".".join(path)
        fields[full_name] = _filter_field(full_name, path, kind)
        if short_names.count(path[-1]) == 1:
            fields.setdefault(path[-1], _filter_field(path[-1], path, kind))
    return fields


def _filter_field(name: str, path: FieldPath, kind: object) -> FilterField:
    def values(row: Row) -> Sequence[object]:
        return list(read_values(cast("msgspec.Struct | None", row[_REQUEST]), path))

    def texts(row: Row) -> Sequence[object]:
        return [_to_text(value) for value in values(row)]

    kinds = set(_plain_types(kind))
    if kinds & {str, bytes, memoryview}:
        return FilterField(name, FieldKind.TEXT, (_REQUEST,), texts, _no_values)
    numbers: Values = values
    field_kind = FieldKind.BOOL if bool in kinds else FieldKind.NUMBER
    return FilterField(name, field_kind, (_REQUEST,), _no_values, numbers)


def _plain_types(kind: object) -> list[object]:
    """The types in a union or an array type, without None."""
    arguments = [argument for argument in get_args(kind) if argument not in (type(None), Ellipsis)]
    return [plain for argument in arguments for plain in _plain_types(argument)] if arguments else [kind]


def _to_text(value: object) -> str:
    return value if isinstance(value, str) else bytes(cast(bytes, value)).decode("utf-8", "backslashreplace")


def _no_values(row: Row) -> Sequence[object]:
    return ()
