"""Filters that the reader applies itself, so that the rows they drop are never sent to the JVM."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

COMPARISONS: dict[type[Filter], Callable[[pc.Expression, object], pc.Expression]] = {
    EqualTo: lambda field, value: field == value,
    GreaterThan: lambda field, value: field > value,
    GreaterThanOrEqual: lambda field, value: field >= value,
    LessThan: lambda field, value: field < value,
    LessThanOrEqual: lambda field, value: field <= value,
    In: lambda field, value: field.isin(list(value)),  # type: ignore[call-overload]
}


def expression(wanted: Filter, schema: pa.Schema) -> pc.Expression | None:
    """The same condition for Arrow, or None where Spark has to apply it itself.

    Only whole columns of integers and strings are compared here: for those SQL and Arrow agree, a null drops the row in
    both, and no time zone or collation comes between.
    """
    # `attribute` is the path to a column: one name, unless it leads into a struct.
    path: tuple[str, ...] = getattr(wanted, "attribute", ())
    if len(path) != 1 or path[0] not in schema.names:
        return None
    column = pc.field(path[0])
    if isinstance(wanted, IsNotNull):
        return column.is_valid()
    build, value = COMPARISONS.get(type(wanted)), getattr(wanted, "value", None)
    expected = _python_type(schema.field(path[0]).type)
    if build is None or expected is None:
        return None
    values = wanted.value if isinstance(wanted, In) else (value,)
    if not all(type(each) is expected for each in values):
        return None
    return build(column, value)


def _python_type(kind: pa.DataType) -> type | None:
    if pa.types.is_integer(kind):
        return int
    return str if pa.types.is_string(kind) else None
