"""Names of topics that captures tell behind the rows that need them, or in another file: filled in at the end."""

from __future__ import annotations

import importlib
import json
import os
import re
from typing import TYPE_CHECKING

from kwire.capture.extras import require_pyarrow
from kwire.capture.topic_map import names_in

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from kwire.capture.options import Options
    from kwire.capture.source import Source

_SESSION = "session_partitions"
_ID = re.compile(r'"[\w-]{22}":', re.ASCII)


def filled(table: pa.Table, sources: Sequence[Source], options: Options) -> pa.Table:
    """The table with the names of topics that stand in it by their ids, as far as any of the sources tells them.

    Sources are read once more only where something lacks its name, and only those that can be: paths and bytes.
    """
    unknown = _unknown(table)
    if not unknown:
        return table
    again = [each for each in sources if isinstance(each, (str, bytes, bytearray, memoryview, os.PathLike))]
    told = names_in(again, options)
    names = {topic_id: told[topic_id] for topic_id in unknown if topic_id in told}
    return _with_names(table, names) if names else table


def _unknown(table: pa.Table) -> set[str]:
    """The ids of topics in the table that have no name there."""
    require_pyarrow()
    compute = importlib.import_module("pyarrow.compute")
    found: set[str] = set()
    if {"topic", "topic_id"} <= set(table.column_names):
        found.update(table.filter(compute.is_null(table["topic"]))["topic_id"].drop_null().unique().to_pylist())
    if _SESSION in table.column_names:
        for text in table[_SESSION].drop_null().unique().to_pylist():
            if _ID.search(text):
                found.update(json.loads(text))
    return found


def _with_names(table: pa.Table, names: dict[str, str]) -> pa.Table:
    pa = require_pyarrow()
    for column in ("topic", _SESSION):
        if column not in table.column_names:
            continue
        at = table.column_names.index(column)
        if column == _SESSION:
            known = {text: _renamed(text, names) for text in table[column].drop_null().unique().to_pylist()}
            values = [None if text is None else known[text] for text in table[column].to_pylist()]
        elif "topic_id" in table.column_names:
            pairs = zip(table[column].to_pylist(), table["topic_id"].to_pylist(), strict=True)
            values = [names.get(topic_id) if topic is None else topic for topic, topic_id in pairs]
        else:
            continue
        table = table.set_column(at, table.schema.field(column), pa.array(values, type=pa.string()))
    return table


def _renamed(text: str, names: dict[str, str]) -> str:
    """The partitions of a session, by names."""
    out: dict[str, object] = {}
    for topic, numbers in json.loads(text).items():
        name = names.get(topic, topic)
        # A topic that was made anew has another id, and the same name.
        out[topic if name in out else name] = numbers
    return json.dumps(out, separators=(",", ":"), ensure_ascii=False)
