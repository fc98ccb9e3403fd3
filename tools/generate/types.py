"""How the schema's types look in generated code: struct codes, annotations, defaults."""

from __future__ import annotations

from kwire.schema.spec import FieldSpec
from tools.generate.model import Message

#: The struct code of each fixed type. A boolean is read as a byte, so that 2 can be refused.
CODES = {
    "bool": "B",
    "int8": "b",
    "uint8": "B",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
    "uuid": "16s",
}

_SIZES = {"b": 1, "B": 1, "x": 1, "h": 2, "H": 2, "i": 4, "I": 4, "q": 8, "d": 8, "16s": 16}

#: The Python type of every primitive that is not an int.
HINTS = {
    "string": "str",
    "bytes": "bytes",
    "records": "bytes | memoryview",
    "bool": "bool",
    "float64": "float",
    "uuid": "bytes",
}


def constant(prefix: str, codes: list[str]) -> str:
    """The module's name for a prebuilt struct: unpack_hiB; a UUID is u."""
    return f"{prefix}_{''.join('u' if code == '16s' else code for code in codes)}"


def size_of(codes: list[str]) -> int:
    """The bytes that these codes take."""
    return sum(_SIZES[code] for code in codes)


def hint(field: FieldSpec, message: Message) -> str:
    """The Python type of a field's value when it is not null."""
    element = field.element_type
    inner = message.class_of(element) if field.struct else HINTS.get(element, "int")
    if not field.is_array:
        return inner
    return f"list[{inner}]" if field.struct else f"tuple[{inner}, ...]"


def full_hint(field: FieldSpec, message: Message) -> str:
    """The annotation of a field, with None where any version allows null."""
    nullable = field.nullable_versions.intersect(field.versions).intersect(message.spec.versions)
    return hint(field, message) + (" | None" if nullable or field.default is None else "")


def default_of(field: FieldSpec, message: Message) -> str:
    """The expression of a field's default."""
    if field.default == () and field.struct:
        return "[]" if field.is_array else f"{message.class_of(field.struct.name)}()"
    if field.type == "uuid" and field.default == bytes(16):
        return "bytes(16)"
    if isinstance(field.default, str):
        escaped = field.default.encode("unicode_escape").decode("ascii").replace('"', '\\"')
        return f'"{escaped}"'
    return repr(field.default)
