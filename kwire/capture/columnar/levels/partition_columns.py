"""Columns of the level `partitions`: the partitions of responses, with the records sent or received for each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from kwire.capture.columnar.body_columns import message_name
from kwire.capture.columnar.levels.batch_headers import summarize_batches
from kwire.capture.columnar.levels.level_columns import LevelColumns
from kwire.capture.columnar.levels.level_rows import (
    BodyGroup,
    DecodedBodies,
    LevelRows,
    Partitions,
    error_names,
    find_requested,
    int_array,
    repeated_exchanges,
)
from kwire.capture.columnar.levels.table_plan import Wanted, partition_classes
from kwire.capture.rows.record_rows import ERROR_FIELDS, BatchValues, batch_values, partition_values, response_columns
from kwire.error_codes import name_of
from kwire.payload import RECORDS_FIELDS
from kwire.registry import codec_of_version

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    import msgspec

    from kwire.capture.columnar.levels.level_columns import NamedBody, Values
    from kwire.capture.index.arrays import Bools, Ints

# No message has this version: the codec is that of the newest release, where that has the message.
_ANY = -1
_RESPONSE_COLUMNS = ("high_watermark", "log_start")


class PartitionColumns(LevelColumns):
    """Builds rows of partitions."""

    LEVEL = "partitions"
    COLUMNS = ("partition", "error_code", "error_name", *_RESPONSE_COLUMNS, *BatchValues._fields)

    def __init__(self, columns: Collection[str], *, payload: bool = False) -> None:
        super().__init__(columns, payload=payload)
        self._needs_batches = not set(BatchValues._fields).isdisjoint(columns)

    def has_rows(self, api_key: int) -> bool:
        """Whether exchanges of an API may have rows."""
        names = (message_name(api_key, kind) for kind in ("Request", "Response"))
        return any(partition_classes(codec_of_version(name, _ANY).message) for name in names)

    def needs_request(self, api_key: int) -> bool:
        """Whether the request of an exchange with a valid response is needed."""
        return self._needs_batches and message_name(api_key, "Request") in RECORDS_FIELDS

    def read_group(self, group: BodyGroup) -> tuple[list[LevelRows], Ints]:
        """The rows of the exchanges whose bodies could be decoded together, and these exchanges."""
        answered, unanswered = group.rows[group.has_response], group.rows[~group.has_response]
        is_produce = message_name(group.api_key, "Request") in RECORDS_FIELDS
        responses, requests = self._decode(group, "Response", answered), None
        if self.needs_request(group.api_key) or (is_produce and len(unanswered)):
            requests = self._decode(group, "Request", group.rows)
            if requests is None:
                return [], group.rows[:0]
        is_good = np.zeros(len(group.exchanges), dtype=np.bool_)
        responded, requested = (None if bodies is None else bodies.partitions() for bodies in (responses, requests))
        if responses is not None:
            is_good[responses.good_rows] = True
        if requests is not None and requested is not None:
            is_request_good = np.zeros(len(group.exchanges), dtype=np.bool_)
            is_request_good[requests.good_rows] = True
            is_request_good[repeated_exchanges(requested)] = False
            is_good[unanswered] = True
            is_good &= is_request_good
        if responded is not None:
            is_good[repeated_exchanges(responded)] = False
        rows = []
        if responses is not None and responded is not None:
            responded = _select_good(responded, is_good)
            requested = None if requested is None else _select_good(requested, is_good)
            rows.append(self._answered_rows(group, responses, responded, requests, requested))
        if requests is not None and requested is not None and len(requested) and len(unanswered):
            is_unanswered = np.zeros(len(group.exchanges), dtype=np.bool_)
            is_unanswered[unanswered] = True
            rows.append(self._unanswered_rows(group, requests, _select_good(requested, is_good & is_unanswered)))
        return rows, group.rows[is_good[group.rows]]

    def _decode(self, group: BodyGroup, kind: str, rows: Ints) -> DecodedBodies | None:
        fields = RECORDS_FIELDS.get(message_name(group.api_key, kind))
        wanted = ["base_offset", "high_watermark", "log_start_offset", *ERROR_FIELDS] if kind == "Response" else []
        if fields is not None and self._needs_batches:
            wanted.append(fields.records[0])
        return group.decode(kind, rows, Wanted(tuple(wanted)))

    def _answered_rows(
        self,
        group: BodyGroup,
        responses: DecodedBodies,
        responded: Partitions,
        requests: DecodedBodies | None,
        requested: Partitions | None,
    ) -> LevelRows:
        response_name = message_name(group.api_key, "Response")
        (cls,) = partition_classes(codec_of_version(response_name, group.version).message) or (None,)
        codes = [
            _values(responded, field, default)
            for field in ERROR_FIELDS
            if (default := _field_default(cls, field)) is not None
        ]
        if not codes:
            # Partitions without an error code have no row.
            responded = responded.select(np.zeros(0, dtype=np.int64))
            codes = [responded.number]
        code = codes[0]
        for other in codes[1:]:
            code = np.where(code == 0, other, code)
        columns = self._partition_columns(responded, code, np.zeros(len(responded), dtype=np.bool_))
        for name, field in zip(_RESPONSE_COLUMNS, ("high_watermark", "log_start_offset"), strict=True):
            default = _field_default(cls, field)
            values = _values(responded, field, -1 if default is None else default)
            columns[name] = int_array(values, self.types[name], values < 0)
        if self._needs_batches:
            base_offset = _values(responded, "base_offset", -1)
            if requests is not None and requested is not None:
                at, size = _records_of_requests(responded, requested)
                data = requests.data
            else:
                fields = RECORDS_FIELDS.get(response_name)
                missing = np.zeros(len(responded), dtype=np.int64), np.full(len(responded), -1, dtype=np.int64)
                at, size = responded.columns.get(fields.records[0], missing) if fields is not None else missing
                data = responses.data
            columns |= self._batch_columns(data, at, size, base_offset)
        return self._make_rows(group, responded, columns)

    def _unanswered_rows(self, group: BodyGroup, requests: DecodedBodies, requested: Partitions) -> LevelRows:
        nothing = np.zeros(len(requested), dtype=np.int64)
        columns = self._partition_columns(requested, nothing, np.ones(len(requested), dtype=np.bool_))
        for name in _RESPONSE_COLUMNS:
            columns[name] = pa.nulls(len(requested), self.types[name])
        if self._needs_batches:
            at, size = requested.columns["records"]
            columns |= self._batch_columns(requests.data, at, np.where(size > 0, size, -1), nothing - 1)
        return self._make_rows(group, requested, columns)

    def _partition_columns(self, partitions: Partitions, code: Ints, is_null: Bools) -> dict[str, pa.Array]:
        return {
            "partition": int_array(partitions.number, self.types["partition"]),
            "error_code": int_array(code, self.types["error_code"], is_null),
            "error_name": error_names(code, is_null),
        }

    def _batch_columns(self, data: bytes, at: Ints, size: Ints, base_offset: Ints) -> dict[str, pa.Array]:
        """The columns of record batches. Args: size: -1 where there are no records. base_offset: of the response."""
        found, types = summarize_batches(data, at, size), self.types
        is_placed, is_absent = base_offset >= 0, size < 0
        base = np.where(is_placed, base_offset, found.base_offset)
        return {
            "base_offset": int_array(base, types["base_offset"], ~is_placed & ~found.has_batch),
            "records": int_array(found.records, types["records"], is_absent),
            "batch_bytes": int_array(size, types["batch_bytes"], is_absent),
            "codec": found.codec_names.take(pa.array(found.codec)),
            **{
                name: int_array(values, types[name], values < 0)
                for name, values in (
                    ("producer_id", found.producer_id),
                    ("epoch", found.epoch),
                    ("sequence", found.sequence),
                )
            },
        }

    def _make_rows(self, group: BodyGroup, partitions: Partitions, columns: dict[str, pa.Array]) -> LevelRows:
        topic = partitions.names, partitions.ids
        return self.build_rows(group.exchanges, partitions.exchange, topic, columns)

    def read_bodies(self, request: NamedBody, response: NamedBody) -> Iterator[Values]:
        """The rows of one exchange."""
        for topic, number, code, records, responded in partition_values(request, response):
            batches = batch_values(records if self._needs_batches else None)
            values = {**batches._asdict(), **response_columns(responded)}
            name = None if code is None else name_of(code)
            yield topic, (number, code, name, *map(values.__getitem__, self.COLUMNS[3:]))


def _select_good(partitions: Partitions, is_good: Bools) -> Partitions:
    keep = is_good[partitions.exchange]
    return partitions if bool(keep.all()) else partitions.select(np.nonzero(keep)[0])


def _records_of_requests(responded: Partitions, requested: Partitions) -> tuple[Ints, Ints]:
    """Where the records of each partition of a response are in its request; of size -1 if there are none."""
    places = find_requested(responded, requested)
    if not len(requested):
        return np.zeros(len(places), dtype=np.int64), places
    at, size = (column[np.maximum(places, 0)] for column in requested.columns["records"])
    return at, np.where((places >= 0) & (size > 0), size, -1)


def _field_default(cls: type[msgspec.Struct] | None, field: str) -> int | None:
    """The value of a field in versions without it; None if the class does not have it."""
    return None if cls is None else getattr(cls(), field, None)


def _values(partitions: Partitions, field: str, default: int) -> Ints:
    """The values of a field; the default for a version without it."""
    values = partitions.columns.get(field)
    return np.full(len(partitions), default, dtype=np.int64) if values is None else values[0]
