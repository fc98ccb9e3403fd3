"""One line about an exchange: what a reader of a table wants to know beyond API, time and error."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

import msgspec

from kwire.capture.facts import Topic, topics
from kwire.capture.share_rows import ACK_NAMES, ack_runs
from kwire.payload import PLACES, summary
from kwire.redact import redact_text

if TYPE_CHECKING:
    from kwire.capture.bodies import Message
    from kwire.capture.exchange import Exchange
    from kwire.capture.topic_names import TopicNames

_TOPICS_SHOWN = 3
_PARTITIONS_SHOWN = 6
_RANGES_SHOWN = 3


class _Range(Protocol):
    """What AcquiredRecords and AcknowledgementBatch have, each its part."""

    first_offset: int
    last_offset: int
    delivery_count: int
    acknowledge_types: tuple[int, ...]


def summarize(exchange: Exchange, names: TopicNames) -> str:
    """Group, topics, deliveries, acknowledgements, records and session, as far as there are any. Not escaped yet.

    What a reader looks for comes first, since a terminal may cut the rest.
    """
    request, response = exchange.request, exchange.response
    asked = request.body if request is not None else None
    answered = response.body if response is not None else None
    parts = [f"{word} {redact_text(text)}" for field, word in _FIELDS if (text := _text_of(asked, field))]
    found = _topics(asked) or _topics(answered)
    if found:
        parts.append(_topics_text(found, names))
    # A response without an error may still carry a message: "NONE".
    message = getattr(answered, "error_message", None)
    if message and getattr(answered, "error_code", 0):
        parts.append(redact_text(message))
    parts += _deliveries(answered)
    parts += _acks(asked)
    for side in (request, response):
        if side is not None and side.body is not None:
            parts += _records(side)
    epoch = _text_of(asked, "share_session_epoch")
    if epoch:
        parts.append(f"session {epoch}")
    parts += session_text(exchange, names)
    return "  ".join(parts)


def _text_of(body: msgspec.Struct | None, field: str) -> str:
    value = getattr(body, field, None)
    if value in (None, "", ()):
        return ""
    return ", ".join(value) if isinstance(value, tuple) else str(value)


# Which fields of a request are worth a word, in the order of the line.
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


def _topics(body: msgspec.Struct | None) -> list[Topic]:
    return [] if body is None else list(topics(body))


def _topics_text(found: list[Topic], names: TopicNames) -> str:
    texts: dict[str, list[int]] = {}
    for topic in found:
        name, topic_id = names.name_and_id(topic)
        texts.setdefault(name or topic_id or "?", []).extend(each.number for each in topic.partitions)
    shown = [name + _numbers(numbers) for name, numbers in list(texts.items())[:_TOPICS_SHOWN]]
    more = len(texts) - len(shown)
    return " ".join(shown) + (f" and {more} more topics" if more else "")


def session_text(exchange: Exchange, names: TopicNames) -> Iterator[str]:
    """What an incremental request of a session stands for."""
    session = exchange.session
    if session is None or not session.is_incremental:
        return
    if session.id is not None:
        yield f"session {session.id} epoch {session.epoch}"
    if session.partitions is None:
        answered = exchange.response.body if exchange.response is not None else None
        if not getattr(answered, "error_code", 0):
            yield "of a session that was not captured from its beginning, or has too many partitions"
        return
    named = list(session.partitions.named(names).items())
    shown = " ".join(name + _numbers(numbers) for name, numbers in named[:_TOPICS_SHOWN])
    more = len(named) - _TOPICS_SHOWN
    yield f"of all {shown or 'nothing'}{f' and {more} more topics' if more > 0 else ''}"


def _numbers(numbers: list[int]) -> str:
    if not numbers:
        return ""
    shown = ",".join(map(str, numbers[:_PARTITIONS_SHOWN]))
    more = len(numbers) - _PARTITIONS_SHOWN
    return f"[{shown}{f' and {more} more' if more > 0 else ''}]"


def _records(message: Message) -> Iterator[str]:
    place = PLACES.get(message.name)
    if place is None or message.body is None:
        return
    count = size = 0
    codecs: set[object] = set()
    for topic in getattr(message.body, place.topics[0]):
        for partition in getattr(topic, place.partitions[0]):
            found = summary(getattr(partition, place.records[0]))
            if found is not None and found["bytes"]:
                count, size = count + int(str(found["count"])), size + int(str(found["bytes"]))
                codecs.add(found["codec"])
    if size:
        compressed = ",".join(sorted(str(each) for each in codecs - {"none"}))
        yield f"{_many(count, 'record')} in {size} bytes{f' ({compressed})' if compressed else ''}"


def _deliveries(answered: msgspec.Struct | None) -> Iterator[str]:
    """Acquired ranges, each with its delivery count from the second delivery on."""
    texts = [
        f"{each.first_offset}-{each.last_offset}{f' x{each.delivery_count}' if each.delivery_count > 1 else ''}"
        for each in _inner(answered, "responses", "acquired_records")
    ]
    if texts:
        more = len(texts) - _RANGES_SHOWN
        yield f"acquired {', '.join(texts[:_RANGES_SHOWN])}{f' and {more} more' if more > 0 else ''}"


def _acks(asked: msgspec.Struct | None) -> Iterator[str]:
    counts: Counter[str] = Counter()
    for batch in _inner(asked, "topics", "acknowledgement_batches"):
        for first, last, kind in ack_runs(batch.first_offset, batch.last_offset, batch.acknowledge_types):
            counts[ACK_NAMES.get(kind, f"type {kind}")] += last - first + 1
    if counts:
        yield "ack " + ", ".join(f"{count} {name}" for name, count in counts.items())


def _inner(body: msgspec.Struct | None, field: str, inner: str) -> Iterator[_Range]:
    for topic in getattr(body, field, None) or ():
        for partition in getattr(topic, "partitions", ()):
            yield from getattr(partition, inner, ())


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
