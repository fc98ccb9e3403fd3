"""Collect the topics, partitions and other structs of many bodies into tables, with the values of their fields."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kwire.capture.columnar.body_walker import BodyWalker
from kwire.capture.index.arrays import NO_NUMBERS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kwire.capture.columnar.decode_plan import FieldStep, StructPlan
    from kwire.capture.index.arrays import Bools, Bytes, Ints

Values = tuple["Ints", ...]
"""The values of a field: the number; where a uuid begins; where anything else begins, and its size, -1 for null."""

UUID_SIZE = 16


class Table(NamedTuple):
    """The structs of one kind in the bodies that were read completely. Those of one body are in its order.

    body: the number of the body. parent: the row of the struct around it in the table of that. columns: by field.
    """

    body: Ints
    parent: Ints
    columns: dict[str, Values]

    def __len__(self) -> int:
        return len(self.body)


@dataclass(slots=True)
class _Chunk:
    """The same struct of several bodies, at most one of each. parent: the number of the chunk of the struct around."""

    parent: int
    rows: Ints = field(default_factory=lambda: NO_NUMBERS)
    fields: dict[str, tuple[Ints, Values]] = field(default_factory=dict)


class _Context(NamedTuple):
    """The chunk that fields are added to, and its number; structs without a table have the chunk around them."""

    chunk: _Chunk
    number: int
    collects: bool


class TableDecoder(BodyWalker[_Context]):
    """Reads bodies by a plan of `table_plan`."""

    def __init__(self, data: bytes, at: Ints, end: Ints, plan: StructPlan) -> None:
        """Decode the bodies from `at` to `end` in the data, which has `PADDING_SIZE` more bytes after the last one."""
        super().__init__(data, at)
        self._chunks: dict[str, list[_Chunk]] = {}
        self._starts: dict[str, Ints] = {}
        self._read_struct(plan, np.arange(len(at), dtype=np.int64), None)
        self.is_good &= self._at == end

    def table(self, name: str, parent: str = "") -> Table:
        """One of the tables. Args: parent: the table that `parent` refers to; empty for none."""
        chunks = self._chunks.get(name, [])
        kept = [self._good(chunk.rows) for chunk in chunks]
        rows = [chunk.rows if keep is None else chunk.rows[keep] for chunk, keep in zip(chunks, kept, strict=True)]
        columns: dict[str, Values] = {}
        for column in chunks[0].fields if chunks else ():
            parts = [self._good_values(*chunk.fields[column]) for chunk in chunks]
            columns[column] = tuple(_concatenate(values) for values in zip(*parts, strict=True))
        body = _concatenate(rows)
        return Table(body, self._parent_rows(chunks, rows, parent) if parent else NO_NUMBERS, columns)

    def _parent_rows(self, chunks: list[_Chunk], rows: list[Ints], parent: str) -> Ints:
        outer = [chunk.rows[self.is_good[chunk.rows]] for chunk in self._chunks.get(parent, [])]
        starts = np.cumsum([0, *map(len, outer)])
        return _concatenate(
            [
                starts[chunk.parent] + np.searchsorted(outer[chunk.parent], chunk_rows)
                for chunk, chunk_rows in zip(chunks, rows, strict=True)
            ]
        )

    def _good(self, rows: Ints) -> Bools | None:
        """Which of these bodies are good; None for all."""
        is_good = self.is_good[rows]
        return None if bool(is_good.all()) else is_good

    def _good_values(self, rows: Ints, values: Values) -> Values:
        keep = self._good(rows)
        return values if keep is None else tuple(array[keep] for array in values)

    # What is read

    def _read_struct(self, struct: StructPlan, rows: Ints, outer: _Context | None) -> Ints:
        if not struct.table:
            # A struct without a table may be between two structs that have one.
            context = _Context(_Chunk(-1), -1, False) if outer is None else outer._replace(collects=False)
            return self._read_steps(struct, rows, context)
        chunks = self._chunks.setdefault(struct.table, [])
        chunk = _Chunk(-1 if outer is None else outer.number)
        chunks.append(chunk)
        chunk.rows = self._read_steps(struct, rows, _Context(chunk, len(chunks) - 1, True))
        return chunk.rows

    def _take_int(self, step: FieldStep, rows: Ints, context: _Context) -> None:
        if not context.collects:
            return
        position = self._position(rows)
        is_uuid = step.size == UUID_SIZE
        values = position if is_uuid else self._gather_numbers(position, f">i{step.size}")
        context.chunk.fields[step.use] = rows, (values,)

    def _take_text(self, step: FieldStep, rows: Ints, size: Ints, characters: Bytes, context: _Context | None) -> None:
        self._take_sized(step, rows, size, context)

    def _take_sized(self, step: FieldStep, rows: Ints, size: Ints, context: _Context | None) -> None:
        if step.use and context is not None and context.collects:
            context.chunk.fields[step.use] = rows, (self._at[rows], size)


def _concatenate(parts: Sequence[Ints]) -> Ints:
    if len(parts) == 1:
        return parts[0]
    return np.concatenate(parts) if parts else NO_NUMBERS
