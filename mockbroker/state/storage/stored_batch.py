"""Batches in a log, and the results of appends and reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol, overload

import msgspec

from kwire.error_codes import ErrorCode
from kwire.errors import WireError
from kwire.records import Batch, Record, parse_header
from mockbroker.kafka_error import KafkaError
from mockbroker.state.storage.log_config import DECOMPRESSED_MAX


class BatchBytes(Protocol):
    """The bytes of many batches: a chunk of memory, or a file."""

    def __getitem__(self, span: slice, /) -> memoryview:
        """The bytes from `start` up to, not including, `stop`."""


class StoredBatch(msgspec.Struct, frozen=True, gc=False):
    """A batch in the log. Its bytes are those from `at` on in a chunk of the log's buffer; times in milliseconds.

    is_hidden: readers skip it (`mockbroker.state.storage.hidden_batches`).
    """

    base_offset: int
    last_offset: int
    size: int
    chunk: BatchBytes
    at: int
    max_timestamp: int
    leader_epoch: int
    is_hidden: bool = False

    @property
    def raw(self) -> memoryview:
        """The whole batch as Fetch returns it."""
        return self.chunk[self.at : self.at + self.size]

    def with_bytes(self, data: bytes, *, max_timestamp: int) -> StoredBatch:
        """The batch with other bytes, which are not in the buffer of a log."""
        return msgspec.structs.replace(self, size=len(data), chunk=memoryview(data), at=0, max_timestamp=max_timestamp)

    def moved_to(self, chunk: BatchBytes, at: int) -> StoredBatch:
        """The batch with the same bytes in another chunk."""
        return msgspec.structs.replace(self, chunk=chunk, at=at)

    def header(self) -> Batch:
        """The parsed header, ready to decode the records."""
        return parse_header(self.raw)

    def checked_header(self) -> Batch:
        """As `header`. Raises: KAFKA_STORAGE_ERROR for bytes of a file that are not as they were written."""
        if isinstance(self.chunk, memoryview):
            return self.header()
        try:
            header = self.header()
            header.check_crc()
        except WireError as error:
            problem = f"the batch with offset {self.base_offset} is damaged: {error}"
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, problem) from error
        return header

    def records(self) -> list[Record]:
        """The decoded records. Raises: as `checked_header`."""
        return self.checked_header().records(DECOMPRESSED_MAX, strict=False)


class NewBatch(msgspec.Struct, frozen=True, gc=False):
    """A batch that is appended: its offsets, largest timestamp in milliseconds, and leader epoch.

    leader_epoch: NO_EPOCH for a batch of magic 0 or 1, whose bytes are stored as they are.
    """

    base_offset: int
    last_offset: int
    max_timestamp: int
    leader_epoch: int
    is_hidden: bool = False


class BatchRange(Sequence[StoredBatch]):
    """The batches of a log between two indexes, without a copy: valid until the log changes other than at its end."""

    __slots__ = ("_batches", "_end", "_start")

    def __init__(self, batches: list[StoredBatch], start: int, end: int) -> None:
        self._batches = batches
        self._start = start
        self._end = end

    def __len__(self) -> int:
        return self._end - self._start

    @overload
    def __getitem__(self, index: int) -> StoredBatch: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[StoredBatch]: ...
    def __getitem__(self, index: int | slice) -> StoredBatch | Sequence[StoredBatch]:
        if isinstance(index, slice):
            return [self._batches[at] for at in range(self._start, self._end)[index]]
        at = index + (self._start if index >= 0 else self._end)
        if not self._start <= at < self._end:
            raise IndexError(index)
        return self._batches[at]

    def __iter__(self) -> Iterator[StoredBatch]:
        return iter(self._batches[self._start : self._end])


class LogSlice(msgspec.Struct, frozen=True):
    """Consecutive whole batches; the first one contains the requested offset, and may begin below it.

    cut_batch, cut_size: the next batch and how many bytes of it are included, if requested. is_first_cut: there is a
    batch, and the limit is above 0 and less than its size.
    """

    batches: Sequence[StoredBatch]
    size: int
    cut_batch: StoredBatch | None = None
    cut_size: int = 0
    is_first_cut: bool = False

    def join(self) -> bytes | memoryview:
        """All bytes; batches that are adjacent in the log's buffer are not copied."""
        return join_batches(self.batches, self.cut_batch, self.cut_size)


def join_batches(
    batches: Sequence[StoredBatch], cut_batch: StoredBatch | None = None, cut_size: int = 0
) -> bytes | memoryview:
    """The bytes of batches and of the beginning of another one: a view where they are adjacent, else a copy."""
    if not batches:
        return b"" if cut_batch is None else cut_batch.raw[:cut_size]
    chunk = batches[0].chunk
    end = start = batches[0].at
    for batch in batches:
        if batch.at != end or batch.chunk is not chunk:
            break
        end += batch.size
    else:
        if cut_batch is None:
            return chunk[start:end]
        if cut_batch.chunk is chunk and cut_batch.at == end:
            return chunk[start : end + cut_size]
    rest = [] if cut_batch is None else [cut_batch.raw[:cut_size]]
    return b"".join([*(batch.raw for batch in batches), *rest])


class AppendResult(msgspec.Struct, frozen=True, gc=False):
    """The position of an appended batch. append_time_ms is -1 unless the broker sets the timestamps."""

    first_offset: int
    last_offset: int
    append_time_ms: int
    is_duplicate: bool = False


class TimestampOffset(msgspec.Struct, frozen=True):
    """A record found by its timestamp."""

    offset: int
    timestamp: int
    leader_epoch: int
