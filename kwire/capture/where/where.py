"""A filter, ready to be asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.capture.where.condition import ALL, Several, fields_of
from kwire.capture.where.possible import outcomes
from kwire.capture.where.syntax import parse

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from kwire.capture.where.condition import Condition
    from kwire.capture.where.fields import Row
    from kwire.capture.where.possible import Known


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

    def may_pass(self, known: Known) -> bool:
        """Whether a row of which just this is known may be wanted."""
        return True in outcomes(self._condition, known)

    def necessary(self, known: Collection[str]) -> Callable[[Row], bool] | None:
        """A test for rows of which only these columns are known yet: what fails it, fails the whole.

        None where these columns decide nothing.
        """
        decided = tuple(part for part in self._parts if _columns(part) <= set(known))
        return Several(ALL, decided).of if decided else None

    def parts(self) -> Iterator[tuple[int, frozenset[str]]]:
        """The parts that must all hold: the number of each, and the columns that it reads."""
        for number, part in enumerate(self._parts):
            yield number, _columns(part)

    def part_passes(self, number: int, row: Row) -> bool:
        """Whether a row passes one of the parts that must all hold."""
        return self._parts[number].of(row)

    @property
    def _parts(self) -> tuple[Condition, ...]:
        condition = self._condition
        return condition.parts if isinstance(condition, Several) and condition.word == ALL else (condition,)


def _columns(condition: Condition) -> frozenset[str]:
    return frozenset(name for field in fields_of(condition) for name in field.columns)
