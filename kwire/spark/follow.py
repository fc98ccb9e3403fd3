"""One task of a stream: the files of a batch, one after the other, from what was open before to what is open after."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from kwire.capture import index
from kwire.capture.carried import Carried, NotCarried, dump, load
from kwire.capture.ip import segments
from kwire.capture.keylog import KeyLog
from kwire.capture.packets import packets
from kwire.capture.pipeline import row_maker
from kwire.capture.values import CaptureError, Segment, Trouble
from kwire.spark.journal import Journal, StateError, load_carried, newest_carried, save_carried
from kwire.spark.reading import in_batches, named_rows
from kwire.spark.rolling import Beginning, first_ts
from kwire.spark.shares import share_of

if TYPE_CHECKING:
    import pyarrow as pa

    from kwire.capture.exchange import Outcome
    from kwire.capture.rows import Row
    from kwire.capture.source import Source
    from kwire.spark.journal import Batch, Planned
    from kwire.spark.options import StreamOptions
    from kwire.spark.wanted import Wanted

# A name without a file, here or on the server of a network file system. Any other error of the system may pass, or be
# mended, and the batch then runs again.
_GONE = (errno.ENOENT, errno.ESTALE)


def follow(batches: Sequence[Batch], task: int, wanted: Wanted, asked: StreamOptions) -> Iterator[pa.RecordBatch]:
    """The rows of one task's connections, in these batches."""
    _catch_up(batches[0].number - 1, task, wanted, asked)
    following = _Following(task, wanted, asked)
    following.begin(batches[0].number - 1)
    yield from wanted.kept(in_batches(following.rows(batches), wanted))
    # Only now, when the sink has taken all rows; who runs this task again begins where this one began.
    following.end(batches[-1].number)


def _catch_up(number: int, task: int, wanted: Wanted, asked: StreamOptions) -> None:
    """Batches up to this one whose rows the sink did not all take left no state: they are read again, unseen."""
    first = newest_carried(asked.state, number, task) + 1
    if first > number:
        return
    journal = Journal(asked.state, level=wanted.level, tasks=asked.tasks)
    for each in range(first, number + 1):
        following = _Following(task, wanted, asked)
        following.begin(each - 1)
        for _ in following.rows([journal.required(each)]):
            pass
        following.end(each)


class _Following:
    """What a task knows while it reads."""

    def __init__(self, task: int, wanted: Wanted, asked: StreamOptions) -> None:
        self._task = task
        self._level = wanted.level
        self._options = wanted.reading
        self._asked = asked
        self._keys = KeyLog(self._options.tls_keylog)
        self._carried = self._new()
        self._last_ts = 0

    def begin(self, number: int) -> None:
        """From what was open at the end of this batch; before the first there is nothing."""
        if not number:
            return
        try:
            self._carried = load(load_carried(self._asked.state, number, self._task), self._options, self._keys)
        except NotCarried as error:
            raise StateError(f"{self._asked.state}: {error}; begin with another state folder and checkpoint") from error

    def end(self, number: int) -> None:
        """Write down what is open now."""
        self._carried.forget_files(self._last_ts - self._asked.timeout_ns)
        save_carried(self._asked.state, number, self._task, dump(self._carried))

    def rows(self, batches: Iterable[Batch]) -> Iterator[Row]:
        """The rows of all files, and of what was waited for long enough."""
        for batch in batches:
            for file in batch.grown:
                yield from self._told(file.path, "file_grew", f"it was read before it got {file.size} bytes long")
            for planned in batch.files:
                yield from self._late(planned) if planned.is_late else self._next(planned)
            yield from self._made(self._carried, "", self._carried.expire(self._last_ts - self._asked.timeout_ns))

    def _next(self, file: Planned) -> Iterator[Row]:
        if file.first_ts:
            self._carried.files.append((file.first_ts, file.path))
        return self._made(self._carried, file.path, self._carried.outcomes(self._segments(file)))

    def _late(self, file: Planned) -> Iterator[Row]:
        """What it holds comes before what was read already: its connections cannot go on, only be read alone."""
        yield from self._told(file.path, "file_late", "it begins before files that were read already: it is read alone")
        alone = self._new()
        alone.files.append((file.first_ts, file.path))
        yield from self._made(alone, file.path, chain(alone.outcomes(self._segments(file)), alone.close()))

    def _told(self, path: str, kind: str, detail: str) -> Iterator[Row]:
        """A row about a file, from the first task alone."""
        if self._task == 0:
            yield from row_maker(self._level, path, self._options)(Trouble(kind, detail, 0, self._last_ts))

    def _made(self, carried: Carried, file: str, found: Iterable[Outcome]) -> Iterator[Row]:
        return named_rows(self._level, self._options, carried, file, found)

    def _segments(self, file: Planned) -> Iterator[Segment | Trouble]:
        """Those of this task's hosts. What belongs to no connection is told by the first task."""
        try:
            if first_ts(file.path) != file.first_ts and os.path.exists(file.path):
                # That one is read by a batch of its own.
                yield self._gone("another capture got its name")
                return
            yield from self._read(file)
        except CaptureError as error:
            if self._task == 0:
                yield Trouble("file_unreadable", str(error), 0, self._last_ts)
        except OSError as error:
            if error.errno not in _GONE:
                raise
            yield self._gone("it was taken away")

    def _gone(self, why: str) -> Trouble:
        # Each task says so: a file may go when some have read it, and none of them knows of the others.
        share = f"the connections of task {self._task + 1} of {self._asked.tasks}"
        return Trouble("file_gone", f"{why} before {share} were read", 0, self._last_ts)

    def _read(self, file: Planned) -> Iterator[Segment | Trouble]:
        """As much as there was when the batch was planned: all tasks read the same, and whoever runs them again."""
        try:
            found = index.built(file.path) if os.stat(file.path).st_size == file.size else None
        except index.NotIndexed:
            found = None
        if found is not None and found.size == file.size:
            yield from self._by_index(found)
            return
        with open(file.path, "rb") as opened:
            yield from self._by_packet(Beginning(opened, file.size))

    def _by_index(self, found: index.Index) -> Iterator[Segment | Trouble]:
        """Payload of others is not even read."""
        self._keys.add(found.secrets)
        self._last_ts = max([self._last_ts, *(flow.last_ts for flow in found.flows)])
        own = [flow.key for flow in found.flows if self._is_own(flow.key[0][0], flow.key[1][0])]
        yield from index.segments_of([found], own, troubles=self._task == 0)

    def _by_packet(self, source: Source) -> Iterator[Segment | Trouble]:
        """A packed file is walked through, and one that is longer now."""
        for each in segments(packets(source, self._keys)):
            if isinstance(each, Trouble):
                if self._task == 0:
                    yield each
                continue
            self._last_ts = max(self._last_ts, each.ts)
            if self._is_own(each.source[0], each.target[0]):
                yield each

    def _is_own(self, host: bytes, other: bytes) -> bool:
        return share_of(host, other, self._asked.tasks) == self._task

    def _new(self) -> Carried:
        return Carried(self._level, self._options, self._keys)
