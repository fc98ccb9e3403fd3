"""What a task of a batch query does: rows of whole files, of some flows, or of a series of files as if it were one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import TYPE_CHECKING

from kwire.capture import arrow
from kwire.capture.carried import Carried
from kwire.capture.ip import segments
from kwire.capture.keylog import KeyLog
from kwire.capture.packets import packets
from kwire.capture.pipeline import gathered, ordered, row_maker
from kwire.capture.values import CaptureError, Segment, Trouble
from kwire.spark.shares import share_of

if TYPE_CHECKING:
    import pyarrow as pa

    from kwire.capture.exchange import Outcome
    from kwire.capture.index import Index
    from kwire.capture.options import Options
    from kwire.capture.rows import Row
    from kwire.spark.plan import Task
    from kwire.spark.wanted import Wanted

# What tells when a row began, by level.
_BEGINNINGS = ("req_ts", "resp_ts", "ts", "first_ts")


def read(task: Task, wanted: Wanted, cache: str | None) -> Iterator[pa.RecordBatch]:
    """The rows of a task that are wanted.

    Raises: CaptureError that names the file.
    """
    if not task.is_joined and task.flows is None:
        for file in task.files:
            try:
                yield from wanted.kept(arrow.batches(file, wanted.level, wanted.reading))
            except CaptureError as error:
                # Among many files the reader of the message needs to know which.
                raise CaptureError(f"{file}: {error}") from error
    else:
        yield from wanted.kept(in_batches(_joined(task, wanted, cache), wanted.level))


def in_batches(rows: Iterator[Row], level: str) -> Iterator[pa.RecordBatch]:
    """Rows as Arrow."""
    while some := list(islice(rows, arrow.ROWS_PER_BATCH)):
        yield arrow.record_batch(some, level)


def named_rows(level: str, options: Options, carried: Carried, file: str, found: Iterable[Outcome]) -> Iterator[Row]:
    """The rows of outcomes; each names the file of the series in which it begins, `file` where that is not known."""
    make = row_maker(level, file, options, carried.names)
    for row in ordered(gathered(found), make):
        began = next((row[name] for name in _BEGINNINGS if row.get(name) is not None), None)
        if isinstance(began, int):
            row["file"] = carried.file_at(began) or file
        yield row


def _joined(task: Task, wanted: Wanted, cache: str | None) -> Iterator[Row]:
    options, keys = wanted.reading, KeyLog(wanted.options.tls_keylog)
    carried = Carried(wanted.level, options, keys)
    found = _by_index(task, carried, keys, cache) if task.flows is not None else _by_hosts(task, carried, keys)
    return named_rows(wanted.level, options, carried, task.files[0], chain(carried.outcomes(found), carried.close()))


def _by_index(task: Task, carried: Carried, keys: KeyLog, cache: str | None) -> Iterator[Segment | Trouble]:
    from kwire.capture import index

    indexes: list[Index] = [index.of(file, cache=cache) for file in task.files]
    for each in indexes:
        carried.files.append((each.first_ts, each.file))
        keys.add(each.secrets)
    yield from index.segments_of(indexes, task.flows, troubles=task.tells_troubles)


def _by_hosts(task: Task, carried: Carried, keys: KeyLog) -> Iterator[Segment | Trouble]:
    number, count = task.hosts
    for file in task.files:
        is_first = True
        for each in segments(packets(file, keys)):
            if isinstance(each, Trouble):
                if task.tells_troubles:
                    yield each
                continue
            if is_first:
                carried.files.append((each.ts, file))
                is_first = False
            if share_of(each, count) == number:
                yield each
