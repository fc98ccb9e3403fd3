"""Generates the functions that read the known tagged fields of a struct."""

from __future__ import annotations

from collections.abc import Callable

from kwire.schema.spec import FieldSpec
from tools.generate.emitter import Emitter
from tools.generate.source import Source
from tools.generate.types import default_expression, nullable_type_hint


def render_tag_reader(
    inner: Emitter,
    read_value: Callable[[FieldSpec], str],
    struct_name: str,
    tagged: list[FieldSpec],
    live: list[FieldSpec],
) -> str:
    """The text of the function.

    Args: inner: the emitter of its body. read_value: emits the reading of a field, returns the expression of its value.
    tagged: all tagged fields of the schema. live: those of the version.
    """
    out = inner.out
    hints = [nullable_type_hint(field, inner.message) for field in live]
    names = {field.name: inner.names.new_name(field.snake_name) for field in live}
    for field, hint in zip(live, hints, strict=True):
        out(f"{names[field.name]}: {hint} = {default_expression(field, inner.message)}")
    out(f"field_count, at = {inner.use('read_uvarint')}(data, at)", "tags: list[tuple[int, bytes]] = []")
    out("previous = -1")
    with out.block("for _ in range(field_count):"):
        out("tag, at = read_uvarint(data, at)", "size, at = read_uvarint(data, at)")
        out.add_block("if not previous < tag < 1 << 31:", f"raise {inner.use('FastPathError')}")
        out("previous = tag", "end_of_field = at + size")
        for index, field in enumerate(tagged):
            with out.block(f"{'elif' if index else 'if'} tag == {field.tag}:"):
                # As in Kafka, a tag of another version is an error, not an unknown field.
                out(f"{names[field.name]} = {read_value(field)}" if field in live else "raise FastPathError")
        out.add_block("else:", "tags.append((tag, data[at:end_of_field]))", "at = end_of_field")
        out.add_block("if at != end_of_field:", "raise FastPathError")
    out(f"return {', '.join([*names.values(), 'tuple(tags)', 'at'])}")
    text = Source()
    returns = ", ".join([*hints, inner.use("Tags"), "int"])
    text(f"def {inner.helper_name(struct_name)}(data: bytes, at: int) -> tuple[{returns}]:")
    text(f'    """The tagged fields of {inner.class_of(struct_name)}."""')
    if inner.uses_view:
        text("    view = memoryview(data)")
    return text.text() + out.text()
