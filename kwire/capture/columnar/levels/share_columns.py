"""Columns of the levels `share_acquired` and `share_acks`: acquired records and acknowledgements of share consumers."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from kwire.capture.columnar.body_columns import message_name, string_array
from kwire.capture.columnar.levels.level_columns import LevelColumns
from kwire.capture.columnar.levels.level_rows import (
    DecodedBodies,
    Partitions,
    error_names,
    find_requested,
    int_array,
    repeated_exchanges,
)
from kwire.capture.columnar.levels.table_plan import MESSAGE, PARTITION, Wanted, partition_classes
from kwire.capture.index.arrays import NO_NUMBERS, group_starts
from kwire.capture.rows.share_rows import (
    ACK_COLUMNS,
    ACKNOWLEDGING_REQUESTS,
    ACQUIRED_COLUMNS,
    ack_name,
    ack_values,
    acquired_values,
)
from kwire.registry import codec_of_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kwire.capture.columnar.levels.level_columns import NamedBody, Values
    from kwire.capture.columnar.levels.level_rows import BodyGroup, LevelRows
    from kwire.capture.columnar.levels.table_decoder import Values as FieldValues
    from kwire.capture.index.arrays import Bools, Ints
    from kwire.capture.index.flows.message_columns import ExchangeColumns

_MEMBER = ("group_id", "member_id")
_OFFSETS = ("first_offset", "last_offset")
_ACK_ERROR_FIELDS = ("acknowledge_error_code", "error_code")
_ACK_BATCHES = "acknowledgement_batches"
_LOCK_FIELD = "acquisition_lock_timeout_ms"
# Below this, the sum of two numbers fits 64 bits.
_SAFE = 1 << 62


class ShareAcquiredColumns(LevelColumns):
    """Builds rows of acquired ranges."""

    LEVEL = "share_acquired"
    COLUMNS = ("partition", *ACQUIRED_COLUMNS)

    def has_rows(self, api_key: int) -> bool:
        """Whether exchanges of an API may have rows."""
        return message_name(api_key, "Response") == "ShareFetchResponse"

    def needs_request(self, api_key: int) -> bool:
        """Whether the request of an exchange with a valid response is needed."""
        return not set(_MEMBER).isdisjoint(self.columns)

    def row_times(self, exchanges: ExchangeColumns) -> Ints:
        """When the response came."""
        return exchanges.response.frame.ts

    def read_bodies(self, request: NamedBody, response: NamedBody) -> Iterator[Values]:
        """The rows of one exchange."""
        for topic, number, values in acquired_values(request, response):
            yield topic, (number, *values)

    def read_group(self, group: BodyGroup) -> tuple[list[LevelRows], Ints]:
        """The rows of the exchanges whose bodies could be decoded together, and these exchanges."""
        has_response = group.has_response
        answered, unanswered = group.rows[has_response], group.rows[~has_response]
        item_fields = (*_OFFSETS, "delivery_count")
        wanted = Wanted(message=(_LOCK_FIELD,), item="acquired_records", item_fields=item_fields)
        responses = group.decode("Response", answered, wanted)
        requests = group.decode("Request", answered, Wanted(message=_MEMBER)) if self.needs_request(0) else None
        if responses is None or (requests is None and self.needs_request(0)):
            # Nothing is acquired without a response.
            return [], unanswered
        is_good = np.zeros(len(group.exchanges), dtype=np.bool_)
        is_good[responses.good_rows] = True
        if requests is not None:
            is_good &= _are_members(requests.good_rows, len(is_good))
        partitions = responses.partitions()
        is_good[repeated_exchanges(partitions)] = False
        partitions = partitions.select(np.nonzero(is_good[partitions.exchange])[0])
        is_good[unanswered] = True
        place, items = _items_of(responses, "acquired_records", partitions)
        exchange, types = partitions.exchange[place], self.types
        lock = _message_values(responses, _LOCK_FIELD, len(is_good))
        arrays = {
            "partition": int_array(partitions.number[place], types["partition"]),
            **_member_arrays(requests, exchange, len(is_good)),
            **{name: int_array(items.get(name, (exchange,))[0], types[name]) for name in item_fields},
        }
        if lock is not None:
            arrays["lock_timeout_ms"] = int_array(lock[exchange], types["lock_timeout_ms"])
        else:
            default = getattr(codec_of_name("ShareFetchResponse").message(), _LOCK_FIELD)
            arrays["lock_timeout_ms"] = pa.repeat(pa.scalar(default, types["lock_timeout_ms"]), len(place))
        rows = self.build_rows(group.exchanges, exchange, _topics(partitions, place), arrays)
        return [rows], group.rows[is_good[group.rows]]


class _Acknowledged(NamedTuple):
    """The partitions of requests in the order of rows, with the error codes of their acknowledgements."""

    bodies: DecodedBodies
    partitions: Partitions
    code: Ints
    is_unknown: Bools


class ShareAckColumns(LevelColumns):
    """Builds rows of acknowledgements."""

    LEVEL = "share_acks"
    COLUMNS = ("partition", *ACK_COLUMNS)

    def has_rows(self, api_key: int) -> bool:
        """Whether exchanges of an API may have rows."""
        return message_name(api_key, "Request") in ACKNOWLEDGING_REQUESTS

    def needs_request(self, api_key: int) -> bool:
        """Whether the request of an exchange with a valid response is needed."""
        return True

    def read_bodies(self, request: NamedBody, response: NamedBody) -> Iterator[Values]:
        """The rows of one exchange."""
        for topic, number, values in ack_values(request, response):
            yield topic, (number, *values)

    def read_group(self, group: BodyGroup) -> tuple[list[LevelRows], Ints]:
        """The rows of the exchanges whose bodies could be decoded together, and these exchanges."""
        has_response = group.has_response
        answered = group.rows[has_response]
        wanted = Wanted(message=_MEMBER, item=_ACK_BATCHES, item_fields=(*_OFFSETS, "acknowledge_types"))
        requests = group.decode("Request", group.rows, wanted)
        wanted = Wanted(partition=_ACK_ERROR_FIELDS, message=("error_code",))
        responses = group.decode("Response", answered, wanted)
        if requests is None or (responses is None and len(answered)):
            return [], NO_NUMBERS
        is_good = _are_members(requests.good_rows, len(group.exchanges))
        requested = requests.partitions()
        is_good[repeated_exchanges(requested)] = False
        if responses is not None:
            is_response_good = _are_members(responses.good_rows, len(is_good))
            is_response_good[group.rows[~has_response]] = True
            responded = responses.partitions()
            is_response_good[repeated_exchanges(responded)] = False
            is_good &= is_response_good
            responded = responded.select(np.nonzero(is_good[responded.exchange])[0])
        requested = requested.select(np.nonzero(is_good[requested.exchange])[0])
        code = np.zeros(len(requested), dtype=np.int64)
        is_unknown = np.ones(len(requested), dtype=np.bool_)
        if responses is not None:
            order, code, is_unknown = _order_by_response(group, responses, responded, requested)
            requested = requested.select(order)
        return self._rows(group, _Acknowledged(requests, requested, code, is_unknown), is_good)

    def _rows(self, group: BodyGroup, acknowledged: _Acknowledged, is_good: Bools) -> tuple[list[LevelRows], Ints]:
        """The rows of acknowledgement batches, and the exchanges that are done."""
        requests, requested, all_codes, all_unknown = acknowledged
        place, items = _items_of(requests, _ACK_BATCHES, requested)
        if not len(place):
            return [], group.rows[is_good[group.rows]]
        first, last, (at, size) = items["first_offset"][0], items["last_offset"][0], items["acknowledge_types"]
        is_unsafe = (np.abs(first) >= _SAFE) & (size != 1)
        if bool(is_unsafe.any()):
            is_good[requested.exchange[place[is_unsafe]]] = False
            keep = is_good[requested.exchange[place]]
            place, first, last, at, size = (column[keep] for column in (place, first, last, at, size))
        batch, first, last, kind = _ack_runs(requests.data, (first, last), at, np.maximum(size, 0))
        place = place[batch]
        exchange, types = requested.exchange[place], self.types
        code, is_null = all_codes[place], all_unknown[place]
        known, inverse = np.unique(kind, return_inverse=True)
        names = pa.array([ack_name(number) for number in known.tolist()], type=pa.string())
        arrays = {
            "partition": int_array(requested.number[place], types["partition"]),
            **_member_arrays(requests, exchange, len(is_good)),
            "first_offset": int_array(first, types["first_offset"]),
            "last_offset": int_array(last, types["last_offset"]),
            "ack_type": int_array(kind, types["ack_type"]),
            "ack_name": names.take(pa.array(inverse.reshape(-1))),
            "error_code": int_array(code, types["error_code"], is_null),
            "error_name": error_names(code, is_null),
        }
        rows = self.build_rows(group.exchanges, exchange, _topics(requested, place), arrays)
        return [rows], group.rows[is_good[group.rows]]


def _order_by_response(
    group: BodyGroup, responses: DecodedBodies, responded: Partitions, requested: Partitions
) -> tuple[Ints, Ints, Bools]:
    """The order of a request's partitions in rows: those of the response first; their error codes, and which have none.

    The code is that of the partition, else that of the whole response.
    """
    places = find_requested(responded, requested)
    response_of = np.full(len(requested), -1, dtype=np.int64)
    response_of[places[places >= 0]] = np.nonzero(places >= 0)[0]
    count = len(group.exchanges)
    whole = _message_values(responses, "error_code", count)
    name = message_name(group.api_key, "Response")
    cls = codec_of_name(name).message
    code = np.zeros(len(requested), dtype=np.int64) if whole is None else whole[requested.exchange]
    is_unknown = ~_are_members(responses.good_rows, count)[requested.exchange]
    if "error_code" not in cls.__struct_fields__:
        is_unknown[:] = True
    (partition_cls,) = partition_classes(cls)
    field = next(field for field in _ACK_ERROR_FIELDS if field in partition_cls.__struct_fields__)
    answered = response_of >= 0
    values = responded.columns.get(field)
    code[answered] = 0 if values is None else values[0][response_of[answered]]
    is_unknown[answered] = False
    position = np.where(answered, response_of, len(responded) + np.arange(len(requested)))
    order = np.lexsort((position, requested.exchange))
    return order, code[order], is_unknown[order]


def _items_of(bodies: DecodedBodies, name: str, partitions: Partitions) -> tuple[Ints, dict[str, FieldValues]]:
    """The structs in chosen partitions, in their order: the partition of each, and their fields."""
    table = bodies.decoder.table(name, PARTITION)
    count = int(partitions.row.max(initial=-1)) + 1
    places = np.full(max(count, int(table.parent.max(initial=-1)) + 1), -1, dtype=np.int64)
    places[partitions.row] = np.arange(len(partitions))
    place = places[table.parent]
    order = np.argsort(place, kind="stable")
    order = order[place[order] >= 0]
    columns = {field: tuple(array[order] for array in values) for field, values in table.columns.items()}
    return place[order], columns


def _ack_runs(data: bytes, offsets: tuple[Ints, Ints], at: Ints, size: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """The runs of one type in acknowledgement batches: the batch, first and last offset, and the type of each."""
    batch = np.repeat(np.arange(len(size), dtype=np.int64), size)
    begin = np.cumsum(size) - size
    position = np.arange(len(batch), dtype=np.int64) - begin[batch]
    kind = np.frombuffer(data, dtype=np.int8)[at[batch] + position].astype(np.int64)
    starts = np.nonzero(group_starts(batch) | group_starts(kind))[0]
    run_size = np.diff(np.append(starts, len(batch)))
    batch, kind, position = batch[starts], kind[starts], position[starts]
    first = offsets[0][batch] + position
    # A single type is that of the whole range.
    last = np.where(size[batch] == 1, offsets[1][batch], first + run_size - 1)
    return batch, first, last, kind


def _message_values(bodies: DecodedBodies, field: str, count: int) -> Ints | None:
    """A number in the messages, by exchange; None for a version without it."""
    table = bodies.decoder.table(MESSAGE)
    if field not in table.columns:
        return None
    values = np.zeros(count, dtype=np.int64)
    values[bodies.rows[table.body]] = table.columns[field][0]
    return values


def _member_arrays(requests: DecodedBodies | None, exchange: Ints, count: int) -> dict[str, pa.Array]:
    """The columns of group and member."""
    if requests is None:
        return {}
    table = requests.decoder.table(MESSAGE)
    arrays = {}
    for name in _MEMBER:
        at, size = np.zeros(count, dtype=np.int64), np.full(count, -1, dtype=np.int64)
        if name in table.columns:
            at[requests.rows[table.body]], size[requests.rows[table.body]] = table.columns[name]
        arrays[name] = string_array(requests.data, at[exchange], size[exchange])
    return arrays


def _topics(partitions: Partitions, place: Ints) -> tuple[pa.Array, pa.Array]:
    rows = pa.array(place)
    return partitions.names.take(rows), partitions.ids.take(rows)


def _are_members(rows: Ints, count: int) -> Bools:
    """For each exchange whether it is one of these."""
    out = np.zeros(count, dtype=np.bool_)
    out[rows] = True
    return out
