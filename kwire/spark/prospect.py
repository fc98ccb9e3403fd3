"""What a query cannot want, told before it is read: files and connections by their times and addresses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import Filter, IsNotNull, IsNull, Not

from kwire.capture.rows import conn_id
from kwire.capture.talks import address
from kwire.capture.values import Flow
from kwire.capture.where.possible import TIMES, Known
from kwire.capture.where.where import Where
from kwire.spark import pushdown

if TYPE_CHECKING:
    from kwire.capture.index import FlowKey
    from kwire.spark.times import Span

_OF_ENDS = ("conn_id", "client_ip", "client_port", "broker_ip", "broker_port")
# For every row that may come of a connection nobody has looked at.
_NOTHING: Mapping[str, object] = {}


@dataclass(frozen=True)
class Prospect:
    """The conditions of a query: the option `filter`, and filters of Spark. All of them must hold."""

    where: Where | None
    filters: tuple[Filter, ...] = ()

    @property
    def asks(self) -> bool:
        """Whether there is any condition."""
        return self.where is not None or bool(self.filters)

    @property
    def asks_times(self) -> bool:
        """Whether a time decides anything."""
        looked_at = {pushdown.column_of(each) for each in self.filters}
        return not TIMES.isdisjoint(looked_at | (self.where.columns if self.where else frozenset()))

    def may_be_in(self, span: Span) -> bool:
        """Whether a row of these times may be wanted."""
        return self._may_pass(Known(_NOTHING, *span))

    def may_be_of(self, key: FlowKey, span: Span) -> bool:
        """Whether a row of a connection may be wanted, whichever of its ends is the client."""
        return any(self._may_pass(Known(columns, *span)) for columns in _columns_of(key))

    def _may_pass(self, known: Known) -> bool:
        if self.where is not None and not self.where.may_pass(known):
            return False
        return all(_may_hold(each, known) for each in self.filters)


def _columns_of(key: FlowKey) -> Iterator[Mapping[str, object]]:
    for side in (0, 1):
        (client_ip, client_port), (broker_ip, broker_port) = key[side], key[1 - side]
        names = conn_id(Flow(key, 0, "", side)), address(client_ip), client_port, address(broker_ip), broker_port
        yield dict(zip(_OF_ENDS, names, strict=True))
    # A row may not say whose it is.
    yield dict.fromkeys(_OF_ENDS)


def _may_hold(wanted: Filter, known: Known) -> bool:
    """Whether SQL may call it true; it must be one that `pushdown.expression` takes."""
    is_negated, inner = False, wanted
    while isinstance(inner, Not):
        is_negated, inner = not is_negated, inner.child
    name = pushdown.column_of(inner)
    if name is not None and name in known.columns:
        condition = pushdown.condition(wanted)
        return condition is None or condition.holds(known.columns[name])
    if name not in TIMES or isinstance(inner, IsNull | IsNotNull) or is_negated:
        return True
    condition = pushdown.condition(inner)
    if condition is None:
        return True
    first, last = known.earliest // 1_000, known.latest // 1_000
    if condition.test in {"=", "in"}:
        values = condition.value if condition.test == "in" else (condition.value,)
        return any(first <= value <= last for value in values)
    # What is ordered holds somewhere between two times if it does at one of them.
    return condition.holds(first) or condition.holds(last)
