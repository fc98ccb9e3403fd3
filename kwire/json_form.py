"""Kafka's JSON form of messages: lowerCamelCase names, base64 bytes, base64url UUIDs, no tagged fields with defaults.

To JSON there are two ways: `json_converter` compiles the schema once for each message and version. It is fast, but
accepts valid values only. Where it raises one of `FAILURES`, `to_json_checked` converts again and names the field.
"""

from __future__ import annotations

import math
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import msgspec

from kwire import uuids
from kwire.codec_table import Codec
from kwire.errors import InvalidValue, UnexpectedNull, UnsupportedVersion
from kwire.json_plan import JsonField, JsonStruct, json_plan
from kwire.primitives import FAILURES, FastPathError
from kwire.schema import FieldSpec, load_schema
from kwire.schema.spec import INTEGER_RANGES
from kwire.schema_codec.writing import check_absent, is_default

#: Turns a value into JSON; None where JSON has the same value.
Convert = Callable[[Any], Any] | None

#: Turns a struct into a JSON object.
StructConverter = Callable[[Any], dict[str, Any]]


def to_json_form(codec: Codec, version: int, message: msgspec.Struct, *, records: bool = True) -> dict[str, object]:
    """The JSON form of a message.

    Args: records: False writes every record batch as an empty text, as Kafka's own JSON converters do.
    Raises: UnsupportedVersion or UnexpectedNull naming the field, as when encoding.
    """
    try:
        return json_converter(codec.name, codec.edition, version, records=records)(message)
    except FAILURES:
        return to_json_checked(codec, version, message, records=records)


def to_json_checked(codec: Codec, version: int, message: msgspec.Struct, *, records: bool) -> dict[str, object]:
    """As `to_json_form`, field by field, with the path for errors."""
    spec = load_schema(codec.name, codec.edition)
    return _CheckedConverter(codec, version, records).convert_struct(message, spec.fields, spec.name)


def from_json_form(codec: Codec, version: int, tree: object) -> msgspec.Struct:
    """The message of a JSON form; omitted fields take their defaults.

    Raises: InvalidValue, UnexpectedNull or UnsupportedVersion naming the field.
    """
    spec = load_schema(codec.name, codec.edition)
    return _MessageBuilder(codec, version).build_struct(tree, codec.message, spec.fields, spec.name)


@cache
def json_converter(name: str, edition: str, version: int, *, records: bool) -> StructConverter:
    """The function that returns the JSON form of a message."""
    return _struct_converter(json_plan(name, edition, version), VALUE_FORMS[records])


def _struct_converter(plan: JsonStruct, forms: Mapping[str, Callable[[Any], Any]]) -> StructConverter:
    absent = plan.absent
    rows = [
        (field.name, field.key, _field_converter(field, forms), field.is_nullable, field.omitted)
        for field in plan.fields
    ]

    def convert(value: Any) -> dict[str, Any]:
        for name, defaults in absent:
            if getattr(value, name) not in defaults:
                raise FastPathError
        tree: dict[str, Any] = {}
        for name, key, convert_value, nullable, omitted in rows:
            content = getattr(value, name)
            if omitted and content in omitted:
                continue
            if content is None:
                if not nullable:
                    raise FastPathError
            elif convert_value is not None:
                content = convert_value(content)
            tree[key] = content
        return tree

    return convert


def _field_converter(field: JsonField, forms: Mapping[str, Callable[[Any], Any]]) -> Convert:
    convert = forms.get(field.kind) if field.inner is None else _struct_converter(field.inner, forms)
    if not field.is_array:
        return convert
    if convert is None:
        return list
    return lambda values: [convert(value) for value in values]


def _encode_base64(value: bytes) -> str:
    return b64encode(value).decode("ascii")


def _empty_text(value: object) -> str:
    return ""


def _check_text(value: object) -> str:
    if not isinstance(value, str):
        raise FastPathError
    return value


def float_form(value: float) -> float | str:
    """A float, or the text that Jackson, which Kafka uses, writes for NaN and the infinities."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


_FORMS: dict[str, Callable[[Any], Any]] = {
    "uuid": uuids.to_text,
    "bytes": _encode_base64,
    "float64": float_form,
    "string": _check_text,
}
VALUE_FORMS: Mapping[bool, Mapping[str, Callable[[Any], Any]]] = {
    True: {**_FORMS, "records": _encode_base64},
    False: {**_FORMS, "records": _empty_text},
}
"""The functions that turn values into JSON, by whether records are written, and by type. Other values are the same."""


class _CheckedConverter:
    """From a message to JSON, in one version."""

    def __init__(self, codec: Codec, version: int, records: bool) -> None:
        self.codec = codec
        self.version = version
        self.records = records

    def convert_struct(self, value: object, fields: tuple[FieldSpec, ...], path: str) -> dict[str, object]:
        """An object with the fields that the version has; tagged ones only where they are set."""
        if not isinstance(value, msgspec.Struct):
            raise InvalidValue(path, None, f"is a {type(value).__name__}, not a struct")
        check_absent(self.codec, self.version, value, fields, path)
        tree: dict[str, object] = {}
        for field in fields:
            content = getattr(value, field.snake_name)
            is_omitted = field.is_tagged(self.version) and is_default(self.codec, field, content)
            if self.version in field.versions and not is_omitted:
                tree[field.json_name] = self.convert_field(field, content, f"{path}.{field.snake_name}")
        return tree

    def convert_field(self, field: FieldSpec, value: object, path: str) -> object:
        """A value, or an array of them, or null where the version allows it."""
        if value is None:
            if self.version not in field.nullable_versions:
                raise UnexpectedNull(path, None, f"is null, which version {self.version} does not allow")
            return None
        if not field.is_array:
            return self.convert_value(field, value, path)
        if not isinstance(value, (list, tuple)):
            raise InvalidValue(path, None, f"is a {type(value).__name__}, not a list or tuple")
        return [self.convert_value(field, element, f"{path}[{index}]") for index, element in enumerate(value)]

    def convert_value(self, field: FieldSpec, value: object, path: str) -> object:
        """One value: bytes as base64, UUIDs as base64url."""
        if field.struct:
            return self.convert_struct(value, field.fields, path)
        kind = field.element_type
        if kind in {"uuid", "bytes", "records"}:
            if not isinstance(value, (bytes, bytearray, memoryview)):
                raise InvalidValue(path, None, f"is a {type(value).__name__}, not bytes")
            return VALUE_FORMS[self.records][kind](bytes(value))
        if kind == "float64" and isinstance(value, float):
            return float_form(value)
        return int(value) if kind in INTEGER_RANGES and isinstance(value, int) else value


class _MessageBuilder:
    """From JSON to a message, in one version."""

    def __init__(self, codec: Codec, version: int) -> None:
        self.codec = codec
        self.version = version

    def build_struct(
        self, tree: object, message_class: type[msgspec.Struct], fields: tuple[FieldSpec, ...], path: str
    ) -> msgspec.Struct:
        """A struct of the fields that the object names; the others have their defaults."""
        if not isinstance(tree, dict):
            raise InvalidValue(path, None, f"is {_json_type(tree)}, not an object")
        by_name = {field.json_name: field for field in fields}
        values: dict[str, object] = {}
        for key, value in tree.items():
            field = by_name.get(key)
            if field is None:
                raise InvalidValue(f"{path}.{key}", None, f"is no field; there are {', '.join(by_name) or 'none'}")
            if self.version not in field.versions:
                what = f"is no field of version {self.version}, but of {field.versions}"
                raise UnsupportedVersion(f"{path}.{key}", what)
            values[field.snake_name] = self.build_field(field, value, f"{path}.{field.snake_name}")
        return message_class(**values)

    def build_field(self, field: FieldSpec, value: object, path: str) -> object:
        """A value, or an array of them, or null where the version allows it."""
        if value is None:
            if self.version not in field.nullable_versions:
                raise UnexpectedNull(path, None, f"is null, which version {self.version} does not allow")
            return None
        if not field.is_array:
            return self.build_value(field, value, path)
        if not isinstance(value, list):
            raise InvalidValue(path, None, f"is {_json_type(value)}, not an array")
        elements = [self.build_value(field, element, f"{path}[{index}]") for index, element in enumerate(value)]
        return elements if field.struct else tuple(elements)

    def build_value(self, field: FieldSpec, value: object, path: str) -> object:
        """One value of the type that the field has."""
        if field.struct:
            return self.build_struct(value, self.codec.structs[field.struct.name], field.fields, path)
        kind = field.element_type
        if kind in INTEGER_RANGES:
            return _parse_integer(kind, value, path)
        if kind == "bool":
            if not isinstance(value, bool):
                raise InvalidValue(path, None, f"is {_json_type(value)}, not true or false")
            return value
        if kind == "float64":
            return _parse_float(value, path)
        if not isinstance(value, str):
            raise InvalidValue(path, None, f"is {_json_type(value)}, not a string")
        return value if kind == "string" else _parse_bytes(kind, value, path)


def _parse_integer(kind: str, value: object, path: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidValue(path, None, f"is {_json_type(value)}, not an integer")
    low, high = INTEGER_RANGES[kind]
    if not low <= value <= high:
        raise InvalidValue(path, None, f"does not fit {kind}: {low} to {high}")
    return value


def _parse_float(value: object, path: str) -> float:
    if isinstance(value, str) and value in {"NaN", "Infinity", "-Infinity"}:
        return float(value)
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise InvalidValue(path, None, f"is {_json_type(value)}, not a number")
    try:
        return float(value)
    except OverflowError:
        raise InvalidValue(path, None, "does not fit float64") from None


def _parse_bytes(kind: str, value: str, path: str) -> bytes:
    try:
        return uuids.from_text(value) if kind == "uuid" else b64decode(value, validate=True)
    except ValueError:
        what = "22 characters of base64url, as a UUID has" if kind == "uuid" else "base64"
        raise InvalidValue(path, None, f"is not {what}") from None


def _json_type(value: object) -> str:
    """The name of a value's type in JSON."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true or false"
    names = {str: "a string", int: "a number", float: "a number", list: "an array", dict: "an object"}
    return names.get(type(value), f"a {type(value).__name__}")
