"""Filters that the reader applies itself, so that the rows they drop are never made or sent to the JVM.

The same condition for Arrow must mean what it means in SQL: a comparison with a null is unknown, and an unknown row is
dropped, also where the condition is negated.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
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

from kwire.capture.only import COLUMNS as HEAD_COLUMNS
from kwire.capture.only import Condition

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# Unknown stays unknown in all of these: Arrow gives null where the column is null, and null again when that is negated.
COMPARISONS: dict[type[Filter], Callable[[pc.Expression, Any], pc.Expression]] = {
    EqualTo: lambda field, value: field == value,
    GreaterThan: lambda field, value: field > value,
    GreaterThanOrEqual: lambda field, value: field >= value,
    LessThan: lambda field, value: field < value,
    LessThanOrEqual: lambda field, value: field <= value,
    StringStartsWith: pc.starts_with,
    StringEndsWith: pc.ends_with,
    StringContains: pc.match_substring,
}
_TESTS: dict[type[Filter], str] = {
    EqualTo: "=",
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
    LessThan: "<",
    LessThanOrEqual: "<=",
    In: "in",
    StringStartsWith: "starts",
    StringEndsWith: "ends",
    StringContains: "contains",
}
# What heads call the time of a row.
_HEADS = {("share_acquired", "ts"): "resp_ts", ("share_acks", "ts"): "req_ts"}
_OF_TEXT = (StringStartsWith, StringEndsWith, StringContains)


def expression(wanted: Filter, schema: pa.Schema) -> pc.Expression | None:
    """The same condition for Arrow, or None where Spark has to apply it itself.

    Only whole columns of integers, strings, booleans and times are compared here: for those SQL and Arrow agree.
    """
    if isinstance(wanted, Not):
        return _negated(wanted.child, schema)
    name = column_of(wanted)
    if name is None or name not in schema.names:
        return None
    field, kind = pc.field(name), schema.field(name).type
    if isinstance(wanted, IsNotNull):
        return field.is_valid()
    if isinstance(wanted, IsNull) or (isinstance(wanted, EqualNullSafe) and wanted.value is None):
        return field.is_null()
    return _compared(wanted, field, kind) if not isinstance(wanted, In) else _among(wanted, field, kind)


def column_of(wanted: Filter) -> str | None:
    """The column that a filter looks at; None when it looks into a struct, or at more than one."""
    if isinstance(wanted, Not):
        return column_of(wanted.child)
    path: tuple[str, ...] = getattr(wanted, "attribute", ())
    return path[0] if len(path) == 1 else None


def head_condition(wanted: Filter, level: str = "messages") -> Condition | None:
    """The same filter for the heads of exchanges, where these decide it. It must be one that `expression` takes."""
    found = condition(wanted)
    if found is None:
        return None
    column = _HEADS.get((level, found.column), found.column)
    return replace(found, column=column) if column in HEAD_COLUMNS else None


def condition(wanted: Filter) -> Condition | None:
    """The same filter for single values; times are microseconds. It must be one that `expression` takes."""
    if isinstance(wanted, Not):
        inner = condition(wanted.child)
        return None if inner is None else replace(inner, is_negated=not inner.is_negated)
    name = column_of(wanted)
    if name is None:
        return None
    if isinstance(wanted, IsNull | IsNotNull):
        return Condition(name, "null", is_negated=isinstance(wanted, IsNotNull))
    test, value = _TESTS.get(type(wanted)), getattr(wanted, "value", None)
    if test is None:
        return None
    return Condition(name, test, tuple(map(_micros, value)) if isinstance(value, tuple) else _micros(value))


def _micros(value: object) -> object:
    return (value - _EPOCH) // timedelta(microseconds=1) if isinstance(value, datetime) else value


def _negated(child: Filter, schema: pa.Schema) -> pc.Expression | None:
    inner = expression(child, schema)
    return None if inner is None else ~inner


def _compared(wanted: Filter, field: pc.Expression, kind: pa.DataType) -> pc.Expression | None:
    build, given = COMPARISONS.get(type(wanted)), getattr(wanted, "value", None)
    value = _scalar(given, kind)
    if value is not None and isinstance(wanted, EqualNullSafe):
        # Never unknown: a null is simply not equal.
        return pc.coalesce(field == value, pc.scalar(False))
    if build is None or value is None:
        return None
    if isinstance(wanted, _OF_TEXT):
        return build(field, given) if isinstance(given, str) and pa.types.is_string(kind) else None
    return build(field, value)


def _among(wanted: In, field: pc.Expression, kind: pa.DataType) -> pc.Expression | None:
    values = [_scalar(each, kind) for each in wanted.value]
    if not values or None in values:
        return None
    # `is_in` calls a null "not in", which SQL calls unknown.
    found = field.isin(pa.array([each.as_py() for each in values if each is not None], kind))
    return pc.if_else(field.is_valid(), found, pc.scalar(None).cast(pa.bool_()))


def _scalar(value: object, kind: pa.DataType) -> pa.Scalar | None:
    """The value in the column's own type; None where SQL would have to convert one of the two."""
    fits = (
        (type(value) is int and pa.types.is_integer(kind))
        or (type(value) is str and pa.types.is_string(kind))
        or (type(value) is bool and pa.types.is_boolean(kind))
    )
    if type(value) is datetime and value.tzinfo is not None and pa.types.is_timestamp(kind):
        value, fits = value.astimezone(UTC), True
    if not fits:
        return None
    try:
        return pa.scalar(value, kind)
    except (pa.ArrowInvalid, OverflowError):
        return None
