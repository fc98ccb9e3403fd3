"""Rows as Arrow: record batches of one file, the table of many. Spark and `kwire.read_capture` stand on this.

Where numpy is there and the source is a plain file or bytes, a capture is indexed and read by the fast lane
(`kwire.capture.lane`); else, and for what is packed or comes through a pipe, row by row. The rows are the same.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import TYPE_CHECKING, cast

from kwire.capture import traffic
from kwire.capture.extras import require_pyarrow
from kwire.capture.options import Options
from kwire.capture.schemas import Kind, arrow_schema, columns

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    import pyarrow as pa

    from kwire.capture.index import FlowKey, Index
    from kwire.capture.rows import Row
    from kwire.capture.source import Source

ROWS_PER_BATCH = 4096

schema = arrow_schema


def batches(
    path: Source, level: str = "messages", options: Options | None = None, *, columns: Sequence[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows of one capture as record batches of `schema(level)`.

    Args: columns: only these, in this order. What only others need is not computed, nor the bodies decoded for it.
    Raises: CaptureError when the source is no capture; ValueError for a level or a column that there is not.
    """
    options = options or Options()
    names = names_of(level, columns)
    index = indexed(path)
    if index is not None:
        yield from flow_batches([index], None, level, options, columns=names)
        return
    from kwire.capture.pipeline import rows

    yield from batched(rows(path, level, reduced(options, names)), level, names)


def flow_batches(
    indexes: Sequence[Index],
    flows: Collection[FlowKey] | None,
    level: str = "messages",
    options: Options | None = None,
    *,
    columns: Sequence[str] | None = None,
    troubles: bool = True,
) -> Iterator[pa.RecordBatch]:
    """The rows of chosen flows of one or more captures, which then are read as one: a flow may go on in the next.

    Args: indexes: in the order of their times. flows: None for all. troubles: whether rows tell of what belongs to no
        flow; where flows are shared out, one reader should tell it.
    """
    options = options or Options()
    names = names_of(level, columns)
    asked = reduced(options, names)
    if level not in traffic.LEVELS:
        from kwire.capture.index.series import Series
        from kwire.capture.lane.reading import lane_batches

        whole = indexes[0] if len(indexes) == 1 else Series(indexes, flows)
        yield from lane_batches(whole, flows, level, asked, names, troubles=troubles)
        return
    from kwire.capture.index import segments_of
    from kwire.capture.named import named
    from kwire.capture.pipeline import rows_of

    keys = indexes[0].keys(options.tls_keylog)
    for index in indexes[1:]:
        keys.add(index.secrets)
    found = segments_of(indexes, flows, troubles=troubles)
    rows = rows_of(found, level, indexes[0].file, asked, keys)
    files = [(each.first_ts, each.file) for each in indexes] if asked.name is None else []
    yield from batched(named(rows, files), level, names)


def names_of(level: str, chosen: Sequence[str] | None) -> list[str]:
    """The chosen columns of a level, all of them without a choice.

    Raises: ValueError for one that there is not, and for a choice of none: rows without columns cannot be counted.
    """
    known = [column.name for column in columns(level)]
    if chosen is not None and not len(chosen):
        raise ValueError(f"no column is chosen; level {level} has {', '.join(known)}")
    for name in chosen or ():
        if name not in known:
            raise ValueError(f"level {level} has no column {name!r}; it has {', '.join(known)}")
    return known if chosen is None else list(chosen)


def reduced(options: Options, names: Collection[str]) -> Options:
    """The options for rows of which only these columns are looked at."""
    from dataclasses import replace

    bodies = options.bodies and not {"body_request", "body_response"}.isdisjoint(names)
    sessions = options.sessions and not {"session_id", "session_epoch", "session_partitions"}.isdisjoint(names)
    return replace(options, bodies=bodies, sessions=sessions)


def batched(rows: Iterable[Row], level: str, names: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
    """Record batches of these rows, as they come."""
    pending: list[Row] = []
    for row in rows:
        pending.append(row)
        if len(pending) == ROWS_PER_BATCH:
            yield record_batch(pending, level, names)
            pending = []
    if pending:
        yield record_batch(pending, level, names)


def record_batch(rows: Sequence[Row], level: str, names: Sequence[str] | None = None) -> pa.RecordBatch:
    """One record batch of the given rows, with these columns of them."""
    pa = require_pyarrow()
    layout = arrow_schema(level)
    kinds = {column.name: column.kind for column in columns(level)}
    fields = [layout.field(name) for name in names_of(level, names)]
    arrays = [pa.array(_values(rows, field.name, kinds[field.name]), type=field.type) for field in fields]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def table(
    paths: Iterable[Source],
    level: str = "messages",
    options: Options | None = None,
    *,
    columns: Sequence[str] | None = None,
) -> pa.Table:
    """The rows of all the captures in one table, with the names of topics that any of them tells anywhere."""
    from kwire.capture.late_names import filled

    pa = require_pyarrow()
    layout = arrow_schema(level)
    asked = names_of(level, columns)
    # Without its id nobody could look for a topic's name.
    read = [*asked, "topic_id"] if "topic" in asked and "topic_id" not in asked else asked
    sources = list(paths)
    parts = [batch for path in sources for batch in batches(path, level, options, columns=read)]
    whole = pa.Table.from_batches(parts, schema=pa.schema([layout.field(name) for name in read]))
    return filled(whole, sources, options or Options()).select(asked)


def indexed(source: Source, cache: str | None = None) -> Index | None:
    """The index of a source that can have one, where there is what reads by it.

    Args: cache: where sidecars are kept, `beside` or a folder; None keeps none.
    """
    if not isinstance(source, (str, bytes, os.PathLike)) or None in (find_spec("numpy"), find_spec("pyarrow")):
        return None
    from kwire.capture import index

    try:
        return index.built(source) if isinstance(source, bytes) else index.of(source, cache=cache)
    except index.NotIndexed:
        return None


def _values(rows: Sequence[Row], name: str, kind: Kind) -> list[object]:
    """A column's values; times come in nanoseconds and leave in microseconds, rounded down."""
    if kind is Kind.TIME:
        times = [cast("int | None", row[name]) for row in rows]
        return [None if ts is None else ts // 1000 for ts in times]
    return [row[name] for row in rows]
