"""Whether a condition may hold of a row of which little is known yet: some columns, and when it was at the earliest.

It answers with all the truth that is possible; so what cannot pass is left out before it is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from kwire.capture.where.condition import ALL, Comparison, Negation, Several
from kwire.capture.where.operands import TimeOfDay

if TYPE_CHECKING:
    from kwire.capture.where.condition import Condition
    from kwire.capture.where.operands import Operand

TIMES = frozenset({"req_ts", "req_end_ts", "resp_ts", "resp_end_ts", "ts", "first_ts", "last_ts"})
"""The columns that say when something was captured; any of them may be null."""

_EITHER = frozenset({True, False})
_DAY_NS = 86_400 * 10**9
_MICROSECOND = 1_000


class Known(NamedTuple):
    """Of a row: the values of some columns, and between which times (nanoseconds) all its times are."""

    columns: Mapping[str, object]
    earliest: int
    latest: int


def outcomes(condition: Condition, known: Known) -> frozenset[bool]:
    """What the condition may say of such a row."""
    match condition:
        case Negation(inner):
            return frozenset(not each for each in outcomes(inner, known))
        case Several(word, parts):
            each = [outcomes(part, known) for part in parts]
            # One that must decide it does: false for `and`, true for `or`.
            decides = word != ALL
            found = {decides} if any(decides in part for part in each) else set()
            if all((not decides) in part for part in each):
                found.add(not decides)
            return frozenset(found)
        case _:
            pass
    columns = set(condition.field.columns)
    if columns <= known.columns.keys():
        return frozenset({condition.of(known.columns)})
    if isinstance(condition, Comparison) and columns <= TIMES and condition.asked is not None:
        sign, wanted = condition.asked
        # A row may have no time, and then it is false.
        return _EITHER if _may_hold(sign, wanted, known) else frozenset({False})
    return _EITHER


def _may_hold(sign: str, wanted: Operand, known: Known) -> bool:
    # Times of rows may have been cut to microseconds.
    first, last = known.earliest // _MICROSECOND * _MICROSECOND, known.latest
    if isinstance(wanted, str):
        return True
    if isinstance(wanted, TimeOfDay):
        if first // _DAY_NS != last // _DAY_NS:
            return True
        first, last, wanted = first % _DAY_NS, last % _DAY_NS, wanted.ns
    return {
        "<": first < wanted,
        "<=": first <= wanted,
        ">": last > wanted,
        ">=": last >= wanted,
        "=": first <= wanted <= last,
        "!=": not first == wanted == last,
    }[sign]
