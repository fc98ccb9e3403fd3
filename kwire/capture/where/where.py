"""A filter, ready to be asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.capture.where.condition import fields_of
from kwire.capture.where.syntax import parse

if TYPE_CHECKING:
    from kwire.capture.where.fields import Row


class Where:
    """The condition of a text over the rows of a level. `columns` are those that it reads."""

    def __init__(self, text: str, level: str = "messages") -> None:
        """Read the text.

        Raises: FilterError when it states no condition; ValueError for an unknown level.
        """
        self.level = level
        self._condition = parse(text, level)
        self.columns = frozenset(name for field in fields_of(self._condition) for name in field.columns)

    def passes(self, row: Row) -> bool:
        """Whether the row is wanted."""
        return self._condition.of(row)
