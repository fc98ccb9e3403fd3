"""Rows of the levels `share_acquired` and `share_acks`: acquired records and acknowledgements of share consumers."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from kwire.capture.model import Row
from kwire.capture.rows.message_rows import group_and_member
from kwire.capture.rows.partition_pairs import PartitionPairer, none_if_not_int64, pair_structs
from kwire.error_codes import name_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import msgspec

    from kwire.capture.kafka.exchange import Exchange
    from kwire.capture.kafka.message_fields import MessageTopic

    NamedBody = tuple[str, msgspec.Struct | None]
    ShareValues = Callable[[NamedBody, NamedBody], Iterator[tuple[MessageTopic, int, tuple[object, ...]]]]

ACKNOWLEDGING_REQUESTS = frozenset({"ShareFetchRequest", "ShareAcknowledgeRequest"})
ACQUIRED_COLUMNS = ("group_id", "member_id", "first_offset", "last_offset", "delivery_count", "lock_timeout_ms")
ACK_COLUMNS = (
    *("group_id", "member_id", "first_offset", "last_offset", "ack_type", "ack_name", "error_code", "error_name"),
)
ACK_NAMES = {0: "gap", 1: "accept", 2: "release", 3: "reject", 4: "renew"}


def share_acquired_rows(pairer: PartitionPairer, exchange: Exchange) -> Iterator[Row]:
    """A row for each range of records that a member acquires by a ShareFetch response."""
    response = exchange.response
    if response is not None:
        yield from _share_rows(pairer, exchange, acquired_values, ACQUIRED_COLUMNS, response.frame.ts)


def share_ack_rows(pairer: PartitionPairer, exchange: Exchange) -> Iterator[Row]:
    """A row for each run of offsets that a ShareFetch or ShareAcknowledge acknowledges with one type."""
    request = exchange.request
    if request is not None:
        yield from _share_rows(pairer, exchange, ack_values, ACK_COLUMNS, request.frame.ts)


def _share_rows(
    pairer: PartitionPairer, exchange: Exchange, values: ShareValues, names: tuple[str, ...], ts: int
) -> Iterator[Row]:
    sides = exchange.request, exchange.response
    named_bodies = [("", None) if side is None else (side.name, side.body) for side in sides]
    message_columns: Row | None = None
    for topic, number, row_values in values(*named_bodies):
        message_columns = message_columns or pairer.message_columns(exchange)
        row = dict(zip(names, row_values, strict=True))
        yield {**message_columns, **pairer.partition_columns(topic, number), **row, "ts": ts}


def acquired_values(request: NamedBody, response: NamedBody) -> Iterator[tuple[MessageTopic, int, tuple[object, ...]]]:
    """Topic, partition and the values of `ACQUIRED_COLUMNS` of each acquired range.

    Args: request, response: the name and the body of each.
    """
    body = response[1]
    if body is None or response[0] != "ShareFetchResponse":
        return
    member = _member(request[1])
    lock_timeout = getattr(body, "acquisition_lock_timeout_ms", None)
    for topic, number, _, responded in pair_structs(request[1], body):
        for acquired in getattr(responded, "acquired_records", ()):
            values = acquired.first_offset, acquired.last_offset, acquired.delivery_count, lock_timeout
            yield topic, number, (*member, *values)


def ack_values(request: NamedBody, response: NamedBody) -> Iterator[tuple[MessageTopic, int, tuple[object, ...]]]:
    """Topic, partition and the values of `ACK_COLUMNS` of each run of offsets; the arguments as above."""
    if request[1] is None or request[0] not in ACKNOWLEDGING_REQUESTS:
        return
    member = _member(request[1])
    for topic, number, requested, responded in pair_structs(request[1], response[1]):
        code = _acknowledge_error(response[1], responded)
        name = None if code is None else name_of(code)
        for batch in getattr(requested, "acknowledgement_batches", ()):
            for first, last, kind in ack_runs(batch.first_offset, batch.last_offset, batch.acknowledge_types):
                offsets = none_if_not_int64(first), none_if_not_int64(last)
                yield topic, number, (*member, *offsets, kind, ack_name(kind), code, name)


def ack_name(kind: int) -> str:
    """The name of an acknowledgement type."""
    return ACK_NAMES.get(kind, f"type {kind}")


def ack_runs(first: int, last: int, types: tuple[int, ...]) -> Iterator[tuple[int, int, int]]:
    """First and last offset of each run of one acknowledgement type; a single type counts for the whole range."""
    if len(types) == 1:
        yield first, last, types[0]
        return
    at = first
    for kind, run in groupby(types):
        size = sum(1 for _ in run)
        yield at, at + size - 1, kind
        at += size


def _member(request: msgspec.Struct | None) -> tuple[str | None, str | None]:
    return (None, None) if request is None else group_and_member(request)


def _acknowledge_error(response: msgspec.Struct | None, responded: msgspec.Struct | None) -> int | None:
    """The error code of the acknowledgement: that of the partition, else that of the whole response."""
    fields = ((responded, "acknowledge_error_code"), (responded, "error_code"), (response, "error_code"))
    codes = (getattr(struct, field, None) for struct, field in fields)
    return next((code for code in codes if code is not None), None)
