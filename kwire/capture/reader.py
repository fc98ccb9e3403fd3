"""Read captures as outcomes, rows, Arrow record batches or a table: the entry points for commands, Spark and programs.

`Options` state what is read, with an exchange filter on message headers. Regular files, which are unpacked if they are
compressed, and bytes are indexed (`kwire.capture.index`); pipes are read once, part by part (`index.stream_index`).
Rows are made column by column (`kwire.capture.columnar`, `kwire.capture.traffic`).
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from kwire.capture.files.source import source_name
from kwire.capture.kafka.exchange import TrafficRow
from kwire.capture.model import StreamGap
from kwire.capture.optional_dependencies import has_captures, require_pyarrow
from kwire.capture.options import Options
from kwire.capture.pipeline import (
    make_row_builder,
    merge_issues,
    order_rows,
)
from kwire.capture.progressive_reader import can_be_indexed, progressive_events, stream_events
from kwire.capture.rows.columns import arrow_schema, level_columns
from kwire.capture.rows.file_names import assign_file_names
from kwire.capture.rows.levels import TRAFFIC_LEVELS, options_for_columns, options_for_level
from kwire.capture.rows.record_batches import selected_columns
from kwire.capture.rows.reorder_buffer import PartEnded
from kwire.capture.series.topic_name_backfill import fill_topic_names, unnamed_topic_ids
from kwire.capture.tls.followed_key_log import open_key_log, read_current_secrets

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    import pyarrow as pa

    from kwire.capture.columnar.filtered.column_conditions import ColumnCondition
    from kwire.capture.columnar.reader import ColumnarReader
    from kwire.capture.files.source import Source
    from kwire.capture.index import FlowKey, Index
    from kwire.capture.index.stream_index import StreamIndex
    from kwire.capture.kafka.exchange import Outcome
    from kwire.capture.model import FlowClosed, Row
    from kwire.capture.progressive_reader import Event
    from kwire.capture.rows.reorder_buffer import LineFormat
    from kwire.capture.series.series_reader import SeriesReader

__all__ = [
    "collect_topic_names",
    "make_row_builder",
    "open_index",
    "read_batches",
    "read_connections",
    "read_events",
    "read_flow_batches",
    "read_outcomes",
    "read_rows",
    "read_series_rows",
    "read_table",
]


def read_outcomes(source: Source, options: Options | None = None, level: str = "messages") -> Iterator[Outcome]:
    """Exchanges as they complete, and stream gaps, connections and capture issues, in one pass over the source.

    Capture issues of one kind are merged into one outcome at the end.

    Args: level: for `flows` and `packets` the outcomes are connections as they end, and packets, without exchanges.
    """
    options = options or Options()
    if level in TRAFFIC_LEVELS:
        return (outcome for outcome in _traffic_events(source, options, level) if not isinstance(outcome, PartEnded))
    return _open_stream(source, options, level).outcomes(level, issues=True, selects=False)


def _traffic_events(source: Source, options: Options, level: str) -> Iterator[Outcome | PartEnded]:
    """Connections as they end, or packets, and what is not read as Kafka; and the ends of parts of the stream."""
    from kwire.capture.columnar.reader import ColumnarReader
    from kwire.capture.traffic.stream_traffic import read_stream_traffic

    index = _stream_index(source, options)
    reader = ColumnarReader(index, None, options)
    for part, rows in read_stream_traffic(index, level, options):
        yield from rows
        found = reader.numbered_outcomes(part, issues=True)
        yield from (outcome for _, outcome in found if not isinstance(outcome, StreamGap))
        yield PartEnded()


def read_connections(source: Source, options: Options | None = None) -> Iterator[Outcome | FlowClosed]:
    """Exchanges as they complete, with the end of each connection behind its exchanges, and what cannot be read.

    The bodies of all exchanges are decoded; they have no `session`. Raises: CaptureError if the source is no capture.
    """
    reader = _open_stream(source, replace(options or Options(), sessions=False), "messages")
    return reader.outcomes_with_ends()


def _open_stream(source: Source, options: Options, level: str) -> ColumnarReader:
    """A reader of a source that is read once."""
    from kwire.capture.columnar.reader import ColumnarReader

    return ColumnarReader(_stream_index(source, options), None, options_for_level(options, level))


def _stream_index(source: Source, options: Options) -> StreamIndex:
    """The index of a source that is read once."""
    from kwire.capture.index.scan.stream_scan import scan_stream
    from kwire.capture.index.stream_index import StreamIndex

    keys = open_key_log(options)
    items = scan_stream(source, keys, options.unpacked_size_max)
    return StreamIndex(source_name(source), items, options, keys)


def read_events(
    source: Source,
    options: Options,
    level: str,
    *,
    path: str | None = None,
    conditions: Callable[[], list[ColumnCondition]] = list,
    columns: Collection[str] | None = None,
    line_format: Callable[[], LineFormat | None] = lambda: None,
    on_progress: Callable[[int], None] = lambda position: None,
) -> Iterator[Event]:
    """Outcomes for an interactive reader: the first ones at once, the others by the index of the file if it has one.

    Args: path: the file that `source` reads; None if it cannot be read again. conditions: returns them when the index
        is read; exchanges that fail one of them, and have no issue, are only counted. columns: exchanges that match are
        returned as rows of these columns. line_format: is called when the index is read; exchanges that match
        are then returned as lines of this format, unless it is None. on_progress: is called with the position that
        was read, in bytes, first for the index and then for the rows.
    """
    if path is not None and level not in TRAFFIC_LEVELS and can_be_indexed(path):
        return progressive_events(
            path,
            source,
            read_current_secrets(options),
            level,
            conditions,
            columns=columns,
            line_format=line_format,
            on_progress=on_progress,
        )
    if level in TRAFFIC_LEVELS:
        return _traffic_events(source, options, level)
    return stream_events(source, options, level, conditions, columns=columns, line_format=line_format)


def read_rows(source: Source, level: str = "messages", options: Options | None = None) -> Iterator[Row]:
    """The rows of one level, in the order of their requests.

    Raises: CaptureError when the source is no capture; ValueError for an unknown level.
    """
    options = options or Options()
    level_columns(level)
    if level in TRAFFIC_LEVELS:
        return _read_traffic_rows(source, level, options)
    return _open_stream(source, options, level).rows(level, issues=True)


def _read_traffic_rows(source: Source, level: str, options: Options) -> Iterator[Row]:
    """The rows of `flows` or `packets`."""
    for outcome in read_outcomes(source, options, level):
        if isinstance(outcome, TrafficRow) and outcome.level == level:
            yield outcome.row


def read_series_rows(
    series: SeriesReader, file: str, outcomes: Iterable[Outcome], level: str, options: Options
) -> Iterator[Row]:
    """The rows of outcomes of a series of captures, whose topic names and files its reader has.

    Each row names the file in which it begins, or `file` if that is not known.
    """
    make_rows = make_row_builder(level, file, options, series.names)
    return assign_file_names(order_rows(merge_issues(outcomes), make_rows), series.files)


def read_batches(
    path: Source, level: str = "messages", options: Options | None = None, *, columns: Sequence[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows of one capture as record batches of `arrow_schema(level)`.

    Args: columns: only these, in this order. What only other columns need is neither computed nor decoded.
    Raises: CaptureError when the source is no capture; ValueError for an unknown level or column.
    """
    options = options or Options()
    names = selected_columns(level, columns)
    index = open_index(path, unpacked_size_max=options.unpacked_size_max)
    if index is not None:
        yield from read_flow_batches([index], None, level, options, columns=names)
        return
    options = options_for_columns(options, names)
    from kwire.capture.columnar.batches import columnar_batches
    from kwire.capture.traffic.stream_traffic import StreamTraffic

    stream = _stream_index(path, options)
    if level in TRAFFIC_LEVELS:
        traffic = StreamTraffic(stream, level, options, names, has_ns=False)
        yield from (batch for part in stream.parts() for batch in traffic.read_part(part))
    else:
        yield from columnar_batches(stream, None, level, options, names, issues=True)


def read_flow_batches(
    indexes: Sequence[Index],
    flows: Collection[FlowKey] | None,
    level: str = "messages",
    options: Options | None = None,
    *,
    columns: Sequence[str] | None = None,
    issues: bool = True,
) -> Iterator[pa.RecordBatch]:
    """The rows of some flows of one or more captures, which are read as one: a flow may continue in the next capture.

    Args: indexes: in the order of their times. flows: None for all. issues: whether capture issues, which belong to
        no flow, have rows; where flows are divided among tasks, one task should return them.
    """
    options = options or Options()
    names = selected_columns(level, columns)
    reduced_options = options_for_columns(options, names)
    from kwire.capture.index.series import SeriesIndex

    whole = indexes[0] if len(indexes) == 1 else SeriesIndex(indexes, flows)
    if level in TRAFFIC_LEVELS:
        from kwire.capture.traffic.indexed_traffic import read_traffic

        yield from read_traffic(whole, flows, level, reduced_options, names)
    else:
        from kwire.capture.columnar.batches import columnar_batches

        yield from columnar_batches(whole, flows, level, reduced_options, names, issues=issues)


def read_table(
    paths: Iterable[Source],
    level: str = "messages",
    options: Options | None = None,
    *,
    columns: Sequence[str] | None = None,
) -> pa.Table:
    """The rows of all captures in one table. Topic names that any of them contains are used for the rows of all."""
    pa = require_pyarrow()
    layout = arrow_schema(level)
    names = selected_columns(level, columns)
    # A missing topic name is found by the topic's id.
    read_names = [*names, "topic_id"] if "topic" in names and "topic_id" not in names else names
    sources = list(paths)
    batches = [batch for path in sources for batch in read_batches(path, level, options, columns=read_names)]
    table = pa.Table.from_batches(batches, schema=pa.schema([layout.field(name) for name in read_names]))
    return add_missing_topic_names(table, sources, options or Options()).select(names)


def add_missing_topic_names(table: pa.Table, sources: Sequence[Source], options: Options) -> pa.Table:
    """The table with topic names in place of ids, as far as any of the sources contains the names.

    The sources are read again only if a name is missing, and only paths and bytes can be read again.
    """
    unnamed = unnamed_topic_ids(table)
    if not unnamed:
        return table
    rereadable = [source for source in sources if isinstance(source, (str, bytes, bytearray, memoryview, os.PathLike))]
    known = collect_topic_names(rereadable, options)
    names = {topic_id: known[topic_id] for topic_id in unnamed if topic_id in known}
    return fill_topic_names(table, names) if names else table


def collect_topic_names(sources: Iterable[Source], options: Options, *, cache: str | None = None) -> dict[str, str]:
    """The topic names by id that the captures contain anywhere, and those of the options.

    Rows are made as a capture is read, so rows before the message that names a topic lack its name. To avoid that, pass
    the result as `Options.topics`. The sources are read once more for it; with an index, only messages that name topics
    are decoded.

    Args: cache: where indexes are stored, `beside` or a folder; None stores none.
    """
    for source in sources:
        names = find_topic_names(source, options, cache=cache)
        options = replace(options, topics=names)
    return dict(options.topics)


def find_topic_names(source: Source, options: Options, *, cache: str | None = None) -> dict[str, str]:
    """The same of one capture."""
    from kwire.capture.columnar import topic_name_scan

    index = open_index(source, cache, unpacked_size_max=options.unpacked_size_max) or _stream_index(source, options)
    return topic_name_scan.find_topic_names(index, options)


def open_index(source: Source, cache: str | None = None, *, unpacked_size_max: int | None = None) -> Index | None:
    """The index of a source; None if the source cannot be indexed, or without the extra `captures`.

    Args: cache: where sidecars are stored, `beside` or a folder; None stores none. Compressed captures have none.
        unpacked_size_max: as in `Options`.
    """
    if not isinstance(source, (str, bytes, os.PathLike)) or not has_captures():
        return None
    from kwire.capture import index
    from kwire.capture.index.scan.files import CaptureFile, unpack_capture

    with suppress(index.NotIndexed):
        with CaptureFile(source) as file:
            is_packed = file.is_compressed
        if is_packed:
            return index.build_index(unpack_capture(source, unpacked_size_max))
        return index.build_index(source) if isinstance(source, bytes) else index.open_index(source, cache=cache)
    return None
