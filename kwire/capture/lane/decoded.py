"""The columns of messages that their bodies tell: bodies of one API and version are read side by side.

What cannot be read so is given back, to be decoded one by one.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np
import pyarrow as pa

from kwire import registry
from kwire.capture.index.walking.heads import gather
from kwire.capture.lane.matrix import ROOM, TOGETHER_MIN, Matrix
from kwire.capture.lane.shapes import plan
from kwire.capture.rows import OK
from kwire.capture.schemas import arrow_schema
from kwire.error_codes import ErrorCode, name_of
from kwire.payload import PLACES
from kwire.records import checksum
from kwire.records.batch import CRC_START, HEADER_SIZE, PREFIX_SIZE

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from kwire.capture.index.building.hop import Frames
    from kwire.capture.index.building.pairing import Exchanges

    Ints = npt.NDArray[np.int64]
    Bools = npt.NDArray[np.bool_]

_OF_REQUEST = frozenset({"group_id", "n_topics", "n_partitions", "status", "issues", "member_id"})
_OF_RESPONSE = frozenset(
    {"error_code", "error_name", "throttle_ms", "n_topics", "n_partitions", "status", "issues", "member_id"}
)
COLUMNS = _OF_REQUEST | _OF_RESPONSE
_INT32_MAX = 2**31 - 1
_INT64_MAX = 2**63 - 1
_SMALL = 4096


class Span(NamedTuple):
    """A stretch of the file, with room behind it."""

    base: int
    data: bytes


class Decoded:
    """The columns of these exchanges. `is_good` says for which of them they hold."""

    def __init__(self, span: Span, found: Exchanges, columns: frozenset[str]) -> None:
        """Reads what the columns need of exchanges whose request headers are plain."""
        count = len(found)
        self._found = found
        self._span = span
        self._columns = columns
        self.is_good = np.ones(count, dtype=np.bool_)
        self._error, self._throttle = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
        self._has_throttle = np.zeros(count, dtype=np.bool_)
        self._topics = np.zeros((2, count), dtype=np.int64)
        self._texts = {
            name: (np.zeros(count, dtype=np.int64), np.full(count, -1)) for name in ("group_id", "member_id")
        }
        self._has_answer = found.response.frame.size >= 0
        if "status" in columns or "issues" in columns:
            # What waits for an answer in vain is told in words.
            self.is_good &= self._has_answer | (found.request.wants_answer == 0)
        key = (found.request.api_key << 16) | (found.request.api_version & 0xFFFF)
        for each in np.unique(key).tolist():
            chosen = np.nonzero((key == each) & self.is_good)[0]
            api_key, version = each >> 16, (each & 0xFFFF ^ 0x8000) - 0x8000
            if not columns.isdisjoint(_OF_REQUEST):
                self._requests(chosen, api_key, version)
            if not columns.isdisjoint(_OF_RESPONSE):
                chosen = chosen[self.is_good[chosen] & self._has_answer[chosen]]
                self._responses(chosen, api_key, version)

    def _requests(self, rows: Ints, api_key: int, version: int) -> None:
        frame = self._found.request.frame
        read = self._matrix(rows, frame, self._found.request.body[rows], _name(api_key, "Request"), version)
        if read is None:
            return
        rows, matrix = read
        for name, (at, size) in matrix.texts.items():
            self._texts[name][0][rows], self._texts[name][1][rows] = at[matrix.is_good], size[matrix.is_good]
        self._count(rows, matrix, is_request=True)

    def _responses(self, rows: Ints, api_key: int, version: int) -> None:
        frame = self._found.response.frame
        skip = np.full(len(rows), 4 + _has_tags(api_key, version), dtype=np.int64)
        read = self._matrix(rows, frame, skip, _name(api_key, "Response"), version)
        if read is None:
            return
        rows, matrix = read
        good = matrix.is_good
        self._error[rows], self._throttle[rows] = matrix.error[good], matrix.throttle[good]
        found = plan(_name(api_key, "Response"), version)
        self._has_throttle[rows] = found is not None and found.has_throttle
        if "member_id" in matrix.texts:
            own_at, own_size = self._texts["member_id"]
            at, size = (each[good] for each in matrix.texts["member_id"])
            # The request's own member comes first.
            is_new = own_size[rows] <= 0
            own_at[rows[is_new]], own_size[rows[is_new]] = at[is_new], size[is_new]
        self._count(rows, matrix, is_request=False)

    def _count(self, rows: Ints, matrix: Matrix, *, is_request: bool) -> None:
        n_topics, n_partitions = matrix.n_topics[matrix.is_good], matrix.n_partitions[matrix.is_good]
        if not is_request:
            is_new = (self._topics[0][rows] == 0) & (n_topics > 0)
            rows, n_topics, n_partitions = rows[is_new], n_topics[is_new], n_partitions[is_new]
        self._topics[0][rows], self._topics[1][rows] = n_topics, np.minimum(n_partitions, _INT32_MAX)

    def _matrix(self, rows: Ints, frame: Frames, skip: Ints, name: str, version: int) -> tuple[Ints, Matrix] | None:
        """Read these bodies; the rows that are good, and what was read of all. None where nothing could be read."""
        shape = plan(name, version)
        at, end = frame.at[rows] - self._span.base, frame.at[rows] + frame.size[rows] - self._span.base
        is_here = (frame.at[rows] >= 0) & (at >= 0) & (end <= len(self._span.data) - ROOM)
        if shape is None or int(is_here.sum()) < TOGETHER_MIN:
            self.is_good[rows] = False
            return None
        flat = np.frombuffer(self._span.data, dtype=np.uint8)
        if name.endswith("Response"):
            is_here &= ~_has_odd_head(flat, np.where(is_here, at, 0), skip, name)
        self.is_good[rows[~is_here]] = False
        rows = rows[is_here]
        matrix = Matrix(self._span.data, (at + skip)[is_here], end[is_here], shape)
        if "issues" in self._columns and name in PLACES:
            _check_records(self._span.data, matrix)
        self.is_good[rows[~matrix.is_good]] = False
        return rows[matrix.is_good], matrix

    def column(self, name: str, rows: Ints) -> pa.Array:
        """One column of the chosen rows, all of them good."""
        kind = arrow_schema("messages").field(name).type
        if name in {"error_code", "throttle_ms"}:
            is_there = self._has_answer if name == "error_code" else self._has_throttle
            values = self._error if name == "error_code" else self._throttle
            return pa.array(values[rows].astype(kind.to_pandas_dtype()), type=kind, mask=~is_there[rows])
        if name == "error_name":
            codes, inverse = np.unique(self._error[rows], return_inverse=True)
            names = pa.array([name_of(code) for code in codes.tolist()], type=kind)
            return names.take(pa.array(inverse, mask=~self._has_answer[rows]))
        if name in {"n_topics", "n_partitions"}:
            return pa.array(self._topics[int(name == "n_partitions")][rows].astype(np.int32), type=kind)
        if name in {"group_id", "member_id"}:
            at, size = self._texts[name]
            return _strings(self._span.data, at[rows], size[rows])
        if name == "status":
            return pa.repeat(pa.scalar(OK, type=kind), len(rows))
        return pa.ListArray.from_arrays(
            pa.array(np.zeros(len(rows) + 1, dtype=np.int32)), pa.array([], type=kind.value_type)
        ).cast(kind)


def _has_odd_head(flat: npt.NDArray[np.uint8], at: Ints, skip: Ints, name: str) -> Bools:
    """Whether a response's header has tags, or its body is of another version than the request."""
    is_odd = (skip == 5) & (flat[at + 4] != 0)
    if name == "ApiVersionsResponse":
        code = flat[at + 4].astype(np.int64) << 8 | flat[at + 5]
        is_odd |= code == ErrorCode.UNSUPPORTED_VERSION
    return cast("Bools", is_odd)


def _check_records(data: bytes, matrix: Matrix) -> None:
    """Bodies with damaged record batches are not good; nor those whose batches are not of the usual kind."""
    for rows, at, size in matrix.records:
        some = np.nonzero((size > 0) & matrix.is_good[rows])[0]
        own, begin, end = rows[some], at[some], np.minimum(at[some] + size[some], len(data) - ROOM)
        while len(own):
            # Batch after batch of all of them.
            stop, is_usual = _batches(data, begin, end)
            # What is cut, odd or damaged: the exact reader knows what to say of it.
            matrix.is_good[own[~is_usual]] = False
            goes_on = is_usual & (stop < end)
            own, begin, end = own[goes_on], stop[goes_on], end[goes_on]


def _batches(data: bytes, begin: Ints, end: Ints) -> tuple[Ints, Bools]:
    """Where these batches stop, and whether each is whole, of magic 2, and has its checksum."""
    heads = gather(data, np.minimum(begin, len(data) - ROOM), HEADER_SIZE)
    stop = begin + PREFIX_SIZE + _number(heads, 8, ">i4")
    base, delta, count = _number(heads, 0, ">i8"), _number(heads, 23, ">i4"), _number(heads, 57, ">i4")
    is_usual = (heads[:, 16] == 2) & (stop - begin >= HEADER_SIZE) & (stop <= end)
    is_usual &= (delta >= 0) & (count >= 0) & (base <= _INT64_MAX - delta)
    is_usual[is_usual] = _crcs(data, begin[is_usual], stop[is_usual]) == _number(heads, 17, ">u4")[is_usual]
    return stop, is_usual


def _number(heads: npt.NDArray[np.uint8], at: int, kind: str) -> Ints:
    width = int(kind[-1])
    return heads[:, at : at + width].copy().view(kind)[:, 0].astype(np.int64)


def _crcs(data: bytes, begin: Ints, stop: Ints) -> Ints:
    """The checksums of batches."""
    starts, ends = (begin + CRC_START).tolist(), stop.tolist()
    # Small pieces are copied faster than views of them are made.
    whole = data if int((stop - begin).max(initial=0)) < _SMALL else memoryview(data)
    cut = cast("Callable[[slice], bytes]", whole.__getitem__)
    found = list(map(checksum.crc32c, map(cut, map(slice, starts, ends))))
    return np.array(found, dtype=np.int64)


def _strings(data: bytes, at: Ints, size: Ints) -> pa.Array:
    """Texts by where they lie; null where they are null or empty."""
    count = np.maximum(size, 0)
    ends = np.cumsum(count)
    total = int(ends[-1]) if len(ends) else 0
    begins = ends - count
    places = np.repeat(at - begins, count) + np.arange(total)
    letters = np.frombuffer(data, dtype=np.uint8)[places]
    offsets = np.concatenate([np.zeros(1, dtype=np.int32), ends.astype(np.int32)])
    is_there = np.packbits(count > 0, bitorder="little")
    buffers = [pa.py_buffer(is_there.tobytes()), pa.py_buffer(offsets.tobytes()), pa.py_buffer(letters.tobytes())]
    return pa.StringArray.from_buffers(len(at), buffers[1], buffers[2], buffers[0])


@cache
def _name(api_key: int, kind: str) -> str:
    return f"{registry.api_name(api_key)}{kind}"


@cache
def _has_tags(api_key: int, version: int) -> bool:
    """Whether the response's header ends with tags; ApiVersions never has them."""
    return registry.header_versions(api_key, version)[1] > 0
