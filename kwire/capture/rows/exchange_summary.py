"""One-line summary of an exchange for tables: group, topics, records and acknowledgements."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from kwire.capture.kafka.message_fields import field_shape, struct_type_in, topic_numbers
from kwire.capture.rows.share_rows import ACK_NAMES, ack_runs
from kwire.payload import RECORDS_FIELDS, RecordsField, total_records
from kwire.redact import redact_text

if TYPE_CHECKING:
    from kwire.capture.kafka.exchange import Exchange
    from kwire.capture.kafka.fetch_sessions import FetchSession, SessionPartitions
    from kwire.capture.kafka.topic_names import TopicNames

_TOPICS_SHOWN = 3
_PARTITIONS_SHOWN = 6
_RANGES_SHOWN = 3
#: Longer summaries, and other cells of tables, are cut.
CELL_MAX = 400
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


class SummaryFields(NamedTuple):
    """The fields of a class of messages that summaries have.

    fields: those of `_FIELDS`, with their labels. has_error: it has an error code and an error message.
    """

    fields: tuple[tuple[str, str], ...]
    has_topics: bool
    has_error: bool
    has_acquired: bool
    has_acknowledgements: bool
    has_share_session: bool
    records: RecordsField | None


def summarize_exchange(exchange: Exchange, names: TopicNames) -> str:
    """Group, topics, deliveries, acknowledgements, records and session, if present. Control characters are not escaped.

    The most important parts come first, since a terminal may cut the line.
    """
    request, response = exchange.request, exchange.response
    request_body = request.body if request is not None else None
    response_body = response.body if response is not None else None
    return summarize_bodies(request_body, response_body, exchange.session, names)


def summarize_bodies(
    request: msgspec.Struct | None, response: msgspec.Struct | None, session: FetchSession | None, names: TopicNames
) -> str:
    """The summary of an exchange with these bodies; None for one that is missing or was not decoded."""
    parts = summarize_head(request, response, names)
    asked, answered = _fields_of(request), _fields_of(response)
    if answered.has_acquired:
        parts += _format_acquired(response)
    if asked.has_acknowledgements:
        parts += _format_acknowledgements(request)
    if asked.records is not None:
        parts += _format_records(request, asked.records)
    if answered.records is not None:
        parts += _format_records(response, answered.records)
    if asked.has_share_session and (epoch := _field_text(request, "share_session_epoch")):
        parts.append(f"session {epoch}")
    if session is not None and session.is_incremental:
        parts += _format_incremental_session(session, response, names)
    return "  ".join(parts)


def summarize_head(request: msgspec.Struct | None, response: msgspec.Struct | None, names: TopicNames) -> list[str]:
    """The first parts of a summary: fields of the request, topics, and the error message."""
    parts: list[str] = []
    asked, answered = _fields_of(request), _fields_of(response)
    for field, word in asked.fields:
        if text := _field_text(request, field):
            parts.append(f"{word} {redact_text(text)}")
    topics = _topics_text(request, names) if asked.has_topics else ""
    if not topics and answered.has_topics:
        topics = _topics_text(response, names)
    if topics:
        parts.append(topics)
    # A response without an error may still have an error message: "NONE".
    answer: Any = response
    if answered.has_error and answer.error_code and answer.error_message:
        parts.append(redact_text(answer.error_message))
    return parts


def _fields_of(body: msgspec.Struct | None) -> SummaryFields:
    return _NO_FIELDS if body is None else summary_fields(type(body))


_NO_FIELDS = SummaryFields((), False, False, False, False, False, None)


@cache
def summary_fields(cls: type[msgspec.Struct]) -> SummaryFields:
    """The fields of a class of requests or responses."""
    names, shape = cls.__struct_fields__, field_shape(cls)
    return SummaryFields(
        fields=tuple((field, word) for field, word in _FIELDS if field in names),
        has_topics=bool(shape.names or shape.topic_children),
        has_error="error_code" in names and "error_message" in names,
        has_acquired=_has_ranges(cls, "responses", "acquired_records"),
        has_acknowledgements=_has_ranges(cls, "topics", "acknowledgement_batches"),
        has_share_session="share_session_epoch" in names,
        records=RECORDS_FIELDS.get(cls.__name__),
    )


def _has_ranges(cls: type[msgspec.Struct], topics: str, ranges: str) -> bool:
    """Whether the partitions of a message have ranges of offsets."""
    topic = _field_class(cls, topics)
    partition = None if topic is None else _field_class(topic, "partitions")
    return partition is not None and ranges in partition.__struct_fields__


def _field_class(cls: type[msgspec.Struct], name: str) -> type[msgspec.Struct] | None:
    """The class of the structs in a field; None if there is no such field."""
    return next((struct_type_in(field.type) for field in msgspec.structs.fields(cls) if field.name == name), None)


def _field_text(body: msgspec.Struct | None, field: str) -> str:
    value = getattr(body, field, None)
    if value in (None, "", ()):
        return ""
    return ", ".join(value) if isinstance(value, tuple) else str(value)


def _topics_text(body: msgspec.Struct | None, names: TopicNames) -> str:
    """The topics that a message names; empty if it names none."""
    assert body is not None
    partitions: dict[str, list[int]] = {}
    for name, topic_id, numbers in topic_numbers(body):
        label = names.label(name, topic_id)
        known = partitions.get(label)
        partitions[label] = numbers if known is None else known + numbers
    return _format_partitions(partitions)


def _format_partitions(partitions: dict[str, list[int]]) -> str:
    names = [name + _format_numbers(tuple(numbers)) for name, numbers in partitions.items()]
    return names[0] if len(names) == 1 else _join_first(names, _TOPICS_SHOWN, " ", " topics")


def format_session(exchange: Exchange, names: TopicNames) -> Iterator[str]:
    """The session and all its partitions, for an incremental request."""
    session = exchange.session
    if session is not None and session.is_incremental:
        body = exchange.response.body if exchange.response is not None else None
        yield from _format_incremental_session(session, body, names)


def _format_incremental_session(
    session: FetchSession, response: msgspec.Struct | None, names: TopicNames
) -> Iterator[str]:
    if session.id is not None:
        yield f"session {session.id} epoch {session.epoch}"
    if session.partitions is None:
        if not getattr(response, "error_code", 0):
            yield "of a session that was not captured from its beginning, or has too many partitions"
        return
    yield summarize_session_partitions(session.partitions, names)


def summarize_session_partitions(partitions: SessionPartitions, names: TopicNames) -> str:
    """The partitions of a session, as summaries of its exchanges have them."""
    return f"of all {_format_partitions(partitions.by_topic_name(names)) or 'nothing'}"


@lru_cache(maxsize=4096)
def _format_numbers(numbers: tuple[int, ...]) -> str:
    return f"[{_join_first(numbers, _PARTITIONS_SHOWN, ',')}]" if numbers else ""


def _join_first(items: Sequence[object], count: int, separator: str, noun: str = "") -> str:
    """The first items as text, and how many more there are."""
    more = len(items) - count
    return separator.join(map(str, items[:count])) + (f" and {more} more{noun}" if more > 0 else "")


def _format_records(body: Any, fields: RecordsField) -> Iterator[str]:
    count = size = 0
    codecs: set[str] = set()
    topics, partitions, records_field = fields.topics[0], fields.partitions[0], fields.records[0]
    for topic in getattr(body, topics):
        for partition in getattr(topic, partitions):
            records = getattr(partition, records_field)
            if records:
                number, codec = total_records(records)
                count, size = count + number, size + len(records)
                codecs.add(codec)
    if size:
        compressed = ",".join(sorted(codecs - {"none"}))
        noun = "record" if count == 1 else "records"
        yield f"{count} {noun} in {size} bytes{f' ({compressed})' if compressed else ''}"


def _format_acquired(response: Any) -> Iterator[str]:
    """Acquired ranges, with the delivery count if it is greater than 1."""
    texts = [
        f"{run.first_offset}-{run.last_offset}{f' x{run.delivery_count}' if run.delivery_count > 1 else ''}"
        for topic in response.responses
        for partition in topic.partitions
        for run in partition.acquired_records
    ]
    if texts:
        yield f"acquired {_join_first(texts, _RANGES_SHOWN, ', ')}"


def _format_acknowledgements(request: Any) -> Iterator[str]:
    counts: Counter[str] = Counter()
    for topic in request.topics:
        for partition in topic.partitions:
            for batch in partition.acknowledgement_batches:
                for first, last, kind in ack_runs(batch.first_offset, batch.last_offset, batch.acknowledge_types):
                    counts[ACK_NAMES.get(kind, f"type {kind}")] += last - first + 1
    if counts:
        yield "ack " + ", ".join(f"{count} {name}" for name, count in counts.items())
