"""Writes the functions that read the known tagged fields of a struct."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.schema.spec import FieldSpec
from tools.generate.source import Names, Source
from tools.generate.types import default_of, full_hint

if TYPE_CHECKING:
    from tools.generate.reading import Reader


def read_tags(inner: Reader, struct_name: str, tagged: list[FieldSpec], live: list[FieldSpec]) -> str:
    """The function's text; `tagged` are all tagged fields of the schema, `live` those of the version."""
    out = inner.out
    hints = [full_hint(field, inner.message) for field in live]
    for field in live:
        inner.names.new(field.snake)
    for field, type_hint in zip(live, hints, strict=True):
        out(f"{_local(field)}: {type_hint} = {default_of(field, inner.message)}")
    out(f"field_count, at = {inner.use('read_uvarint')}(data, at)")
    out("tags: list[tuple[int, bytes]] = []")
    out("previous = -1")
    with out.block("for _ in range(field_count):"):
        out("tag, at = read_uvarint(data, at)")
        out("size, at = read_uvarint(data, at)")
        with out.block("if not previous < tag < 1 << 31:"):
            out(f"raise {inner.use('Refused')}")
        out("previous = tag")
        out("end_of_field = at + size")
        _branches(inner, tagged, live)
        with out.block("if at != end_of_field:"):
            out("raise Refused")
    out(f"return {', '.join([_local(field) for field in live] + ['tuple(tags)', 'at'])}")
    text = Source()
    returns = ", ".join([*hints, inner.use("Tags"), "int"])
    text(f"def {inner.helper_name(struct_name)}(data: bytes, at: int) -> tuple[{returns}]:")
    text(f'    """The tagged fields of {inner.class_of(struct_name)}."""')
    if inner.uses_view:
        text("    view = memoryview(data)")
    return text.text() + out.text()


def _branches(inner: Reader, tagged: list[FieldSpec], live: list[FieldSpec]) -> None:
    """One branch for each tag of the schema, and one for all others."""
    out = inner.out
    word = "if"
    for field in tagged:
        with out.block(f"{word} tag == {field.tag}:"):
            if field in live:
                value = inner.field(field, "tagged")
                inner.flush()
                out(f"{_local(field)} = {value}")
            else:
                # As in Kafka, a tag of another version is an error, and no unknown field.
                out("raise Refused")
        word = "elif"
    with out.block("else:"):
        out("tags.append((tag, data[at:end_of_field]))")
        out("at = end_of_field")


def _local(field: FieldSpec) -> str:
    """The local name of a tagged field, which is the first of its name here."""
    return Names().new(field.snake)
