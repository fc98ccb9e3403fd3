"""Arrays of responses that faults change: rows that are left out, rows that are there twice, and empty arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any, cast

import msgspec

from kwire.schema import load_schema
from mockbroker.faults.fault_error import FaultError, suggest

if TYPE_CHECKING:
    from kwire.schema import FieldSpec
    from mockbroker.faults.api_fields import ApiFields
    from mockbroker.faults.model import Then
    from mockbroker.faults.responses.error_rows import RowCondition

#: What each action does with one row of its arrays: how often it is there.
_ROW_COUNTS = {"omit_rows": 0, "double_rows": 2}


@cache
def response_specs(api: str) -> dict[str, FieldSpec]:
    """The fields of the response of an API of the default edition by their paths, structs included."""
    return dict(_specs(load_schema(f"{api}Response").fields, ""))


def _specs(fields: tuple[FieldSpec, ...], prefix: str) -> Iterator[tuple[str, FieldSpec]]:
    for field in fields:
        yield f"{prefix}{field.snake_name}", field
        if field.struct is not None:
            yield from _specs(field.fields, f"{prefix}{field.snake_name}.")


def check_arrays(then: Then, fields: ApiFields) -> None:
    """Check the paths of the arrays that a fault changes. Raises: FaultError for one that the API's response lacks."""
    specs = {path: spec for path, spec in response_specs(fields.name).items() if spec.is_array}
    for action in (*_ROW_COUNTS, "empty_arrays"):
        known = [path for path, spec in specs.items() if action == "empty_arrays" or spec.struct is not None]
        for path in getattr(then, action):
            if path not in known:
                what = f"a {fields.name} response has no {'array' if action == 'empty_arrays' else 'rows at'} {path!r}"
                raise FaultError(f"{action}: {what}; {suggest(path, known) if known else 'it has none'}")


def change_arrays(response: msgspec.Struct, then: Then, condition: RowCondition) -> bool:
    """Change the arrays of a response that a fault names. Returns: whether anything is another."""
    is_changed = False
    for action, count in _ROW_COUNTS.items():
        for path in getattr(then, action):

            def repeat(rows: list[Any], count: int = count) -> list[Any]:
                return [row for row in rows for _ in range(count if condition.includes_row(row) else 1)]

            is_changed |= _change_array(response, path.split("."), condition, repeat)
    for path in then.empty_arrays:
        is_changed |= _change_array(response, path.split("."), condition, lambda rows: type(rows)())
    return is_changed


def only_changes_arrays(then: Then) -> bool:
    """Whether a fault changes arrays, and does nothing else."""
    others = msgspec.structs.replace(then, omit_rows=(), double_rows=(), empty_arrays=(), after=False)
    return others == type(then)() and then != msgspec.structs.replace(others, after=then.after)


def _change_array(
    value: object, path: list[str], condition: RowCondition, change: Callable[[Any], list[Any] | tuple[Any, ...]]
) -> bool:
    """Change an array of a message, in each row on its path that is included; null stays."""
    name, *rest = path
    inner = getattr(value, name)
    if inner is None:
        return False
    if not rest:
        changed = change(inner)
        setattr(cast(Any, value), name, changed)
        return len(changed) != len(inner)
    rows = inner if isinstance(inner, list) else [inner]
    changes = [_change_array(row, rest, condition, change) for row in rows if condition.includes_row(row)]
    return any(changes)
