"""The tables of docs/captures.md, generated from the declarations of columns: those of each level, and short names.

The rest of the page is written by hand; a generated table is between two comments.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from kwire.capture.display_filter.fields import FieldKind, compound_fields, filter_fields
from kwire.capture.rows.columns import LEVELS, level_columns
from tools.reference.tables import render_table, replace_blocks

PAGE = Path(__file__).parents[2] / "docs" / "captures.md"


def render_page() -> str:
    """The whole page, Markdown, with new tables.

    Raises: ValueError when the page has an unknown table or lacks one.
    """
    tables = {level: partial(_column_table, level) for level in LEVELS}
    return replace_blocks(PAGE, {**tables, "short_names": _short_name_table})


def _column_table(level: str) -> str:
    rows = [[f"`{column.name}`", column.kind.value, column.about] for column in level_columns(level)]
    return render_table(["column", "type", "meaning"], rows)


def _short_name_table() -> str:
    """The fields of filters that are one column under another name."""
    rows: dict[str, list[str]] = {}
    for level in LEVELS:
        known = {*compound_fields(level), *(column.name for column in level_columns(level))}
        for name, field in filter_fields(level).items():
            if name not in known:
                is_duration = field.kind is FieldKind.DURATION
                compared_with = "`20ms`, `1.5s`, `900us`; the unit is required" if is_duration else field.kind.value
                rows[name] = [f"`{name}`", f"`{field.columns[0]}`", compared_with]
    return render_table(["short name", "column", "compared with"], list(rows.values()))
