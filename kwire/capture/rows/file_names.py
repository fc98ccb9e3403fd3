"""Sets the column `file` of rows of a series of captures to the file in which the row begins."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter

from kwire.capture.model import Row

# The columns with the begin of a row, by priority.
_START_COLUMNS = ("req_ts", "resp_ts", "ts", "first_ts")
_first_ts = itemgetter(0)


def assign_file_names(rows: Iterable[Row], files: Sequence[tuple[int, str]]) -> Iterator[Row]:
    """The rows with the names of their files; rows before the first file keep their name.

    Args: files: the time of the first packet of each file in nanoseconds, and its name, in order. More may be added
        during the iteration.
    """
    for row in rows:
        start_ts = next((row[name] for name in _START_COLUMNS if row.get(name) is not None), None)
        if isinstance(start_ts, int):
            at = bisect_right(files, start_ts, key=_first_ts)
            row["file"] = files[at - 1][1] if at else row["file"]
        yield row
