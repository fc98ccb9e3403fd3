"""Prune files and connections that cannot match a query, by their times and addresses, before they are read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import datasource

from kwire.capture.display_filter.display_filter import DisplayFilter
from kwire.capture.display_filter.exchange_filter import condition_holds
from kwire.capture.display_filter.partial_evaluation import TIMES, PartialRow
from kwire.capture.model import Flow, connection_id, format_address
from kwire.spark.source import pushdown

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter

    from kwire.capture.index import FlowKey
    from kwire.spark.source.capture_times import TimeSpan

_ENDPOINT_COLUMNS = ("conn_id", "client_ip", "client_port", "broker_ip", "broker_port")
# No column value is known: any row is possible.
_NO_COLUMNS: Mapping[str, object] = {}


@dataclass(frozen=True)
class PruningFilter:
    """The conditions of a query: the option `filter` and filters of Spark. All of them must hold."""

    display_filter: DisplayFilter | None
    filters: tuple[Filter, ...] = ()

    @property
    def has_conditions(self) -> bool:
        """Whether there is any condition."""
        return self.display_filter is not None or bool(self.filters)

    @property
    def has_time_conditions(self) -> bool:
        """Whether any condition is about a time."""
        columns = {pushdown.filter_column(condition) for condition in self.filters}
        if self.display_filter is not None:
            columns |= self.display_filter.columns
        return not TIMES.isdisjoint(columns)

    def may_match_span(self, span: TimeSpan) -> bool:
        """Whether a row within this time span may match."""
        return self._may_match(PartialRow(_NO_COLUMNS, *span))

    def may_match_flow(self, key: FlowKey, span: TimeSpan) -> bool:
        """Whether a row of a connection may match, with either of its endpoints as the client."""
        return any(self._may_match(PartialRow(columns, *span)) for columns in _endpoint_values(key))

    def _may_match(self, known: PartialRow) -> bool:
        if self.display_filter is not None and not self.display_filter.may_match(known):
            return False
        return all(_may_be_true(condition, known) for condition in self.filters)


def _endpoint_values(key: FlowKey) -> Iterator[Mapping[str, object]]:
    for side in (0, 1):
        (client_ip, client_port), (broker_ip, broker_port) = key[side], key[1 - side]
        client = (format_address(client_ip), client_port)
        broker = (format_address(broker_ip), broker_port)
        values = (connection_id(Flow(key, 0, "", side)), *client, *broker)
        yield dict(zip(_ENDPOINT_COLUMNS, values, strict=True))
    # A row may name no connection.
    yield dict.fromkeys(_ENDPOINT_COLUMNS)


def _may_be_true(spark_filter: Filter, known: PartialRow) -> bool:
    """Whether the filter may be true in SQL; it must be one that `pushdown.arrow_expression` supports."""
    is_negated, inner = False, spark_filter
    while isinstance(inner, datasource.Not):
        is_negated, inner = not is_negated, inner.child
    name = pushdown.filter_column(inner)
    if name is not None and name in known.columns:
        condition = pushdown.value_condition(spark_filter)
        return condition is None or condition_holds(condition, known.columns[name])
    if name not in TIMES or isinstance(inner, datasource.IsNull | datasource.IsNotNull) or is_negated:
        return True
    condition = pushdown.value_condition(inner)
    if condition is None:
        return True
    first, last = known.earliest // 1_000, known.latest // 1_000
    if condition.test in {"=", "in"}:
        values = condition.value if condition.test == "in" else (condition.value,)
        return any(first <= value <= last for value in values)
    # An ordering comparison holds somewhere between two times only if it holds at one of them.
    return condition_holds(condition, first) or condition_holds(condition, last)
