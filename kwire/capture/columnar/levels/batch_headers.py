"""Summarize the record batches of many partitions together: the first batch, the number of records and the codecs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from kwire.capture.columnar.body_walker import BODIES_MIN, PADDING_SIZE
from kwire.capture.columnar.record_checks import read_numbers
from kwire.capture.index.scan.packet_headers import gather_bytes
from kwire.capture.rows.record_rows import batch_values
from kwire.payload import codec_name
from kwire.records.batch import HEADER_SIZE, PREFIX_SIZE

if TYPE_CHECKING:
    from kwire.capture.index.arrays import Bools, Ints

_INT64_MAX = 2**63 - 1
# Up to the magic, which all formats have at this offset.
_START_SIZE = 17
_CODECS = 8


class BatchSummaries(NamedTuple):
    """Of the records of each partition; ids, epoch and sequence are those of the first batch, -1 where there is none.

    has_batch: whether there is a first batch. codec: a row of `codec_names`.
    """

    base_offset: Ints
    has_batch: Bools
    producer_id: Ints
    epoch: Ints
    sequence: Ints
    records: Ints
    codec: Ints
    codec_names: pa.Array


def summarize_batches(data: bytes, at: Ints, size: Ints) -> BatchSummaries:
    """The summaries of the records at these positions; records of size 0 have no batch, and -1 is as 0."""
    summarizer = _Summarizer(data, len(at))
    summarizer.read(at, at + np.maximum(size, 0))
    return summarizer.result()


class _Summarizer:
    """Reads one batch of each partition at a time; partitions that are unusual, or too few, are read one by one."""

    def __init__(self, data: bytes, count: int) -> None:
        self._data = data
        self._first = {name: np.full(count, -1, dtype=np.int64) for name in ("producer_id", "epoch", "sequence")}
        self._base_offset, self._records = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
        self._has_batch = np.zeros(count, dtype=np.bool_)
        # The codecs in their order, as digits of a number, and as a set of bits.
        self._codec, self._seen_codecs = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
        self._other_names: dict[str | None, int] = {}

    def read(self, first: Ints, end: Ints) -> None:
        """Read the batches from `first` to `end` of each partition."""
        begin = first.copy()
        rows = np.nonzero(end - begin >= _START_SIZE)[0]
        while len(rows) >= BODIES_MIN:
            rows, unusual = self._read_next(rows, begin, end)
            self._read_one_by_one(unusual, first, end)
        self._read_one_by_one(rows, first, end)

    def _read_next(self, rows: Ints, begin: Ints, end: Ints) -> tuple[Ints, Ints]:
        """Read the next batch of each; return the partitions that may have another one, and those that are unusual."""
        at = begin[rows]
        headers = gather_bytes(self._data, np.minimum(at, len(self._data) - PADDING_SIZE), HEADER_SIZE)
        size = PREFIX_SIZE + read_numbers(headers, 8, ">i4")
        base, delta, count = (read_numbers(headers, *field) for field in ((0, ">i8"), (23, ">i4"), (57, ">i4")))
        is_usual = (headers[:, 16] == 2) & (size >= HEADER_SIZE)
        is_truncated = is_usual & (at + size > end[rows])
        is_usual &= (delta >= 0) & (count >= 0) & (base <= _INT64_MAX - delta) | is_truncated
        chosen = np.nonzero(is_usual & ~is_truncated)[0]
        taken = rows[chosen]
        is_first = ~self._has_batch[taken]
        starting = taken[is_first]
        for name, field in (("producer_id", (43, ">i8")), ("epoch", (51, ">i2")), ("sequence", (53, ">i4"))):
            self._first[name][starting] = read_numbers(headers, *field)[chosen[is_first]]
        self._base_offset[starting] = base[chosen[is_first]]
        self._has_batch[starting] = True
        self._records[taken] += count[chosen]
        codec = read_numbers(headers, 21, ">i2")[chosen] & (_CODECS - 1)
        is_new = (self._seen_codecs[taken] >> codec) & 1 == 0
        self._codec[taken] = np.where(is_new, self._codec[taken] * (_CODECS + 1) + codec + 1, self._codec[taken])
        self._seen_codecs[taken] |= 1 << codec
        begin[taken] += size[chosen]
        return taken[end[taken] - begin[taken] >= _START_SIZE], rows[~is_usual]

    def _read_one_by_one(self, rows: Ints, first: Ints, end: Ints) -> None:
        view = memoryview(self._data)
        for row in rows.tolist():
            found = batch_values(view[int(first[row]) : int(end[row])])
            self._has_batch[row] = found.base_offset is not None
            self._base_offset[row] = found.base_offset or 0
            for name, values in self._first.items():
                value: int | None = getattr(found, name)
                values[row] = -1 if value is None else value
            self._records[row] = found.records or 0
            # Its codecs are not digits.
            self._codec[row] = -1 - self._other_names.setdefault(found.codec, len(self._other_names))

    def result(self) -> BatchSummaries:
        """The summaries."""
        codes, inverse = np.unique(self._codec, return_inverse=True)
        other_names = list(self._other_names)
        names = [other_names[-1 - code] if code < 0 else _codec_names(code) for code in codes.tolist()]
        # Some clients count from 0 even if idempotence is off.
        producer_id, sequence = self._first["producer_id"], self._first["sequence"]
        return BatchSummaries(
            self._base_offset,
            self._has_batch,
            producer_id,
            self._first["epoch"],
            np.where(producer_id < 0, -1, sequence),
            self._records,
            inverse.astype(np.int64),
            pa.array(names, type=pa.string()),
        )


def _codec_names(digits: int) -> str | None:
    names: list[str] = []
    while digits:
        digits, digit = divmod(digits, _CODECS + 1)
        names.insert(0, codec_name(digit - 1))
    return ",".join(names) or None
