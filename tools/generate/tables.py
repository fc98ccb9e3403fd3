"""Generates the field tables of a message, which the compiled accelerator follows instead of generated code."""

from __future__ import annotations

from kwire.schema.spec import FieldSpec
from kwire.schema.versions import Versions
from tools.generate.model import Message
from tools.generate.source import Source


def range_text(versions: Versions) -> str:
    """The text of a range of versions."""
    return f"({versions.low}, {versions.high})"


def render_tables(message: Message) -> list[str]:
    """The lines of the tables: the fields of the message and of its structs, by their names in the schema."""
    out = Source(2)
    spec = message.spec
    with out.block("{"):
        for name, fields in [(spec.name, spec.fields), *((one.name, one.fields) for one in message.structs.values())]:
            rows = [_row_text(field) for field in fields]
            if rows:
                out.add_block(f'"{name}": (', *rows)
                out("),")
            else:
                out(f'"{name}": (),')
    out("},")
    return out.lines


def _row_text(field: FieldSpec) -> str:
    """One row; its columns are described in kwire/accelerator/plans.py."""
    columns = [
        f'"{field.snake_name}"',
        f'"{field.type}"',
        range_text(field.versions),
        range_text(field.nullable_versions),
        "None" if field.flexible_versions is None else range_text(field.flexible_versions),
        "-1" if field.tag is None else str(field.tag),
        range_text(field.tagged_versions),
        str(field.ignorable),
        repr(field.default),
    ]
    return f"({', '.join(columns)}),"
