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
    if isinstance(wanted, IsNotNull) and len(wanted.attribute) == 1 and wanted.attribute[0] in schema.names:
        return pc.field(wanted.attribute[0]).is_valid()
    build = COMPARISONS.get(type(wanted))
    attribute, value = getattr(wanted, "attribute", ()), getattr(wanted, "value", None)
    if build is None or value is None or len(attribute) != 1 or attribute[0] not in schema.names:
        return None
    kind = schema.field(attribute[0]).type
    if not (pa.types.is_integer(kind) or pa.types.is_string(kind)):
        return None
    expected = int if pa.types.is_integer(kind) else str
    if not all(type(each) is expected for each in (value if isinstance(wanted, In) else (value,))):
        return None
    return build(pc.field(attribute[0]), value)
