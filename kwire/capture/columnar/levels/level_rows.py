"""Rows of a level as columns, before the columns of their exchanges are added; and the bodies they are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from kwire.capture.columnar.body_columns import has_tags, has_unexpected_header, message_name, string_array
from kwire.capture.columnar.body_walker import BODIES_MIN, PADDING_SIZE
from kwire.capture.columnar.levels.table_decoder import Table, TableDecoder
from kwire.capture.columnar.levels.table_plan import NAME, NUMBER, PARTITION, TOPIC, TOPIC_ID, Wanted, table_plan
from kwire.capture.columnar.levels.topic_history import UUID, uuid_array
from kwire.capture.index.arrays import NO_NUMBERS
from kwire.error_codes import name_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kwire.capture.columnar.levels.table_decoder import Values
    from kwire.capture.columnar.span_data import SpanData
    from kwire.capture.index.arrays import Bools, Ints
    from kwire.capture.index.flows.message_columns import ExchangeColumns


class LevelRows(NamedTuple):
    """Rows, in the order of each exchange.

    exchange: the number of the exchange in its part. ts: when the row began, nanoseconds. topic: names, and ids of 16
    bytes, as the messages have them. columns: the other columns of the level, without those of the exchange.
    """

    exchange: Ints
    ts: Ints
    topic: tuple[pa.Array, pa.Array]
    columns: dict[str, pa.Array]


def concatenate_level_rows(parts: Sequence[LevelRows]) -> LevelRows:
    """The rows of all parts, at least one, sorted by exchange."""
    exchange = np.concatenate([part.exchange for part in parts])
    ts = np.concatenate([part.ts for part in parts])
    names, ids = (pa.concat_arrays([part.topic[side] for part in parts]) for side in (0, 1))
    columns = {name: pa.concat_arrays([part.columns[name] for part in parts]) for name in parts[0].columns}
    return LevelRows(exchange, ts, (names, ids), columns)


class BodyGroup(NamedTuple):
    """The exchanges of one API and version whose headers are usual: `rows` are their numbers in `exchanges`."""

    span: SpanData
    exchanges: ExchangeColumns
    rows: Ints
    api_key: int
    version: int

    @property
    def has_response(self) -> Bools:
        """Which of the exchanges have a response."""
        return self.exchanges.response.frame.size[self.rows] >= 0

    def decode(self, kind: str, rows: Ints, wanted: Wanted) -> DecodedBodies | None:
        """Decode the requests or responses of some of the exchanges; None if they cannot be decoded together."""
        is_response = kind == "Response"
        name = message_name(self.api_key, kind)
        plan = table_plan(name, self.version, wanted)
        frame = self.exchanges.response.frame if is_response else self.exchanges.request.frame
        at, data = self.span.positions(frame.at[rows]), self.span.data
        end = at + frame.size[rows]
        is_readable = (at >= 0) & (end <= len(data) - PADDING_SIZE)
        if plan is None or int(is_readable.sum()) < BODIES_MIN:
            return None
        if is_response:
            skip = np.full(len(rows), 4 + has_tags(self.api_key, self.version), dtype=np.int64)
            flat = np.frombuffer(data, dtype=np.uint8)
            is_readable &= ~has_unexpected_header(flat, np.where(is_readable, at, 0), skip, name)
        else:
            skip = self.exchanges.request.body[rows]
        rows = rows[is_readable]
        return DecodedBodies(data, rows, TableDecoder(data, (at + skip)[is_readable], end[is_readable], plan))


class Partitions(NamedTuple):
    """Partitions in bodies, in the order of each body. topic: a number for each topic, the same in all bodies.

    row: the row of each in the table of partitions. exchange: the number of its exchange.
    """

    row: Ints
    exchange: Ints
    names: pa.Array
    ids: pa.Array
    number: Ints
    columns: dict[str, Values]

    def __len__(self) -> int:
        return len(self.exchange)

    def select(self, chosen: Ints) -> Partitions:
        """The partitions with these indexes."""
        places = pa.array(chosen)
        columns = {name: tuple(array[chosen] for array in values) for name, values in self.columns.items()}
        row, exchange, number = self.row[chosen], self.exchange[chosen], self.number[chosen]
        return Partitions(row, exchange, self.names.take(places), self.ids.take(places), number, columns)


class DecodedBodies(NamedTuple):
    """Bodies that were decoded together: `rows` are the numbers of their exchanges."""

    data: bytes
    rows: Ints
    decoder: TableDecoder

    @property
    def good_rows(self) -> Ints:
        """The exchanges whose bodies are valid and were read completely."""
        return self.rows[self.decoder.is_good]

    def partitions(self) -> Partitions:
        """The partitions of all topics."""
        topics, table = self.decoder.table(TOPIC), self.decoder.table(PARTITION, TOPIC)
        names, ids = self._topic_columns(topics)
        if len(topics) != len(table) or bool((table.parent != np.arange(len(table))).any()):
            places = pa.array(table.parent)
            names, ids = names.take(places), ids.take(places)
        columns = dict(table.columns)
        number = columns.pop(NUMBER, (NO_NUMBERS,))[0]
        row = np.arange(len(table), dtype=np.int64)
        found = Partitions(row, self.rows[table.body], names, ids, number, columns)
        if bool((found.exchange[1:] >= found.exchange[:-1]).all()):
            return found
        return found.select(np.argsort(found.exchange, kind="stable"))

    def _topic_columns(self, topics: Table) -> tuple[pa.Array, pa.Array]:
        names, ids = pa.nulls(len(topics), pa.string()), pa.nulls(len(topics), UUID)
        if NAME in topics.columns:
            names = string_array(self.data, *topics.columns[NAME])
        if TOPIC_ID in topics.columns:
            ids = uuid_array(self.data, *topics.columns[TOPIC_ID])
        return names, ids


def topic_codes(names: pa.Array, ids: pa.Array) -> Ints:
    """A number for each topic: topics with the same id have the same number, or with the same name and no id."""
    by_name, by_id = (column.dictionary_encode() for column in (names, ids))
    name_code = by_name.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    id_code = by_id.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    codes: Ints = np.where(id_code >= 0, len(by_name.dictionary) + id_code, name_code)
    return codes


def repeated_exchanges(partitions: Partitions) -> Ints:
    """The exchanges with a partition that a body names more than once."""
    exchange = partitions.exchange
    if bool((exchange[1:] != exchange[:-1]).all()):
        return NO_NUMBERS
    topic, number = topic_codes(partitions.names, partitions.ids), partitions.number
    order = np.lexsort((number, topic, exchange))
    exchange, topic, number = exchange[order], topic[order], number[order]
    is_same = (exchange[1:] == exchange[:-1]) & (topic[1:] == topic[:-1]) & (number[1:] == number[:-1])
    repeated: Ints = exchange[1:][is_same]
    return repeated


def find_requested(responded: Partitions, requested: Partitions) -> Ints:
    """For each partition of a response the same one of its request, as an index of `requested`; -1 for none."""
    is_aligned = len(requested) == len(responded) and bool(
        (requested.exchange == responded.exchange).all() and (requested.number == responded.number).all()
    )
    if is_aligned and requested.names.equals(responded.names) and requested.ids.equals(responded.ids):
        return np.arange(len(responded), dtype=np.int64)
    names, ids = (pa.concat_arrays([getattr(requested, name), getattr(responded, name)]) for name in ("names", "ids"))
    topic = topic_codes(names, ids)
    exchange = np.concatenate([requested.exchange, responded.exchange])
    number = np.concatenate([requested.number, responded.number])
    order = np.lexsort((number, topic, exchange))
    exchange, topic, number = exchange[order], topic[order], number[order]
    is_pair = (exchange[1:] == exchange[:-1]) & (topic[1:] == topic[:-1]) & (number[1:] == number[:-1])
    first, second = order[:-1][is_pair], order[1:][is_pair]
    out = np.full(len(responded), -1, dtype=np.int64)
    # The sort is stable: the request's partition precedes that of the response.
    out[second - len(requested)] = first
    return out


def int_array(values: Ints, kind: pa.DataType, is_null: Bools | None = None) -> pa.Array:
    """A column of integers. Args: is_null: where there is none."""
    if is_null is not None:
        values = np.where(is_null, 0, values)
    return pa.array(values.astype(str(kind)), type=kind, mask=is_null)


def error_names(codes: Ints, is_null: Bools | None = None) -> pa.Array:
    """The column of the names of error codes."""
    known, inverse = np.unique(codes, return_inverse=True)
    names = pa.array([name_of(code) for code in known.tolist()], type=pa.string())
    return names.take(pa.array(inverse.reshape(-1), mask=is_null))
