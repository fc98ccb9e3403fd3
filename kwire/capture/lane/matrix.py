"""Many bodies of one message and version read side by side: each field of all of them at once, by vectors of positions.

It accepts only what the strict decoder accepts. Whatever else a body has, an odd boolean, text that is not ASCII, a tag
that nobody knows, more elements than most, is left to the exact decoder, body by body. Reading never goes back, so it
is enough that each body ends exactly where it should: one that was read beyond its end does not.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, cast

import numpy as np

from kwire.capture.lane.shapes import Plan, Step, Struct

if TYPE_CHECKING:
    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]
    Words = npt.NDArray[np.uint64]
    Bools = npt.NDArray[np.bool_]

# Longer texts and arrays are for the exact decoder, and so are elements that only few bodies have.
TEXT_SIZE_MAX = 256
COUNT_MAX = 256
TOGETHER_MIN = 12
# What must follow the bodies in the data, so that reading beyond the last one finds something.
ROOM = TEXT_SIZE_MAX + 16

_FACTORS = np.random.default_rng(1).integers(1, 2**63, TEXT_SIZE_MAX, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
_BY_ID, _BY_NAME, _BY_NOTHING = 1, 2, 3


class Matrix:
    """Reads bodies. Afterwards `is_good` says of which all was read; what follows is of those.

    error: the first error code that is not 0. throttle: in milliseconds. texts: where those wanted lie, and their
    sizes, -1 for null. n_topics, n_partitions: as in rows; n_topics is 0 where none is named. records: bodies, and
    where their records lie.
    """

    def __init__(self, data: bytes, at: Ints, end: Ints, plan: Plan) -> None:
        """Bodies from `at` to `end` in the data, behind which there are `ROOM` bytes more."""
        count = len(at)
        self._data = data
        self._flat = np.frombuffer(data, dtype=np.uint8)
        self._at = at.copy()
        self._limit = len(data) - ROOM
        self.is_good = np.ones(count, dtype=np.bool_)
        self.error = np.zeros(count, dtype=np.int64)
        self.throttle = np.zeros(count, dtype=np.int64)
        self.texts: dict[str, tuple[Ints, Ints]] = {}
        self.n_partitions = np.zeros(count, dtype=np.int64)
        self.records: list[tuple[Ints, Ints, Ints]] = []
        self._topics: list[tuple[Ints, Words, Words]] = []
        self._struct(plan.struct, np.arange(count, dtype=np.int64))
        self.is_good &= self._at == end
        self.n_topics = self._count_topics(count)

    # Structs

    def _struct(self, struct: Struct, rows: Ints) -> Ints:
        """Read a struct of these bodies; those that go on."""
        topic = _Topic(len(self._at)) if struct.is_topic else None
        own = None
        before = self.error[rows] if struct.has_errors else None
        if before is not None:
            own = np.zeros(len(self._at), dtype=np.int64)
        first = rows
        for step in struct.steps:
            rows = self._step(step, rows, own, topic)
        if struct.is_flexible:
            rows = self._tagged(struct, rows, own, topic)
        if before is not None and own is not None:
            # A struct's own error comes before those of what is in it, wherever it stands.
            inner = np.where(own[first] != 0, own[first], self.error[first])
            self.error[first] = np.where(before != 0, before, inner)
        if topic is not None:
            self._end_topic(topic, rows)
        return rows

    def _step(self, step: Step, rows: Ints, own: Ints | None, topic: _Topic | None) -> Ints:
        kind = step.kind
        if kind in {"skip", "int"}:
            if kind == "int":
                self._int(step, rows, own, topic)
            self._at[rows] += step.size
            return rows
        if kind == "bool":
            return self._bool(rows)
        if kind == "text":
            return self._text(step, rows, topic)
        if kind == "struct":
            return self._one(step, rows)
        if kind == "other":
            return self._kept(rows, np.zeros(len(rows), dtype=np.bool_))
        return self._many(step, rows, topic)

    def _many(self, step: Step, rows: Ints, topic: _Topic | None) -> Ints:
        """What has a length of 32 bits, or a varint: bytes, records, arrays."""
        kind = step.kind
        rows, size = self._length(step, rows, 4)
        count = np.maximum(size, 0)
        if kind == "records":
            self.records.append((rows, self._at[rows], count))
        if topic is not None and step.use in {"numbers", "partitions"}:
            topic.count[rows] += count
        if kind in {"bytes", "records", "numbers"}:
            self._at[rows] += count * (step.size or 1)
            return rows
        return self._each(step, rows, count)

    def _each(self, step: Step, rows: Ints, count: Ints) -> Ints:
        """Read arrays element by element: the first of all of them, then the second of those that have one."""
        left = np.zeros(len(self._at), dtype=np.int64)
        left[rows] = count
        read: Callable[[Ints], Ints]
        if step.kind == "structs":
            assert step.inner is not None
            read = partial(self._struct, step.inner)
        elif step.kind == "texts":
            read = partial(self._text, Step("text", 0, step.use, False, step.is_flexible), topic=None)
        else:
            read = self._bool
        rows = self._kept(rows, count <= COUNT_MAX)
        number = 0
        while True:
            some = rows[left[rows] > number]
            if not len(some):
                return rows[self.is_good[rows]]
            if number and len(some) < TOGETHER_MIN:
                self.is_good[some] = False
                return rows[self.is_good[rows]]
            read(some)
            rows = rows[self.is_good[rows]]
            number += 1

    def _one(self, step: Step, rows: Ints) -> Ints:
        """A struct that may be null."""
        assert step.inner is not None
        if not step.is_nullable:
            return self._struct(step.inner, rows)
        marker = self._flat[self._place(rows)]
        self._at[rows] += 1
        rows = self._kept(rows, (marker == 1) | (marker == 255))
        present = rows[self._flat[np.minimum(self._at[rows] - 1, self._limit)] == 1]
        self._struct(step.inner, present)
        return rows[self.is_good[rows]]

    def _tagged(self, struct: Struct, rows: Ints, own: Ints | None, topic: _Topic | None) -> Ints:
        rows, count = self._uvarint(rows)
        if not count.any():
            return rows
        left = np.zeros(len(self._at), dtype=np.int64)
        last = np.full(len(self._at), -1, dtype=np.int64)
        left[rows] = count
        rows = self._kept(rows, count <= len(struct.tagged))
        for number in range(len(struct.tagged)):
            some = rows[left[rows] > number]
            some, tag = self._uvarint(some)
            in_order = tag > last[some]
            last[some] = tag
            some = self._kept(some, in_order)
            some, size = self._uvarint(some)
            stop = self._at[some] + size
            tag = last[some]
            for known, step in struct.tagged.items():
                is_known = tag == known
                if is_known.any():
                    self._step(step, some[is_known], own, topic)
            self._kept(some, np.isin(tag, list(struct.tagged)) & (self._at[some] == stop))
            rows = rows[self.is_good[rows]]
        return rows

    # Fields

    def _int(self, step: Step, rows: Ints, own: Ints | None, topic: _Topic | None) -> None:
        place, use = self._place(rows), step.use
        if use == "error":
            code = self._number(place, ">i2")
            kept = self.error if own is None else own
            before = kept[rows]
            kept[rows] = np.where(before != 0, before, code)
        elif use == "throttle":
            self.throttle[rows] = self._number(place, ">i4")
        elif topic is not None and use == "topic_id":
            topic.high[rows], topic.low[rows] = self._word(place), self._word(place + 8)
        elif topic is not None and use == "num_partitions":
            topic.planned[rows] = self._number(place, ">i4")

    def _bool(self, rows: Ints) -> Ints:
        is_good = self._flat[self._place(rows)] <= 1
        self._at[rows] += 1
        return self._kept(rows, is_good)

    def _text(self, step: Step, rows: Ints, topic: _Topic | None) -> Ints:
        rows, size = self._length(step, rows, 2)
        begin, count = self._at[rows], np.maximum(size, 0)
        self._at[rows] += count
        is_good = count <= TEXT_SIZE_MAX
        if step.use in {"group_id", "member_id"}:
            whole_at, whole_size = np.zeros_like(self._at), np.full_like(self._at, -1)
            whole_at[rows], whole_size[rows] = begin, size
            self.texts[step.use] = whole_at, whole_size
        width = min(int(count.max(initial=0)), TEXT_SIZE_MAX)
        if not width:
            letters = np.zeros((len(rows), 0), dtype=np.uint8)
        else:
            letters = self._letters(begin, count, width)
            is_good &= ~(letters & 0x80).any(axis=1)
        if step.use in {"name", "names"}:
            mixed = (letters * _FACTORS[:width]).sum(axis=1, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
            if step.use == "names":
                self._topics.append((rows, np.full(len(rows), _BY_NAME, dtype=np.uint64), mixed))
            elif topic is not None:
                topic.name[rows] = np.where(count > 0, mixed, 0)
        return self._kept(rows, is_good)

    def _letters(self, begin: Ints, count: Ints, width: int) -> npt.NDArray[np.uint8]:
        every = np.ndarray((len(self._data) - width + 1,), dtype=f"V{width}", buffer=self._data, strides=(1,))
        found = every[np.minimum(begin, self._limit)].view(np.uint8).reshape(-1, width)
        if int(count.min()) < width:
            found[np.arange(width) >= count[:, None]] = 0
        return found

    def _length(self, step: Step, rows: Ints, width: int) -> tuple[Ints, Ints]:
        """A length or count: -1 for null where that is allowed."""
        if step.is_flexible:
            rows, size = self._uvarint(rows)
            size = size - 1
        else:
            size = self._number(self._place(rows), ">i2" if width == 2 else ">i4")
            self._at[rows] += width
        least = -1 if step.is_nullable else 0
        is_good = size >= least
        return self._kept(rows, is_good), size if bool(is_good.all()) else size[is_good]

    def _uvarint(self, rows: Ints) -> tuple[Ints, Ints]:
        """Unsigned numbers in groups of seven bits, up to three of them."""
        value = self._flat[self._place(rows)].astype(np.int64)
        self._at[rows] += 1
        if bool((value < 128).all()):
            return rows, value
        value &= 127
        goes_on = self._flat[np.minimum(self._at[rows] - 1, self._limit)] >= 128
        for shift in (7, 14):
            some = rows[goes_on]
            byte = self._flat[self._place(some)].astype(np.int64)
            self._at[some] += 1
            value[goes_on] |= (byte & 127) << shift
            again = np.zeros(len(rows), dtype=np.bool_)
            again[goes_on] = byte >= 128
            goes_on = again
        return self._kept(rows, ~goes_on), value[~goes_on]

    # Places

    def _place(self, rows: Ints) -> Ints:
        """Where each body is being read; what is beyond its data is read somewhere, and found out in the end."""
        return np.minimum(self._at[rows], self._limit)

    def _number(self, place: Ints, kind: str) -> Ints:
        width = int(kind[-1])
        every = np.ndarray((len(self._data) - width + 1,), dtype=kind, buffer=self._data, strides=(1,))
        return cast("Ints", every[place].astype(np.int64))

    def _word(self, place: Ints) -> Words:
        every = np.ndarray((len(self._data) - 7,), dtype=">u8", buffer=self._data, strides=(1,))
        return cast("Words", every[place].astype(np.uint64))

    def _kept(self, rows: Ints, is_good: Bools) -> Ints:
        """The bodies that go on; the others are for the exact decoder."""
        if bool(is_good.all()):
            return rows
        self.is_good[rows[~is_good]] = False
        return rows[is_good]

    # Topics

    def _end_topic(self, topic: _Topic, rows: Ints) -> None:
        high, low, name = topic.high[rows], topic.low[rows], topic.name[rows]
        has_id, has_name = (high | low) != 0, name != 0
        kind = np.where(has_id, _BY_ID, np.where(has_name, _BY_NAME, _BY_NOTHING)).astype(np.uint64)
        # Two ids with one sum look like one topic twice, which the exact decoder then counts.
        key = np.where(has_id, high * _FACTORS[0] + low * _FACTORS[1], np.where(has_name, name, np.uint64(0)))
        self._topics.append((rows, kind, key))
        count = topic.count[rows]
        self.n_partitions[rows] += np.where(count > 0, count, np.maximum(topic.planned[rows], 0))

    def _count_topics(self, count: int) -> Ints:
        """How many topics each body names. Where one may be named twice, the exact decoder has to look."""
        if not self._topics:
            return np.zeros(count, dtype=np.int64)
        rows = np.concatenate([each[0] for each in self._topics])
        if len(self._topics) > 1:
            kind = np.concatenate([each[1] for each in self._topics])
            key = np.concatenate([each[2] for each in self._topics])
            order = np.lexsort((key, kind, rows))
            rows, kind, key = rows[order], kind[order], key[order]
            is_again = (rows[1:] == rows[:-1]) & (kind[1:] == kind[:-1]) & (key[1:] == key[:-1])
            self.is_good[rows[1:][is_again]] = False
        return np.bincount(rows, minlength=count)


class _Topic:
    """What is gathered of the topics that are being read, one in each body."""

    def __init__(self, count: int) -> None:
        self.high = np.zeros(count, dtype=np.uint64)
        self.low = np.zeros(count, dtype=np.uint64)
        self.name = np.zeros(count, dtype=np.uint64)
        self.count = np.zeros(count, dtype=np.int64)
        self.planned = np.zeros(count, dtype=np.int64)
