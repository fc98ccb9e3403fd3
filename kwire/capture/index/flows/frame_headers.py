"""Read the Kafka headers of frames: those of all frames of a span together if each is contiguous in the file."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Protocol

import numpy as np
from msgspec import Struct

from kwire import registry
from kwire.capture.index.arrays import Bytes, Ints
from kwire.capture.index.flows.frame_columns import NO_ID, FoundFrames, FragmentBuffer, FrameColumns, ReadAt
from kwire.capture.index.flows.message_columns import DAMAGED, TOKEN, RequestColumns, ResponseColumns, mark_damaged
from kwire.capture.index.scan.packet_headers import gather_bytes
from kwire.capture.index.streams.flow_table import FlowTable
from kwire.capture.kafka.heuristics import TOKEN_CHECKED_SIZE, begins_request
from kwire.capture.model import Flow, Frame

_HEADER_SIZE = 10
# Up to the correlation id.
_NUMBERED_SIZE = 8
_CLIENT_ID_SIZE = 48
_PRODUCE, _CONTROLLED_SHUTDOWN, _SASL_HANDSHAKE = 0, 7, 17
_NEVER_FLEXIBLE = 1 << 15
_HEADER_FIELDS = [("api_key", ">i2"), ("api_version", ">i2"), ("correlation_id", ">i4"), ("client_id_size", ">i2")]


class ClientIdTable:
    """The client ids of a capture, without duplicates."""

    def __init__(self) -> None:
        """There are no ids yet."""
        self.texts: list[str] = []
        self._numbers: dict[bytes, int] = {}

    def add_client_id(self, data: bytes) -> int:
        """Add an id if it is new; return its number, or -2 if it is not valid UTF-8."""
        number = self._numbers.get(data)
        if number is None:
            try:
                text = data.decode()
            except UnicodeDecodeError:
                return -2
            number = self._numbers[data] = len(self.texts)
            self.texts.append(text)
        return number


class HeaderReader:
    """Reads request and response headers; adds client ids to a table."""

    def __init__(self, flows: FlowTable, read: ReadAt, fragments: FragmentBuffer, client_ids: ClientIdTable) -> None:
        """`read` and `fragments` are those of the frame scan; new ids are added to `client_ids`."""
        self._flows = flows
        self._read = read
        self._fragments = fragments
        self.client_ids = client_ids
        # The flows whose next request may be a SASL token without a header.
        self._token_flows: set[int] = set()

    def read_requests(self, found: FoundFrames, base: int, data: bytes) -> RequestColumns:
        """The requests that these frames are."""
        frames, have = found
        requests = self._read_requests(frames._replace(size=have), base, data)
        is_damaged = have < frames.size
        if not bool(is_damaged.any()):
            return self._mark_tokens(requests, have)
        body = np.where(is_damaged, mark_damaged(requests.body), requests.body)
        # Whether a damaged Produce request has acks is not known.
        expects_response = np.where(is_damaged & (have >= _NUMBERED_SIZE), 1, requests.expects_response)
        requests = requests._replace(frame=frames, body=body, expects_response=expects_response)
        return self._mark_tokens(requests, have)

    def read_responses(self, found: FoundFrames, base: int, data: bytes) -> ResponseColumns:
        """The responses that these frames are."""
        frames, have = found
        ids = self._gather_headers(frames, base, data, 4).view(">i4").astype(np.int64).reshape(-1)
        ids[have < 4] = NO_ID
        return ResponseColumns(frames, ids, np.where(have < frames.size, DAMAGED, -1))

    def _gather_headers(self, frames: FrameColumns, base: int, data: bytes, size: int) -> Bytes:
        """The first bytes of each frame; behind a shorter one any bytes follow."""
        first, is_enough = self._fragments.first_parts(frames, size)
        at = first - base
        is_contiguous = (at >= 0) & (at + size <= len(data)) & is_enough
        if bool(is_contiguous.all()):
            return gather_bytes(data, at, size)
        out = np.zeros((len(at), size), dtype=np.uint8)
        out[is_contiguous] = gather_bytes(data, at[is_contiguous], size)
        for index in np.nonzero(~is_contiguous)[0].tolist():
            fragment_count, header_size = int(frames.fragment_count[index]), min(int(frames.size[index]), size)
            header = self.read_body(int(frames.at[index]), fragment_count, header_size)
            out[index, : len(header)] = np.frombuffer(header, dtype=np.uint8)
        return out

    def read_body(self, at: int, fragment_count: int, size: int) -> bytes:
        """The first bytes of a frame of this span."""
        buffer = self._fragments
        first = at if at >= 0 else at + buffer.first
        return read_body(self._read, (buffer.at, buffer.size), first, fragment_count, size)

    def _read_requests(self, frames: FrameColumns, base: int, data: bytes) -> RequestColumns:
        rows = self._gather_headers(frames, base, data, _HEADER_SIZE + _CLIENT_ID_SIZE)
        fields = rows[:, :_HEADER_SIZE].copy().view(_HEADER_FIELDS)[:, 0]
        api_key, version, correlation_id, id_size = (fields[name].astype(np.int64) for name, _ in _HEADER_FIELDS)
        flow = frames.side >> 1
        # Without a correlation id there is no pair, and without a size no client id.
        has_id = frames.size >= _NUMBERED_SIZE
        api_key[~has_id] = version[~has_id] = -1
        correlation_id[~has_id] = NO_ID
        id_size[frames.size < _HEADER_SIZE] = -1
        # The one header without a client id.
        has_old_header = (api_key == _CONTROLLED_SHUTDOWN) & (version == 0)
        id_size[has_old_header] = -1
        client_id = self._client_ids(frames, rows, id_size)
        after = _HEADER_SIZE + np.maximum(id_size, 0)
        first_flexible = first_flexible_versions()
        limit = first_flexible[np.clip(api_key, -1, len(first_flexible) - 2)]
        is_flexible = version >= limit
        tag_at = np.minimum(after, rows.shape[1] - 1)
        has_tags = is_flexible & (rows[np.arange(len(rows)), tag_at] != 0)
        is_known = limit < _NEVER_FLEXIBLE + 1
        is_unusual = has_tags | (client_id == -2) | ~is_known | (after + is_flexible > frames.size) | has_old_header
        # Client ids longer than the gathered bytes are read; the tags after them are left to the message decoder.
        is_unusual |= after + 1 > rows.shape[1]
        body = np.where(is_unusual, -1, after + is_flexible)
        zeros, expects = np.zeros(len(flow), dtype=np.int64), has_id.astype(np.int64)
        requests = RequestColumns(
            frames,
            api_key,
            version,
            correlation_id,
            client_id,
            body,
            expects,
            number=zeros,
            in_flight=zeros,
            marks=zeros,
        )
        self._mark_unanswered(requests, rows)
        return requests

    def _client_ids(self, frames: FrameColumns, rows: Bytes, id_size: Ints) -> Ints:
        """The number of each request's client id. It is almost always the first one of the flow."""
        out = np.full(len(id_size), -1, dtype=np.int64)
        has_id = np.nonzero(id_size >= 0)[0]
        out[id_size < -1] = -2
        if not len(has_id):
            return out
        flow = frames.side[has_id] >> 1
        width = min(int(id_size[has_id].max()), _CLIENT_ID_SIZE)
        texts = rows[has_id, _HEADER_SIZE : _HEADER_SIZE + width].copy()
        texts[np.arange(width) >= id_size[has_id][:, None]] = 0
        _, first, inverse = np.unique(flow, return_index=True, return_inverse=True)
        is_same = (texts == texts[first][inverse]).all(axis=1) & (id_size[has_id] == id_size[has_id][first][inverse])
        is_same &= id_size[has_id] <= _CLIENT_ID_SIZE
        numbers = np.array([self._client_id(frames, rows, id_size, int(has_id[index])) for index in first.tolist()])
        out[has_id] = np.where(is_same, numbers[inverse], -1)
        for index in has_id[~is_same].tolist():
            out[index] = self._client_id(frames, rows, id_size, index)
        return out

    def _client_id(self, frames: FrameColumns, rows: Bytes, id_size: Ints, index: int) -> int:
        size = int(id_size[index])
        if _HEADER_SIZE + size > int(frames.size[index]):
            return -2
        if size <= _CLIENT_ID_SIZE:
            return self.client_ids.add_client_id(rows[index, _HEADER_SIZE : _HEADER_SIZE + size].tobytes())
        data = self.read_body(int(frames.at[index]), int(frames.fragment_count[index]), _HEADER_SIZE + size)
        return self.client_ids.add_client_id(data[_HEADER_SIZE:])

    def _mark_unanswered(self, requests: RequestColumns, rows: Bytes) -> None:
        """Mark Produce requests with acks=0, which have no response: likely ones are decoded to be sure."""
        produce = requests.api_key == _PRODUCE
        if not produce.any():
            return
        at = np.clip(requests.body, 0, rows.shape[1] - 4)
        pick = np.arange(len(at))
        compact = requests.api_version >= first_flexible_versions()[_PRODUCE]
        # A null transactional id, then acks.
        is_null = np.where(compact, rows[pick, at] == 0, (rows[pick, at] == 255) & (rows[pick, at + 1] == 255))
        acks_at = at + np.where(compact, 1, 2)
        acks = rows[pick, acks_at].astype(np.int64) << 8 | rows[pick, np.minimum(acks_at + 1, rows.shape[1] - 1)]
        is_plain = (requests.body >= 0) & (requests.body < rows.shape[1] - 4) & is_null & (acks != 0)
        for index in np.nonzero(produce & ~is_plain)[0].tolist():
            requests.expects_response[index] = self._expects_response(requests, index)

    def _expects_response(self, requests: RequestColumns, index: int) -> bool:
        body = self._decode_body(requests.frame, index, int(requests.frame.size[index]))
        return getattr(body, "acks", 1) != 0

    def _decode_body(self, frames: FrameColumns, index: int, size: int) -> Struct | None:
        """The body of a request, of which the first `size` bytes are a frame; None if they are not valid."""
        from kwire.capture.kafka.message_decoder import MessageDecoder

        data = self.read_body(int(frames.at[index]), int(frames.fragment_count[index]), size)
        no_flow = Flow(((b"", 0), (b"", 0)), 0, "")
        whole_frame = Frame(no_flow, True, 0, 0, 0, len(data), data, None)
        return MessageDecoder(registry.DEFAULT_EDITION).decode_request(whole_frame).body

    def _mark_tokens(self, requests: RequestColumns, have: Ints) -> RequestColumns:
        """Mark SASL tokens, which follow a SaslHandshake of version 0 in frames without headers (KIP-152).

        Args: requests: by side. have: how many bytes of each precede its first missing one.
        """
        flow = requests.frame.side >> 1
        may_be = (requests.api_key == _SASL_HANDSHAKE) & (requests.api_version == 0)
        if self._token_flows:
            may_be |= np.isin(flow, np.fromiter(self._token_flows, dtype=np.int64))
        numbers = np.unique(flow[may_be])
        tokens: list[int] = []
        for number in numbers.tolist():
            first, stop = np.searchsorted(flow, (number, number + 1)).tolist()
            tokens += self._find_tokens(number, requests, have, range(first, stop))
        if not tokens:
            return requests
        columns = {"api_key": -1, "api_version": -1, "correlation_id": NO_ID, "client_id": -1, "body": -1}
        columns |= {"expects_response": 1, "marks": TOKEN}
        changed = {name: getattr(requests, name).copy() for name in columns}
        for name, value in columns.items():
            changed[name][tokens] = value
        return requests._replace(**changed)

    def _find_tokens(self, number: int, requests: RequestColumns, have: Ints, rows: range) -> Iterator[int]:
        """Those of these rows, of one flow, that are tokens. The state of the flow continues from span to span."""
        token_flows, handshakes = self._token_flows, requests.api_key[rows.start : rows.stop] == _SASL_HANDSHAKE
        for row in rows:
            if number in token_flows:
                if not self._begins_request(requests.frame, row, int(have[row])):
                    yield row
                    continue
                token_flows.discard(number)
            if handshakes[row - rows.start] and have[row] == requests.frame.size[row]:
                is_valid = self._decode_body(requests.frame, row, int(have[row])) is not None
                if is_valid and requests.api_version[row] == 0:
                    token_flows.add(number)

    def _begins_request(self, frames: FrameColumns, row: int, have: int) -> bool:
        """Whether a frame begins with the header of a request, while tokens are expected."""
        size = min(have, TOKEN_CHECKED_SIZE)
        data = self.read_body(int(frames.at[row]), int(frames.fragment_count[row]), size)
        return begins_request(int(frames.size[row]), data)


class IndexedNumbers(Protocol):
    """A sequence of numbers."""

    def __getitem__(self, index: int, /) -> int:
        """One of the numbers."""


class StoredNumbers(IndexedNumbers, Protocol):
    """Numbers of an index, read one by one or many at once."""

    def take(self, numbers: Ints) -> Ints:
        """The numbers at these indexes."""


def read_body(
    read: ReadAt, fragments: tuple[IndexedNumbers, IndexedNumbers], at: int, fragment_count: int, size: int
) -> bytes:
    """The first `size` bytes of a frame at this offset, or in fragments. Args: fragments: offsets and sizes."""
    if at >= 0:
        return read(at, size)
    out = []
    (ats, sizes), first = fragments, -1 - at
    for index in range(first, first + fragment_count):
        out.append(read(ats[index], min(sizes[index], size)))
        size -= len(out[-1])
        if size <= 0:
            break
    return b"".join(out)


@cache
def first_flexible_versions() -> Ints:
    """By API key, the first version whose request header has tags; above all versions for an unknown API."""
    keys = registry.known_api_keys()
    last = max(keys)
    # The last item is for keys that no API has: index -1.
    out = np.full(last + 3, _NEVER_FLEXIBLE + 1, dtype=np.int64)
    for key in keys:
        versions = [version for version in range(64) if registry.header_versions(key, version)[0] == 2]
        out[key] = versions[0] if versions else _NEVER_FLEXIBLE
    return out
