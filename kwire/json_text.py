"""Kafka's JSON form of messages as text, made from their bytes without decoded messages in between.

For each message and version a function is compiled from the schema on first use. It accepts valid bytes of the usual
kind only: callers have checked that the bytes are a valid message, and call `kwire.redact.redacted_json` where it
raises one of `FAILURES`, as for a message with tagged fields. The text is that of `redacted_json`, with summaries of
record batches in the place of records.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable
from functools import cache
from struct import Struct, calcsize
from typing import TYPE_CHECKING, Any, cast

import msgspec

from kwire import uuids
from kwire.accelerator import NATIVE
from kwire.accelerator.plans import KIND_NUMBERS, KIND_STRUCT
from kwire.json_form import float_form
from kwire.json_plan import JsonField, JsonStruct, json_plan
from kwire.payload import RECORDS_FIELDS, summarize_records
from kwire.primitives import FAILURES, FastPathError, read_uvarint
from kwire.records import Codec
from kwire.redact import CONFIG_MESSAGES, SECRET_FIELDS
from kwire.registry import codec_of_version
from kwire.schema.spec import STRUCT_CODES

if TYPE_CHECKING:
    from kwire.accelerator.plans import NativeJsonWriter

__all__ = ["FAILURES", "JsonWriter", "JsonTextsWriter", "escape_text", "json_texts_writer", "json_writer"]

#: Returns the JSON text of the message at an offset.
JsonWriter = Callable[[bytes, int], str]
#: Returns the JSON texts of the messages at several offsets; None for each that a `JsonWriter` raises an error for.
JsonTextsWriter = Callable[[bytes, tuple[int, ...]], list[str | None]]

# Limit of the stored texts of strings and of UUIDs, each.
_STORED_MAX = 10_000
_STORED_SIZE_MAX = 256

_encode = msgspec.json.Encoder().encode
_encode_ascii = json.JSONEncoder().encode


@cache
def json_writer(name: str, version: int, *, is_escaped: bool = False) -> JsonWriter | None:
    """The function for a message; None if its text is not made this way.

    Such messages have secrets or configurations, which are masked in their decoded form, or records without a summary.

    Args: is_escaped: the text is as `escape_text` returns it.
    """
    made = _make_writer(name, version, is_escaped=is_escaped)
    return None if made is None else made.write


@cache
def json_texts_writer(name: str, version: int, *, is_escaped: bool = False) -> JsonTextsWriter | None:
    """As `json_writer`, for many messages at once."""
    made = _make_writer(name, version, is_escaped=is_escaped)
    return None if made is None else made.write_each


@cache
def _make_writer(name: str, version: int, *, is_escaped: bool) -> NativeJsonWriter | None:
    codec = codec_of_version(name, version)
    if name in SECRET_FIELDS or name in CONFIG_MESSAGES or version not in codec.readers:
        return None
    plan = json_plan(name, codec.edition, version)
    if name not in RECORDS_FIELDS and plan.has_kind("records"):
        return None
    helpers = _ESCAPED_HELPERS if is_escaped else _PLAIN_HELPERS
    if NATIVE is None:
        return _CompiledWriter(_compile_writer(plan, f"{name} v{version}", is_escaped=is_escaped))
    texts = cast("_StringTexts", helpers["texts"])
    codecs = tuple(label.encode() for label in _CODEC_LABELS)
    functions = texts.__getitem__, helpers["float_text"], helpers["records_text"]
    description = _describe_struct(plan, r"\"" if is_escaped else '"')
    writer: NativeJsonWriter = NATIVE.JsonWriter(description, codecs, *functions, is_escaped)
    return writer


def _describe_struct(plan: JsonStruct, quote: str) -> tuple[object, ...]:
    """A struct as `src/json.c` reads it: whether it is flexible, and its fields, each with what precedes its value."""
    rows: list[tuple[object, ...]] = []
    for field in plan.untagged_fields:
        key = f"{',' if rows else ''}{quote}{field.key}{quote}:".encode("ascii")
        inner = None if field.inner is None else _describe_struct(field.inner, quote)
        kind = KIND_STRUCT if field.inner is not None else KIND_NUMBERS[field.kind]
        rows.append((kind, field.is_array, field.is_nullable, field.is_flexible, key, inner))
    return plan.is_flexible, tuple(rows)


class _CompiledWriter:
    """Writes by a Python function what a writer of the accelerator writes."""

    def __init__(self, write: JsonWriter) -> None:
        self.write = write

    def write_each(self, data: bytes, offsets: tuple[int, ...]) -> list[str | None]:
        """The text of each message, if it is of the usual kind."""
        texts: list[str | None] = []
        for at in offsets:
            try:
                texts.append(self.write(data, at))
            except FAILURES:
                texts.append(None)
        return texts


def _compile_writer(plan: JsonStruct, title: str, *, is_escaped: bool) -> JsonWriter:
    """A Python function that is compiled from the plan."""
    source = _Source(is_escaped=is_escaped)
    source.add_message(plan)
    namespace = dict(source.namespace)
    # The source consists of names and keys of the package's own schemas.
    exec(compile(source.text, f"<JSON of {title}>", "exec"), namespace)  # noqa: S102
    writer: JsonWriter = namespace["write"]
    return writer


def escape_text(text: str) -> str:
    """The text as it is inside a JSON string, in ASCII without control characters."""
    return _encode_ascii(text)[1:-1].replace("\x7f", "\\u007f")


class _StringTexts(dict[bytes, str]):
    """The JSON texts of strings by their bytes: most strings of a capture occur many times."""

    def __init__(self, finish: Callable[[str], str]) -> None:
        super().__init__()
        self._finish = finish

    def __missing__(self, data: bytes) -> str:
        text = self._finish(_encode(data.decode()).decode())
        if len(self) < _STORED_MAX and len(data) <= _STORED_SIZE_MAX:
            self[data] = text
        return text


class _UuidTexts(dict[bytes, str]):
    """The texts of UUIDs by their bytes."""

    def __missing__(self, data: bytes) -> str:
        text = uuids.to_text(data)
        if len(self) < _STORED_MAX:
            self[data] = text
        return text


def _float_text(value: float) -> str:
    return _encode(float_form(value)).decode()


def _base64(data: bytes) -> str:
    return b64encode(data).decode("ascii")


_CODEC_LABELS = tuple(Codec(number).label for number in sorted(Codec._value2member_map_))


def _records_text(data: bytes, at: int, end: int) -> str:
    """The summary of the record batches between two offsets."""
    return _encode(summarize_records(data[at:end])).decode()


_PLAIN_HELPERS: dict[str, object] = {
    "texts": _StringTexts(str),
    "float_text": _float_text,
    "records_text": _records_text,
}
_ESCAPED_HELPERS: dict[str, object] = {
    "texts": _StringTexts(escape_text),
    "float_text": lambda value: escape_text(_float_text(value)),
    "records_text": lambda data, at, end: escape_text(_records_text(data, at, end)),
}
_HELPERS: dict[str, object] = {
    "uuids": _UuidTexts(),
    "booleans": ("false", "true"),
    "base64": _base64,
    "read_uvarint": read_uvarint,
    "FastPathError": FastPathError,
    "Struct": Struct,
}


class _Source:
    """The source of one function. Adjacent numbers are read together, with the length of the field after them."""

    def __init__(self, *, is_escaped: bool) -> None:
        # A quote, in a string of the source.
        self._quote = r"\\" + '"' if is_escaped else '"'
        self._lines: list[str] = []
        self._indent = 1
        self._count = 0
        self._run: list[tuple[str, str]] = []
        self.namespace: dict[str, Any] = _HELPERS | (_ESCAPED_HELPERS if is_escaped else _PLAIN_HELPERS)

    @property
    def text(self) -> str:
        """The source of the function `write`."""
        return "\n".join(["def write(data, at):", *self._lines])

    def add_message(self, plan: JsonStruct) -> None:
        """Add the body of the function."""
        text = self._read_struct(plan)
        self._flush()
        self._add(f"return f'{text}'")

    def _read_struct(self, plan: JsonStruct) -> str:
        """Read a struct; as all methods that read, returns the text of the value as a part of an f-string."""
        parts = [f"{self._quote}{field.key}{self._quote}:{self._read_field(field)}" for field in plan.untagged_fields]
        if plan.is_flexible:
            self._flush()
            self._add("if data[at]: raise FastPathError")
            self._add("at += 1")
        return "{{" + ",".join(parts) + "}}"

    def _read_field(self, field: JsonField) -> str:
        if field.is_array:
            return self._read_array(field)
        if field.inner is not None:
            return self._read_nullable_struct(field.inner) if field.is_nullable else self._read_struct(field.inner)
        if field.kind in STRUCT_CODES:
            return self._read_fixed(field.kind)
        return self._read_bytes(field, is_nullable=field.is_nullable)

    def _read_nullable_struct(self, plan: JsonStruct) -> str:
        """Read a struct after a byte that is 1, or -1 for null."""
        marker, text = self._read_number("b"), self._name("t")
        self._flush()
        self._add(f"if {marker} == 1:")
        self._indent += 1
        content = self._read_struct(plan)
        self._flush()
        self._add(f"{text} = f'{content}'")
        self._indent -= 1
        self._add(f"elif {marker} != -1: raise FastPathError")
        self._add_null(text, is_nullable=True)
        return f"{{{text}}}"

    def _read_fixed(self, kind: str) -> str:
        number = self._read_number(STRUCT_CODES[kind])
        return {
            "bool": f"{{booleans[{number}]}}",
            "uuid": f"{self._quote}{{uuids[{number}]}}{self._quote}",
            "float64": f"{{float_text({number})}}",
        }.get(kind, f"{{{number}}}")

    def _read_bytes(self, field: JsonField, *, is_nullable: bool) -> str:
        """Read a string, bytes or records."""
        kind, has_uvarint = field.kind, field.is_flexible
        size, text = self._read_length("h" if kind == "string" else "i", has_uvarint=has_uvarint), self._name("t")
        value = {
            "string": "texts[data[at:end]]",
            "bytes": f"f'{self._quote}{{base64(data[at:end])}}{self._quote}'",
            "records": "records_text(data, at, end)",
        }[kind]
        self._add(f"if {size} > 0:" if has_uvarint else f"if {size} >= 0:")
        self._add(f"    end = at + {size}{' - 1' if has_uvarint else ''}")
        self._add(f"    {text} = {value}")
        self._add("    at = end")
        self._add_null(text, is_nullable=is_nullable)
        return f"{{{text}}}"

    def _read_array(self, field: JsonField) -> str:
        has_uvarint, kind = field.is_flexible, field.kind
        count, text = self._read_length("i", has_uvarint=has_uvarint), self._name("t")
        empty = 1 if has_uvarint else 0
        self._add(f"if {count} > {empty}:")
        self._indent += 1
        if has_uvarint:
            self._add(f"{count} -= 1")
        items = self._name("r")
        code = STRUCT_CODES.get(kind, "")
        if code and kind not in {"bool", "uuid", "float64"}:
            self._add(f"{items} = map(str, Struct(f'>{{{count}}}{code}').unpack_from(data, at))")
            self._add(f"at += {calcsize('>' + code)} * {count}")
        else:
            self._add(f"{items} = []")
            self._add(f"for _ in range({count}):")
            self._indent += 1
            if field.inner is not None:
                item = self._read_struct(field.inner)
            elif code:
                item = self._read_fixed(kind)
            else:
                item = self._read_bytes(field, is_nullable=False)
            self._flush()
            self._add(f"{items}.append(f'{item}')")
            self._indent -= 1
        self._add(f"{text} = '[' + ','.join({items}) + ']'")
        self._indent -= 1
        self._add(f"elif {count} == {empty}: {text} = '[]'")
        self._add_null(text, is_nullable=field.is_nullable)
        return f"{{{text}}}"

    def _read_length(self, code: str, *, has_uvarint: bool) -> str:
        """Read a length or count. As a varint it is greater by 1, and 0 for null; else it is negative for null."""
        size = self._read_number("B" if has_uvarint else code)
        self._flush()
        if has_uvarint:
            self._add(f"if {size} > 127: {size}, at = read_uvarint(data, at - 1)")
        return size

    def _add_null(self, text: str, *, is_nullable: bool) -> None:
        self._add(f"else: {text} = 'null'" if is_nullable else "else: raise FastPathError")

    def _read_number(self, code: str) -> str:
        name = self._name("n")
        self._run.append((code, name))
        return name

    def _flush(self) -> None:
        """Read the numbers that are due."""
        if not self._run:
            return
        layout = ">" + "".join(code for code, _ in self._run)
        names = ", ".join(name for _, name in self._run)
        if layout == ">B":
            self._add(f"{names} = data[at]")
        else:
            self.namespace[f"read_{layout[1:]}"] = Struct(layout).unpack_from
            self._add(f"{names}{',' if len(self._run) == 1 else ''} = read_{layout[1:]}(data, at)")
        self._add(f"at += {calcsize(layout)}")
        self._run = []

    def _name(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}{self._count}"

    def _add(self, line: str) -> None:
        self._lines.append("    " * self._indent + line)
