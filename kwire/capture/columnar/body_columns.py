"""Build the columns of messages that depend on bodies: bodies of one API and version are decoded together.

Bodies that cannot be decoded this way are marked; they must be decoded one by one.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, cast

import numpy as np
import pyarrow as pa

from kwire import registry
from kwire.capture.columnar.body_walker import BODIES_MIN, PADDING_SIZE
from kwire.capture.columnar.decode_plan import TEXT_FIELDS, message_plan
from kwire.capture.columnar.record_checks import check_records
from kwire.capture.columnar.vectorized_decoder import VectorizedDecoder
from kwire.capture.rows.column import BODY_PHASES, Phase
from kwire.capture.rows.columns import arrow_schema, message_columns
from kwire.capture.rows.message_rows import OK
from kwire.error_codes import ErrorCode, name_of
from kwire.payload import RECORDS_FIELDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kwire.capture.columnar.span_data import SpanData
    from kwire.capture.index.arrays import Bools, Bytes, Ints
    from kwire.capture.index.flows.frame_columns import FrameColumns
    from kwire.capture.index.flows.message_columns import ExchangeColumns

COLUMNS = message_columns(*BODY_PHASES)
_REQUEST_COLUMNS = message_columns(Phase.REQUEST_BODY, Phase.BODIES)
_RESPONSE_COLUMNS = message_columns(Phase.RESPONSE_BODY, Phase.BODIES)
_INT32_MAX = 2**31 - 1


def exchanges_by_version(exchanges: ExchangeColumns) -> Iterator[tuple[int, int, Bools]]:
    """Each API and version of the exchanges, and which exchanges have them."""
    key = (exchanges.request.api_key << 16) | (exchanges.request.api_version & 0xFFFF)
    for code in np.unique(key).tolist():
        yield code >> 16, (code & 0xFFFF ^ 0x8000) - 0x8000, key == code


class BodyColumns:
    """The body columns of exchanges. `is_good`: the exchanges for which they are valid."""

    def __init__(
        self,
        span: SpanData,
        exchanges: ExchangeColumns,
        columns: frozenset[str],
        asked: Bools | None = None,
        answered: Bools | None = None,
    ) -> None:
        """Decode what the columns need.

        Args: exchanges: those with usual request headers. asked, answered: which requests and responses are decoded,
        where some are damaged; None for all.
        """
        count = len(exchanges)
        self._exchanges = exchanges
        self._span = span
        self._columns = columns
        self.is_good = np.ones(count, dtype=np.bool_)
        self._error, self._throttle = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
        self._has_throttle = np.zeros(count, dtype=np.bool_)
        self._topics = np.zeros((2, count), dtype=np.int64)
        self._texts = {name: (np.zeros(count, dtype=np.int64), np.full(count, -1)) for name in TEXT_FIELDS}
        self._has_response = exchanges.response.frame.size >= 0 if answered is None else answered
        is_asked = np.ones(count, dtype=np.bool_) if asked is None else asked
        if answered is None and ("status" in columns or "issues" in columns):
            # A missing response is an issue with a text, which columns do not have.
            self.is_good &= self._has_response | (exchanges.request.expects_response == 0)
        for api_key, version, is_chosen in exchanges_by_version(exchanges):
            chosen = np.nonzero(is_chosen & self.is_good)[0]
            if not columns.isdisjoint(_REQUEST_COLUMNS):
                self._read_requests(chosen[is_asked[chosen]], api_key, version)
            if not columns.isdisjoint(_RESPONSE_COLUMNS):
                chosen = chosen[self.is_good[chosen] & self._has_response[chosen]]
                self._read_responses(chosen, api_key, version)

    def _read_requests(self, rows: Ints, api_key: int, version: int) -> None:
        request = self._exchanges.request
        name = message_name(api_key, "Request")
        decoded = self._decode_bodies(rows, request.frame, request.body[rows], name, version)
        if decoded is None:
            return
        rows, decoder = decoded
        for name, (at, size) in decoder.texts.items():
            self._texts[name][0][rows], self._texts[name][1][rows] = at[decoder.is_good], size[decoder.is_good]
        self._set_topic_counts(rows, decoder, is_request=True)

    def _read_responses(self, rows: Ints, api_key: int, version: int) -> None:
        frame = self._exchanges.response.frame
        name = message_name(api_key, "Response")
        skip = np.full(len(rows), 4 + has_tags(api_key, version), dtype=np.int64)
        decoded = self._decode_bodies(rows, frame, skip, name, version)
        if decoded is None:
            return
        rows, decoder = decoded
        good = decoder.is_good
        self._error[rows], self._throttle[rows] = decoder.error[good], decoder.throttle[good]
        plan = message_plan(name, version)
        self._has_throttle[rows] = plan is not None and plan.has_throttle
        for text_name in decoder.texts.keys() & _RESPONSE_COLUMNS:
            request_at, request_size = self._texts[text_name]
            at, size = (column[good] for column in decoder.texts[text_name])
            # The text of the request takes precedence.
            is_new = request_size[rows] <= 0
            request_at[rows[is_new]], request_size[rows[is_new]] = at[is_new], size[is_new]
        self._set_topic_counts(rows, decoder, is_request=False)

    def _set_topic_counts(self, rows: Ints, decoder: VectorizedDecoder, *, is_request: bool) -> None:
        n_topics, n_partitions = decoder.n_topics[decoder.is_good], decoder.n_partitions[decoder.is_good]
        if not is_request:
            is_new = (self._topics[0][rows] == 0) & (n_topics > 0)
            rows, n_topics, n_partitions = rows[is_new], n_topics[is_new], n_partitions[is_new]
        self._topics[0][rows], self._topics[1][rows] = n_topics, np.minimum(n_partitions, _INT32_MAX)

    def _decode_bodies(
        self, rows: Ints, frame: FrameColumns, skip: Ints, name: str, version: int
    ) -> tuple[Ints, VectorizedDecoder] | None:
        """Decode these bodies; return the valid rows, and the decoder with all rows. None if nothing was decoded."""
        plan = message_plan(name, version)
        at = self._span.positions(frame.at[rows])
        end = at + frame.size[rows]
        is_in_span = (at >= 0) & (end <= len(self._span.data) - PADDING_SIZE)
        if plan is None or int(is_in_span.sum()) < BODIES_MIN:
            self.is_good[rows] = False
            return None
        flat = np.frombuffer(self._span.data, dtype=np.uint8)
        if name.endswith("Response"):
            is_in_span &= ~has_unexpected_header(flat, np.where(is_in_span, at, 0), skip, name)
        self.is_good[rows[~is_in_span]] = False
        rows = rows[is_in_span]
        decoder = VectorizedDecoder(self._span.data, (at + skip)[is_in_span], end[is_in_span], plan)
        if "issues" in self._columns and name in RECORDS_FIELDS:
            check_records(self._span.data, decoder)
        self.is_good[rows[~decoder.is_good]] = False
        return rows[decoder.is_good], decoder

    def build_column(self, name: str, rows: Ints) -> pa.Array:
        """One column of the chosen rows, which must all be valid."""
        kind = arrow_schema("messages").field(name).type
        if name in {"error_code", "throttle_ms"}:
            is_present = self._has_response if name == "error_code" else self._has_throttle
            values = self._error if name == "error_code" else self._throttle
            return pa.array(values[rows].astype(str(kind)), type=kind, mask=~is_present[rows])
        if name == "error_name":
            codes, inverse = np.unique(self._error[rows], return_inverse=True)
            names = pa.array([name_of(code) for code in codes.tolist()], type=kind)
            return names.take(pa.array(inverse, mask=~self._has_response[rows]))
        if name in {"n_topics", "n_partitions"}:
            return pa.array(self._topics[int(name == "n_partitions")][rows].astype(np.int32), type=kind)
        if name in TEXT_FIELDS:
            at, size = self._texts[name]
            return string_array(self._span.data, at[rows], size[rows])
        if name == "status":
            return pa.repeat(pa.scalar(OK, type=kind), len(rows))
        if name == "issues":
            offsets = pa.array(np.zeros(len(rows) + 1, dtype=np.int32))
            return pa.ListArray.from_arrays(offsets, pa.array([], type=kind.value_type)).cast(kind)
        raise KeyError(f"no function builds the column {name}")


def has_unexpected_header(flat: Bytes, at: Ints, skip: Ints, name: str) -> Bools:
    """Whether a response's header has tags, or its body has another version than the request."""
    is_unexpected = (skip == 5) & (flat[at + 4] != 0)
    if name == "ApiVersionsResponse":
        code = flat[at + 4].astype(np.int64) << 8 | flat[at + 5]
        is_unexpected |= code == ErrorCode.UNSUPPORTED_VERSION
    return cast("Bools", is_unexpected)


def string_array(data: bytes, at: Ints, size: Ints) -> pa.Array:
    """A column of strings from their offsets and sizes; null for null and empty strings."""
    return pa.StringArray.from_buffers(len(at), *_value_buffers(data, at, size, size > 0))


def text_array(data: bytes, at: Ints, size: Ints) -> pa.Array:
    """A column of strings from their offsets and sizes; none is null."""
    return pa.StringArray.from_buffers(len(at), *_value_buffers(data, at, size, size >= 0))


def binary_array(data: bytes, at: Ints, size: Ints) -> pa.Array:
    """A column of byte strings from their offsets and sizes; null for a size of -1."""
    buffers = _value_buffers(data, at, size, size >= 0)
    return pa.Array.from_buffers(pa.binary(), len(at), [buffers[2], buffers[0], buffers[1]])


def _value_buffers(data: bytes, at: Ints, size: Ints, is_present: Bools) -> list[pa.Buffer]:
    """The offsets, the bytes and the validity of values."""
    count = np.maximum(size, 0)
    ends = np.cumsum(count)
    total = int(ends[-1]) if len(ends) else 0
    begins = ends - count
    offsets_in_data = np.repeat(at - begins, count) + np.arange(total)
    characters = np.frombuffer(data, dtype=np.uint8)[offsets_in_data]
    offsets = np.concatenate([np.zeros(1, dtype=np.int32), ends.astype(np.int32)])
    parts = offsets, characters, np.packbits(is_present, bitorder="little")
    return [pa.py_buffer(part.tobytes()) for part in parts]


@cache
def message_name(api_key: int, kind: str) -> str:
    """The name of the request or response of an API."""
    return f"{registry.api_name(api_key)}{kind}"


@cache
def has_tags(api_key: int, version: int) -> bool:
    """Whether the response's header ends with tags; that of ApiVersions never does."""
    return registry.header_versions(api_key, version)[1] > 0
