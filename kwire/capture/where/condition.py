"""A filter as it is asked: a tree of tests over one row.

A comparison needs a value: where a row has none, every comparison is false, `!=` too; `not` turns that round. Of
several values (the topics of a message) one is enough for a comparison, and none may be equal for `!=`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from kwire.capture.where.fields import Field, Row, Values
    from kwire.capture.where.operands import Operand

ALL, ANY = "and", "or"


class Comparison(NamedTuple):
    """One field against what stands behind its operator; `is_negative` for `!=`, `!~` and `not in`.

    `asked` is the operator with its value, where it compares with one.
    """

    field: Field
    values: Values
    holds: Callable[[object], bool]
    is_negative: bool = False
    asked: tuple[str, Operand] | None = None

    def of(self, row: Row) -> bool:
        """Whether it holds for the row."""
        values = self.values(row)
        return bool(values) and any(map(self.holds, values)) != self.is_negative


class Presence(NamedTuple):
    """Whether a field has a value: `= null` and `!= null`."""

    field: Field
    is_present: bool

    def of(self, row: Row) -> bool:
        """Whether it holds for the row."""
        return bool(self.field.texts(row) or self.field.numbers(row)) == self.is_present


class Truth(NamedTuple):
    """A field that stands alone: it has a value, and one that is neither false, 0 nor empty."""

    field: Field

    def of(self, row: Row) -> bool:
        """Whether it holds for the row."""
        return any(self.field.numbers(row) or self.field.texts(row))


class Negation(NamedTuple):
    """`not`."""

    inner: Condition

    def of(self, row: Row) -> bool:
        """Whether it holds for the row."""
        return not self.inner.of(row)


class Several(NamedTuple):
    """`and` and `or` over any number of conditions."""

    word: str
    parts: tuple[Condition, ...]

    def of(self, row: Row) -> bool:
        """Whether it holds for the row."""
        results = (part.of(row) for part in self.parts)
        return all(results) if self.word == ALL else any(results)


Condition = Comparison | Presence | Truth | Negation | Several


def fields_of(condition: Condition) -> Iterator[Field]:
    """Every field that the condition reads."""
    match condition:
        case Negation(inner):
            yield from fields_of(inner)
        case Several(_, parts):
            for part in parts:
                yield from fields_of(part)
        case _:
            yield condition.field
