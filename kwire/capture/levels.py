"""The levels below `messages`: rows for partitions, share-group deliveries and acknowledgements, and records."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from kwire import uuids
from kwire.capture.facts import topics
from kwire.capture.rows import Row, conn_id, group_and_member
from kwire.error_codes import name_of
from kwire.errors import WireError
from kwire.payload import PLACES, Records, batches_of, codec_label

if TYPE_CHECKING:
    import msgspec

    from kwire.capture.bodies import Message
    from kwire.capture.exchange import Exchange
    from kwire.capture.facts import Topic
    from kwire.capture.options import Options
    from kwire.capture.topic_names import TopicNames
    from kwire.records import Batch, Record

ACK_NAMES = {0: "gap", 1: "accept", 2: "release", 3: "reject", 4: "renew"}
# What the records of one batch may take when they are decompressed.
_RECORDS_SIZE_MAX = 128 * 1024 * 1024

_DIRECTIONS = {"ProduceRequest": "produce", "FetchResponse": "fetch", "ShareFetchResponse": "share_fetch"}


class _Pair(NamedTuple):
    """What request and response say of one partition."""

    topic: str | None
    topic_id: str | None
    number: int
    asked: msgspec.Struct | None
    answered: msgspec.Struct | None

    def place(self) -> Row:
        return {"topic": self.topic, "topic_id": self.topic_id, "partition": self.number}


class Levels:
    """Makes the rows of one capture. Every exchange must pass, since any of them may tell a topic's name."""

    def __init__(self, file: str, options: Options, names: TopicNames) -> None:
        """`file` is what the column of that name says."""
        self._file = file
        self._options = options
        self._names = names

    def rows(self, level: str, exchange: Exchange) -> Iterator[Row]:
        """The rows of the level."""
        for side in (exchange.request, exchange.response):
            if side is not None and side.body is not None:
                self._names.learn(side.body)
        make = {
            "partitions": self.partitions,
            "share_acquired": self.share_acquired,
            "share_acks": self.share_acks,
            "records": self.records,
        }
        return make[level](exchange)

    def partitions(self, exchange: Exchange) -> Iterator[Row]:
        """A row for each partition whose error the response tells, or that a request without a response carries."""
        key = self._key(exchange)
        request, response = exchange.request, exchange.response
        side = request if request is not None else response
        for pair in self._pairs(exchange):
            struct = pair.answered if pair.answered is not None else pair.asked
            code = _error_of(pair.answered)
            if struct is None or (code is None and response is not None and response.body is not None):
                continue
            records = _records_of(request, pair.asked) or _records_of(response, pair.answered)
            yield {
                **key,
                "ts": side.frame.ts if side is not None else None,
                **pair.place(),
                "error_code": code,
                "error_name": None if code is None else name_of(code),
                **_batch_facts(records),
                **_answer_facts(pair.answered),
            }

    def share_acquired(self, exchange: Exchange) -> Iterator[Row]:
        """A row for each range of records that a ShareFetch response hands to its member."""
        response = exchange.response
        if response is None or response.body is None or response.name != "ShareFetchResponse":
            return
        key = {**self._key(exchange), **_member(exchange)}
        for pair in self._pairs(exchange):
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

    def share_acks(self, exchange: Exchange) -> Iterator[Row]:
        """A row for each run of offsets that a ShareFetch or ShareAcknowledge settles in the same way."""
        request = exchange.request
        if request is None or request.name not in {"ShareFetchRequest", "ShareAcknowledgeRequest"}:
            return
        key = {**self._key(exchange), **_member(exchange)}
        for pair in self._pairs(exchange):
            code = _ack_error(exchange, pair.answered)
            for batch in getattr(pair.asked, "acknowledgement_batches", ()):
                for first, last, kind in ack_runs(batch.first_offset, batch.last_offset, batch.acknowledge_types):
                    yield {
                        **key,
                        **pair.place(),
                        "first_offset": _int64(first),
                        "last_offset": _int64(last),
                        "ack_type": kind,
                        "ack_name": ACK_NAMES.get(kind, f"type {kind}"),
                        "ts": request.frame.ts,
                        "error_code": code,
                        "error_name": None if code is None else name_of(code),
                    }

    def records(self, exchange: Exchange) -> Iterator[Row]:
        """A row for each record of Produce requests, Fetch and ShareFetch responses."""
        for side in (exchange.request, exchange.response):
            direction = _DIRECTIONS.get(side.name) if side is not None else None
            if side is None or side.body is None or direction is None:
                continue
            key = {**self._key(exchange), "direction": direction, "ts": side.frame.ts}
            for pair in self._pairs(exchange):
                holder = pair.asked if direction == "produce" else pair.answered
                # A producer counts from 0; only the broker's answer tells where that is in the log.
                start = _placed_at(pair.answered) if direction == "produce" else 0
                for batch in _readable(_records_of(side, holder)):
                    for record in _records(batch):
                        yield {**key, **pair.place(), **self._record(batch, record, start)}
                    if start is not None and direction == "produce":
                        start += batch.count

    def _record(self, batch: Batch, record: Record, start: int | None) -> Row:
        offset = record.offset
        show = self._options.payload
        return {
            "offset": None if start is None else _int64(offset + start),
            "timestamp": None if record.timestamp < 0 else min(record.timestamp, _TIMESTAMP_MAX) * 1_000_000,
            "timestamp_type": {0: "create", 1: "append"}.get(batch.timestamp_type),
            "codec": codec_label(batch),
            "is_control": batch.is_control,
            "producer_id": _or_none(batch.producer_id),
            "key_size": None if record.key is None else len(record.key),
            "value_size": None if record.value is None else len(record.value),
            "headers": [
                {"key": name, "value_size": None if value is None else len(value)} for name, value in record.headers
            ],
            "key": record.key if show else None,
            "value": record.value if show else None,
        }

    def _key(self, exchange: Exchange) -> Row:
        request, response = exchange.request, exchange.response
        return {
            "file": self._file,
            "conn_id": conn_id(exchange.flow),
            "stream_epoch": exchange.flow.epoch,
            "client_id": None if request is None else request.client_id,
            "api_key": None if request is None else request.api_key,
            "api_name": None if request is None else request.api_name,
            "api_version": None if request is None else request.api_version,
            "correlation_id": request.correlation_id
            if request is not None
            else (None if response is None else response.correlation_id),
        }

    def _pairs(self, exchange: Exchange) -> Iterator[_Pair]:
        """The partitions of both sides, joined; those of the response first, in its order."""
        asked = self._by_partition(exchange.request)
        for key, (topic, answered) in self._by_partition(exchange.response).items():
            yield self._pair(topic, key[1], asked.pop(key, (topic, None))[1], answered)
        for key, (topic, struct) in asked.items():
            yield self._pair(topic, key[1], struct, None)

    def _pair(self, topic: Topic, number: int, asked: msgspec.Struct | None, answered: msgspec.Struct | None) -> _Pair:
        name, topic_id = self._names.name_and_id(topic)
        return _Pair(name, topic_id, number, asked, answered)

    def _by_partition(
        self, message: Message | None
    ) -> dict[tuple[bytes | str | None, int], tuple[Topic, msgspec.Struct | None]]:
        if message is None or message.body is None:
            return {}
        return {
            (topic.topic_id or topic.name, partition.number): (topic, partition.struct)
            for topic in topics(message.body)
            for partition in topic.partitions
        }


# A millisecond timestamp beyond this does not fit 64 bits of nanoseconds (the year 2262).
_TIMESTAMP_MAX = (2**63 - 1) // 1_000_000


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


def _error_of(struct: msgspec.Struct | None) -> int | None:
    codes = [getattr(struct, field, None) for field in ("error_code", "partition_error_code", "acknowledge_error_code")]
    found = [code for code in codes if code is not None]
    return next((code for code in found if code), 0) if found else None


def _ack_error(exchange: Exchange, answered: msgspec.Struct | None) -> int | None:
    """The acknowledgement's own error; without one for the partition, that of the whole response."""
    for struct, field in ((answered, "acknowledge_error_code"), (answered, "error_code")):
        code = getattr(struct, field, None)
        if code is not None:
            return int(code)
    body = None if exchange.response is None else exchange.response.body
    code = getattr(body, "error_code", None)
    return None if code is None else int(code)


def _records_of(message: Message | None, struct: msgspec.Struct | None) -> Records:
    place = None if message is None else PLACES.get(message.name)
    return getattr(struct, place.records[0], None) if place is not None else None


def _batch_facts(records: Records) -> Row:
    """What the headers of the batches tell; damage ends the counting, and is an issue of the message's row."""
    out: Row = dict.fromkeys(("base_offset", "producer_id", "epoch", "sequence", "codec"))
    out["records"] = out["batch_bytes"] = None
    if records is None:
        return out
    codecs = dict[str, None]()
    count = 0
    for batch in _readable(records):
        if not codecs:
            out.update(
                base_offset=batch.base_offset,
                producer_id=_or_none(batch.producer_id),
                epoch=_or_none(batch.producer_epoch),
                # Some clients number from 0 where idempotence is off.
                sequence=_or_none(batch.base_sequence) if batch.producer_id >= 0 else None,
            )
        codecs[codec_label(batch)] = None
        count += batch.count
    out.update(records=count, batch_bytes=len(records), codec=",".join(codecs) or None)
    return out


def _answer_facts(answered: msgspec.Struct | None) -> Row:
    out: Row = {
        "high_watermark": _or_none(getattr(answered, "high_watermark", None)),
        "log_start": _or_none(getattr(answered, "log_start_offset", None)),
    }
    placed = _placed_at(answered)
    return out if placed is None else {**out, "base_offset": placed}


def _placed_at(answered: msgspec.Struct | None) -> int | None:
    """Where a Produce response says that the records went."""
    return _or_none(getattr(answered, "base_offset", None))


def _int64(value: int) -> int | None:
    """Sums of hostile offsets may not fit their column."""
    return value if -(2**63) <= value < 2**63 else None


def _or_none(value: int | None) -> int | None:
    """Kafka writes -1 where there is nothing."""
    return None if value is None or value < 0 else value


def _readable(records: Records) -> Iterator[Batch]:
    try:
        for batch in batches_of(records):
            # The first record of an old compressed batch is known only to what is inside it.
            _ = batch.base_offset, batch.count
            yield batch
    except WireError:
        return


def _records(batch: Batch) -> list[Record]:
    try:
        return batch.records(_RECORDS_SIZE_MAX, strict=False)
    except WireError:
        return []


def topic_text(topic: Topic) -> str:
    """How a topic is shown: its name, or its id."""
    return topic.name or ("" if topic.topic_id is None else uuids.to_text(topic.topic_id))
