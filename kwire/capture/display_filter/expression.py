"""Filter expressions: a tree of tests that are evaluated on one row.

A comparison needs a value: if a row has none, every comparison is false, also `!=`; `not` negates that. If a field has
several values (the topics of a message), a comparison holds if it holds for one of them, and `!=` if none is equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from kwire.capture.display_filter.fields import FilterField, Row, Values
    from kwire.capture.display_filter.operands import Operand

ALL, ANY = "and", "or"


class Comparison(NamedTuple):
    """Compares a field with an operand; `is_negative` for `!=`, `!~` and `not in`.

    `operand` is the operator with its value, for comparisons with one value.
    """

    field: FilterField
    values: Values
    holds: Callable[[object], bool]
    is_negative: bool = False
    operand: tuple[str, Operand] | None = None

    def matches(self, row: Row) -> bool:
        """Whether the expression is true for the row."""
        values = self.values(row)
        return bool(values) and any(map(self.holds, values)) != self.is_negative


class Presence(NamedTuple):
    """Tests whether a field has a value: `!= null` and `= null`."""

    field: FilterField
    is_present: bool

    def matches(self, row: Row) -> bool:
        """Whether the expression is true for the row."""
        return bool(self.field.texts(row) or self.field.numbers(row)) == self.is_present


class Truthiness(NamedTuple):
    """A field without an operator: true if it has a value that is not false, 0 or empty."""

    field: FilterField

    def matches(self, row: Row) -> bool:
        """Whether the expression is true for the row."""
        return any(self.field.numbers(row) or self.field.texts(row))


class Negation(NamedTuple):
    """The operator `not`."""

    inner: FilterExpression

    def matches(self, row: Row) -> bool:
        """Whether the expression is true for the row."""
        return not self.inner.matches(row)


class BooleanOperation(NamedTuple):
    """The operators `and` and `or`, with any number of operands."""

    operator: str
    parts: tuple[FilterExpression, ...]

    def matches(self, row: Row) -> bool:
        """Whether the expression is true for the row."""
        results = (part.matches(row) for part in self.parts)
        return all(results) if self.operator == ALL else any(results)


FilterExpression = Comparison | Presence | Truthiness | Negation | BooleanOperation


def expression_fields(expression: FilterExpression) -> Iterator[FilterField]:
    """The fields that the expression reads."""
    match expression:
        case Negation(inner):
            yield from expression_fields(inner)
        case BooleanOperation(_, parts):
            for part in parts:
                yield from expression_fields(part)
        case _:
            yield expression.field
