"""Filters have the same meaning in Arrow as in SQL: unknown drops a row, negated or not; others are left to Spark."""

from __future__ import annotations

import operator
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import datasource
from pyspark.sql.datasource import Filter

from kwire.spark.source import pushdown

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
VALUES: dict[str, list[object]] = {
    "number": [1, None, 2, 3],
    "text": ["alpha", "beta", None, ""],
    "fact": [True, False, None, True],
    "moment": [NOON, None, NOON + timedelta(microseconds=1), NOON - timedelta(days=1)],
}
SCHEMA = pa.schema(
    [
        ("number", pa.int16()),
        ("text", pa.string()),
        ("fact", pa.bool_()),
        ("moment", pa.timestamp("us", tz="UTC")),
        ("list", pa.list_(pa.int32())),
    ]
)
BATCH = pa.RecordBatch.from_pydict({**VALUES, "list": [None] * 4}, schema=SCHEMA)

ORDERED: dict[type[Filter], Callable[[Any, Any], bool]] = {
    datasource.EqualTo: operator.eq,
    datasource.GreaterThan: operator.gt,
    datasource.GreaterThanOrEqual: operator.ge,
    datasource.LessThan: operator.lt,
    datasource.LessThanOrEqual: operator.le,
}
TEXTUAL: dict[type[Filter], Callable[[Any, Any], bool]] = {
    datasource.StringStartsWith: str.startswith,
    datasource.StringEndsWith: str.endswith,
    datasource.StringContains: operator.contains,
}


def in_sql(spark_filter: Filter, value: object) -> bool | None:
    """The result of SQL for one value: true, false or unknown."""
    if isinstance(spark_filter, datasource.Not):
        inner = in_sql(spark_filter.child, value)
        return None if inner is None else not inner
    if isinstance(spark_filter, datasource.IsNull):
        return value is None
    if isinstance(spark_filter, datasource.IsNotNull):
        return value is not None
    if isinstance(spark_filter, datasource.EqualNullSafe):
        return bool(value == spark_filter.value)
    if value is None:
        return None
    if isinstance(spark_filter, datasource.In):
        return value in spark_filter.value
    return {**ORDERED, **TEXTUAL}[type(spark_filter)](value, spark_filter.value)  # type: ignore[attr-defined]


def conditions() -> list[Filter]:
    found: list[Filter] = []
    for column, values in VALUES.items():
        for value in values:
            found.append(datasource.EqualNullSafe((column,), value))
            if value is not None:
                found += [kind((column,), value) for kind in ORDERED]  # type: ignore[call-arg]
        found += [datasource.IsNull((column,)), datasource.IsNotNull((column,))]
        found.append(datasource.In((column,), tuple(value for value in values[:2] if value is not None)))
    found += [kind(("text",), part) for part in ("a", "", "ta", "alpha") for kind in TEXTUAL]  # type: ignore[call-arg]
    return found + [datasource.Not(each) for each in found]


@pytest.mark.parametrize("spark_filter", conditions(), ids=str)
def test_a_filter_selects_the_rows_that_are_true_in_sql(spark_filter: Filter) -> None:
    column = pushdown.filter_column(spark_filter)
    assert column is not None

    condition = pushdown.arrow_expression(spark_filter, SCHEMA)

    assert condition is not None
    kept = BATCH.filter(condition).column(column).to_pylist()
    assert kept == [value for value in VALUES[column] if in_sql(spark_filter, value) is True]


@pytest.mark.parametrize(
    "spark_filter",
    [
        datasource.EqualTo(("number",), 1.5),
        datasource.EqualTo(("number",), True),
        datasource.EqualTo(("number",), 70_000),
        datasource.EqualTo(("text",), 1),
        datasource.EqualTo(("moment",), datetime(2026, 1, 1)),
        datasource.EqualTo(("list",), [1]),
        datasource.EqualTo(("list", "element"), 1),
        datasource.EqualTo(("nothing",), 1),
        datasource.In(("number",), (1, None)),
        datasource.In(("number",), ()),
        datasource.Not(datasource.In(("number",), (1, None))),
        datasource.StringContains(("number",), "1"),
        datasource.StringContains(("text",), 1),  # type: ignore[arg-type]
    ],
    ids=str,
)
def test_comparisons_that_need_conversion_are_left_to_spark(spark_filter: Filter) -> None:
    assert pushdown.arrow_expression(spark_filter, SCHEMA) is None
