"""The columns of rows of traffic, as arrays: texts by their number, times, and names of files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from kwire.capture.index.arrays import Bools, Ints
from kwire.capture.model import format_address, format_connection
from kwire.capture.rows.column import ColumnKind
from kwire.capture.rows.columns import arrow_schema, level_columns
from kwire.capture.traffic.connection_facts import ConnectionFacts


class RowSettings(NamedTuple):
    """Which rows are made. columns: of the level, in this order. file: the value of that column.

    file_starts: for a series of files, the first time and the name of each. ports: of the connections that have rows;
    empty for all. has_ns: whether times are nanoseconds, as in `Row`, and no timestamps.
    """

    columns: Sequence[str]
    file: str
    file_starts: Sequence[tuple[int, str]] = ()
    ports: frozenset[int] = frozenset()
    has_ns: bool = False


class EndpointColumns:
    """The endpoints of packets or connections."""

    def __init__(self, pair: Ints, facts: ConnectionFacts) -> None:
        """Args: pair: the number of the endpoints of each."""
        pairs, self._place = np.unique(pair, return_inverse=True)
        self._ends = [facts.find_ends(number) for number in pairs.tolist()]

    def ip(self, side: Ints) -> pa.Array:
        """The address of one side of each."""
        return take_texts([format_address(ip) for ends in self._ends for ip, _ in ends], 2 * self._place + side)

    def port(self, side: Ints) -> Ints:
        """The port of one side of each."""
        ports = np.array([port for ends in self._ends for _, port in ends], dtype=np.int64)
        own: Ints = ports[2 * self._place + side]
        return own

    def connection(self, client: Ints) -> pa.Array:
        """The value of `conn_id` of each. Args: client: the side of the client."""
        texts = [format_connection(*pair) for ends in self._ends for pair in (ends, ends[::-1])]
        return take_texts(texts, 2 * self._place + client)

    def has_port(self, ports: frozenset[int]) -> Bools:
        """Whether each has one of these ports."""
        found = np.array([any(port in ports for _, port in ends) for ends in self._ends], dtype=np.bool_)
        return found[self._place]


def take_texts(texts: Sequence[str | None], numbers: Ints) -> pa.Array:
    """Texts by their numbers in a list."""
    return pa.array(texts, type=pa.string()).take(pa.array(numbers))


def file_column(settings: RowSettings, ts: Ints) -> pa.Array:
    """The column `file` of rows with these times."""
    starts = np.array([start for start, _ in settings.file_starts], dtype=np.int64)
    names = [settings.file, *(name for _, name in settings.file_starts)]
    return take_texts(names, np.searchsorted(starts, ts, "right"))


def make_batch(level: str, settings: RowSettings, columns: Mapping[str, Callable[[], Any]]) -> pa.RecordBatch:
    """A batch of the columns that the settings name.

    Args: columns: build each column, as an Arrow array or as numbers; times are in nanoseconds.
    """
    layout, kinds = arrow_schema(level), {column.name: column.kind for column in level_columns(level)}
    arrays, fields = [], []
    for name in settings.columns:
        values, field = columns[name](), layout.field(name)
        if kinds[name] is ColumnKind.TIME and settings.has_ns:
            field = pa.field(name, pa.int64())
        elif kinds[name] is ColumnKind.TIME:
            values = pa.array(values // 1000).cast(field.type)
        arrays.append(values if isinstance(values, pa.Array) else pa.array(values).cast(field.type))
        fields.append(field)
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))
