"""Rows of a series of captures that is read as one: each names the file in which it begins."""

from __future__ import annotations

from bisect import bisect_right
from operator import itemgetter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kwire.capture.rows import Row

# What tells when a row began, by level.
_BEGINNINGS = ("req_ts", "resp_ts", "ts", "first_ts")


def named(rows: Iterable[Row], files: Sequence[tuple[int, str]]) -> Iterator[Row]:
    """The rows with the names of their files; what began before the first of these keeps the name that it has.

    Args: files: the time from which on each was under way, in nanoseconds, and its name; in order. More may be added.
    """
    for row in rows:
        began = next((row[name] for name in _BEGINNINGS if row.get(name) is not None), None)
        if isinstance(began, int):
            at = bisect_right(files, began, key=_start)
            row["file"] = files[at - 1][1] if at else row["file"]
        yield row


_start = itemgetter(0)
