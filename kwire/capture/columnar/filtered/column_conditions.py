"""Evaluate conditions on columns of messages: once for each combination of values that occurs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from kwire.capture.columnar import body_columns
from kwire.capture.columnar.formats.exchange_rows import TIME_COLUMNS
from kwire.capture.columnar.header_columns import NO_TIME
from kwire.capture.rows.column import Phase
from kwire.capture.rows.columns import message_columns

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kwire.capture.columnar.decoded_part import DecodedPart
    from kwire.capture.columnar.formats.exchange_rows import ExchangeRows
    from kwire.capture.index.arrays import Bools, Ints
    from kwire.capture.model import Row

_RESPONSE_COLUMNS = message_columns(Phase.RESPONSE_BODY)


class ColumnCondition(NamedTuple):
    """A condition on rows of messages, and which of `columnar.COLUMNS` it reads; times are in nanoseconds."""

    columns: frozenset[str]
    holds: Callable[[Row], bool]


def evaluate_conditions(conditions: Sequence[ColumnCondition], part: DecodedPart, file: str) -> Bools:
    """Which exchanges of a part may match all conditions. Args: file: the value of the column of that name."""
    is_wanted = np.ones(len(part.exchanges), dtype=np.bool_)
    for condition in conditions:
        candidates = part.plain[is_wanted[part.plain] & _is_decidable(condition, part)]
        is_wanted[candidates] = _evaluate(condition, part.rows(candidates), file)
    return is_wanted


def _is_decidable(condition: ColumnCondition, part: DecodedPart) -> Bools:
    """For which of the plain exchanges all columns that a condition reads are known."""
    needed = condition.columns & body_columns.COLUMNS
    if not needed:
        return np.ones(len(part.plain), dtype=np.bool_)
    # A missing response is known.
    is_missing = (part.exchanges.response.frame.size < 0) & (needed <= _RESPONSE_COLUMNS)
    return (part.is_good | is_missing)[part.plain]


def _evaluate(condition: ColumnCondition, rows: ExchangeRows, file: str) -> Bools:
    names = sorted(condition.columns)
    code = np.zeros(len(rows.exchanges), dtype=np.int64)
    encoded_columns: list[tuple[Ints, list[object]]] = []
    for name in names:
        codes, values = _encode_column(name, rows, file)
        encoded_columns.append((codes, values))
        # No more codes than exchanges, so the product stays small.
        code = np.unique(code * max(len(values), 1) + codes, return_inverse=True)[1].astype(np.int64)
    _, first, inverse = np.unique(code, return_index=True, return_inverse=True)
    chosen = [[values[code_number] for code_number in codes[first].tolist()] for codes, values in encoded_columns]
    rows_of = (dict(zip(names, row, strict=True)) for row in zip(*chosen, strict=True))
    results = np.array([condition.holds(row) for row in rows_of], dtype=np.bool_)
    return results[inverse] if len(results) else np.zeros(0, dtype=np.bool_)


def _encode_column(name: str, rows: ExchangeRows, file: str) -> tuple[Ints, list[object]]:
    """A column as codes, and the value of each code."""
    if name in TIME_COLUMNS:
        known_times, codes = np.unique(rows.times(name), return_inverse=True)
        return codes.astype(np.int64), [None if ts == NO_TIME else ts for ts in known_times.tolist()]
    if name == "file":
        return np.zeros(len(rows.exchanges), dtype=np.int64), [file]
    column = rows.build_column(name)
    if pa.types.is_nested(column.type):
        # Valid exchanges have no issues.
        return np.zeros(len(rows.exchanges), dtype=np.int64), [[]]
    encoded = column.dictionary_encode(null_encoding="encode")
    return encoded.indices.to_numpy().astype(np.int64), encoded.dictionary.to_pylist()
