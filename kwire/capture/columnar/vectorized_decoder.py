"""Decode many bodies of one message and version together: the values that rows of messages need."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kwire.capture.columnar.body_walker import TEXT_SIZE_MAX, BodyWalker
from kwire.capture.columnar.decode_plan import TEXT_FIELDS, FieldStep, MessagePlan, StructPlan

if TYPE_CHECKING:
    from kwire.capture.index.arrays import Bytes, Ints, Words

_FACTORS = np.random.default_rng(1).integers(1, 2**63, TEXT_SIZE_MAX, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
_BY_ID, _BY_NAME, _BY_NOTHING = 1, 2, 3


class _Context(NamedTuple):
    """The struct that is being read: its own errors if structs in it have error codes, and its topics."""

    own_error: Ints | None
    topic: _TopicColumns | None


class VectorizedDecoder(BodyWalker[_Context]):
    """Decodes bodies. Afterwards the results are valid for the bodies in `is_good`.

    error: the first error code that is not 0. throttle: in milliseconds. texts: offsets and sizes by name; size -1 for
    null. n_topics, n_partitions: as in rows; n_topics is 0 if no topic is named. records: bodies, and offsets and sizes
    of their records.
    """

    def __init__(self, data: bytes, at: Ints, end: Ints, plan: MessagePlan) -> None:
        """Decode the bodies from `at` to `end` in the data, which has `PADDING_SIZE` more bytes after the last one."""
        super().__init__(data, at)
        count = len(at)
        self.error = np.zeros(count, dtype=np.int64)
        self.throttle = np.zeros(count, dtype=np.int64)
        self.texts: dict[str, tuple[Ints, Ints]] = {}
        self.n_partitions = np.zeros(count, dtype=np.int64)
        self.records: list[tuple[Ints, Ints, Ints]] = []
        self._topics: list[tuple[Ints, Words, Words]] = []
        self._read_struct(plan.struct, np.arange(count, dtype=np.int64), None)
        self.is_good &= self._at == end
        self.n_topics = self._count_topics(count)

    def _read_struct(self, struct: StructPlan, rows: Ints, outer: _Context | None) -> Ints:
        topic = _TopicColumns(len(self._at)) if struct.is_topic else None
        before = self.error[rows] if struct.has_errors else None
        own_error = None if before is None else np.zeros(len(self._at), dtype=np.int64)
        first = rows
        rows = self._read_steps(struct, rows, _Context(own_error, topic))
        if before is not None and own_error is not None:
            # A struct's own error takes precedence over errors inside it, wherever its field is.
            inner = np.where(own_error[first] != 0, own_error[first], self.error[first])
            self.error[first] = np.where(before != 0, before, inner)
        if topic is not None:
            self._end_topic(topic, rows)
        return rows

    def _take_int(self, step: FieldStep, rows: Ints, context: _Context) -> None:
        position, use, topic = self._position(rows), step.use, context.topic
        if use == "error":
            code = self._gather_numbers(position, ">i2")
            errors = self.error if context.own_error is None else context.own_error
            before = errors[rows]
            errors[rows] = np.where(before != 0, before, code)
        elif use == "throttle":
            self.throttle[rows] = self._gather_numbers(position, ">i4")
        elif topic is not None and use == "topic_id":
            topic.high[rows], topic.low[rows] = self._gather_words(position), self._gather_words(position + 8)
        elif topic is not None and use == "num_partitions":
            topic.planned[rows] = self._gather_numbers(position, ">i4")

    def _take_text(self, step: FieldStep, rows: Ints, size: Ints, characters: Bytes, context: _Context | None) -> None:
        if step.use in TEXT_FIELDS:
            whole_at, whole_size = np.zeros_like(self._at), np.full_like(self._at, -1)
            whole_at[rows], whole_size[rows] = self._at[rows], size
            self.texts[step.use] = whole_at, whole_size
        elif step.use in {"name", "names"}:
            factors = _FACTORS[: characters.shape[1]]
            name_hash = (characters * factors).sum(axis=1, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
            if step.use == "names":
                self._topics.append((rows, np.full(len(rows), _BY_NAME, dtype=np.uint64), name_hash))
            elif context is not None and context.topic is not None:
                context.topic.name[rows] = np.where(size > 0, name_hash, 0)

    def _take_sized(self, step: FieldStep, rows: Ints, size: Ints, context: _Context) -> None:
        count = np.maximum(size, 0)
        if step.kind == "records":
            self.records.append((rows, self._at[rows], count))
        if context.topic is not None and step.use in {"numbers", "partitions"}:
            context.topic.count[rows] += count

    # Topics

    def _end_topic(self, topic: _TopicColumns, rows: Ints) -> None:
        high, low, name = topic.high[rows], topic.low[rows], topic.name[rows]
        has_id, has_name = (high | low) != 0, name != 0
        kind = np.where(has_id, _BY_ID, np.where(has_name, _BY_NAME, _BY_NOTHING)).astype(np.uint64)
        # Two ids with the same hash look like a repeated topic, which the message decoder then counts.
        key = np.where(has_id, high * _FACTORS[0] + low * _FACTORS[1], np.where(has_name, name, np.uint64(0)))
        self._topics.append((rows, kind, key))
        count = topic.count[rows]
        self.n_partitions[rows] += np.where(count > 0, count, np.maximum(topic.planned[rows], 0))

    def _count_topics(self, count: int) -> Ints:
        """The number of topics that each body names. Bodies that may repeat a topic are left to the message decoder."""
        if not self._topics:
            return np.zeros(count, dtype=np.int64)
        rows = np.concatenate([topic_rows for topic_rows, _, _ in self._topics])
        if len(self._topics) > 1:
            kind = np.concatenate([kinds for _, kinds, _ in self._topics])
            key = np.concatenate([keys for _, _, keys in self._topics])
            order = np.lexsort((key, kind, rows))
            rows, kind, key = rows[order], kind[order], key[order]
            is_repeated = (rows[1:] == rows[:-1]) & (kind[1:] == kind[:-1]) & (key[1:] == key[:-1])
            self.is_good[rows[1:][is_repeated]] = False
        return np.bincount(rows, minlength=count)


class _TopicColumns:
    """The values of the topics that are being read, one per body."""

    def __init__(self, count: int) -> None:
        self.high = np.zeros(count, dtype=np.uint64)
        self.low = np.zeros(count, dtype=np.uint64)
        self.name = np.zeros(count, dtype=np.uint64)
        self.count = np.zeros(count, dtype=np.int64)
        self.planned = np.zeros(count, dtype=np.int64)
