"""Share sessions: the partitions that a member fetches from one node, and the epoch that synchronizes both sides."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError

INITIAL_EPOCH = 0
FINAL_EPOCH = -1
_MAX_EPOCH = 2**31 - 1


def next_epoch(epoch: int) -> int:
    """The epoch that is expected after an accepted one (share-semantics 4.1)."""
    if epoch < 0:
        return FINAL_EPOCH
    return 1 if epoch == _MAX_EPOCH else epoch + 1


class PartitionKey(NamedTuple):
    """A partition of a topic, by the topic's id."""

    topic_id: bytes
    partition_index: int


@dataclass(slots=True)
class SessionPartition:
    """A partition in a session.

    topic_name: resolved once, when the partition is added; None for an unknown topic id. is_response_pending: the next
    response must contain the partition.
    """

    key: PartitionKey
    topic_name: str | None
    is_response_pending: bool
    max_bytes: int = 0


class RequestedPartition(NamedTuple):
    """A partition of a request. topic_name: None for an unknown topic id. max_bytes: its own limit, 0 for none."""

    key: PartitionKey
    topic_name: str | None
    max_bytes: int = 0


@dataclass(slots=True)
class ShareSession:
    """One member's session on one node; `partitions` are in the order in which they are served."""

    group_id: str
    member_id: str
    connection_id: int
    last_used_ms: int = 0
    epoch: int = INITIAL_EPOCH + 1
    partitions: dict[PartitionKey, SessionPartition] = field(default_factory=dict)

    def update_partitions(self, requested: Iterable[RequestedPartition], forgotten: Iterable[PartitionKey]) -> None:
        """Add new partitions, also those with only acknowledgements, then remove the forgotten ones (4.4)."""
        for key, topic_name, max_bytes in requested:
            known = self.partitions.setdefault(key, SessionPartition(key, topic_name, is_response_pending=True))
            known.max_bytes = max_bytes
        for key in forgotten:
            self.partitions.pop(key, None)

    def would_include(self, key: PartitionKey, *, has_records: bool, has_error: bool) -> bool:
        """Whether a later response would contain this partition's row; nothing is changed."""
        return has_records or has_error or self.partitions[key].is_response_pending

    def includes_partition(self, key: PartitionKey, *, has_records: bool, has_error: bool) -> bool:
        """Whether a later response contains this partition's row; marks it as sent (4.5)."""
        partition = self.partitions[key]
        is_included = self.would_include(key, has_records=has_records, has_error=has_error)
        partition.is_response_pending = has_error
        if has_records:
            self.partitions[key] = self.partitions.pop(key)  # A partition that returned records moves to the end.
        return is_included


@dataclass(slots=True)
class _ConnectionSession:
    """The session that a connection opened last. is_stale: it was removed since."""

    group_id: str
    member_id: str
    is_stale: bool = False


class ShareSessions:
    """The sessions of one node, and the connections that opened them. 4.3.0 evicts none: at the limit it refuses."""

    def __init__(self) -> None:
        self._sessions: dict[tuple[str, str], ShareSession] = {}
        self._session_by_connection: dict[int, _ConnectionSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def get(self, group_id: str, member_id: str) -> ShareSession | None:
        """The member's session, if it has one."""
        return self._sessions.get((group_id, member_id))

    def has_group(self, group_id: str) -> bool:
        """Whether any member of the group has a session here."""
        return any(key[0] == group_id for key in self._sessions)

    def open_session(
        self,
        group_id: str,
        member_id: str,
        partitions: Sequence[RequestedPartition],
        *,
        connection_id: int,
        session_max: int,
        idle_ms: int = 0,
        now_ms: int = 0,
    ) -> ShareSession | None:
        """Open a session; an old one of the member is removed without releasing records (share-semantics 4.3).

        Args: idle_ms: at the limit a session that was idle for longer is evicted; 0 for no eviction.
        Returns: None if there are `session_max` sessions already.
        Raises: UNKNOWN_SERVER_ERROR for a partition listed twice.
        """
        self.remove_session(group_id, member_id)
        session = ShareSession(group_id, member_id, connection_id, now_ms)
        for key, topic_name, max_bytes in partitions:
            if key in session.partitions:
                raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
            session.partitions[key] = SessionPartition(key, topic_name, is_response_pending=False, max_bytes=max_bytes)
        if len(self._sessions) >= session_max and not (idle_ms and self._evict_idle(now_ms - idle_ms)):
            return None
        self._sessions[group_id, member_id] = session
        # Only the last one is stored (4.6).
        self._session_by_connection[connection_id] = _ConnectionSession(group_id, member_id)
        return session

    def _evict_idle(self, before_ms: int) -> bool:
        """Remove the longest idle session if it was last used before a time; its records are not released."""
        oldest = min(self._sessions.values(), key=lambda session: session.last_used_ms)
        if oldest.last_used_ms >= before_ms:
            return False
        self.remove_session(oldest.group_id, oldest.member_id)
        return True

    def advance_epoch(self, group_id: str, member_id: str, epoch: int, *, now_ms: int = 0) -> ShareSession:
        """Accept a request of an open session, and advance its epoch. The final epoch is accepted at any time.

        Raises: SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH. Source: share-semantics 4.1 and 4.3.
        """
        session = self.get(group_id, member_id)
        if session is None:
            raise KafkaError(ErrorCode.SHARE_SESSION_NOT_FOUND)
        if epoch == FINAL_EPOCH:
            return session
        if epoch != session.epoch:
            raise KafkaError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        session.epoch = next_epoch(session.epoch)
        session.last_used_ms = now_ms
        return session

    def remove_session(self, group_id: str, member_id: str) -> ShareSession | None:
        """Remove the member's session; the caller decides whether its records are released.

        The end of its connection then closes no session any more: in 4.3.0 not even one that it opened later.
        """
        session = self._sessions.pop((group_id, member_id), None)
        opened = self._session_by_connection.get(session.connection_id) if session is not None else None
        if opened is not None:
            opened.is_stale = True
        return session

    def close_connection(self, connection_id: int) -> tuple[str, ShareSession | None] | None:
        """The group of the session that this connection opened last, and the session if it ends with the connection.

        Returns: None if the connection never opened one. The session is removed; the caller releases its records.
        """
        opened = self._session_by_connection.pop(connection_id, None)
        if opened is None:
            return None
        return opened.group_id, None if opened.is_stale else self.remove_session(opened.group_id, opened.member_id)

    def clear(self) -> None:
        """Remove all sessions: share groups have been switched off."""
        self._sessions.clear()
