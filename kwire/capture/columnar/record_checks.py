"""Check the record batches of many bodies together, by the accelerator or in columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from kwire.accelerator import NATIVE
from kwire.capture.columnar.body_walker import PADDING_SIZE
from kwire.capture.index.scan.packet_headers import gather_bytes
from kwire.records import checksum
from kwire.records.batch import CRC_START, HEADER_SIZE, PREFIX_SIZE

if TYPE_CHECKING:
    from collections.abc import Callable

    from kwire.capture.columnar.vectorized_decoder import VectorizedDecoder
    from kwire.capture.index.arrays import Bools, Bytes, Ints

_INT64_MAX = 2**63 - 1
_SMALL = 4096


def check_records(data: bytes, decoder: VectorizedDecoder) -> None:
    """Mark bodies with record batches that are damaged, or not of the usual kind, as not good.

    The message decoder reads truncated, unusual and damaged batches, and reports their issues.
    """
    for rows, at, size in decoder.records:
        with_records = np.nonzero((size > 0) & decoder.is_good[rows])[0]
        begin = at[with_records]
        end = np.minimum(begin + size[with_records], len(data) - PADDING_SIZE)
        decoder.is_good[rows[with_records[~_have_valid_batches(data, begin, end)]]] = False


def _have_valid_batches(data: bytes, begin: Ints, end: Ints) -> Bools:
    """Whether each body has batches, all of them complete, of magic 2, and with the right checksum."""
    if NATIVE is None:
        return check_in_columns(data, begin, end)
    return np.frombuffer(NATIVE.check_batches(data, begin, end), dtype=np.bool_)


def check_in_columns(data: bytes, begin: Ints, end: Ints) -> Bools:
    """The same without the accelerator."""
    are_valid = np.ones(len(begin), dtype=np.bool_)
    rows = np.arange(len(begin))
    while len(rows):
        # One batch of each body at a time.
        stop, is_valid = _check_batches(data, begin, end)
        are_valid[rows[~is_valid]] = False
        goes_on = is_valid & (stop < end)
        rows, begin, end = rows[goes_on], stop[goes_on], end[goes_on]
    return are_valid


def _check_batches(data: bytes, begin: Ints, end: Ints) -> tuple[Ints, Bools]:
    """The end of each batch, and whether it is complete, of magic 2, and has the right checksum."""
    headers = gather_bytes(data, np.minimum(begin, len(data) - PADDING_SIZE), HEADER_SIZE)
    stop = begin + PREFIX_SIZE + read_numbers(headers, 8, ">i4")
    base = read_numbers(headers, 0, ">i8")
    delta = read_numbers(headers, 23, ">i4")
    count = read_numbers(headers, 57, ">i4")
    is_valid = (headers[:, 16] == 2) & (stop - begin >= HEADER_SIZE) & (stop <= end)
    is_valid &= (delta >= 0) & (count >= 0) & (base <= _INT64_MAX - delta)
    checksums = _batch_checksums(data, begin[is_valid], stop[is_valid])
    is_valid[is_valid] = checksums == read_numbers(headers, 17, ">u4")[is_valid]
    return stop, is_valid


def read_numbers(headers: Bytes, at: int, kind: str) -> Ints:
    """The number at an offset of each header. Args: kind: its type, as `>i4`."""
    width = int(kind[-1])
    return headers[:, at : at + width].copy().view(kind)[:, 0].astype(np.int64)


def _batch_checksums(data: bytes, begin: Ints, stop: Ints) -> Ints:
    """The checksums of record batches."""
    starts, ends = (begin + CRC_START).tolist(), stop.tolist()
    # A small slice is copied faster than a view of it is created.
    whole = data if int((stop - begin).max(initial=0)) < _SMALL else memoryview(data)
    slice_data = cast("Callable[[slice], bytes]", whole.__getitem__)
    checksums = list(map(checksum.crc32c, map(slice_data, map(slice, starts, ends))))
    return np.array(checksums, dtype=np.int64)
