"""Kafka's own JSON form of messages: lowerCamelCase names, base64 bytes, base64url UUIDs, tagged defaults left out."""

from __future__ import annotations

from base64 import b64decode, b64encode

import msgspec

from kwire import uuids
from kwire.careful.writing import check_absent, is_default
from kwire.codec_table import Codec
from kwire.errors import InvalidValue, UnexpectedNull, UnsupportedVersion
from kwire.json_plan import float_to_json, plan
from kwire.primitives import FAILURES
from kwire.schema import FieldSpec, load
from kwire.schema.spec import INTEGER_RANGES


def to_tree(codec: Codec, version: int, message: msgspec.Struct, *, records: bool = True) -> dict[str, object]:
    """The JSON form of a message.

    Args: records: False writes every record batch as an empty text, as Kafka's own JSON converters do.
    Raises: UnsupportedVersion or UnexpectedNull naming the field, as when encoding.
    """
    try:
        return plan(codec.name, codec.edition, version, records=records)(message)
    except FAILURES:
        return to_tree_slowly(codec, version, message, records=records)


def to_tree_slowly(codec: Codec, version: int, message: msgspec.Struct, *, records: bool) -> dict[str, object]:
    """As `to_tree`, field by field, knowing at each step where it is."""
    spec = load(codec.name, codec.edition)
    return _ToTree(codec, version, records).struct(message, spec.fields, spec.name)


def from_tree(codec: Codec, version: int, tree: object) -> msgspec.Struct:
    """The message of a JSON form; what is left out takes its default.

    Raises: InvalidValue, UnexpectedNull or UnsupportedVersion naming the field.
    """
    spec = load(codec.name, codec.edition)
    return _FromTree(codec, version).struct(tree, codec.message, spec.fields, spec.name)


class _ToTree:
    """From a message to JSON, in one version."""

    def __init__(self, codec: Codec, version: int, records: bool) -> None:
        self.codec = codec
        self.version = version
        self.records = records

    def struct(self, value: object, fields: tuple[FieldSpec, ...], path: str) -> dict[str, object]:
        """An object with the fields that the version has; tagged ones only where they are set."""
        if not isinstance(value, msgspec.Struct):
            raise InvalidValue(path, None, f"is a {type(value).__name__}, not a struct")
        check_absent(self.codec, self.version, value, fields, path)
        tree: dict[str, object] = {}
        for field in fields:
            content = getattr(value, field.snake)
            if self.version not in field.versions:
                continue
            if field.is_tagged(self.version) and is_default(self.codec, field, content):
                continue
            tree[field.camel] = self.field(field, content, f"{path}.{field.snake}")
        return tree

    def field(self, field: FieldSpec, value: object, path: str) -> object:
        """A value, or an array of them, or null where the version allows it."""
        if value is None:
            if self.version not in field.nullable_versions:
                raise UnexpectedNull(path, None, f"is null, which version {self.version} does not allow")
            return None
        if not field.is_array:
            return self.single(field, value, path)
        if not isinstance(value, (list, tuple)):
            raise InvalidValue(path, None, f"is a {type(value).__name__}, not a list or tuple")
        return [self.single(field, element, f"{path}[{index}]") for index, element in enumerate(value)]

    def single(self, field: FieldSpec, value: object, path: str) -> object:
        """One value: bytes as base64, UUIDs as base64url."""
        if field.struct:
            return self.struct(value, field.fields, path)
        kind = field.element_type
        if kind in {"uuid", "bytes", "records"}:
            if not isinstance(value, (bytes, bytearray, memoryview)):
                raise InvalidValue(path, None, f"is a {type(value).__name__}, not bytes")
            if kind == "uuid":
                return uuids.to_text(bytes(value))
            return b64encode(value).decode("ascii") if self.records or kind == "bytes" else ""
        if kind == "float64" and isinstance(value, float):
            return float_to_json(value)
        return int(value) if kind in INTEGER_RANGES and isinstance(value, int) else value


class _FromTree:
    """From JSON to a message, in one version."""

    def __init__(self, codec: Codec, version: int) -> None:
        self.codec = codec
        self.version = version

    def struct(
        self, tree: object, made: type[msgspec.Struct], fields: tuple[FieldSpec, ...], path: str
    ) -> msgspec.Struct:
        """A struct of the fields that the object names; the others have their defaults."""
        if not isinstance(tree, dict):
            raise InvalidValue(path, None, f"is {_kind(tree)}, not an object")
        by_name = {field.camel: field for field in fields}
        values: dict[str, object] = {}
        for key, value in tree.items():
            field = by_name.get(key)
            if field is None:
                raise InvalidValue(f"{path}.{key}", None, f"is no field; there are {', '.join(by_name) or 'none'}")
            if self.version not in field.versions:
                what = f"is no field of version {self.version}, but of {field.versions}"
                raise UnsupportedVersion(f"{path}.{key}", what)
            values[field.snake] = self.field(field, value, f"{path}.{field.snake}")
        return made(**values)

    def field(self, field: FieldSpec, value: object, path: str) -> object:
        """A value, or an array of them, or null where the version allows it."""
        if value is None:
            if self.version not in field.nullable_versions:
                raise UnexpectedNull(path, None, f"is null, which version {self.version} does not allow")
            return None
        if not field.is_array:
            return self.single(field, value, path)
        if not isinstance(value, list):
            raise InvalidValue(path, None, f"is {_kind(value)}, not an array")
        elements = [self.single(field, element, f"{path}[{index}]") for index, element in enumerate(value)]
        return elements if field.struct else tuple(elements)

    def single(self, field: FieldSpec, value: object, path: str) -> object:
        """One value of the type that the field has."""
        if field.struct:
            return self.struct(value, self.codec.structs[field.struct.name], field.fields, path)
        kind = field.element_type
        if kind in INTEGER_RANGES:
            return _integer(kind, value, path)
        if kind == "bool":
            if not isinstance(value, bool):
                raise InvalidValue(path, None, f"is {_kind(value)}, not true or false")
            return value
        if kind == "float64":
            return _float(value, path)
        if not isinstance(value, str):
            raise InvalidValue(path, None, f"is {_kind(value)}, not a string")
        return value if kind == "string" else _bytes(kind, value, path)


def _integer(kind: str, value: object, path: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidValue(path, None, f"is {_kind(value)}, not an integer")
    low, high = INTEGER_RANGES[kind]
    if not low <= value <= high:
        raise InvalidValue(path, None, f"does not fit {kind}: {low} to {high}")
    return value


def _float(value: object, path: str) -> float:
    if isinstance(value, str) and value in {"NaN", "Infinity", "-Infinity"}:
        return float(value)
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise InvalidValue(path, None, f"is {_kind(value)}, not a number")
    try:
        return float(value)
    except OverflowError:
        raise InvalidValue(path, None, "does not fit float64") from None


def _bytes(kind: str, value: str, path: str) -> bytes:
    try:
        return uuids.from_text(value) if kind == "uuid" else b64decode(value, validate=True)
    except ValueError:
        what = "22 characters of base64url, as a UUID has" if kind == "uuid" else "base64"
        raise InvalidValue(path, None, f"is not {what}") from None


def _kind(value: object) -> str:
    """What JSON calls a value."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true or false"
    names = {str: "a string", int: "a number", float: "a number", list: "an array", dict: "an object"}
    return names.get(type(value), f"a {type(value).__name__}")
