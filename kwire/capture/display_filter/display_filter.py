"""The interface of display filters: parse a text, and match rows, partial rows or parts of the filter."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.capture.display_filter.expression import ALL, BooleanOperation, expression_fields
from kwire.capture.display_filter.parser import parse_filter
from kwire.capture.display_filter.partial_evaluation import possible_results

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from kwire.capture.display_filter.expression import FilterExpression
    from kwire.capture.display_filter.fields import Row
    from kwire.capture.display_filter.partial_evaluation import PartialRow


class DisplayFilter:
    """A display filter for the rows of a level. `columns` are the columns that it reads."""

    def __init__(self, text: str, level: str = "messages") -> None:
        """Parse the text.

        Raises: FilterError for invalid syntax; ValueError for an unknown level.
        """
        self.level = level
        self._expression = parse_filter(text, level)
        self.columns = _columns(self._expression)

    def matches(self, row: Row) -> bool:
        """Whether the filter is true for the row."""
        return self._expression.matches(row)

    def may_match(self, partial_row: PartialRow) -> bool:
        """Whether the filter may be true for a row that is known only in part."""
        return True in possible_results(self._expression, partial_row)

    def test_for_columns(self, columns: Collection[str]) -> Callable[[Row], bool] | None:
        """A test of rows with only these columns: a row that fails it does not match the filter.

        None if no part of the filter can be evaluated with these columns.
        """
        decided_parts = tuple(part for part in self._parts if _columns(part) <= set(columns))
        return BooleanOperation(ALL, decided_parts).matches if decided_parts else None

    def parts(self) -> Iterator[tuple[int, frozenset[str]]]:
        """Number and columns of each part; a row matches the filter if it matches all parts."""
        for number, part in enumerate(self._parts):
            yield number, _columns(part)

    def part_matches(self, number: int, row: Row) -> bool:
        """Whether a row matches one part."""
        return self._parts[number].matches(row)

    @property
    def _parts(self) -> tuple[FilterExpression, ...]:
        expression = self._expression
        if isinstance(expression, BooleanOperation) and expression.operator == ALL:
            return expression.parts
        return (expression,)


def _columns(expression: FilterExpression) -> frozenset[str]:
    return frozenset(name for field in expression_fields(expression) for name in field.columns)
