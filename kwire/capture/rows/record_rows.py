"""Rows of the levels `partitions` and `records`: produced and fetched data by partition and by record."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kwire.capture.rows.dead_letter_headers import DEAD_LETTER_COLUMNS, dead_letter_columns
from kwire.capture.rows.partition_pairs import none_if_negative, none_if_not_int64, pair_structs, partition_records
from kwire.error_codes import name_of
from kwire.errors import WireError
from kwire.payload import Records, codec_label, read_complete_batches

if TYPE_CHECKING:
    from collections.abc import Iterator

    import msgspec

    from kwire.capture.kafka.exchange import Exchange
    from kwire.capture.kafka.message_fields import MessageTopic
    from kwire.capture.model import Row
    from kwire.capture.rows.partition_pairs import PartitionPairer
    from kwire.records import Batch, Record

# Limit of the decompressed size of one batch.
_RECORDS_SIZE_MAX = 128 * 1024 * 1024
# The format of record batches; the formats before it were single messages, or a compressed set of them.
_MAGIC_OF_BATCHES = 2
TIMESTAMP_MAX = 253_402_300_799_999
"""The last millisecond of the year 9999, the latest that RFC 3339, Python and Spark (towards Python) support."""
TIMESTAMP_TYPES = {0: "create", 1: "append"}

RECORD_COLUMNS = (
    *("offset", "timestamp", "timestamp_type", "codec", "is_control", "producer_id"),
    *("key_size", "value_size", "headers", *DEAD_LETTER_COLUMNS, "key", "value", "issue"),
)
_NO_RECORD = (None,) * (len(RECORD_COLUMNS) - 1)
ERROR_FIELDS = ("error_code", "partition_error_code", "acknowledge_error_code")
"""The fields of a partition that may hold its error code, by priority."""
DIRECTIONS = {"ProduceRequest": "produce", "FetchResponse": "fetch", "ShareFetchResponse": "share_fetch"}


class PartitionValues(NamedTuple):
    """What a row of `partitions` is made of. responded: the partition in the response."""

    topic: MessageTopic
    number: int
    error_code: int | None
    records: Records
    responded: msgspec.Struct | None


def partition_values(
    request: tuple[str, msgspec.Struct | None], response: tuple[str, msgspec.Struct | None]
) -> Iterator[PartitionValues]:
    """Each partition with an error code in the response, and those of a request without a response.

    Args: request, response: the name and the body of each.
    """
    for topic, number, requested, responded in pair_structs(request[1], response[1]):
        code = first_error_code(responded)
        if (responded is None and requested is None) or (code is None and response[1] is not None):
            continue
        records = partition_records(request[0], requested) or partition_records(response[0], responded)
        yield PartitionValues(topic, number, code, records, responded)


def partition_rows(pairer: PartitionPairer, exchange: Exchange) -> Iterator[Row]:
    """A row for each partition with an error code in the response, and for those of a request without a response."""
    message_columns = pairer.message_columns(exchange)
    request, response = exchange.request, exchange.response
    side = request if request is not None else response
    for values in partition_values(
        *(("", None) if part is None else (part.name, part.body) for part in (request, response))
    ):
        code = values.error_code
        yield {
            **message_columns,
            "ts": side.frame.ts if side is not None else None,
            **pairer.partition_columns(values.topic, values.number),
            "error_code": code,
            "error_name": None if code is None else name_of(code),
            **batch_values(values.records)._asdict(),
            **response_columns(values.responded),
        }


def record_rows(pairer: PartitionPairer, exchange: Exchange, *, payload: bool) -> Iterator[Row]:
    """A row for each record of Produce requests, Fetch and ShareFetch responses."""
    sides = exchange.request, exchange.response
    named_bodies = [("", None) if side is None else (side.name, side.body) for side in sides]
    message_columns: Row | None = None
    for topic, number, direction, values in record_values(*named_bodies, payload=payload):
        side = exchange.request if direction == "produce" else exchange.response
        message_columns = message_columns or pairer.message_columns(exchange)
        yield {
            **message_columns,
            "direction": direction,
            "ts": side.frame.ts if side is not None else None,
            **pairer.partition_columns(topic, number),
            **dict(zip(RECORD_COLUMNS, values, strict=True)),
        }


class PartitionRecords(NamedTuple):
    """The records of a partition in a message. start: is added to their offsets, None if that is not known."""

    topic: MessageTopic
    number: int
    direction: str
    records: Records
    start: int | None

    @property
    def counts_from_zero(self) -> bool:
        """Whether the offsets of each batch begin with 0, as a producer counts them."""
        return self.direction == DIRECTIONS["ProduceRequest"]


def partitions_with_records(
    request: tuple[str, msgspec.Struct | None], response: tuple[str, msgspec.Struct | None]
) -> Iterator[PartitionRecords]:
    """The partitions of an exchange that may have records. Args: request, response: the name and the body of each."""
    for name, body in (request, response):
        direction = DIRECTIONS.get(name)
        if body is None or direction is None:
            continue
        is_produce = name == "ProduceRequest"
        for topic, number, requested, responded in pair_structs(request[1], response[1]):
            # A producer counts offsets from 0; only the response has the offset in the log.
            start = _produced_base_offset(responded) if is_produce else 0
            records = partition_records(name, requested if is_produce else responded)
            yield PartitionRecords(topic, number, direction, records, start)


def record_values(
    request: tuple[str, msgspec.Struct | None], response: tuple[str, msgspec.Struct | None], *, payload: bool
) -> Iterator[tuple[MessageTopic, int, str, tuple[object, ...]]]:
    """Topic, partition, direction and the values of `RECORD_COLUMNS` of each record.

    Args: request, response: the name and the body of each.
    """
    for found in partitions_with_records(request, response):
        for values in values_of_records(
            found.records, found.start, counts_from_zero=found.counts_from_zero, payload=payload
        ):
            yield found.topic, found.number, found.direction, values


def values_of_records(
    records: Records, start: int | None, *, counts_from_zero: bool, payload: bool
) -> Iterator[tuple[object, ...]]:
    """The values of `RECORD_COLUMNS` of each record. Damage ends the batches with a row that has only an issue.

    Args: start: is added to the offsets, None if that is not known. counts_from_zero: whether each batch does.
    """
    try:
        for batch in read_complete_batches(records):
            # The broker numbers old messages by their places; many producers leave all offsets 0.
            by_place = counts_from_zero and batch.magic < _MAGIC_OF_BATCHES
            for place, record in enumerate(batch.records(_RECORDS_SIZE_MAX, strict=False)):
                offset = None if start is None else start + (place if by_place else record.offset)
                yield _record_values(batch, record, offset, payload=payload)
            if start is not None and counts_from_zero:
                start += batch.count
    except WireError as error:
        yield (*_NO_RECORD, str(error))


def _record_values(batch: Batch, record: Record, offset: int | None, *, payload: bool) -> tuple[object, ...]:
    key, value = record.key, record.value
    headers = [{"key": name, "value_size": None if data is None else len(data)} for name, data in record.headers]
    return (
        None if offset is None else none_if_not_int64(offset),
        record.timestamp * 1_000_000 if 0 <= record.timestamp <= TIMESTAMP_MAX else None,
        TIMESTAMP_TYPES.get(batch.timestamp_type),
        codec_label(batch),
        batch.is_control,
        none_if_negative(batch.producer_id),
        None if key is None else len(key),
        None if value is None else len(value),
        headers,
        *dead_letter_columns(record).values(),
        key if payload else None,
        value if payload else None,
        None,
    )


def first_error_code(struct: msgspec.Struct | None) -> int | None:
    """The error code of a partition: the first that is not 0; None if it has no field for one."""
    codes = [getattr(struct, field, None) for field in ERROR_FIELDS]
    present_codes = [code for code in codes if code is not None]
    return next((code for code in present_codes if code), 0) if present_codes else None


class BatchValues(NamedTuple):
    """The columns of the record batches of a partition. The ids, epoch and sequence are those of the first batch."""

    base_offset: int | None = None
    producer_id: int | None = None
    epoch: int | None = None
    sequence: int | None = None
    records: int | None = None
    batch_bytes: int | None = None
    codec: str | None = None


_NO_BATCHES = BatchValues()


def batch_values(records: Records) -> BatchValues:
    """The columns from the batch headers. Damage ends the count, and is an issue of the row of the message."""
    if records is None:
        return _NO_BATCHES
    first: Batch | None = None
    codecs = dict[str, None]()
    count = 0
    for batch in _readable_batches(records):
        first = first or batch
        codecs[codec_label(batch)] = None
        count += batch.count
    if first is None:
        return BatchValues(records=count, batch_bytes=len(records))
    return BatchValues(
        first.base_offset,
        none_if_negative(first.producer_id),
        none_if_negative(first.producer_epoch),
        # Some clients count from 0 even if idempotence is off.
        none_if_negative(first.base_sequence) if first.producer_id >= 0 else None,
        count,
        len(records),
        ",".join(codecs),
    )


def response_columns(responded: msgspec.Struct | None) -> Row:
    """Columns that only the partition of a response has; they replace those of the batch headers."""
    out: Row = {
        "high_watermark": none_if_negative(getattr(responded, "high_watermark", None)),
        "log_start": none_if_negative(getattr(responded, "log_start_offset", None)),
    }
    base_offset = _produced_base_offset(responded)
    return out if base_offset is None else {**out, "base_offset": base_offset}


def _produced_base_offset(responded: msgspec.Struct | None) -> int | None:
    """The offset that a Produce response states for the first record."""
    return none_if_negative(getattr(responded, "base_offset", None))


def _readable_batches(records: Records) -> Iterator[Batch]:
    try:
        for batch in read_complete_batches(records):
            # The offset of the first record of an old compressed batch is only in its compressed content.
            _ = batch.base_offset, batch.count
            yield batch
    except WireError:
        return
