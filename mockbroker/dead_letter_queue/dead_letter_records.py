"""The records of a dead letter as they are written to the queue: one for each offset, with headers that name it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kwire.records import Header, Record
from mockbroker.dead_letter_queue.record_size import record_size
from mockbroker.state.share.dead_letter import DeadLetter

#: Bytes of a batch without records.
_BATCH_OVERHEAD = 61


class DeadLetterSource(NamedTuple):
    """The share partition of a dead letter, as its headers name it."""

    group_id: str
    topic_name: str
    partition_index: int


def dead_letter_headers(source: DeadLetterSource, dead_letter: DeadLetter, offset: int) -> tuple[Header, ...]:
    """The headers of one offset; numbers are decimal text (share-semantics 9.2)."""
    texts = {
        "topic": source.topic_name,
        "partition": str(source.partition_index),
        "offset": str(offset),
        "group": source.group_id,
        "delivery.count": str(dead_letter.delivery_count),
        "message": dead_letter.cause.value,
    }
    return tuple((f"__dlq.errors.{name}", text.encode()) for name, text in texts.items())


def dead_letter_records(
    source: DeadLetterSource,
    dead_letter: DeadLetter,
    originals: Mapping[int, Record],
    offsets: range,
    *,
    max_batch_bytes: int,
    now_ms: int,
) -> list[Record]:
    """The records of the first offsets that fit into one batch; at least one, whatever its size.

    Args: originals: key and value are copied from these. offsets: those to write now. now_ms: their time.
    """
    records: list[Record] = []
    size = _BATCH_OVERHEAD
    for offset in offsets:
        original = originals.get(offset)
        key, value = (None, None) if original is None else (original.key, original.value)
        record = Record(len(records), now_ms, key, value, dead_letter_headers(source, dead_letter, offset))
        size += record_size(record, offset_delta=len(records), base=now_ms)
        if size > max_batch_bytes and records:
            break
        records.append(record)
        if size > max_batch_bytes:
            break
    return records
