"""Filters in Arrow mean what they mean in SQL: unknown drops a row, negated or not; the rest is left to Spark."""

from __future__ import annotations

import operator
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from kwire.spark import pushdown

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
    EqualTo: operator.eq,
    GreaterThan: operator.gt,
    GreaterThanOrEqual: operator.ge,
    LessThan: operator.lt,
    LessThanOrEqual: operator.le,
    StringStartsWith: str.startswith,
    StringEndsWith: str.endswith,
    StringContains: operator.contains,
}


def in_sql(wanted: Filter, value: object) -> bool | None:
    """What SQL says of one value: true, false or unknown."""
    if isinstance(wanted, Not):
        inner = in_sql(wanted.child, value)
        return None if inner is None else not inner
    if isinstance(wanted, IsNull):
        return value is None
    if isinstance(wanted, IsNotNull):
        return value is not None
    if isinstance(wanted, EqualNullSafe):
        return bool(value == wanted.value)
    if value is None:
        return None
    if isinstance(wanted, In):
        return value in wanted.value
    return ORDERED[type(wanted)](value, wanted.value)  # type: ignore[attr-defined]


def conditions() -> list[Filter]:
    found: list[Filter] = []
    for column, values in VALUES.items():
        for value in values:
            found.append(EqualNullSafe((column,), value))
            if value is not None:
                found += [kind((column,), value) for kind in (EqualTo, GreaterThan, LessThanOrEqual)]
                found += [kind((column,), value) for kind in (LessThan, GreaterThanOrEqual)]
        found += [IsNull((column,)), IsNotNull((column,))]
        found.append(In((column,), tuple(value for value in values[:2] if value is not None)))
    for part in ("a", "", "ta", "alpha"):
        found += [StringStartsWith(("text",), part), StringEndsWith(("text",), part), StringContains(("text",), part)]
    return found + [Not(each) for each in found]


@pytest.mark.parametrize("wanted", conditions(), ids=str)
def test_a_filter_keeps_the_rows_for_which_sql_says_true(wanted: Filter) -> None:
    column = pushdown.column_of(wanted)
    assert column is not None

    condition = pushdown.expression(wanted, SCHEMA)

    assert condition is not None
    kept = BATCH.filter(condition).column(column).to_pylist()
    assert kept == [value for value in VALUES[column] if in_sql(wanted, value) is True]


@pytest.mark.parametrize(
    "wanted",
    [
        EqualTo(("number",), 1.5),
        EqualTo(("number",), True),
        EqualTo(("number",), 70_000),
        EqualTo(("text",), 1),
        EqualTo(("moment",), datetime(2026, 1, 1)),
        EqualTo(("list",), [1]),
        EqualTo(("list", "element"), 1),
        EqualTo(("nothing",), 1),
        In(("number",), (1, None)),
        In(("number",), ()),
        Not(In(("number",), (1, None))),
        StringContains(("number",), "1"),
        StringContains(("text",), 1),  # type: ignore[arg-type]
    ],
    ids=str,
)
def test_what_sql_would_convert_first_is_left_to_spark(wanted: Filter) -> None:
    assert pushdown.expression(wanted, SCHEMA) is None
