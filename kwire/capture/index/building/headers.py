"""What the headers of frames say: of all of a span at once, where they lie in it in one piece."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Protocol

import numpy as np

from kwire import registry
from kwire.capture.index.building.flows import Flows
from kwire.capture.index.building.hop import Frames, Parts, Read
from kwire.capture.index.building.pairing import Answered, Asked
from kwire.capture.index.walking.heads import gather
from kwire.capture.values import Flow, Frame

if TYPE_CHECKING:
    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]

_HEAD_SIZE = 10
_CLIENT_ID_SIZE = 48
_PRODUCE, _SASL_HANDSHAKE = 0, 17
_NEVER_FLEXIBLE = 1 << 15


class ClientIds:
    """The client ids of a capture, each once."""

    def __init__(self) -> None:
        """None yet."""
        self.texts: list[str] = []
        self._numbers: dict[bytes, int] = {}

    def number(self, data: bytes) -> int:
        """The number of an id; -2 where it is no text as Kafka sends it."""
        found = self._numbers.get(data)
        if found is None:
            try:
                text = data.decode()
            except UnicodeDecodeError:
                return -2
            found = self._numbers[data] = len(self.texts)
            self.texts.append(text)
        return found


class Headers:
    """Reads headers; what ids there are is kept."""

    def __init__(self, flows: Flows, read: Read, parts: Parts, client_ids: ClientIds) -> None:
        """`read` and `parts` are those of the frames; `client_ids` takes those that are found."""
        self._flows = flows
        self._read = read
        self._parts = parts
        self.client_ids = client_ids

    def split(self, found: Frames, base: int, data: bytes) -> tuple[Asked, Answered]:
        """Requests and responses of flows that are clean; what no clean flow has spoils it."""
        flows = self._flows
        opener = flows.opener[found.side >> 1]
        is_request = (found.side & 1) == opener
        least = np.where(is_request, _HEAD_SIZE, 4)
        flows.spoil((found.side >> 1)[found.size < least], "bad_length")
        clean = flows.is_clean(found.side >> 1)
        asked = self._asked(found.of(np.nonzero(is_request & clean)[0]), base, data)
        answered = self._answered(found.of(np.nonzero(~is_request & clean)[0]), base, data)
        return asked, answered

    def _rows(self, found: Frames, base: int, data: bytes, size: int) -> npt.NDArray[np.uint8]:
        """The first bytes of each frame; zeros behind the end of it."""
        at = found.at - base
        can = (at >= 0) & (at + size <= len(data)) & (found.at >= 0)
        if bool(can.all()):
            return gather(data, at, size)
        out = np.zeros((len(at), size), dtype=np.uint8)
        out[can] = gather(data, at[can], size)
        for index in np.nonzero(~can)[0].tolist():
            head = self.body(int(found.at[index]), int(found.parts[index]), min(int(found.size[index]), size))
            out[index, : len(head)] = np.frombuffer(head, dtype=np.uint8)
        return out

    def body(self, at: int, parts: int, size: int) -> bytes:
        """The first bytes of a frame of this span, wherever they lie."""
        held = self._parts
        return body_of(self._read, (held.at, held.size), at if at >= 0 else at + held.first, parts, size)

    def _answered(self, found: Frames, base: int, data: bytes) -> Answered:
        ids = self._rows(found, base, data, 4).view(">i4").astype(np.int64).reshape(-1)
        return Answered(found, ids, np.full(len(ids), -1, dtype=np.int64))

    def _asked(self, found: Frames, base: int, data: bytes) -> Asked:
        rows = self._rows(found, base, data, _HEAD_SIZE + _CLIENT_ID_SIZE)
        api_key = rows[:, 0:2].copy().view(">i2").astype(np.int64)[:, 0]
        version = rows[:, 2:4].copy().view(">i2").astype(np.int64)[:, 0]
        correlation_id = rows[:, 4:8].copy().view(">i4").astype(np.int64)[:, 0]
        id_size = rows[:, 8:10].copy().view(">i2").astype(np.int64)[:, 0]
        flow = found.side >> 1
        self._flows.spoil(flow[(api_key == _SASL_HANDSHAKE) & (version == 0)], "tokens")
        client_id = self._client_ids(found, rows, id_size)
        after = _HEAD_SIZE + np.maximum(id_size, 0)
        limit = flexible_from()[np.clip(api_key, -1, len(flexible_from()) - 2)]
        is_flexible = version >= limit
        tag_at = np.minimum(after, rows.shape[1] - 1)
        has_tags = is_flexible & (rows[np.arange(len(rows)), tag_at] != 0)
        is_known = limit < _NEVER_FLEXIBLE + 1
        is_odd = has_tags | (client_id == -2) | ~is_known | (after + is_flexible > found.size)
        # Ids that are longer than what was gathered are read, but not where the tags behind them begin.
        is_odd |= after + 1 > rows.shape[1]
        body = np.where(is_odd, -1, after + is_flexible)
        ones = np.ones(len(flow), dtype=np.int64)
        asked = Asked(found, api_key, version, correlation_id, client_id, body, ones, ones, ones)
        self._unanswered(asked, rows)
        return asked

    def _client_ids(self, found: Frames, rows: npt.NDArray[np.uint8], id_size: Ints) -> Ints:
        """The number of each request's client id. Nearly always it is the one that the flow began with."""
        out = np.full(len(id_size), -1, dtype=np.int64)
        has_id = np.nonzero(id_size >= 0)[0]
        out[id_size < -1] = -2
        if not len(has_id):
            return out
        flow = found.side[has_id] >> 1
        width = min(int(id_size[has_id].max()), _CLIENT_ID_SIZE)
        texts = rows[has_id, _HEAD_SIZE : _HEAD_SIZE + width].copy()
        texts[np.arange(width) >= id_size[has_id][:, None]] = 0
        _, first, inverse = np.unique(flow, return_index=True, return_inverse=True)
        is_same = (texts == texts[first][inverse]).all(axis=1) & (id_size[has_id] == id_size[has_id][first][inverse])
        is_same &= id_size[has_id] <= _CLIENT_ID_SIZE
        numbers = np.array([self._client_id(found, rows, id_size, int(has_id[each])) for each in first.tolist()])
        out[has_id] = np.where(is_same, numbers[inverse], -1)
        for index in has_id[~is_same].tolist():
            out[index] = self._client_id(found, rows, id_size, index)
        return out

    def _client_id(self, found: Frames, rows: npt.NDArray[np.uint8], id_size: Ints, index: int) -> int:
        size = int(id_size[index])
        if _HEAD_SIZE + size > int(found.size[index]):
            return -2
        if size <= _CLIENT_ID_SIZE:
            return self.client_ids.number(rows[index, _HEAD_SIZE : _HEAD_SIZE + size].tobytes())
        data = self.body(int(found.at[index]), int(found.parts[index]), _HEAD_SIZE + size)
        return self.client_ids.number(data[_HEAD_SIZE:])

    def _unanswered(self, asked: Asked, rows: npt.NDArray[np.uint8]) -> None:
        """Produce requests with acks=0 get no answer: the few that seem to be such are decoded to be sure."""
        produce = asked.api_key == _PRODUCE
        if not produce.any():
            return
        at = np.minimum(np.maximum(asked.body, 0), rows.shape[1] - 4)
        pick = np.arange(len(at))
        compact = asked.api_version >= flexible_from()[_PRODUCE]
        # A null transactional id, and acks behind it.
        is_null = np.where(compact, rows[pick, at] == 0, (rows[pick, at] == 255) & (rows[pick, at + 1] == 255))
        behind = at + np.where(compact, 1, 2)
        acks = rows[pick, behind].astype(np.int64) << 8 | rows[pick, np.minimum(behind + 1, rows.shape[1] - 1)]
        is_plain = (asked.body >= 0) & (asked.body < rows.shape[1] - 4) & is_null & (acks != 0)
        for index in np.nonzero(produce & ~is_plain)[0].tolist():
            asked.wants_answer[index] = self._wants_answer(asked, index)

    def _wants_answer(self, asked: Asked, index: int) -> bool:
        from kwire.capture.bodies import Decoder

        frame = asked.frame
        data = self.body(int(frame.at[index]), int(frame.parts[index]), int(frame.size[index]))
        nobody = Flow(((b"", 0), (b"", 0)), 0, "")
        request = Decoder(registry.DEFAULT_EDITION).request(Frame(nobody, True, 0, 0, 0, len(data), data, None))
        return getattr(request.body, "acks", 1) != 0


class Numbered(Protocol):
    """Numbers by their places."""

    def __getitem__(self, place: int, /) -> int:
        """One of them."""


def body_of(read: Read, pieces: tuple[Numbered, Numbered], at: int, parts: int, size: int) -> bytes:
    """The first `size` bytes of a frame that begins at this offset, or in these pieces: offsets and sizes."""
    if at >= 0:
        return read(at, size)
    out = []
    (ats, sizes), first = pieces, -1 - at
    for index in range(first, first + parts):
        out.append(read(ats[index], min(sizes[index], size)))
        size -= len(out[-1])
        if size <= 0:
            break
    return b"".join(out)


@cache
def flexible_from() -> Ints:
    """By API key, the first version whose request header has tags; beyond all versions where nobody knows the API."""
    last = max(registry.API_KEYS)
    # One place more, for the keys that are none: -1 is the last place.
    out = np.full(last + 3, _NEVER_FLEXIBLE + 1, dtype=np.int64)
    for key in registry.API_KEYS:
        versions = [each for each in range(64) if registry.header_versions(key, each)[0] == 2]
        out[key] = versions[0] if versions else _NEVER_FLEXIBLE
    return out
