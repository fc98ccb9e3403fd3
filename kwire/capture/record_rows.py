"""The levels `partitions` and `records`: what was produced and fetched, by partition and by record."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.capture.pairs import Pairs, int64, or_none, placed_at, records_of
from kwire.error_codes import name_of
from kwire.errors import WireError
from kwire.payload import Records, batches_of, codec_label

if TYPE_CHECKING:
    from collections.abc import Iterator

    import msgspec

    from kwire.capture.exchange import Exchange
    from kwire.capture.rows import Row
    from kwire.records import Batch, Record

# What the records of one batch may take when they are decompressed.
_RECORDS_SIZE_MAX = 128 * 1024 * 1024
# The last millisecond of the year 9999: what RFC 3339 and Python can write, and Spark can give back to Python.
_TIMESTAMP_MAX = 253_402_300_799_999

_DIRECTIONS = {"ProduceRequest": "produce", "FetchResponse": "fetch", "ShareFetchResponse": "share_fetch"}


_RECORD_COLUMNS = (
    "offset",
    "timestamp",
    "timestamp_type",
    "codec",
    "is_control",
    "producer_id",
    "key_size",
    "value_size",
    "headers",
    "key",
    "value",
)


def partitions(pairs: Pairs, exchange: Exchange) -> Iterator[Row]:
    """A row for each partition whose error the response tells, or that a request without a response carries."""
    key = pairs.key(exchange)
    request, response = exchange.request, exchange.response
    side = request if request is not None else response
    for pair in pairs.of(exchange):
        struct = pair.answered if pair.answered is not None else pair.asked
        code = _error_of(pair.answered)
        if struct is None or (code is None and response is not None and response.body is not None):
            continue
        records = records_of(request, pair.asked) or records_of(response, pair.answered)
        yield {
            **key,
            "ts": side.frame.ts if side is not None else None,
            **pair.place(),
            "error_code": code,
            "error_name": None if code is None else name_of(code),
            **_batch_facts(records),
            **_answer_facts(pair.answered),
        }


def records(pairs: Pairs, exchange: Exchange, *, payload: bool) -> Iterator[Row]:
    """A row for each record of Produce requests, Fetch and ShareFetch responses."""
    for side in (exchange.request, exchange.response):
        direction = _DIRECTIONS.get(side.name) if side is not None else None
        if side is None or side.body is None or direction is None:
            continue
        is_produce = direction == "produce"
        key = {**pairs.key(exchange), "direction": direction, "ts": side.frame.ts}
        for pair in pairs.of(exchange):
            # A producer counts from 0; only the broker's answer tells where that is in the log.
            start = placed_at(pair.answered) if is_produce else 0
            found = records_of(side, pair.asked if is_produce else pair.answered)
            for row in _record_rows(found, start, counts_from_zero=is_produce, payload=payload):
                yield {**key, **pair.place(), **row}


def _record_rows(found: Records, start: int | None, *, counts_from_zero: bool, payload: bool) -> Iterator[Row]:
    """The columns of each record; damage is a row without a record, and ends the batches."""
    try:
        for batch in batches_of(found):
            for record in batch.records(_RECORDS_SIZE_MAX, strict=False):
                yield _record(batch, record, start, payload=payload)
            if start is not None and counts_from_zero:
                start += batch.count
    except WireError as error:
        yield {**dict.fromkeys(_RECORD_COLUMNS), "issue": str(error)}


def _record(batch: Batch, record: Record, start: int | None, *, payload: bool) -> Row:
    return {
        "offset": None if start is None else int64(record.offset + start),
        "timestamp": record.timestamp * 1_000_000 if 0 <= record.timestamp <= _TIMESTAMP_MAX else None,
        "timestamp_type": {0: "create", 1: "append"}.get(batch.timestamp_type),
        "codec": codec_label(batch),
        "is_control": batch.is_control,
        "producer_id": or_none(batch.producer_id),
        "key_size": None if record.key is None else len(record.key),
        "value_size": None if record.value is None else len(record.value),
        "headers": [
            {"key": name, "value_size": None if value is None else len(value)} for name, value in record.headers
        ],
        "key": record.key if payload else None,
        "value": record.value if payload else None,
        "issue": None,
    }


def _error_of(struct: msgspec.Struct | None) -> int | None:
    codes = [getattr(struct, field, None) for field in ("error_code", "partition_error_code", "acknowledge_error_code")]
    found = [code for code in codes if code is not None]
    return next((code for code in found if code), 0) if found else None


def _batch_facts(found: Records) -> Row:
    """What the headers of the batches tell; damage ends the counting, and is an issue of the message's row."""
    out: Row = dict.fromkeys(("base_offset", "producer_id", "epoch", "sequence", "records", "batch_bytes", "codec"))
    if found is None:
        return out
    codecs = dict[str, None]()
    count = 0
    for batch in _readable(found):
        if not codecs:
            out.update(
                base_offset=batch.base_offset,
                producer_id=or_none(batch.producer_id),
                epoch=or_none(batch.producer_epoch),
                # Some clients number from 0 where idempotence is off.
                sequence=or_none(batch.base_sequence) if batch.producer_id >= 0 else None,
            )
        codecs[codec_label(batch)] = None
        count += batch.count
    out.update(records=count, batch_bytes=len(found), codec=",".join(codecs) or None)
    return out


def _answer_facts(answered: msgspec.Struct | None) -> Row:
    out: Row = {
        "high_watermark": or_none(getattr(answered, "high_watermark", None)),
        "log_start": or_none(getattr(answered, "log_start_offset", None)),
    }
    placed = placed_at(answered)
    return out if placed is None else {**out, "base_offset": placed}


def _readable(found: Records) -> Iterator[Batch]:
    try:
        for batch in batches_of(found):
            # The first record of an old compressed batch is known only to what is inside it.
            _ = batch.base_offset, batch.count
            yield batch
    except WireError:
        return
