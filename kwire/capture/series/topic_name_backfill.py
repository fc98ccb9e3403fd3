"""Fills in topic names of a table that captures contain after the rows that need them, or in another file."""

from __future__ import annotations

import importlib
import json
import re
from typing import TYPE_CHECKING

from kwire.capture.optional_dependencies import require_pyarrow

if TYPE_CHECKING:
    import pyarrow as pa

_SESSION_COLUMN = "session_partitions"
_ID = re.compile(r'"[\w-]{22}":', re.ASCII)


def unnamed_topic_ids(table: pa.Table) -> set[str]:
    """The ids of topics in the table that have no name there."""
    require_pyarrow()
    compute = importlib.import_module("pyarrow.compute")
    unnamed: set[str] = set()
    if {"topic", "topic_id"} <= set(table.column_names):
        unnamed.update(table.filter(compute.is_null(table["topic"]))["topic_id"].drop_null().unique().to_pylist())
    if _SESSION_COLUMN in table.column_names:
        for text in table[_SESSION_COLUMN].drop_null().unique().to_pylist():
            if _ID.search(text):
                unnamed.update(json.loads(text))
    return unnamed


def fill_topic_names(table: pa.Table, names: dict[str, str]) -> pa.Table:
    """The table with these topic names, by topic id, where it has only the id."""
    pa = require_pyarrow()
    for column in ("topic", _SESSION_COLUMN):
        if column not in table.column_names:
            continue
        at = table.column_names.index(column)
        if column == _SESSION_COLUMN:
            named = {text: _replace_ids(text, names) for text in table[column].drop_null().unique().to_pylist()}
            values = [None if text is None else named[text] for text in table[column].to_pylist()]
        elif "topic_id" in table.column_names:
            pairs = zip(table[column].to_pylist(), table["topic_id"].to_pylist(), strict=True)
            values = [names.get(topic_id) if topic is None else topic for topic, topic_id in pairs]
        else:
            continue
        table = table.set_column(at, table.schema.field(column), pa.array(values, type=pa.string()))
    return table


def _replace_ids(text: str, names: dict[str, str]) -> str:
    """The JSON of session partitions, with topic names in place of ids."""
    partitions: dict[str, object] = {}
    for topic, numbers in json.loads(text).items():
        name = names.get(topic, topic)
        # A topic that was deleted and created again has another id and the same name.
        partitions[topic if name in partitions else name] = numbers
    return json.dumps(partitions, separators=(",", ":"), ensure_ascii=False)
