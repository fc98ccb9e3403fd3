"""Read many bodies of one message and version together: each field of all bodies at once, with vectors of positions.

Only bodies that the strict decoder accepts are read. Bodies with anything unusual (an invalid boolean, text that is not
ASCII, an unknown tag, more elements than most bodies) are left to the message decoder. Positions only increase, so it
suffices to check that each body ends exactly at its end: a body that was read beyond its end does not.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar, cast

import numpy as np

from kwire.capture.columnar.decode_plan import FieldStep, StructPlan

if TYPE_CHECKING:
    from kwire.capture.index.arrays import Bools, Bytes, Ints, Words

# Longer texts and arrays, and elements that only few bodies have, are left to the message decoder.
TEXT_SIZE_MAX = 256
COUNT_MAX = 256
BODIES_MIN = 12
# Bytes that must follow the bodies in the data, so that reads beyond the last body are in range.
PADDING_SIZE = TEXT_SIZE_MAX + 16

C = TypeVar("C")


class BodyWalker(Generic[C]):
    """Moves through bodies by a plan; subclasses take the values. `is_good`: the bodies that were read so far.

    `C` is what a subclass stores about the struct that is being read.
    """

    def __init__(self, data: bytes, at: Ints) -> None:
        """Args: at: where each body begins in the data, which has `PADDING_SIZE` more bytes after the last one."""
        self._data = data
        self._flat = np.frombuffer(data, dtype=np.uint8)
        self._at = at.copy()
        self._limit = len(data) - PADDING_SIZE
        self.is_good = np.ones(len(at), dtype=np.bool_)

    # What subclasses do

    def _read_struct(self, struct: StructPlan, rows: Ints, outer: C | None) -> Ints:
        """Read a struct of these bodies, by `_read_steps`; return the bodies that are still good."""
        raise NotImplementedError

    def _take_int(self, step: FieldStep, rows: Ints, context: C) -> None:
        """Take an integer or uuid at the current positions."""

    def _take_text(self, step: FieldStep, rows: Ints, size: Ints, characters: Bytes, context: C | None) -> None:
        """Take a text that begins at the current positions. Args: characters: by body, padded with zeros."""

    def _take_sized(self, step: FieldStep, rows: Ints, size: Ints, context: C) -> None:
        """Take bytes, records or an array, which begin at the current positions. Args: size: -1 for null."""

    # Structs

    def _read_steps(self, struct: StructPlan, rows: Ints, context: C) -> Ints:
        """Read the fields of a struct; return the bodies that are still good."""
        for step in struct.steps:
            rows = self._read_field(step, rows, context)
        return self._read_tagged_fields(struct, rows, context) if struct.is_flexible else rows

    def _read_field(self, step: FieldStep, rows: Ints, context: C) -> Ints:
        kind = step.kind
        if kind in {"skip", "int"}:
            if kind == "int":
                self._take_int(step, rows, context)
            self._at[rows] += step.size
            return rows
        if kind == "bool":
            return self._read_bool(rows)
        if kind == "text":
            return self._read_text(step, rows, context)
        if kind == "struct":
            return self._read_nullable_struct(step, rows, context)
        if kind == "other":
            return self._keep_good(rows, np.zeros(len(rows), dtype=np.bool_))
        return self._read_sized(step, rows, context)

    def _read_sized(self, step: FieldStep, rows: Ints, context: C) -> Ints:
        """Read a field with a length of 32 bits, or a varint: bytes, records, arrays."""
        kind = step.kind
        rows, size = self._read_length(step, rows, 4)
        self._take_sized(step, rows, size, context)
        count = np.maximum(size, 0)
        if kind in {"bytes", "records", "numbers"}:
            self._at[rows] += count * (step.size or 1)
            return rows
        return self._read_elements(step, rows, count, context)

    def _read_elements(self, step: FieldStep, rows: Ints, count: Ints, context: C) -> Ints:
        """Read arrays element by element: the first element of all arrays, then the second of those that have one."""
        remaining = np.zeros(len(self._at), dtype=np.int64)
        remaining[rows] = count
        read: Callable[[Ints], Ints]
        if step.kind == "structs":
            assert step.inner is not None
            read = partial(self._read_struct, step.inner, outer=context)
        elif step.kind == "texts":
            read = partial(self._read_text, FieldStep("text", 0, step.use, False, step.is_flexible), context=None)
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

    def _read_nullable_struct(self, step: FieldStep, rows: Ints, context: C) -> Ints:
        """Read a struct that may be null."""
        assert step.inner is not None
        if not step.is_nullable:
            return self._read_struct(step.inner, rows, context)
        marker = self._flat[self._position(rows)]
        self._at[rows] += 1
        rows = self._keep_good(rows, (marker == 1) | (marker == 255))
        present = rows[self._flat[np.minimum(self._at[rows] - 1, self._limit)] == 1]
        self._read_struct(step.inner, present, context)
        return rows[self.is_good[rows]]

    def _read_tagged_fields(self, struct: StructPlan, rows: Ints, context: C) -> Ints:
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
                    self._read_field(step, active[is_known], context)
            self._keep_good(active, np.isin(tag, list(struct.tagged)) & (self._at[active] == stop))
            rows = rows[self.is_good[rows]]
        return rows

    # Fields

    def _read_text(self, step: FieldStep, rows: Ints, context: C | None) -> Ints:
        rows, size = self._read_length(step, rows, 2)
        count = np.maximum(size, 0)
        is_good = count <= TEXT_SIZE_MAX
        width = min(int(count.max(initial=0)), TEXT_SIZE_MAX)
        if not width:
            characters = np.zeros((len(rows), 0), dtype=np.uint8)
        else:
            characters = self._gather_text(self._at[rows], count, width)
            is_good &= ~(characters & 0x80).any(axis=1)
        self._take_text(step, rows, size, characters, context)
        self._at[rows] += count
        return self._keep_good(rows, is_good)

    def _read_bool(self, rows: Ints) -> Ints:
        is_good = self._flat[self._position(rows)] <= 1
        self._at[rows] += 1
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
