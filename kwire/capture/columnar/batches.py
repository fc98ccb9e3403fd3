"""The entry point of the columnar reader: the rows of any level as record batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.capture.columnar.levels.level_reader import LEVELS, LevelReader
from kwire.capture.columnar.message_batches import MessageBatches
from kwire.capture.columnar.reader import ColumnarReader
from kwire.capture.rows.levels import options_for_level
from kwire.capture.rows.record_batches import to_record_batches
from kwire.registry import DEFAULT_EDITION

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    import pyarrow as pa

    from kwire.capture.index import FlowKey, Index
    from kwire.capture.options import Options


def columnar_batches(
    index: Index,
    flows: Collection[FlowKey] | None,
    level: str,
    options: Options,
    columns: Sequence[str],
    *,
    issues: bool,
) -> Iterator[pa.RecordBatch]:
    """The rows of chosen flows of one capture, with these columns."""
    reader = ColumnarReader(index, flows, options_for_level(options, level))
    try:
        by_rows = options.exchange_filter is not None and options.exchange_filter.row_filter is not None
        if options.edition != DEFAULT_EDITION:
            yield from to_record_batches(reader.rows(level, issues=issues), level, columns)
        # Where the user chose the messages to decode, the others count as not decoded.
        elif level in LEVELS and options.decoded_messages is None:
            yield from LevelReader(reader, level, columns).read_batches()
        elif level == "messages" and not by_rows:
            yield from MessageBatches(reader, columns).read_batches(issues=issues)
        else:
            yield from to_record_batches(reader.rows(level, issues=issues), level, columns)
    finally:
        reader.close()
