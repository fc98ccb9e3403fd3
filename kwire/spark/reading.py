"""What a task of a batch query does: rows of whole files, of some flows, or of a series of files as if it were one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from kwire.capture import arrow, traffic
from kwire.capture.carried import Carried
from kwire.capture.ip import segments
from kwire.capture.keylog import KeyLog
from kwire.capture.named import named
from kwire.capture.packets import packets
from kwire.capture.pipeline import gathered, ordered, row_maker
from kwire.capture.values import CaptureError, Segment, Trouble
from kwire.spark.shares import share_of

if TYPE_CHECKING:
    import pyarrow as pa

    from kwire.capture.exchange import Outcome
    from kwire.capture.index import FlowKey, Index
    from kwire.capture.options import Options
    from kwire.capture.rows import Row
    from kwire.spark.plan import Task
    from kwire.spark.wanted import Wanted


def read(task: Task, wanted: Wanted, cache: str | None) -> Iterator[pa.RecordBatch]:
    """The rows of a task that are wanted.

    Raises: CaptureError that names the file.
    """
    if task.packets is not None:
        wanted = wanted.of_packets(task.packets)
    if task.flows is not None:
        found = _of_flows(task, wanted, cache)
    elif task.is_joined:
        found = in_batches(_of_hosts(task, wanted), wanted)
    else:
        found = _whole(task, wanted)
    return wanted.kept(found)


def in_batches(rows: Iterator[Row], wanted: Wanted) -> Iterator[pa.RecordBatch]:
    """Rows as Arrow."""
    return arrow.batched(rows, wanted.level, wanted.needed)


def named_rows(level: str, options: Options, carried: Carried, file: str, found: Iterable[Outcome]) -> Iterator[Row]:
    """The rows of outcomes; each names the file of the series in which it begins, `file` where that is not known."""
    return named(ordered(gathered(found), row_maker(level, file, options, carried.names)), carried.files)


def _whole(task: Task, wanted: Wanted) -> Iterator[pa.RecordBatch]:
    for file in task.files:
        try:
            yield from arrow.batches(file, wanted.level, wanted.reading, columns=wanted.needed)
        except CaptureError as error:
            # Among many files the reader of the message needs to know which.
            raise CaptureError(f"{file}: {error}") from error


def _of_flows(task: Task, wanted: Wanted, cache: str | None) -> Iterator[pa.RecordBatch]:
    """Flows that lie in one file are read from it; those that go on in another, through all files in order."""
    from kwire.capture import index

    assert task.flows is not None
    indexes = [index.of(file, cache=cache) for file in task.files]
    places = Counter(key for each in indexes for key in task.flows.intersection(each.numbers))
    wide = frozenset(key for key, count in places.items() if count > 1)
    for each in indexes:
        own = task.flows.intersection(each.numbers) - wide
        yield from arrow.flow_batches(
            [each], own, wanted.level, wanted.reading, columns=wanted.needed, troubles=task.tells_troubles
        )
    if wide and wanted.level in traffic.LEVELS:
        yield from in_batches(_of_wide(indexes, wide, wanted), wanted)
    elif wide:
        yield from arrow.flow_batches(
            indexes, wide, wanted.level, wanted.reading, columns=wanted.needed, troubles=False
        )


def _of_wide(indexes: Sequence[Index], flows: frozenset[FlowKey], wanted: Wanted) -> Iterator[Row]:
    from kwire.capture import index

    options, keys = wanted.reading, KeyLog(wanted.options.tls_keylog)
    carried = Carried(wanted.level, options, keys)
    for each in indexes:
        carried.files.append((each.first_ts, each.file))
        keys.add(each.secrets)
    found = carried.outcomes(index.segments_of(indexes, flows, troubles=False))
    return named_rows(wanted.level, options, carried, indexes[0].file, chain(found, carried.close()))


def _of_hosts(task: Task, wanted: Wanted) -> Iterator[Row]:
    options, keys = wanted.reading, KeyLog(wanted.options.tls_keylog)
    carried = Carried(wanted.level, options, keys)
    found = chain(carried.outcomes(_by_hosts(task, carried, keys)), carried.close())
    return named_rows(wanted.level, options, carried, task.files[0], found)


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
            if share_of(each.source[0], each.target[0], count) == number:
                yield each
