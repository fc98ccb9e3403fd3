"""One-line summary of an exchange for tables: group, topics, records and acknowledgements."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec

from kwire.capture.kafka.message_fields import MessageTopic, message_topics
from kwire.capture.rows.share_rows import ACK_NAMES, ack_runs
from kwire.payload import RECORDS_FIELDS, summarize_records
from kwire.redact import redact_text

if TYPE_CHECKING:
    from kwire.capture.kafka.exchange import Exchange
    from kwire.capture.kafka.message_decoder import Message
    from kwire.capture.kafka.topic_names import TopicNames

_TOPICS_SHOWN = 3
_PARTITIONS_SHOWN = 6
_RANGES_SHOWN = 3


class _Range(Protocol):
    """The fields of AcquiredRecords and AcknowledgementBatch; each class has a part of them."""

    first_offset: int
    last_offset: int
    delivery_count: int
    acknowledge_types: tuple[int, ...]


def summarize_exchange(exchange: Exchange, names: TopicNames) -> str:
    """Group, topics, deliveries, acknowledgements, records and session, if present. Control characters are not escaped.

    The most important parts come first, since a terminal may cut the line.
    """
    request, response = exchange.request, exchange.response
    request_body = request.body if request is not None else None
    response_body = response.body if response is not None else None
    parts = [f"{word} {redact_text(text)}" for field, word in _FIELDS if (text := _field_text(request_body, field))]
    topics = _list_topics(request_body) or _list_topics(response_body)
    if topics:
        parts.append(_format_topics(topics, names))
    # A response without an error may still have an error message: "NONE".
    message = getattr(response_body, "error_message", None)
    if message and getattr(response_body, "error_code", 0):
        parts.append(redact_text(message))
    parts += _format_acquired(response_body)
    parts += _format_acknowledgements(request_body)
    for side in (request, response):
        if side is not None and side.body is not None:
            parts += _format_records(side)
    epoch = _field_text(request_body, "share_session_epoch")
    if epoch:
        parts.append(f"session {epoch}")
    parts += format_session(exchange, names)
    return "  ".join(parts)


def _field_text(body: msgspec.Struct | None, field: str) -> str:
    value = getattr(body, field, None)
    if value in (None, "", ()):
        return ""
    return ", ".join(value) if isinstance(value, tuple) else str(value)


# Fields of requests and their labels, in the order of the summary.
_FIELDS = (
    ("group_id", "group"),
    ("transactional_id", "txn"),
    ("key", "key"),
    ("coordinator_keys", "key"),
    ("member_epoch", "epoch"),
    ("client_software_name", "software"),
    ("client_software_version", "version"),
    ("mechanism", "mechanism"),
)


def _list_topics(body: msgspec.Struct | None) -> list[MessageTopic]:
    return [] if body is None else list(message_topics(body))


def _format_topics(topics: list[MessageTopic], names: TopicNames) -> str:
    partitions: dict[str, list[int]] = {}
    for topic in topics:
        name, topic_id = names.name_and_id(topic)
        partitions.setdefault(name or topic_id or "?", []).extend(partition.number for partition in topic.partitions)
    return _format_partitions(partitions)


def _format_partitions(partitions: dict[str, list[int]]) -> str:
    names = [name + _format_numbers(numbers) for name, numbers in partitions.items()]
    return _join_first(names, _TOPICS_SHOWN, " ", " topics")


def format_session(exchange: Exchange, names: TopicNames) -> Iterator[str]:
    """The session and all its partitions, for an incremental request."""
    session = exchange.session
    if session is None or not session.is_incremental:
        return
    if session.id is not None:
        yield f"session {session.id} epoch {session.epoch}"
    if session.partitions is None:
        response_body = exchange.response.body if exchange.response is not None else None
        if not getattr(response_body, "error_code", 0):
            yield "of a session that was not captured from its beginning, or has too many partitions"
        return
    yield f"of all {_format_partitions(session.partitions.by_topic_name(names)) or 'nothing'}"


def _format_numbers(numbers: list[int]) -> str:
    return f"[{_join_first(numbers, _PARTITIONS_SHOWN, ',')}]" if numbers else ""


def _join_first(items: Sequence[object], count: int, separator: str, noun: str = "") -> str:
    """The first items as text, and how many more there are."""
    more = len(items) - count
    return separator.join(map(str, items[:count])) + (f" and {more} more{noun}" if more > 0 else "")


def _format_records(message: Message) -> Iterator[str]:
    fields = RECORDS_FIELDS.get(message.name)
    if fields is None or message.body is None:
        return
    count = size = 0
    codecs: set[object] = set()
    for topic in getattr(message.body, fields.topics[0]):
        for partition in getattr(topic, fields.partitions[0]):
            totals = summarize_records(getattr(partition, fields.records[0]))
            if totals is not None and totals["bytes"]:
                count, size = count + int(str(totals["count"])), size + int(str(totals["bytes"]))
                codecs.add(totals["codec"])
    if size:
        compressed = ",".join(sorted(str(codec) for codec in codecs - {"none"}))
        noun = "record" if count == 1 else "records"
        yield f"{count} {noun} in {size} bytes{f' ({compressed})' if compressed else ''}"


def _format_acquired(response_body: msgspec.Struct | None) -> Iterator[str]:
    """Acquired ranges, with the delivery count if it is greater than 1."""
    texts = [
        f"{run.first_offset}-{run.last_offset}{f' x{run.delivery_count}' if run.delivery_count > 1 else ''}"
        for run in _partition_ranges(response_body, "responses", "acquired_records")
    ]
    if texts:
        yield f"acquired {_join_first(texts, _RANGES_SHOWN, ', ')}"


def _format_acknowledgements(request_body: msgspec.Struct | None) -> Iterator[str]:
    counts: Counter[str] = Counter()
    for batch in _partition_ranges(request_body, "topics", "acknowledgement_batches"):
        for first, last, kind in ack_runs(batch.first_offset, batch.last_offset, batch.acknowledge_types):
            counts[ACK_NAMES.get(kind, f"type {kind}")] += last - first + 1
    if counts:
        yield "ack " + ", ".join(f"{count} {name}" for name, count in counts.items())


def _partition_ranges(body: msgspec.Struct | None, field: str, range_field: str) -> Iterator[_Range]:
    for topic in getattr(body, field, None) or ():
        for partition in getattr(topic, "partitions", ()):
            yield from getattr(partition, range_field, ())
