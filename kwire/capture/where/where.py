"""A filter, ready to be asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.capture.where.condition import ALL, Several, fields_of
from kwire.capture.where.syntax import parse

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from kwire.capture.where.condition import Condition
    from kwire.capture.where.fields import Row


class Where:
    """The condition of a text over the rows of a level. `columns` are those that it reads."""

    def __init__(self, text: str, level: str = "messages") -> None:
        """Read the text.

        Raises: FilterError when it states no condition; ValueError for an unknown level.
        """
        self.level = level
        self._condition = parse(text, level)
        self.columns = _columns(self._condition)

    def passes(self, row: Row) -> bool:
        """Whether the row is wanted."""
        return self._condition.of(row)

    def necessary(self, known: Collection[str]) -> Callable[[Row], bool] | None:
        """A test for rows of which only these columns are known yet: what fails it, fails the whole.

        None where these columns decide nothing.
        """
        condition = self._condition
        parts = condition.parts if isinstance(condition, Several) and condition.word == ALL else (condition,)
        decided = tuple(part for part in parts if _columns(part) <= set(known))
        return Several(ALL, decided).of if decided else None


def _columns(condition: Condition) -> frozenset[str]:
    return frozenset(name for field in fields_of(condition) for name in field.columns)
