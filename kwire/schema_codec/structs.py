"""The forms of values with parts: arrays, structs and tagged fields."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from struct import Struct
from typing import NamedTuple

from kwire.errors import InvalidLength, InvalidTag, WireError
from kwire.primitives import Tags
from kwire.schema_codec.forms import VARINT, Form, Length, Number, read_count
from kwire.schema_codec.reader import Reader
from kwire.schema_codec.tree import TAGGED, UNKNOWN_TAG, Kind


class Field(NamedTuple):
    """A field of a struct in one version."""

    name: str
    type_name: str
    form: Form
    kind: Kind = Kind.LEAF


class Items(Form):
    """An array of structs, strings, bytes or booleans: each element is a separate node."""

    def __init__(self, length: Length, type_name: str, element: Form, kind: Kind) -> None:
        super().__init__()
        self.length = length
        self.type_name = type_name
        self.element = element
        self.kind = kind

    def read(self, reader: Reader, path: str) -> Sequence[object] | None:
        """A list of structs or a tuple of other values, None for null."""
        start = reader.at
        count = read_count(self.length, reader, path)
        if count is None:
            reader.mark_null()
            return None
        reader.add_leaf("(count)", "length", start, count)
        element, type_name, kind = self.element, self.type_name, self.kind
        names = [f"[{index}]" for index in range(count)]
        values = [reader.read_node(element, name, f"{path}{name}", type_name, kind) for name in names]
        return values if kind is Kind.STRUCT else tuple(values)


class Fields(Form):
    """The fields of a struct, one behind the other; in a flexible version the tagged fields behind them."""

    def __init__(self, label: str, fields: Sequence[Field], tagged: TaggedFields | None = None) -> None:
        super().__init__()
        # Not `name`, which is an attribute of construct.
        self.label = label
        self.tagged = tagged
        #: Each field, and its struct if it is a number: most fields are, and are read without a call.
        self.rows: list[tuple[Field, str, Struct | None]] = [
            (field, field.name, field.form.single if isinstance(field.form, Number) else None) for field in fields
        ]

    def read(self, reader: Reader, path: str) -> object:
        """An object of the reader's class for this struct, or a dict."""
        values: dict[str, object] = {}
        is_recording = reader.is_recording
        for field, name, single in self.rows:
            if single is None or is_recording:
                values[name] = reader.read_node(field.form, name, f"{path}.{name}", field.type_name, field.kind)
                continue
            if reader.at + single.size > reader.end:
                reader.need(single.size, f"{path}.{name}")
            (values[name],) = single.unpack_from(reader.data, reader.at)
            reader.at += single.size
        if self.tagged is not None:
            values["unknown_tagged_fields"] = self.tagged.read(reader, path, values)
        return self._build(values, reader)

    def read_leading(self, reader: Reader, path: str) -> object:
        """As `read`, but up to the first field that cannot be read, and without tagged fields; the others are defaults.

        The reader is left behind the last field that was read.
        """
        values: dict[str, object] = {}
        for field, name, _ in self.rows:
            start = reader.at
            try:
                values[name] = field.form.read(reader, f"{path}.{name}")
            except WireError:
                reader.at = start
                break
        return self._build(values, reader)

    def _build(self, values: dict[str, object], reader: Reader) -> object:
        message_class = reader.classes.get(self.label)
        return values if message_class is None else message_class(**values)


class NullableFields(Form):
    """A struct behind a marker for null: a byte below 0 is null; in a tagged field a varint, where 0 is null."""

    def __init__(self, fields: Fields, *, tagged: bool) -> None:
        super().__init__()
        self.fields = fields
        self.tagged = tagged

    def read(self, reader: Reader, path: str) -> object:
        """The struct, None for null."""
        start = reader.at
        if self.tagged:
            marker = VARINT.read(reader, path)
            null, is_present = 0, 0 < marker < 1 << 31
        else:
            marker = int.from_bytes(reader.take(1, path), signed=True)
            null, is_present = -1, marker >= 0
        if marker not in {1, null}:
            error = InvalidLength(path, start, f"before a struct is 1, or {null} for null, not {marker}")
            reader.warn(error, "read as present" if is_present else "read as null")
        if not is_present:
            reader.mark_null()
            return None
        reader.add_leaf("(marker)", "uvarint" if self.tagged else "int8", start, marker)
        return self.fields.read(reader, path)


class TaggedFields:
    """The tagged fields at the end of a struct: a count, then tag, size and value of each.

    Args: known: the fields of the schema by tag, those of other versions too. existing: the tags that `version` has.
    """

    def __init__(self, known: Mapping[int, Field], existing: Container[int | None], version: int) -> None:
        self.known = known
        self.existing = existing
        self.version = version

    def read(self, reader: Reader, path: str, values: dict[str, object]) -> Tags:
        """The unknown tagged fields; the values of known ones are added to `values`.

        Args: path: the path of the struct.
        """
        start = reader.at
        section_path = f"{path}.tagged_fields"
        if reader.is_recording:
            reader.open(TAGGED, section_path, "tagged fields", Kind.FORM)
        count = VARINT.read(reader, section_path)
        if count >= 1 << 31:
            # As an int32 it is negative: Kafka has refused that since 4.4, and read no tagged fields before.
            raise InvalidLength(section_path, start, f"{count} tagged fields cannot be")
        reader.add_leaf("(count)", "unsigned varint", start, count)
        unknown: list[tuple[int, bytes]] = []
        previous = -1
        for _ in range(count):
            start = reader.at
            tag, size = self._read_tag(reader, section_path, previous)
            previous = tag
            content = reader.at
            field = self.known.get(tag)
            if field is None:
                unknown.append((tag, reader.take(size, f"{section_path}[{tag}]")))
                reader.add_leaf(f"{UNKNOWN_TAG}{tag})", "unknown tagged field", content, unknown[-1][1])
                continue
            field_path = f"{path}.{field.name}"
            if tag not in self.existing:
                raise InvalidTag(field_path, start, f"tag {tag} does not exist in version {self.version}")
            values[field.name] = reader.read_node(field.form, field.name, field_path, field.type_name, field.kind)
            if reader.at - content != size:
                what = f"tag {tag} claims {size} bytes, but its field takes {reader.at - content}"
                reader.warn(InvalidTag(field_path, start, what), "the claim is ignored")
        if reader.is_recording:
            reader.close()
        return tuple(unknown)

    def _read_tag(self, reader: Reader, path: str, previous: int) -> tuple[int, int]:
        start = reader.at
        tag = VARINT.read(reader, path)
        reader.add_leaf("(tag)", "unsigned varint", start, tag)
        size_start = reader.at
        size = VARINT.read(reader, path)
        reader.add_leaf("(size)", "unsigned varint", size_start, size)
        if tag >= 1 << 31:
            reader.warn(InvalidTag(path, start, f"tag {tag} does not fit int32"), "kept all the same")
        if tag <= previous:
            reader.warn(InvalidTag(path, start, f"tag {tag} comes after tag {previous}"), "read all the same")
        return tag, size
