"""The types of schemas in generated code: struct codes, annotations, defaults."""

from __future__ import annotations

import struct

from kwire.schema.spec import FieldSpec
from tools.generate.model import Message

#: The Python type of every primitive that is not an int.
HINTS = {
    "string": "str",
    "bytes": "bytes",
    "records": "bytes | memoryview",
    "bool": "bool",
    "float64": "float",
    "uuid": "bytes",
}


def struct_name(prefix: str, codes: list[str]) -> str:
    """The name of a prebuilt struct in the module: unpack_hiB; a UUID is u."""
    return f"{prefix}_{''.join('u' if code == '16s' else code for code in codes)}"


def size_of(codes: list[str]) -> int:
    """The size of these codes in bytes."""
    return struct.calcsize(">" + "".join(codes))


def type_hint(field: FieldSpec, message: Message) -> str:
    """The Python type of a field's value when it is not null."""
    element = field.element_type
    inner = message.class_of(element) if field.struct else HINTS.get(element, "int")
    if not field.is_array:
        return inner
    return f"list[{inner}]" if field.struct else f"tuple[{inner}, ...]"


def nullable_type_hint(field: FieldSpec, message: Message) -> str:
    """The annotation of a field, with None where any version allows null."""
    nullable = field.nullable_versions.intersect(field.versions).intersect(message.spec.versions)
    return type_hint(field, message) + (" | None" if nullable or field.default is None else "")


def default_expression(field: FieldSpec, message: Message) -> str:
    """The expression of a field's default."""
    if field.default == () and field.struct:
        return "[]" if field.is_array else f"{message.class_of(field.struct.name)}()"
    if field.type == "uuid" and field.default == bytes(16):
        return "bytes(16)"
    if isinstance(field.default, str):
        escaped = field.default.encode("unicode_escape").decode("ascii").replace('"', '\\"')
        return f'"{escaped}"'
    return repr(field.default)
