"""Decode many bodies of one message and version together: each field of all bodies at once, with vectors of positions.

Only bodies that the strict decoder accepts are decoded. Bodies with anything unusual (an invalid boolean, text that is
not ASCII, an unknown tag, more elements than most bodies) are left to the message decoder. Positions only increase, so
it suffices to check that each body ends exactly at its end: a body that was read beyond its end does not.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, cast

import numpy as np

from kwire.capture.columnar.decode_plan import FieldStep, MessagePlan, StructPlan

if TYPE_CHECKING:
    from kwire.capture.index.arrays import Bools, Bytes, Ints, Words

# Longer texts and arrays, and elements that only few bodies have, are left to the message decoder.
TEXT_SIZE_MAX = 256
COUNT_MAX = 256
BODIES_MIN = 12
# Bytes that must follow the bodies in the data, so that reads beyond the last body are in range.
PADDING_SIZE = TEXT_SIZE_MAX + 16

_FACTORS = np.random.default_rng(1).integers(1, 2**63, TEXT_SIZE_MAX, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
_BY_ID, _BY_NAME, _BY_NOTHING = 1, 2, 3


class VectorizedDecoder:
    """Decodes bodies. Afterwards the results are valid for the bodies in `is_good`.

    error: the first error code that is not 0. throttle: in milliseconds. texts: offsets and sizes by name; size -1 for
    null. n_topics, n_partitions: as in rows; n_topics is 0 if no topic is named. records: bodies, and offsets and sizes
    of their records.
    """

    def __init__(self, data: bytes, at: Ints, end: Ints, plan: MessagePlan) -> None:
        """Decode the bodies from `at` to `end` in the data, which has `PADDING_SIZE` more bytes after the last one."""
        count = len(at)
        self._data = data
        self._flat = np.frombuffer(data, dtype=np.uint8)
        self._at = at.copy()
        self._limit = len(data) - PADDING_SIZE
        self.is_good = np.ones(count, dtype=np.bool_)
        self.error = np.zeros(count, dtype=np.int64)
        self.throttle = np.zeros(count, dtype=np.int64)
        self.texts: dict[str, tuple[Ints, Ints]] = {}
        self.n_partitions = np.zeros(count, dtype=np.int64)
        self.records: list[tuple[Ints, Ints, Ints]] = []
        self._topics: list[tuple[Ints, Words, Words]] = []
        self._read_struct(plan.struct, np.arange(count, dtype=np.int64))
        self.is_good &= self._at == end
        self.n_topics = self._count_topics(count)

    # Structs

    def _read_struct(self, struct: StructPlan, rows: Ints) -> Ints:
        """Read a struct of these bodies; return the bodies that are still good."""
        topic = _TopicColumns(len(self._at)) if struct.is_topic else None
        before = self.error[rows] if struct.has_errors else None
        own_error = None if before is None else np.zeros(len(self._at), dtype=np.int64)
        first = rows
        for step in struct.steps:
            rows = self._read_field(step, rows, own_error, topic)
        if struct.is_flexible:
            rows = self._read_tagged_fields(struct, rows, own_error, topic)
        if before is not None and own_error is not None:
            # A struct's own error takes precedence over errors inside it, wherever its field is.
            inner = np.where(own_error[first] != 0, own_error[first], self.error[first])
            self.error[first] = np.where(before != 0, before, inner)
        if topic is not None:
            self._end_topic(topic, rows)
        return rows

    def _read_field(self, step: FieldStep, rows: Ints, own_error: Ints | None, topic: _TopicColumns | None) -> Ints:
        kind = step.kind
        if kind in {"skip", "int"}:
            if kind == "int":
                self._read_int(step, rows, own_error, topic)
            self._at[rows] += step.size
            return rows
        if kind == "bool":
            return self._read_bool(rows)
        if kind == "text":
            return self._read_text(step, rows, topic)
        if kind == "struct":
            return self._read_nullable_struct(step, rows)
        if kind == "other":
            return self._keep_good(rows, np.zeros(len(rows), dtype=np.bool_))
        return self._read_sized(step, rows, topic)

    def _read_sized(self, step: FieldStep, rows: Ints, topic: _TopicColumns | None) -> Ints:
        """Read a field with a length of 32 bits, or a varint: bytes, records, arrays."""
        kind = step.kind
        rows, size = self._read_length(step, rows, 4)
        count = np.maximum(size, 0)
        if kind == "records":
            self.records.append((rows, self._at[rows], count))
        if topic is not None and step.use in {"numbers", "partitions"}:
            topic.count[rows] += count
        if kind in {"bytes", "records", "numbers"}:
            self._at[rows] += count * (step.size or 1)
            return rows
        return self._read_elements(step, rows, count)

    def _read_elements(self, step: FieldStep, rows: Ints, count: Ints) -> Ints:
        """Read arrays element by element: the first element of all arrays, then the second of those that have one."""
        remaining = np.zeros(len(self._at), dtype=np.int64)
        remaining[rows] = count
        read: Callable[[Ints], Ints]
        if step.kind == "structs":
            assert step.inner is not None
            read = partial(self._read_struct, step.inner)
        elif step.kind == "texts":
            read = partial(self._read_text, FieldStep("text", 0, step.use, False, step.is_flexible), topic=None)
        else:
            read = self._read_bool
        rows = self._keep_good(rows, count <= COUNT_MAX)
        number = 0
        while True:
            active = rows[remaining[rows] > number]
            if not len(active):
                return rows[self.is_good[rows]]
            if number and len(active) < BODIES_MIN:
                self.is_good[active] = False
                return rows[self.is_good[rows]]
            read(active)
            rows = rows[self.is_good[rows]]
            number += 1

    def _read_nullable_struct(self, step: FieldStep, rows: Ints) -> Ints:
        """Read a struct that may be null."""
        assert step.inner is not None
        if not step.is_nullable:
            return self._read_struct(step.inner, rows)
        marker = self._flat[self._position(rows)]
        self._at[rows] += 1
        rows = self._keep_good(rows, (marker == 1) | (marker == 255))
        present = rows[self._flat[np.minimum(self._at[rows] - 1, self._limit)] == 1]
        self._read_struct(step.inner, present)
        return rows[self.is_good[rows]]

    def _read_tagged_fields(
        self, struct: StructPlan, rows: Ints, own_error: Ints | None, topic: _TopicColumns | None
    ) -> Ints:
        rows, count = self._read_uvarint(rows)
        if not count.any():
            return rows
        remaining = np.zeros(len(self._at), dtype=np.int64)
        last = np.full(len(self._at), -1, dtype=np.int64)
        remaining[rows] = count
        rows = self._keep_good(rows, count <= len(struct.tagged))
        for number in range(len(struct.tagged)):
            active = rows[remaining[rows] > number]
            active, tag = self._read_uvarint(active)
            in_order = tag > last[active]
            last[active] = tag
            active = self._keep_good(active, in_order)
            active, size = self._read_uvarint(active)
            stop = self._at[active] + size
            tag = last[active]
            for known, step in struct.tagged.items():
                is_known = tag == known
                if is_known.any():
                    self._read_field(step, active[is_known], own_error, topic)
            self._keep_good(active, np.isin(tag, list(struct.tagged)) & (self._at[active] == stop))
            rows = rows[self.is_good[rows]]
        return rows

    # Fields

    def _read_int(self, step: FieldStep, rows: Ints, own_error: Ints | None, topic: _TopicColumns | None) -> None:
        position, use = self._position(rows), step.use
        if use == "error":
            code = self._gather_numbers(position, ">i2")
            errors = self.error if own_error is None else own_error
            before = errors[rows]
            errors[rows] = np.where(before != 0, before, code)
        elif use == "throttle":
            self.throttle[rows] = self._gather_numbers(position, ">i4")
        elif topic is not None and use == "topic_id":
            topic.high[rows], topic.low[rows] = self._gather_words(position), self._gather_words(position + 8)
        elif topic is not None and use == "num_partitions":
            topic.planned[rows] = self._gather_numbers(position, ">i4")

    def _read_bool(self, rows: Ints) -> Ints:
        is_good = self._flat[self._position(rows)] <= 1
        self._at[rows] += 1
        return self._keep_good(rows, is_good)

    def _read_text(self, step: FieldStep, rows: Ints, topic: _TopicColumns | None) -> Ints:
        rows, size = self._read_length(step, rows, 2)
        begin, count = self._at[rows], np.maximum(size, 0)
        self._at[rows] += count
        is_good = count <= TEXT_SIZE_MAX
        if step.use in {"group_id", "member_id"}:
            whole_at, whole_size = np.zeros_like(self._at), np.full_like(self._at, -1)
            whole_at[rows], whole_size[rows] = begin, size
            self.texts[step.use] = whole_at, whole_size
        width = min(int(count.max(initial=0)), TEXT_SIZE_MAX)
        if not width:
            characters = np.zeros((len(rows), 0), dtype=np.uint8)
        else:
            characters = self._gather_text(begin, count, width)
            is_good &= ~(characters & 0x80).any(axis=1)
        if step.use in {"name", "names"}:
            name_hash = (characters * _FACTORS[:width]).sum(axis=1, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
            if step.use == "names":
                self._topics.append((rows, np.full(len(rows), _BY_NAME, dtype=np.uint64), name_hash))
            elif topic is not None:
                topic.name[rows] = np.where(count > 0, name_hash, 0)
        return self._keep_good(rows, is_good)

    def _gather_text(self, begin: Ints, count: Ints, width: int) -> Bytes:
        windows = np.ndarray((len(self._data) - width + 1,), dtype=f"V{width}", buffer=self._data, strides=(1,))
        characters = windows[np.minimum(begin, self._limit)].view(np.uint8).reshape(-1, width)
        if int(count.min()) < width:
            characters[np.arange(width) >= count[:, None]] = 0
        return characters

    def _read_length(self, step: FieldStep, rows: Ints, width: int) -> tuple[Ints, Ints]:
        """Read a length or count: -1 for null if the field is nullable."""
        if step.is_flexible:
            rows, size = self._read_uvarint(rows)
            size = size - 1
        else:
            size = self._gather_numbers(self._position(rows), ">i2" if width == 2 else ">i4")
            self._at[rows] += width
        size_min = -1 if step.is_nullable else 0
        is_good = size >= size_min
        return self._keep_good(rows, is_good), size if bool(is_good.all()) else size[is_good]

    def _read_uvarint(self, rows: Ints) -> tuple[Ints, Ints]:
        """Read unsigned varints of up to three bytes."""
        value = self._flat[self._position(rows)].astype(np.int64)
        self._at[rows] += 1
        if bool((value < 128).all()):
            return rows, value
        value &= 127
        continues = self._flat[np.minimum(self._at[rows] - 1, self._limit)] >= 128
        for shift in (7, 14):
            active = rows[continues]
            byte = self._flat[self._position(active)].astype(np.int64)
            self._at[active] += 1
            value[continues] |= (byte & 127) << shift
            still_continues = np.zeros(len(rows), dtype=np.bool_)
            still_continues[continues] = byte >= 128
            continues = still_continues
        return self._keep_good(rows, ~continues), value[~continues]

    # Positions

    def _position(self, rows: Ints) -> Ints:
        """The position in each body, limited to the data: a body that is read beyond its end is not good in the end."""
        return np.minimum(self._at[rows], self._limit)

    def _gather_numbers(self, position: Ints, kind: str) -> Ints:
        width = int(kind[-1])
        windows = np.ndarray((len(self._data) - width + 1,), dtype=kind, buffer=self._data, strides=(1,))
        return cast("Ints", windows[position].astype(np.int64))

    def _gather_words(self, position: Ints) -> Words:
        windows = np.ndarray((len(self._data) - 7,), dtype=">u8", buffer=self._data, strides=(1,))
        return cast("Words", windows[position].astype(np.uint64))

    def _keep_good(self, rows: Ints, is_good: Bools) -> Ints:
        """Continue with the good bodies; the others are left to the message decoder."""
        if bool(is_good.all()):
            return rows
        self.is_good[rows[~is_good]] = False
        return rows[is_good]

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
