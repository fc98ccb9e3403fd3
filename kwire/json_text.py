"""Kafka's JSON form of messages as text, made from their bytes without decoded messages in between.

For each message and version a function is compiled from the schema on first use. It accepts valid bytes of the usual
kind only: callers have checked that the bytes are a valid message, and call `kwire.redact.redacted_json` where it
raises one of `FAILURES`, as for a message with tagged fields. The text is that of `redacted_json`, with summaries of
record batches in the place of records.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from functools import cache
from struct import Struct, calcsize
from typing import Any

import msgspec

from kwire import uuids
from kwire.json_form import float_form
from kwire.payload import RECORDS_FIELDS, summarize_records
from kwire.primitives import FAILURES, FastPathError, read_uvarint
from kwire.records import Codec
from kwire.records.batch import HEADER_SIZE, PREFIX_SIZE
from kwire.redact import CONFIG_MESSAGES, SECRET_FIELDS
from kwire.registry import DEFAULT_EDITION, codec_of_name
from kwire.schema import FieldSpec, load_schema
from kwire.schema.spec import STRUCT_CODES

__all__ = ["FAILURES", "JsonWriter", "json_writer"]

#: Returns the JSON text of the message at an offset.
JsonWriter = Callable[[bytes, int], str]

# Limit of the stored texts of strings and of UUIDs, each.
_STORED_MAX = 10_000
_STORED_SIZE_MAX = 256

_encode = msgspec.json.Encoder().encode


@cache
def json_writer(name: str, version: int) -> JsonWriter | None:
    """The function for a message of the default edition; None if its text is not made this way.

    Such messages have secrets or configurations, which are masked in their decoded form.
    """
    if name in SECRET_FIELDS or name in CONFIG_MESSAGES or version not in codec_of_name(name).readers:
        return None
    spec = load_schema(name, DEFAULT_EDITION)
    source = _Source(version, has_summaries=name in RECORDS_FIELDS)
    try:
        source.add_message(spec.fields, is_flexible=spec.is_flexible(version))
    except NotImplementedError:
        return None
    namespace = dict(source.namespace)
    # The source consists of names and keys of the package's own schemas.
    exec(compile(source.text, f"<JSON of {name} v{version}>", "exec"), namespace)  # noqa: S102
    writer: JsonWriter = namespace["write"]
    return writer


class _StringTexts(dict[bytes, str]):
    """The JSON texts of strings by their bytes: most strings of a capture occur many times."""

    def __missing__(self, data: bytes) -> str:
        text = _encode(data.decode()).decode()
        if len(self) < _STORED_MAX and len(data) <= _STORED_SIZE_MAX:
            self[data] = text
        return text


class _UuidTexts(dict[bytes, str]):
    """The JSON texts of UUIDs by their bytes."""

    def __missing__(self, data: bytes) -> str:
        text = f'"{uuids.to_text(data)}"'
        if len(self) < _STORED_MAX:
            self[data] = text
        return text


def _float_text(value: float) -> str:
    return _encode(float_form(value)).decode()


def _bytes_text(data: bytes) -> str:
    return f'"{b64encode(data).decode("ascii")}"'


# Length, magic, attributes, last offset delta and record count of a record batch.
_BATCH_FIELDS = Struct(">qi4xb4xhi30xi").unpack_from
_CODEC_LABELS = tuple(Codec(number).label for number in sorted(Codec._value2member_map_))
_INT64_MAX = 2**63 - 1


def _records_text(data: bytes, at: int, end: int) -> str:
    """The summary of record batches between two offsets, as `summarize_records` has it."""
    begin, total, codec = at, 0, ""
    while end - at >= HEADER_SIZE:
        base, length, magic, attributes, delta, count = _BATCH_FIELDS(data, at)
        at += PREFIX_SIZE + length
        label = attributes & 7
        if magic != 2 or length < HEADER_SIZE - PREFIX_SIZE or at > end or delta < 0 or count < 0:
            break
        if label >= len(_CODEC_LABELS) or base > _INT64_MAX - delta or codec not in {"", _CODEC_LABELS[label]}:
            break
        codec, total = _CODEC_LABELS[label], total + count
    else:
        if at == end:
            return f'{{"count":{total},"bytes":{end - begin},"codec":"{codec or "none"}"}}'
    return _encode(summarize_records(data[begin:end])).decode()


_HELPERS: dict[str, object] = {
    "texts": _StringTexts(),
    "uuids": _UuidTexts(),
    "booleans": ("false", "true"),
    "float_text": _float_text,
    "bytes_text": _bytes_text,
    "records_text": _records_text,
    "read_uvarint": read_uvarint,
    "FastPathError": FastPathError,
}


class _Source:
    """The source of one function. Adjacent numbers are read together, with the length of the field after them."""

    def __init__(self, version: int, *, has_summaries: bool) -> None:
        self._version = version
        self._has_summaries = has_summaries
        self._lines: list[str] = []
        self._indent = 1
        self._count = 0
        self._run: list[tuple[str, str]] = []
        self.namespace: dict[str, Any] = dict(_HELPERS)

    @property
    def text(self) -> str:
        """The source of the function `write`."""
        return "\n".join(["def write(data, at):", *self._lines])

    def add_message(self, fields: tuple[FieldSpec, ...], *, is_flexible: bool) -> None:
        """Add the body of the function. Raises: NotImplementedError for a field that it cannot read."""
        parts = self._read_struct(fields, is_flexible=is_flexible)
        self._flush()
        self._add(f"return {_template(parts)}")

    def _read_struct(self, fields: tuple[FieldSpec, ...], *, is_flexible: bool) -> list[tuple[str, str]]:
        """Read a struct; returns its keys, each with the expression of the value's text."""
        parts = []
        for field in fields:
            if self._version in field.versions and not field.is_tagged(self._version):
                has_uvarint = field.is_flexible(self._version, is_flexible)
                is_nullable = self._version in field.nullable_versions
                text = self._read_field(field, has_uvarint, is_nullable, is_struct_flexible=is_flexible)
                parts.append((field.json_name, text))
        if is_flexible:
            tag_count = self._read_number("B")
            self._flush()
            self._add(f"if {tag_count}: raise FastPathError")
        return parts

    def _read_field(self, field: FieldSpec, has_uvarint: bool, is_nullable: bool, *, is_struct_flexible: bool) -> str:
        """Read a field; returns the expression of its text."""
        kind = field.element_type
        if field.is_array:
            return self._read_array(field, has_uvarint, is_nullable, is_struct_flexible=is_struct_flexible)
        if field.struct:
            if is_nullable:
                raise NotImplementedError("a struct that may be null")
            return _nested(self._read_struct(field.struct.fields, is_flexible=is_struct_flexible))
        if kind in STRUCT_CODES:
            return self._read_fixed(kind)
        return self._read_bytes(kind, has_uvarint, is_nullable)

    def _read_fixed(self, kind: str) -> str:
        number = self._read_number(STRUCT_CODES[kind])
        return {
            "bool": f"{{booleans[{number}]}}",
            "uuid": f"{{uuids[{number}]}}",
            "float64": f"{{float_text({number})}}",
        }.get(kind, f"{{{number}}}")

    def _read_bytes(self, kind: str, has_uvarint: bool, is_nullable: bool) -> str:
        """Read a string, bytes or records."""
        if kind == "records" and not self._has_summaries:
            raise NotImplementedError("records without a summary")
        size = self._read_length("h" if kind == "string" else "i", has_uvarint)
        text = self._name("t")
        value = {
            "string": f"texts[data[at:at + {size}]]",
            "bytes": f"bytes_text(data[at:at + {size}])",
            "records": f"records_text(data, at, at + {size})",
        }[kind]
        with self._null_check(size, text, is_nullable):
            self._add(f"{text} = {value}")
            self._add(f"at += {size}")
        return f"{{{text}}}"

    def _read_array(self, field: FieldSpec, has_uvarint: bool, is_nullable: bool, *, is_struct_flexible: bool) -> str:
        count, text, kind = self._read_length("i", has_uvarint), self._name("t"), field.element_type
        code = STRUCT_CODES.get(kind, "")
        with self._null_check(count, text, is_nullable):
            items = self._name("r")
            if field.struct or not code or kind in {"bool", "uuid", "float64"}:
                self._add(f"{items} = []")
                self._add(f"for _ in range({count}):")
                self._indent += 1
                if field.struct:
                    item = _template(self._read_struct(field.struct.fields, is_flexible=is_struct_flexible))
                else:
                    expression = self._read_fixed(kind) if code else self._read_bytes(kind, has_uvarint, False)
                    item = f"f'{expression}'"
                self._flush()
                self._add(f"{items}.append({item})")
                self._indent -= 1
                self._add(f"{text} = '[' + ','.join({items}) + ']'")
            else:
                self.namespace["Struct"] = Struct
                self._add(
                    f"{text} = '[' + ','.join(map(str, Struct(f'>{{{count}}}{code}').unpack_from(data, at))) + ']'"
                )
                self._add(f"at += {calcsize('>' + code)} * {count}")
        return f"{{{text}}}"

    def _read_length(self, code: str, has_uvarint: bool) -> str:
        """Read a length or count; negative for null."""
        size = self._read_number("B" if has_uvarint else code)
        self._flush()
        if has_uvarint:
            self._add(f"if {size} > 127: {size}, at = read_uvarint(data, at - 1)")
            self._add(f"{size} -= 1")
        return size

    def _null_check(self, size: str, text: str, is_nullable: bool) -> _Block:
        self._add(f"if {size} < 0:")
        self._add(f"    {text} = 'null'" if is_nullable else "    raise FastPathError")
        self._add("else:")
        return _Block(self)

    def _read_number(self, code: str) -> str:
        name = self._name("n")
        self._run.append((code, name))
        return name

    def _flush(self) -> None:
        """Read the numbers that are due."""
        if not self._run:
            return
        layout = ">" + "".join(code for code, _ in self._run)
        reader = "read_" + layout[1:]
        self.namespace[reader] = Struct(layout).unpack_from
        names = ", ".join(name for _, name in self._run)
        if layout == ">B":
            self._add(f"{names} = data[at]")
        else:
            self._add(f"{names}{',' if len(self._run) == 1 else ''} = {reader}(data, at)")
        self._add(f"at += {calcsize(layout)}")
        self._run = []

    def _name(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}{self._count}"

    def _add(self, line: str) -> None:
        self._lines.append("    " * self._indent + line)

    def indent(self, by: int) -> None:
        """Begin or end a block; the numbers of a block are read in it."""
        self._flush()
        self._indent += by


class _Block:
    """An indented block of source."""

    def __init__(self, source: _Source) -> None:
        self._source = source

    def __enter__(self) -> None:
        self._source.indent(1)

    def __exit__(self, *_: object) -> None:
        self._source.indent(-1)


def _literal(text: str) -> str:
    """Text in an f-string in single quotes."""
    return text.replace("{", "{{").replace("}", "}}")


def _template(parts: list[tuple[str, str]]) -> str:
    """The f-string of a struct."""
    return f"f'{_nested(parts)}'"


def _nested(parts: list[tuple[str, str]]) -> str:
    """The content of the f-string of a struct."""
    return "{{" + ",".join(f'"{_literal(key)}":{text}' for key, text in parts) + "}}"
