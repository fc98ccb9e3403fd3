"""Tracks fetch sessions (KIP-227) and share sessions (KIP-932), to find the partitions of incremental requests.

An incremental request names only the changes of its session; the broker stores the rest. The tracker does the same,
from the full request that opened the session, as long as the epochs show that no request was missed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from kwire import uuids
from kwire.capture.kafka.fetch_sessions import FINAL_EPOCH, INITIAL_EPOCH, FetchSession, SessionPartitions
from kwire.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterator

    import msgspec

    from kwire.capture.kafka.exchange import Exchange
    from kwire.capture.kafka.fetch_sessions import TopicPartitions
    from kwire.capture.model import Endpoint

_EPOCH_MAX = 2**31 - 1
SESSION_API_KEYS = FETCH, _SHARE_FETCH, _SHARE_ACKNOWLEDGE = 1, 78, 79
_FIRST_FETCH_VERSION = 7

# Limits of the stored sessions of a capture; the least recently used ones are dropped.
SESSIONS_MAX = 50_000
PARTITIONS_MAX = 1_000_000
# The partitions of a larger session are not returned, since they would be returned with each of its requests.
SESSION_PARTITIONS_MAX = 20_000

# The broker, and what identifies a session there: an id, or group and member.
_SessionKey = tuple["Endpoint", object]
_SESSION_NOT_FOUND = frozenset({ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.SHARE_SESSION_NOT_FOUND})
_NO_PARTITIONS = SessionPartitions({})


class _SessionState(NamedTuple):
    """A session and the epoch of its next request; without partitions if it was closed or its state is unknown.

    `since` is the time of the request that opened or closed it. `before` is the state until then: a request without a
    response is an outcome only when its connection ends, which may be later.
    """

    partitions: SessionPartitions | None
    next_epoch: int
    since: int
    before: _SessionState | None


class SessionExchange(NamedTuple):
    """What is needed of an exchange: its broker, the time of the request, and both bodies.

    A body may be any object with the attributes of the message. response: None without one.
    """

    broker: Endpoint
    api_key: int
    version: int
    ts: int
    request: Any
    response: Any


class SessionTracker:
    """The sessions on all brokers of a capture."""

    def __init__(self) -> None:
        self._states: dict[_SessionKey, _SessionState] = {}
        self._partition_count = 0

    def follow(self, exchange: Exchange) -> FetchSession | None:
        """The session of an exchange after its request; None for exchanges without a session, as of most APIs."""
        request, response = exchange.request, exchange.response
        if request is None or request.body is None or request.api_key not in SESSION_API_KEYS:
            return None
        flow, response_body = exchange.flow, None if response is None else response.body
        broker = flow.ends[1 - flow.client_side]
        frame = request.frame
        return self.follow_request(
            SessionExchange(broker, request.api_key, request.version, frame.ts, request.body, response_body)
        )

    def follow_request(self, exchange: SessionExchange) -> FetchSession | None:
        """The session of an exchange of one of `SESSION_API_KEYS`; None if its version has no sessions."""
        if exchange.api_key == FETCH:
            return self._follow_fetch(exchange) if exchange.version >= _FIRST_FETCH_VERSION else None
        return self._follow_share(exchange)

    def _follow_fetch(self, exchange: SessionExchange) -> FetchSession | None:
        broker, request = exchange.broker, exchange.request
        session_id: int = getattr(request, "session_id", 0)
        epoch: int = getattr(request, "session_epoch", FINAL_EPOCH)
        if epoch not in {INITIAL_EPOCH, FINAL_EPOCH}:
            return FetchSession(session_id, epoch, self._update((broker, session_id), epoch, exchange))
        # A full fetch closes the session that it names, and the response names the session that it opens.
        self._close((broker, session_id), exchange.ts)
        is_opening = epoch == INITIAL_EPOCH and not _response_field(exchange, "error_code")
        opened_id = _response_field(exchange, "session_id") if is_opening else 0
        if opened_id:
            return FetchSession(opened_id, epoch, self._open((broker, opened_id), exchange))
        return FetchSession(session_id or None, epoch, None)

    def _follow_share(self, exchange: SessionExchange) -> FetchSession:
        request = exchange.request
        key = exchange.broker, (getattr(request, "group_id", None), getattr(request, "member_id", None))
        epoch: int = getattr(request, "share_session_epoch", FINAL_EPOCH)
        if epoch == FINAL_EPOCH:
            self._close(key, exchange.ts)
            return FetchSession(None, epoch, None)
        if epoch == INITIAL_EPOCH:
            has_error = bool(_response_field(exchange, "error_code"))
            return FetchSession(None, epoch, None if has_error else self._open(key, exchange))
        return FetchSession(None, epoch, self._update(key, epoch, exchange))

    def _open(self, key: _SessionKey, exchange: SessionExchange) -> SessionPartitions | None:
        partitions, state = _NO_PARTITIONS.updated(_added_partitions(exchange), ()), self._states.get(key)
        if state is None or exchange.ts >= state.since:
            self._store(key, _state_after(partitions, INITIAL_EPOCH, exchange.ts, state))
        return _none_if_too_many(partitions)

    def _close(self, key: _SessionKey, ts: int) -> None:
        state = self._states.get(key)
        if state is not None and state.partitions is not None and ts >= state.since:
            self._store(key, _SessionState(None, INITIAL_EPOCH, ts, state._replace(before=None)))

    def _update(self, key: _SessionKey, epoch: int, exchange: SessionExchange) -> SessionPartitions | None:
        state, ts = self._states.get(key), exchange.ts
        if state is not None and ts < state.since:
            return _partitions_before(state.before, epoch, exchange)
        if state is None or state.partitions is None:
            return None
        error = _response_field(exchange, "error_code")
        if error and error not in _SESSION_NOT_FOUND:
            # A refused request does not change the session.
            return state.partitions
        if error or epoch != state.next_epoch:
            # A request in between was not captured, so the state is unknown.
            self._close(key, ts)
            return None
        partitions = state.partitions.updated(_added_partitions(exchange), _forgotten_partitions(exchange))
        after = _state_after(partitions, epoch, state.since, state.before)
        if partitions is state.partitions:
            # It counts the same, and is the one used last.
            del self._states[key]
            self._states[key] = after
        else:
            self._store(key, after)
        return _none_if_too_many(partitions)

    def _store(self, key: _SessionKey, state: _SessionState) -> None:
        self._drop(key)
        if state.partitions is not None and state.partitions.count > SESSION_PARTITIONS_MAX:
            return
        self._states[key] = state
        self._partition_count += _count_partitions(state)
        while len(self._states) > SESSIONS_MAX or self._partition_count > PARTITIONS_MAX:
            self._drop(next(iter(self._states)))

    def _drop(self, key: _SessionKey) -> None:
        state = self._states.pop(key, None)
        if state is not None:
            self._partition_count -= _count_partitions(state)


def _state_after(partitions: SessionPartitions, epoch: int, since: int, before: _SessionState | None) -> _SessionState:
    """The session after a request of this epoch; of the earlier states only the last one is stored."""
    next_epoch = 1 if epoch == _EPOCH_MAX else epoch + 1
    return _SessionState(partitions, next_epoch, since, None if before is None else before._replace(before=None))


def _count_partitions(state: _SessionState) -> int:
    current, before = state.partitions, state.before
    return (current.count if current else 0) + (before.partitions.count if before and before.partitions else 0)


def _none_if_too_many(partitions: SessionPartitions) -> SessionPartitions | None:
    return partitions if partitions.count <= SESSION_PARTITIONS_MAX else None


def _partitions_before(before: _SessionState | None, epoch: int, exchange: SessionExchange) -> SessionPartitions | None:
    """The partitions of a request that was sent before the session was opened again."""
    if before is None or before.partitions is None or epoch != before.next_epoch:
        return None
    return _none_if_too_many(before.partitions.updated(_added_partitions(exchange), _forgotten_partitions(exchange)))


def _response_field(exchange: SessionExchange, field: str) -> int:
    """A field of the response; 0 without a response, since the broker has most likely executed the request."""
    value: int = getattr(exchange.response, field, 0)
    return value


def _added_partitions(exchange: SessionExchange) -> Iterator[TopicPartitions]:
    if exchange.api_key == _SHARE_ACKNOWLEDGE:
        # An acknowledgement names partitions too, but does not add them to the session.
        return
    for topic in getattr(exchange.request, "topics", ()):
        yield _topic_key(topic), [_partition_index(partition) for partition in topic.partitions]


def _forgotten_partitions(exchange: SessionExchange) -> Iterator[TopicPartitions]:
    if exchange.api_key == _SHARE_ACKNOWLEDGE:
        # It has no such field, for which all of the message would be decoded.
        return
    for topic in getattr(exchange.request, "forgotten_topics_data", ()):
        yield _topic_key(topic), topic.partitions


def _topic_key(topic: msgspec.Struct) -> str | bytes:
    """The id of a topic, or its name in versions without ids."""
    topic_id: bytes = getattr(topic, "topic_id", uuids.ZERO)
    name: str | None = getattr(topic, "topic", None)
    return topic_id if topic_id != uuids.ZERO else name or ""


def _partition_index(partition: msgspec.Struct) -> int:
    number: int | None = getattr(partition, "partition", None)
    index: int = getattr(partition, "partition_index", 0)
    return index if number is None else number
