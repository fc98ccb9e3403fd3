"""Columns of the level `records`: the records of Produce requests, Fetch and ShareFetch responses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from kwire.accelerator import NATIVE
from kwire.capture.columnar.body_columns import binary_array, message_name, text_array
from kwire.capture.columnar.body_walker import PADDING_SIZE
from kwire.capture.columnar.levels.level_columns import LevelColumns, RowCollector
from kwire.capture.columnar.levels.level_rows import (
    DecodedBodies,
    Partitions,
    find_requested,
    int_array,
    repeated_exchanges,
)
from kwire.capture.columnar.levels.record_tables import (
    FoundRecords,
    HeaderTable,
    RecordTable,
    decompress_partitions,
    read_records,
)
from kwire.capture.columnar.levels.table_plan import Wanted
from kwire.capture.columnar.levels.topic_history import UUID
from kwire.capture.rows.record_rows import (
    DIRECTIONS,
    RECORD_COLUMNS,
    TIMESTAMP_MAX,
    TIMESTAMP_TYPES,
    partitions_with_records,
    record_values,
    values_of_records,
)
from kwire.payload import codec_name
from kwire.records.batch import APPEND_TIME_BIT, CONTROL_BIT

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kwire.capture.columnar.levels.level_columns import NamedBody, Values
    from kwire.capture.columnar.levels.level_rows import BodyGroup, LevelRows
    from kwire.capture.index.arrays import Bools, Ints
    from kwire.capture.index.flows.message_columns import ExchangeColumns

_PRODUCE = 0
_CODEC_BITS = 0x07
_CODEC_NAMES = [codec_name(number) for number in range(_CODEC_BITS + 1)]
_DIRECTIONS = tuple(DIRECTIONS.values())
_PRODUCED = _DIRECTIONS.index(DIRECTIONS["ProduceRequest"])
_SAFE = 1 << 61


class RecordColumns(LevelColumns):
    """Builds rows of records."""

    LEVEL = "records"
    COLUMNS = ("partition", "direction", *RECORD_COLUMNS)

    def has_rows(self, api_key: int) -> bool:
        """Whether exchanges of an API may have rows."""
        return any(message_name(api_key, kind) in DIRECTIONS for kind in ("Request", "Response"))

    def needs_request(self, api_key: int) -> bool:
        """Whether the request of an exchange with a valid response is needed."""
        return api_key == _PRODUCE

    def row_times(self, exchanges: ExchangeColumns) -> Ints:
        """When the frame with the records began."""
        is_produce = exchanges.request.api_key == _PRODUCE
        times: Ints = np.where(is_produce, exchanges.request.frame.ts, exchanges.response.frame.ts)
        return times

    def read_bodies(self, request: NamedBody, response: NamedBody) -> Iterator[Values]:
        """The rows of one exchange."""
        for topic, number, direction, values in record_values(request, response, payload=self.payload):
            yield topic, (number, direction, *values)

    def build_array(self, name: str, values: Sequence[Any]) -> pa.Array:
        """A column of values of rows that were read one by one."""
        if name == "timestamp":
            values = [None if ts is None else ts // 1000 for ts in values]
        return super().build_array(name, values)

    def read_group(self, group: BodyGroup) -> tuple[list[LevelRows], Ints]:
        """The rows of the exchanges whose bodies could be decoded together, and these exchanges."""
        is_good = np.zeros(len(group.exchanges), dtype=np.bool_)
        has_response = group.has_response
        answered, unanswered = group.rows[has_response], group.rows[~has_response]
        is_produce = group.api_key == _PRODUCE
        wanted = Wanted(("base_offset",) if is_produce else ("records",))
        responses = group.decode("Response", answered, wanted) if len(answered) else None
        # Nothing was fetched without a response.
        is_good[unanswered] = True
        responded = None
        if responses is not None:
            is_good[responses.good_rows] = True
            responded = responses.partitions()
            is_good[repeated_exchanges(responded)] = False
        bodies, partitions = responses, responded
        if is_produce:
            bodies = group.decode("Request", group.rows, Wanted(("records",)))
            if bodies is None:
                return [], group.rows[:0]
            partitions = bodies.partitions()
            is_request_good = np.zeros(len(group.exchanges), dtype=np.bool_)
            is_request_good[bodies.good_rows] = True
            is_request_good[repeated_exchanges(partitions)] = False
            is_good &= is_request_good
        done = group.rows[is_good[group.rows]]
        if bodies is None or partitions is None or not len(partitions):
            return [], done
        partitions = partitions.select(np.nonzero(is_good[partitions.exchange])[0])
        if responded is not None:
            responded = responded.select(np.nonzero(is_good[responded.exchange])[0])
        start = np.zeros(len(partitions), dtype=np.int64)
        if is_produce:
            partitions, start = _place_records(partitions, responded)
        return self._rows(group, bodies, partitions, start), done

    def _rows(self, group: BodyGroup, bodies: DecodedBodies, partitions: Partitions, start: Ints) -> list[LevelRows]:
        """The rows of the records in partitions. Args: start: is added to the offsets; -1 if it is not known."""
        name = message_name(group.api_key, "Request" if group.api_key == _PRODUCE else "Response")
        direction = np.full(len(partitions), _DIRECTIONS.index(DIRECTIONS[name]), dtype=np.int64)
        at, size = partitions.columns["records"]
        records = PlacedRecords(bodies.data, at, size, start, direction)
        topics = partitions.names, partitions.ids
        return [self.build_record_rows(group.exchanges, (partitions.exchange, partitions.number), topics, records)]

    def build_record_rows(
        self,
        exchanges: ExchangeColumns,
        numbers: tuple[Ints, Ints],
        topics: tuple[pa.Array, pa.Array],
        records: PlacedRecords,
    ) -> LevelRows:
        """The rows of records. Args: numbers: of the exchange and of the partition; topics: names and ids of topics."""
        is_unsafe = records.start >= _SAFE
        found = read_records(records.data, records.at, np.where(is_unsafe, 0, records.size))
        is_read = found.is_read & ~is_unsafe
        parts = [self._record_arrays(records, found)]
        if NATIVE is not None and not bool(is_read.all()):
            is_read = is_read.copy()
            parts += self._decompressed_arrays(records, np.nonzero(~found.is_read)[0], is_read)
        if not bool(is_read.all()):
            parts.append(self._arrays_of_partitions(records, np.nonzero(~is_read)[0]))
        place, arrays = parts[0]
        if len(parts) > 1:
            place = np.concatenate([place for place, _ in parts])
            order = np.argsort(place, kind="stable")
            place, rows = place[order], pa.array(order)
            arrays = {name: pa.concat_arrays([found[name] for _, found in parts]).take(rows) for name in arrays}
        if "partition" in self.columns:
            arrays["partition"] = int_array(numbers[1][place], self.types["partition"])
        rows = pa.array(place)
        topic = topics[0].take(rows), topics[1].take(rows)
        return self.build_rows(exchanges, numbers[0][place], topic, arrays)

    def _decompressed_arrays(
        self, placed: PlacedRecords, rows: Ints, is_read: Bools
    ) -> Iterator[tuple[Ints, dict[str, pa.Array]]]:
        """The same as `_record_arrays` of partitions with compressed batches; marks those that were read."""
        for chosen, parts in decompress_partitions(placed.data, placed.at, placed.size, rows):
            places = np.array(chosen, dtype=np.int64)
            size = np.array([len(part) for part in parts], dtype=np.int64)
            start, direction = placed.start[places], placed.direction[places]
            records = PlacedRecords(b"".join(parts), np.cumsum(size) - size, size, start, direction)
            found = read_records(records.data, records.at, records.size, is_decompressed=True)
            is_read[places] = found.is_read
            place, arrays = self._record_arrays(records, found)
            yield places[place], arrays

    def _record_arrays(self, placed: PlacedRecords, found: FoundRecords) -> tuple[Ints, dict[str, pa.Array]]:
        """The partition of each record, in order, and the columns of the records that were read together."""
        batches, records = found.batches, found.records
        order = np.lexsort((records.batch, batches.partition[records.batch]))
        if not bool((order[1:] > order[:-1]).all()):
            records = RecordTable(*(column[order] for column in records))
        batch = records.batch
        place = batches.partition[batch]
        start, direction = placed.start[place], placed.direction[place]
        before = np.where(direction == _PRODUCED, start + batches.before[batch], start)
        offset, timestamp = batches.base_offset[batch] + records.offset_delta + before, batches.max_timestamp[batch]
        is_append_time = (batches.attributes[batch] & APPEND_TIME_BIT) != 0
        timestamp = np.where(is_append_time, timestamp, batches.base_timestamp[batch] + records.timestamp_delta)
        producer_id, types = batches.producer_id[batch], self.types
        is_outside = (timestamp < 0) | (timestamp > TIMESTAMP_MAX)
        micros = np.where(is_outside, 0, timestamp) * 1000
        labels = pa.array([TIMESTAMP_TYPES[0], TIMESTAMP_TYPES[1]], type=pa.string())
        arrays = {
            "offset": int_array(offset, types["offset"], start < 0),
            "timestamp": pa.array(micros, type=pa.int64(), mask=is_outside).view(types["timestamp"]),
            "timestamp_type": labels.take(pa.array(is_append_time.astype(np.int64))),
            "is_control": pa.array((batches.attributes[batch] & CONTROL_BIT) != 0),
            "producer_id": int_array(producer_id, types["producer_id"], producer_id < 0),
            "key_size": int_array(records.key_size, types["key_size"], records.key_size < 0),
            "value_size": int_array(records.value_size, types["value_size"], records.value_size < 0),
            "headers": _headers_array(placed.data, records.header_count, found.headers, types["headers"]),
            "codec": pa.array(_CODEC_NAMES).take(pa.array(batches.attributes[batch] & _CODEC_BITS)),
            "direction": pa.array(_DIRECTIONS, type=pa.string()).take(pa.array(direction)),
        }
        if self.payload:
            arrays["key"] = binary_array(placed.data, records.key_at, records.key_size)
            arrays["value"] = binary_array(placed.data, records.value_at, records.value_size)
        names = [name for name in self.columns if name != "partition"]
        return place, {name: arrays[name] if name in arrays else pa.nulls(len(batch), types[name]) for name in names}

    def _arrays_of_partitions(self, placed: PlacedRecords, rows: Ints) -> tuple[Ints, dict[str, pa.Array]]:
        """The same of partitions whose records are read one by one."""
        places: list[int] = []
        values: list[tuple[object, ...]] = []
        directions: list[str] = []
        view, payload = memoryview(placed.data), self.payload
        for row in rows.tolist():
            at, size, start, direction = (int(column[row]) for column in placed[1:])
            data = view[at : at + max(size, 0)]
            first = None if start < 0 else start
            values += values_of_records(data, first, counts_from_zero=direction == _PRODUCED, payload=payload)
            directions += [_DIRECTIONS[direction]] * (len(values) - len(places))
            places += [row] * (len(values) - len(places))
        columns = list(zip(*values, strict=True)) or [()] * len(RECORD_COLUMNS)
        by_name = {**dict(zip(RECORD_COLUMNS, columns, strict=True)), "direction": directions}
        names = [name for name in self.columns if name != "partition"]
        arrays = {name: self.build_array(name, by_name[name]) for name in names}
        return np.array(places, dtype=np.int64), arrays

    def row_collector(self) -> RowCollector:
        """It reads the records of all exchanges together."""
        return RecordCollector(self)


class PlacedRecords(NamedTuple):
    """The records of partitions in some bytes. start: is added to the offsets, -1 if it is not known.

    size: 0 or less where there are no records. direction: an index of `_DIRECTIONS`.
    """

    data: bytes
    at: Ints
    size: Ints
    start: Ints
    direction: Ints


class RecordCollector(RowCollector):
    """Collects the records of exchanges that are decoded one by one, and reads them together."""

    def __init__(self, level: RecordColumns) -> None:
        super().__init__(level)
        self._records = level
        self._parts: list[bytes | memoryview] = []
        self._partitions: list[tuple[int, int, str | None, bytes | None, int, int, int]] = []

    def add_exchange(self, exchange: int, request: NamedBody, response: NamedBody) -> None:
        """Add the records of an exchange."""
        for topic, number, direction, records, start in partitions_with_records(request, response):
            if not records:
                continue
            self._parts.append(records)
            first = -1 if start is None else start
            direction_index = _DIRECTIONS.index(direction)
            row = (exchange, number, topic.name, topic.topic_id, len(records), first, direction_index)
            self._partitions.append(row)

    def rows(self, exchanges: ExchangeColumns) -> LevelRows:
        """The rows of all records that were added."""
        columns = list(zip(*self._partitions, strict=True)) or [()] * 7
        exchange, number, size, start, direction = (
            np.array(columns[index], dtype=np.int64) for index in (0, 1, 4, 5, 6)
        )
        topics = pa.array(columns[2], type=pa.string()), pa.array(columns[3], type=UUID)
        data = b"".join((*self._parts, bytes(PADDING_SIZE)))
        records = PlacedRecords(data, np.cumsum(size) - size, size, start, direction)
        return self._records.build_record_rows(exchanges, (exchange, number), topics, records)


def _place_records(requested: Partitions, responded: Partitions | None) -> tuple[Partitions, Ints]:
    """The partitions in the order of the response, then the others; and the offset in the log of each first record."""
    start = np.full(len(requested), -1, dtype=np.int64)
    if responded is None or not len(responded):
        return requested, start
    places = find_requested(responded, requested)
    known = np.nonzero(places >= 0)[0]
    position = np.arange(len(requested), dtype=np.int64) + len(responded)
    position[places[known]] = known
    start[places[known]] = np.maximum(responded.columns["base_offset"][0][known], -1)
    order = np.lexsort((position, requested.exchange))
    return requested.select(order), start[order]


def _headers_array(data: bytes, counts: Ints, headers: HeaderTable, kind: pa.DataType) -> pa.Array:
    """The list of the headers of each record."""
    keys = text_array(data, headers.name_at, headers.name_size)
    value_sizes = int_array(headers.value_size, kind.value_type.field("value_size").type, headers.value_size < 0)
    structs = pa.StructArray.from_arrays([keys, value_sizes], fields=list(kind.value_type))
    offsets = pa.array(np.concatenate([np.zeros(1, dtype=np.int32), np.cumsum(counts, dtype=np.int32)]))
    return pa.ListArray.from_arrays(offsets, structs).cast(kind)
