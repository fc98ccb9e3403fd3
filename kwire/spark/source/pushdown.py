"""Predicate pushdown: filters of Spark as Arrow expressions, so that dropped rows are never built or sent to the JVM.

A condition must mean the same in Arrow as in SQL: a comparison with a null is unknown, and an unknown row is
dropped, also where the condition is negated.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import datasource

from kwire.capture.display_filter.exchange_filter import COLUMNS as HEAD_COLUMNS
from kwire.capture.options import ExchangeCondition

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

#: Whether Spark offers filters to a source: from 4.1 on.
HAS_FILTERS = hasattr(datasource, "Filter")

# The test of a condition on headers, and the Arrow expression. Unknown stays unknown in all of these: Arrow gives null
# where the column is null, and null again when that is negated.
_COMPARISONS: dict[type[Filter], tuple[str, Callable[[pc.Expression, Any], pc.Expression]]] = (
    {
        datasource.EqualTo: ("=", operator.eq),
        datasource.GreaterThan: (">", operator.gt),
        datasource.GreaterThanOrEqual: (">=", operator.ge),
        datasource.LessThan: ("<", operator.lt),
        datasource.LessThanOrEqual: ("<=", operator.le),
        datasource.StringStartsWith: ("starts", pc.starts_with),
        datasource.StringEndsWith: ("ends", pc.ends_with),
        datasource.StringContains: ("contains", pc.match_substring),
    }
    if HAS_FILTERS
    else {}
)
# The time of a row, by the name it has in the headers of an exchange.
_HEADER_COLUMNS = {("share_acquired", "ts"): "resp_ts", ("share_acks", "ts"): "req_ts"}
_TEXT_TESTS = ("starts", "ends", "contains")


def arrow_expression(spark_filter: Filter, schema: pa.Schema) -> pc.Expression | None:
    """The filter as an Arrow expression, or None where Spark has to apply it itself.

    Only whole columns of integers, strings, booleans and times are compared here: for those SQL and Arrow agree.
    """
    if isinstance(spark_filter, datasource.Not):
        return _arrow_negation(spark_filter.child, schema)
    name = filter_column(spark_filter)
    if name is None or name not in schema.names:
        return None
    field, kind = pc.field(name), schema.field(name).type
    if isinstance(spark_filter, datasource.IsNotNull):
        return field.is_valid()
    if isinstance(spark_filter, datasource.IsNull):
        return field.is_null()
    if isinstance(spark_filter, datasource.In):
        return _arrow_membership(spark_filter, field, kind)
    if isinstance(spark_filter, datasource.EqualNullSafe):
        return _arrow_null_safe_equality(spark_filter, field, kind)
    return _arrow_comparison(spark_filter, field, kind)


def filter_column(spark_filter: Filter) -> str | None:
    """The column of a filter; None when it reads a field of a struct, or several columns."""
    if isinstance(spark_filter, datasource.Not):
        return filter_column(spark_filter.child)
    path: tuple[str, ...] = getattr(spark_filter, "attribute", ())
    return path[0] if len(path) == 1 else None


def exchange_condition(spark_filter: Filter, level: str) -> ExchangeCondition | None:
    """The filter as a condition on the headers of exchanges, or None where these do not decide it.

    It must be one that `arrow_expression` supports.
    """
    header_condition = value_condition(spark_filter)
    if header_condition is None:
        return None
    column = _HEADER_COLUMNS.get((level, header_condition.column), header_condition.column)
    return replace(header_condition, column=column) if column in HEAD_COLUMNS else None


def value_condition(spark_filter: Filter) -> ExchangeCondition | None:
    """The filter as a condition on single values; times are microseconds. See `exchange_condition`."""
    if isinstance(spark_filter, datasource.Not):
        inner = value_condition(spark_filter.child)
        return None if inner is None else replace(inner, is_negated=not inner.is_negated)
    name = filter_column(spark_filter)
    if name is None:
        return None
    if isinstance(spark_filter, datasource.IsNull | datasource.IsNotNull):
        return ExchangeCondition(name, "null", is_negated=isinstance(spark_filter, datasource.IsNotNull))
    value = getattr(spark_filter, "value", None)
    if isinstance(spark_filter, datasource.In):
        return ExchangeCondition(name, "in", tuple(map(_micros, spark_filter.value)))
    comparison = _COMPARISONS.get(type(spark_filter))
    return None if comparison is None else ExchangeCondition(name, comparison[0], _micros(value))


def _micros(value: object) -> object:
    return (value - _EPOCH) // timedelta(microseconds=1) if isinstance(value, datetime) else value


def _arrow_negation(child: Filter, schema: pa.Schema) -> pc.Expression | None:
    inner = arrow_expression(child, schema)
    return None if inner is None else ~inner


def _arrow_null_safe_equality(
    spark_filter: datasource.EqualNullSafe, field: pc.Expression, kind: pa.DataType
) -> pc.Expression | None:
    if spark_filter.value is None:
        return field.is_null()
    value = _arrow_scalar(spark_filter.value, kind)
    # Never unknown: a null is not equal.
    return None if value is None else pc.coalesce(field == value, pc.scalar(False))


def _arrow_comparison(spark_filter: Filter, field: pc.Expression, kind: pa.DataType) -> pc.Expression | None:
    test, build = _COMPARISONS.get(type(spark_filter), (None, None))
    raw_value = getattr(spark_filter, "value", None)
    value = _arrow_scalar(raw_value, kind)
    if build is None or value is None:
        return None
    if test in _TEXT_TESTS:
        return build(field, raw_value) if isinstance(raw_value, str) and pa.types.is_string(kind) else None
    return build(field, value)


def _arrow_membership(spark_filter: datasource.In, field: pc.Expression, kind: pa.DataType) -> pc.Expression | None:
    values = [_arrow_scalar(item, kind) for item in spark_filter.value]
    if not values or None in values:
        return None
    # `is_in` is false for a null, where SQL's result is unknown.
    is_member = field.isin(pa.array([item.as_py() for item in values if item is not None], kind))
    return pc.if_else(field.is_valid(), is_member, pc.scalar(None).cast(pa.bool_()))


def _arrow_scalar(value: object, column_type: pa.DataType) -> pa.Scalar | None:
    """The value in the type of the column; None where SQL would have to convert one of the two."""
    fits = (
        (type(value) is int and pa.types.is_integer(column_type))
        or (type(value) is str and pa.types.is_string(column_type))
        or (type(value) is bool and pa.types.is_boolean(column_type))
    )
    if type(value) is datetime and value.tzinfo is not None and pa.types.is_timestamp(column_type):
        value, fits = value.astimezone(UTC), True
    if not fits:
        return None
    try:
        return pa.scalar(value, column_type)
    except (pa.ArrowInvalid, OverflowError):
        return None
