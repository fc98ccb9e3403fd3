"""Writing messages field by field by their schema; the first value that does not fit is named.

Slow, and only run where the generated code has raised. It accepts slightly more than that: any sequence for an array,
any buffer for bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from operator import index

import msgspec

from kwire.codec_table import Codec
from kwire.errors import InvalidValue, UnexpectedNull, UnsupportedVersion
from kwire.primitives import FAILURES, TEXT_BYTES_MAX, Part, tag_section, uvarint
from kwire.schema import FieldSpec, MessageSpec, load_schema
from kwire.schema.spec import FIXED_SIZES, INTEGER_RANGES, STRUCT_CODES


def write_message(codec: Codec, version: int, message: msgspec.Struct) -> bytes:
    """The bytes of a message. Raises: UnsupportedVersion, UnexpectedNull or InvalidValue with the path of the field."""
    writer = _Writer(codec, version)
    writer.write_struct(message, codec.message, writer.spec.fields, writer.spec.name)
    return b"".join(writer.parts)


def check_absent(codec: Codec, version: int, value: msgspec.Struct, fields: tuple[FieldSpec, ...], path: str) -> None:
    """Check that no field is set that the version does not have, unless it is ignorable.

    Raises: UnsupportedVersion naming the field.
    """
    for field in fields:
        name = field.snake_name
        if version not in field.versions and not field.ignorable and not is_default(codec, field, getattr(value, name)):
            what = f"is set, but version {version} of edition {codec.edition} does not have it"
            raise UnsupportedVersion(f"{path}.{name}", what)


def is_default(codec: Codec, field: FieldSpec, value: object) -> bool:
    """Whether a value is the default of the field."""
    if field.default == () and field.is_array:
        return isinstance(value, Sequence) and not value
    if field.default == () and field.struct:
        return bool(value == codec.structs[field.struct.name]())
    return bool(value == field.default)


class _Writer:
    """The parts of one message, or of one tagged field of it."""

    def __init__(self, codec: Codec, version: int) -> None:
        self.codec = codec
        self.version = version
        self.parts: list[Part] = []
        self.spec: MessageSpec = load_schema(codec.name, codec.edition)
        self.flexible = self.spec.is_flexible(version)

    def write_struct(
        self, value: object, struct_class: type[msgspec.Struct], fields: tuple[FieldSpec, ...], path: str
    ) -> None:
        if not isinstance(value, msgspec.Struct) or any(not hasattr(value, field.snake_name) for field in fields):
            raise InvalidValue(path, None, f"is a {type(value).__name__}, not a {struct_class.__name__}")
        check_absent(self.codec, self.version, value, fields, path)
        for field in fields:
            if self.version in field.versions and not field.is_tagged(self.version):
                self.write_field(field, getattr(value, field.snake_name), f"{path}.{field.snake_name}")
        if self.flexible:
            self.write_tagged_fields(value, fields, path)

    def write_tagged_fields(self, value: msgspec.Struct, fields: tuple[FieldSpec, ...], path: str) -> None:
        """The tagged fields that are set, and the unknown ones that came with the message."""
        known: list[tuple[int, bytes]] = []
        tags = sorted((field for field in fields if field.tag is not None), key=lambda field: field.tag or 0)
        for field in tags:
            content = getattr(value, field.snake_name)
            if field.is_tagged(self.version) and not is_default(self.codec, field, content):
                inner = _Writer(self.codec, self.version)
                inner.write_field(field, content, f"{path}.{field.snake_name}")
                known.append((field.tag or 0, b"".join(inner.parts)))
        unknown = getattr(value, "unknown_tagged_fields", ())
        try:
            self.parts.append(tag_section(known, unknown, len(tags)))
        except FAILURES:
            what = f"must be pairs of tag and bytes, ascending, with tags from {len(tags)} on"
            raise InvalidValue(f"{path}.unknown_tagged_fields", None, what) from None

    def write_field(self, field: FieldSpec, value: object, path: str) -> None:
        """The value of one field: null, an array, a struct or a primitive."""
        nullable = self.version in field.nullable_versions
        flexible = field.is_flexible(self.version, self.flexible)
        if value is None:
            self.write_null(field, path, nullable, flexible)
        elif field.is_array:
            self.write_array(field, value, path, flexible)
        elif field.struct:
            if nullable:
                self.parts.append(b"\1")
            self.write_struct(value, self.codec.structs[field.struct.name], field.fields, path)
        else:
            self.write_primitive(field.type, value, path, flexible)

    def write_null(self, field: FieldSpec, path: str, nullable: bool, flexible: bool) -> None:
        """Null in the form of the field, if the version allows it."""
        if not nullable:
            raise UnexpectedNull(path, None, f"is null, which version {self.version} does not allow")
        if field.struct and not field.is_array:
            # In front of a struct is a byte, but in a tagged field a varint, and its null is another.
            self.parts.append(b"\0" if field.is_tagged(self.version) else b"\xff")
        elif flexible:
            self.parts.append(b"\0")
        else:
            self.parts.append(b"\xff\xff" if field.type == "string" else b"\xff\xff\xff\xff")

    def write_array(self, field: FieldSpec, value: object, path: str, flexible: bool) -> None:
        if not isinstance(value, Sequence) or isinstance(value, str):
            raise InvalidValue(path, None, f"is a {type(value).__name__}, not a list or tuple")
        self.write_length(len(value), "int32", path, flexible)
        for number, element in enumerate(value):
            here = f"{path}[{number}]"
            if field.struct:
                self.write_struct(element, self.codec.structs[field.struct.name], field.fields, here)
            else:
                self.write_primitive(field.element_type, element, here, flexible)

    def write_primitive(self, type_name: str, value: object, path: str, flexible: bool) -> None:
        if type_name in INTEGER_RANGES:
            self.write_integer(type_name, value, path)
        elif type_name == "string":
            self.write_text(value, path, flexible)
        elif type_name == "uuid" or type_name not in FIXED_SIZES:
            self.write_bytes(type_name, value, path, flexible)
        elif type_name == "bool":
            if not isinstance(value, int) or value not in {0, 1}:
                raise InvalidValue(path, None, f"is a {type(value).__name__}, not a boolean")
            self.parts.append(b"\1" if value else b"\0")
        elif not isinstance(value, (int, float)):
            raise InvalidValue(path, None, f"is a {type(value).__name__}, not a number")
        else:
            try:
                self.parts.append(struct.pack(">d", value))
            except OverflowError:
                raise InvalidValue(path, None, "does not fit float64") from None

    def write_integer(self, type_name: str, value: object, path: str) -> None:
        try:
            number = index(value)  # type: ignore[arg-type]
        except TypeError:
            raise InvalidValue(path, None, f"is a {type(value).__name__}, not an integer") from None
        low, high = INTEGER_RANGES[type_name]
        if not low <= number <= high:
            shown = str(number) if abs(number) < 1 << 128 else "a huge number"
            raise InvalidValue(path, None, f"{shown} does not fit {type_name}: {low} to {high}")
        self.parts.append(struct.pack(f">{STRUCT_CODES[type_name]}", number))

    def write_text(self, value: object, path: str, flexible: bool) -> None:
        if not isinstance(value, str):
            raise InvalidValue(path, None, f"is a {type(value).__name__}, not a string")
        try:
            raw = value.encode()
        except UnicodeEncodeError:
            raise InvalidValue(path, None, "has a lone surrogate, which UTF-8 cannot encode") from None
        if len(raw) > TEXT_BYTES_MAX:
            raise InvalidValue(path, None, f"a string has {TEXT_BYTES_MAX} bytes at most, not {len(raw)}")
        self.write_length(len(raw), "int16", path, flexible)
        self.parts.append(raw)

    def write_bytes(self, type_name: str, value: object, path: str, flexible: bool) -> None:
        """A UUID, or bytes behind their length."""
        if not isinstance(value, (bytes, bytearray, memoryview)):
            raise InvalidValue(path, None, f"is a {type(value).__name__}, not bytes")
        raw = bytes(value)
        if type_name == "uuid":
            if len(raw) != 16:
                raise InvalidValue(path, None, f"a UUID has 16 bytes, not {len(raw)}")
        else:
            self.write_length(len(raw), "int32", path, flexible)
        self.parts.append(raw)

    def write_length(self, length: int, type_name: str, path: str, flexible: bool) -> None:
        """A length or count in either form."""
        if length > INTEGER_RANGES[type_name][1]:
            raise InvalidValue(path, None, f"length {length} does not fit {type_name}")
        self.parts.append(uvarint(length + 1) if flexible else struct.pack(f">{STRUCT_CODES[type_name]}", length))
