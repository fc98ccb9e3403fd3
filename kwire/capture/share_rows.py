"""The levels `share_acquired` and `share_acks`: what share consumers were given, and how they settled it."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from kwire.capture.pairs import Pairs, int64
from kwire.capture.rows import Row, group_and_member
from kwire.error_codes import name_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    import msgspec

    from kwire.capture.exchange import Exchange

ACK_NAMES = {0: "gap", 1: "accept", 2: "release", 3: "reject", 4: "renew"}


def share_acquired(pairs: Pairs, exchange: Exchange) -> Iterator[Row]:
    """A row for each range of records that a ShareFetch response hands to its member."""
    response = exchange.response
    if response is None or response.body is None or response.name != "ShareFetchResponse":
        return
    key = {**pairs.key(exchange), **_member(exchange)}
    for pair in pairs.of(exchange):
        for acquired in getattr(pair.answered, "acquired_records", ()):
            yield {
                **key,
                **pair.place(),
                "first_offset": acquired.first_offset,
                "last_offset": acquired.last_offset,
                "delivery_count": acquired.delivery_count,
                "lock_timeout_ms": getattr(response.body, "acquisition_lock_timeout_ms", None),
                "ts": response.frame.ts,
            }


def share_acks(pairs: Pairs, exchange: Exchange) -> Iterator[Row]:
    """A row for each run of offsets that a ShareFetch or ShareAcknowledge settles in the same way."""
    request = exchange.request
    if request is None or request.name not in {"ShareFetchRequest", "ShareAcknowledgeRequest"}:
        return
    key = {**pairs.key(exchange), **_member(exchange)}
    for pair in pairs.of(exchange):
        code = _ack_error(exchange, pair.answered)
        for batch in getattr(pair.asked, "acknowledgement_batches", ()):
            for first, last, kind in ack_runs(batch.first_offset, batch.last_offset, batch.acknowledge_types):
                yield {
                    **key,
                    **pair.place(),
                    "first_offset": int64(first),
                    "last_offset": int64(last),
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


def _member(exchange: Exchange) -> Row:
    request = exchange.request
    group, member = (None, None) if request is None or request.body is None else group_and_member(request.body)
    return {"group_id": group, "member_id": member}


def _ack_error(exchange: Exchange, answered: msgspec.Struct | None) -> int | None:
    """The acknowledgement's own error; without one for the partition, that of the whole response."""
    body = None if exchange.response is None else exchange.response.body
    for struct, field in (
        (answered, "acknowledge_error_code"),
        (answered, "error_code"),
        (body, "error_code"),
    ):
        code: int | None = getattr(struct, field, None)
        if code is not None:
            return code
    return None
