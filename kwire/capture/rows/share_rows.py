"""Rows of the levels `share_acquired` and `share_acks`: acquired records and acknowledgements of share consumers."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from kwire.capture.model import Row
from kwire.capture.rows.message_rows import group_and_member
from kwire.capture.rows.partition_pairs import PartitionPairer, none_if_not_int64
from kwire.error_codes import name_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    import msgspec

    from kwire.capture.kafka.exchange import Exchange

ACK_NAMES = {0: "gap", 1: "accept", 2: "release", 3: "reject", 4: "renew"}


def share_acquired_rows(pairer: PartitionPairer, exchange: Exchange) -> Iterator[Row]:
    """A row for each range of records that a member acquires by a ShareFetch response."""
    response = exchange.response
    if response is None or response.body is None or response.name != "ShareFetchResponse":
        return
    common_columns = {**pairer.message_columns(exchange), **_member_columns(exchange)}
    for pair in pairer.pair_partitions(exchange):
        for acquired in getattr(pair.responded, "acquired_records", ()):
            yield {
                **common_columns,
                **pair.columns(),
                "first_offset": acquired.first_offset,
                "last_offset": acquired.last_offset,
                "delivery_count": acquired.delivery_count,
                "lock_timeout_ms": getattr(response.body, "acquisition_lock_timeout_ms", None),
                "ts": response.frame.ts,
            }


def share_ack_rows(pairer: PartitionPairer, exchange: Exchange) -> Iterator[Row]:
    """A row for each run of offsets that a ShareFetch or ShareAcknowledge acknowledges with one type."""
    request = exchange.request
    if request is None or request.name not in {"ShareFetchRequest", "ShareAcknowledgeRequest"}:
        return
    common_columns = {**pairer.message_columns(exchange), **_member_columns(exchange)}
    for pair in pairer.pair_partitions(exchange):
        code = _acknowledge_error(exchange, pair.responded)
        for batch in getattr(pair.requested, "acknowledgement_batches", ()):
            for first, last, kind in ack_runs(batch.first_offset, batch.last_offset, batch.acknowledge_types):
                yield {
                    **common_columns,
                    **pair.columns(),
                    "first_offset": none_if_not_int64(first),
                    "last_offset": none_if_not_int64(last),
                    "ack_type": kind,
                    "ack_name": ACK_NAMES.get(kind, f"type {kind}"),
                    "ts": request.frame.ts,
                    "error_code": code,
                    "error_name": None if code is None else name_of(code),
                }


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


def _member_columns(exchange: Exchange) -> Row:
    request = exchange.request
    group, member = (None, None) if request is None or request.body is None else group_and_member(request.body)
    return {"group_id": group, "member_id": member}


def _acknowledge_error(exchange: Exchange, responded: msgspec.Struct | None) -> int | None:
    """The error code of the acknowledgement: that of the partition, else that of the whole response."""
    body = None if exchange.response is None else exchange.response.body
    fields = ((responded, "acknowledge_error_code"), (responded, "error_code"), (body, "error_code"))
    codes = (getattr(struct, field, None) for struct, field in fields)
    return next((code for code in codes if code is not None), None)
