"""Partial evaluation of filters: the possible results for a row with some known columns and a known range of times.

Readers use it to skip data that cannot match.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from kwire.capture.display_filter.expression import ALL, BooleanOperation, Comparison, Negation
from kwire.capture.display_filter.operands import TimeOfDay

if TYPE_CHECKING:
    from kwire.capture.display_filter.expression import FilterExpression
    from kwire.capture.display_filter.operands import Operand

TIMES = frozenset({"req_ts", "req_end_ts", "resp_ts", "resp_end_ts", "ts", "first_ts", "last_ts"})
"""The columns with a time of capture; any of them may be null."""

_EITHER = frozenset({True, False})
_DAY_NS = 86_400 * 10**9
_MICROSECOND = 1_000


class PartialRow(NamedTuple):
    """The values of some columns of a row, and the range of all its times in nanoseconds."""

    columns: Mapping[str, object]
    earliest: int
    latest: int


def possible_results(expression: FilterExpression, row: PartialRow) -> frozenset[bool]:
    """The results that the expression may have for the row."""
    match expression:
        case Negation(inner):
            return frozenset(not result for result in possible_results(inner, row))
        case BooleanOperation(operator, parts):
            part_results = [possible_results(part, row) for part in parts]
            # One part with this result decides: false for `and`, true for `or`.
            deciding = operator != ALL
            results = {deciding} if any(deciding in possible for possible in part_results) else set()
            if all((not deciding) in possible for possible in part_results):
                results.add(not deciding)
            return frozenset(results)
        case _:
            pass
    columns = set(expression.field.columns)
    if columns <= row.columns.keys():
        return frozenset({expression.matches(row.columns)})
    if isinstance(expression, Comparison) and columns <= TIMES and expression.operand is not None:
        sign, operand = expression.operand
        # A row may have no time, and then the comparison is false.
        return _EITHER if _may_be_true(sign, operand, row) else frozenset({False})
    return _EITHER


def _may_be_true(sign: str, operand: Operand, row: PartialRow) -> bool:
    # Times of rows may be rounded down to microseconds.
    first, last = row.earliest // _MICROSECOND * _MICROSECOND, row.latest
    if isinstance(operand, str):
        return True
    if isinstance(operand, TimeOfDay):
        if first // _DAY_NS != last // _DAY_NS:
            return True
        first, last, operand = first % _DAY_NS, last % _DAY_NS, operand.ns
    return {
        "<": first < operand,
        "<=": first <= operand,
        ">": last > operand,
        ">=": last >= operand,
        "=": first <= operand <= last,
        "!=": not first == operand == last,
    }[sign]
