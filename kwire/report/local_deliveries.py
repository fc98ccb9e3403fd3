"""Deliveries, outcomes and lock times of records, computed in this process from Arrow tables of the levels.

The rows are those of `attempts`, `outcomes` and `lock_times` of `kwire.spark.analyses`; a test compares them. Sorting
whole columns of one machine's captures takes a tenth of the time of Spark's windows and aggregates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kwire.spark.analyses.common import DELIVERY_COUNT_LIMIT, RANGE_RECORDS_MAX

if TYPE_CHECKING:
    import numpy.typing as npt

    Integers = npt.NDArray[np.int64]
    Flags = npt.NDArray[np.bool_]

_NULL = np.iinfo(np.int64).min  # Sorts first, as Spark's nulls.
_ACQUISITION_COLUMNS = ("delivery_count", "lock_timeout_ms", "resp_packet")
_ACK_COLUMNS = ("ack_name", "error_code", "error_name", "req_packet")
_COMMON = ("group_id", "topic", "topic_id", "partition", "member_id", "client_id", "file", "conn_id")
_COLUMNS = (*_COMMON, "correlation_id", "ts")
_TOGETHER = (
    *("group_id", "topic", "partition", "member_id", "client_id", "delivery_count", "acquired_ts", "ack_ts"),
    *("ack_name", "ack_error", "lock_timeout_ms", "renewals", "held_us", "lock_share"),
    *("file", "conn_id", "correlation_id", "resp_packet", "req_packet"),
)


class DeliveryTables(NamedTuple):
    """The results, named as the functions of `kwire.spark.analyses`."""

    attempts: pa.Table
    outcomes: pa.Table
    lock_times: pa.Table


def compute_deliveries(acquired: pa.Table, acks: pa.Table) -> DeliveryTables:
    """The tables of the levels `share_acquired` and `share_acks`."""
    ranges = _Ranges(acquired, acks)
    attempts = _attempts(ranges)
    return DeliveryTables(attempts, _outcomes(ranges), _lock_times(attempts))


def count_records(levels: pa.Table) -> int:
    """How many records the ranges of offsets of a level have. levels: its columns `first_offset`, `last_offset`."""
    first, last = _integers(levels["first_offset"]), _integers(levels["last_offset"])
    return int((last - first + 1)[_is_valid_range(first, last)].sum())


class _Ranges:
    """Acquired and acknowledged ranges of offsets, in columns; `row` and `offset` have an element for each record."""

    def __init__(self, acquired: pa.Table, acks: pa.Table) -> None:
        parts = [acquired.select([*_COLUMNS, *_ACQUISITION_COLUMNS]), acks.select([*_COLUMNS, *_ACK_COLUMNS])]
        self.table = pa.concat_tables(parts, promote_options="default").combine_chunks()
        topic = pc.coalesce(self.table["topic"], self.table["topic_id"])
        self.table = self.table.set_column(self.table.schema.get_field_index("topic"), "topic", topic)
        self.ts = _integers(self.table["ts"])
        self.is_ack = np.arange(self.table.num_rows) >= acquired.num_rows
        ack_names = self.table["ack_name"]
        self.is_refused = _flags(pc.not_equal(self.table["error_code"], 0))
        self.is_renewal = _flags(pc.equal(ack_names, "renew"))
        self.has_record = ~(_is_null(self.table["group_id"]) | _is_null(topic) | _is_null(self.table["partition"]))
        self.record = self._codes("group_id", "topic", "partition")
        self.member = _codes(self.table["member_id"])
        first, last = (
            np.concatenate([_integers(level[name]) for level in (acquired, acks)])
            for name in ("first_offset", "last_offset")
        )
        valid = np.flatnonzero(_is_valid_range(first, last))
        lengths = (last - first + 1)[valid]
        self.row = np.repeat(valid, lengths)
        within = np.arange(len(self.row)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        self.offset = first[self.row] + within

    def take(self, name: str, rows: Integers) -> pa.ChunkedArray:
        """A column's values at these rows; null for -1."""
        return self.table[name].take(pa.array(rows, mask=rows < 0))

    def _codes(self, *names: str) -> Integers:
        combined = np.zeros(self.table.num_rows, np.int64)
        for name in names:
            codes = _codes(self.table[name])
            combined = combined * (codes.max(initial=0) + 1) + codes
        return combined


def _attempts(ranges: _Ranges) -> pa.Table:
    """Each delivery of each record to a member: an acquisition with the acknowledgements until the next one."""
    holder = ranges.record * (ranges.member.max(initial=0) + 1) + ranges.member
    row = ranges.row
    order = np.lexsort((ranges.is_ack[row], ranges.ts[row], ranges.offset, holder[row]))
    row, offset, ts = row[order], ranges.offset[order], ranges.ts[row[order]]
    is_acquisition = ~ranges.is_ack[row]
    groups = _Groups(is_acquisition | _differs(holder[row]) | _differs(offset))
    first_rows = row[groups.starts]
    acquired_row = np.where(is_acquisition[groups.starts], first_rows, -1)
    has_ts, is_refused, is_renewal = ts != _NULL, ranges.is_refused[row], ranges.is_renewal[row]
    is_final = ~is_acquisition & ~is_renewal & has_ts & ~_is_null(ranges.table["ack_name"])[row]
    accepted, refused = (groups.earliest(ts, is_final & flags) for flags in (~is_refused, is_refused))
    ack_row = _rows_at(row, np.where(accepted >= 0, accepted, refused))
    renewed = is_renewal & has_ts & ~is_refused
    ack_ts, acquired_ts = _values_at(ranges.ts, ack_row), _values_at(ranges.ts, acquired_row)
    renewal = groups.last(renewed & (ts <= ack_ts[groups.number]))
    lock_from = np.maximum(acquired_ts, _values_at(ts, renewal))
    client_row = _rows_at(row, groups.first(~_is_null(ranges.table["client_id"])[row]))
    timeout_ms = ranges.take("lock_timeout_ms", acquired_row)
    timeout_us = pc.multiply(pc.cast(timeout_ms, pa.float64()), 1000.0)
    lock_used = _duration(lock_from, ack_ts)
    is_divisible = pc.not_equal(timeout_us, 0.0)
    columns = {
        **{name: ranges.take(name, first_rows) for name in ("group_id", "topic", "partition")},
        "offset": pa.array(offset[groups.starts]),
        "member_id": ranges.take("member_id", first_rows),
        "client_id": ranges.take("client_id", client_row),
        "delivery_count": pc.cast(ranges.take("delivery_count", acquired_row), pa.int32()),
        "acquired_ts": ranges.take("ts", acquired_row),
        "lock_timeout_ms": timeout_ms,
        "renewals": pa.array(groups.count(renewed).astype(np.int32)),
        "ack_ts": ranges.take("ts", ack_row),
        "ack_name": ranges.take("ack_name", ack_row),
        "ack_error": ranges.take("error_name", _rows_where(ack_row, ranges.is_refused)),
        "held_us": _duration(acquired_ts, ack_ts),
        "lock_share": pc.divide(
            pc.cast(lock_used, pa.float64()), pc.if_else(is_divisible, timeout_us, pa.scalar(None, pa.float64()))
        ),
        "file": ranges.take("file", np.where(ack_row >= 0, ack_row, acquired_row)),
        **{name: ranges.take(name, ack_row) for name in ("conn_id", "correlation_id")},
        "resp_packet": ranges.take("resp_packet", acquired_row),
        "req_packet": ranges.take("req_packet", ack_row),
    }
    return pa.table(columns)


def _outcomes(ranges: _Ranges) -> pa.Table:
    """The outcome of each delivered record: by its last acquisition and its last accepted final acknowledgement."""
    row = ranges.row
    correlation = np.where(ranges.is_ack, _integers(ranges.table["correlation_id"]), 0)
    order = np.lexsort((correlation[row], ranges.ts[row], ranges.is_ack[row], ranges.offset, ranges.record[row]))
    row, offset, ts = row[order], ranges.offset[order], ranges.ts[row[order]]
    is_ack = ranges.is_ack[row]
    groups = _Groups(_differs(ranges.record[row]) | _differs(offset))
    is_final = is_ack & ~ranges.is_renewal[row] & ~ranges.is_refused[row] & ranges.has_record[row]
    ack_row = _rows_at(row, groups.last(is_final & ~_is_null(ranges.table["ack_name"])[row]))
    acquired_row = _rows_at(row, groups.last(~is_ack & (ts != _NULL)))
    acquired_ts, ack_ts = _values_at(ranges.ts, acquired_row), _values_at(ranges.ts, ack_row)
    counts = groups.maximum(np.where(is_ack, _NULL, _integers(ranges.table["delivery_count"])[row]))
    is_latest = (ack_row >= 0) & (acquired_ts != _NULL) & (ack_ts >= acquired_ts)
    names = ranges.take("ack_name", np.where(is_latest, ack_row, -1))
    outcome = pc.case_when(
        pc.make_struct(
            *(pc.fill_null(pc.equal(names, name), False) for name in ("accept", "reject", "gap")),
            pa.array(counts >= DELIVERY_COUNT_LIMIT),
            pc.fill_null(pc.equal(names, "release"), False),
        ),
        *("accepted", "rejected", "gap", "exhausted", "released", "open"),
    )
    first_rows = row[groups.starts]
    columns = {
        **{name: ranges.take(name, first_rows) for name in ("group_id", "topic", "partition")},
        "offset": pa.array(offset[groups.starts]),
        "deliveries": pa.array(groups.count(~is_ack).astype(np.int32)),
        "delivery_count_max": pa.array(counts.astype(np.int32), mask=counts == _NULL),
        "outcome": outcome,
        "member_id": ranges.take("member_id", ack_row),
        "members": pa.array(_count_members(ranges, row, groups, ~is_ack)),
        "file": ranges.take("file", acquired_row),
        "resp_packet": ranges.take("resp_packet", acquired_row),
    }
    # Records that were acknowledged but not delivered in the capture have no outcome.
    return pa.table(columns).filter(pa.array(~ranges.is_ack[first_rows]))


def _count_members(ranges: _Ranges, row: Integers, groups: _Groups, is_counted: Flags) -> npt.NDArray[np.int32]:
    """How many different members each group of rows has."""
    is_counted = is_counted & ~_is_null(ranges.table["member_id"])[row]
    pairs = np.unique(np.stack((groups.number[is_counted], ranges.member[row[is_counted]])), axis=1)
    return np.bincount(pairs[0], minlength=len(groups.starts)).astype(np.int32)


def _lock_times(attempts: pa.Table) -> pa.Table:
    """Records that were acquired together and acknowledged together."""
    held = attempts.filter(pc.is_valid(attempts["held_us"]))
    sums = held.group_by(list(_TOGETHER)).aggregate([("offset", "min"), ("offset", "max"), ("offset", "count")])
    names = {"offset_min": "first_offset", "offset_max": "last_offset", "offset_count": "records"}
    return sums.select([*_TOGETHER, *names]).rename_columns([*_TOGETHER, *names.values()])


class _Groups:
    """Groups of adjacent rows. starts: the first row of each; number: the group of each row."""

    def __init__(self, is_start: Flags) -> None:
        self.starts = np.flatnonzero(is_start)
        self.number = np.cumsum(is_start) - 1
        self._positions = np.arange(len(is_start))

    def first(self, flags: Flags) -> Integers:
        """The first row of each group with the flag; -1 where none has it."""
        found = self._reduce(np.minimum, np.where(flags, self._positions, len(flags)))
        return np.where(found == len(flags), -1, found)

    def last(self, flags: Flags) -> Integers:
        """The last row of each group with the flag; -1 where none has it."""
        return self._reduce(np.maximum, np.where(flags, self._positions, -1))

    def earliest(self, ts: Integers, flags: Flags) -> Integers:
        """The row of each group with the lowest time, the last one of several; -1 where none has the flag."""
        lowest = _values_at(ts, self.first(flags))
        return self.last(flags & (ts == lowest[self.number]))

    def maximum(self, values: Integers) -> Integers:
        """The highest value of each group."""
        return self._reduce(np.maximum, values)

    def count(self, flags: Flags) -> Integers:
        """How many rows of each group have the flag."""
        return self._reduce(np.add, flags.astype(np.int64))

    def _reduce(self, function: np.ufunc, values: Integers) -> Integers:
        reduced: Integers = function.reduceat(values, self.starts) if len(self.starts) else np.empty(0, np.int64)
        return reduced


def _rows_at(row: Integers, positions: Integers) -> Integers:
    """The elements at these positions; -1 for -1."""
    return np.where(positions >= 0, row[positions], -1) if len(row) else positions


def _rows_where(rows: Integers, flags: Flags) -> Integers:
    """The rows with the flag; -1 for the others."""
    return np.where((rows >= 0) & flags[rows], rows, -1) if len(flags) else rows


def _values_at(values: Integers, rows: Integers) -> Integers:
    """The values at these rows; null for -1."""
    return np.where(rows >= 0, values[rows], _NULL) if len(values) else np.empty(0, np.int64)


def _duration(start: Integers, end: Integers) -> pa.Array:
    """Microseconds from one time to another; null where one is missing."""
    is_missing = (start == _NULL) | (end == _NULL)
    return pa.array(np.where(is_missing, 0, end - start), mask=is_missing)


def _differs(values: Integers) -> Flags:
    """Whether a value differs from the one before it."""
    result = np.ones(len(values), np.bool_)
    result[1:] = values[1:] != values[:-1]
    return result


def _is_valid_range(first: Integers, last: Integers) -> Flags:
    return (first >= 0) & (last >= first) & (last - first < RANGE_RECORDS_MAX)


def _integers(column: pa.ChunkedArray) -> Integers:
    values: Integers = pc.fill_null(pc.cast(column, pa.int64()), _NULL).to_numpy()
    return values


def _codes(column: pa.ChunkedArray) -> Integers:
    """A number for each value, null included."""
    encoded = column.combine_chunks().dictionary_encode(null_encoding="encode")
    indices = encoded.indices if isinstance(encoded, pa.DictionaryArray) else encoded.combine_chunks().indices
    codes: Integers = pc.cast(indices, pa.int64()).to_numpy(zero_copy_only=False)
    return codes


def _is_null(column: pa.ChunkedArray) -> Flags:
    return _flags(pc.is_null(column))


def _flags(column: pa.ChunkedArray) -> Flags:
    flags: Flags = pc.fill_null(column, False).to_numpy()
    return flags
