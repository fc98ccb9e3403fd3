"""Types of the arrays of an index, and operations on columns and on groups of rows."""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
Bytes = npt.NDArray[np.uint8]
Bools = npt.NDArray[np.bool_]
Rows = TypeVar("Rows", bound=NamedTuple)

NO_NUMBERS: Ints = np.zeros(0, dtype=np.int64)


def concatenate_rows(*parts: Rows) -> Rows:
    """The rows of all parts, in the order given. A part is a tuple of columns, or of such tuples."""
    rows = [
        concatenate_rows(*columns) if isinstance(columns[0], tuple) else np.concatenate(columns)
        for columns in zip(*parts, strict=True)
    ]
    return parts[0]._make(rows)


def group_starts(values: Ints) -> Bools:
    """Whether each value differs from the one before."""
    out = np.ones(len(values), dtype=np.bool_)
    out[1:] = values[1:] != values[:-1]
    return out


def find_groups(values: Ints) -> Ints:
    """The index of the first row of each group of equal values."""
    return np.nonzero(group_starts(values))[0]
