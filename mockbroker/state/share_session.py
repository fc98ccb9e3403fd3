"""Share sessions: what a member has asked one node to fetch, and the epoch that keeps both sides in step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError

INITIAL_EPOCH = 0
FINAL_EPOCH = -1
_EPOCH_MAX = 2**31 - 1


def next_epoch(epoch: int) -> int:
    """The epoch that is expected after this one has been accepted (share-semantics 4.1)."""
    if epoch < 0:
        return FINAL_EPOCH
    return 1 if epoch == _EPOCH_MAX else epoch + 1


class PartitionKey(NamedTuple):
    """A partition of a topic, by the topic's id."""

    topic_id: bytes
    partition_index: int


@dataclass(slots=True)
class SessionPartition:
    """A partition in a session. The topic's name is resolved once, when it is added; None stands for an unknown id."""

    key: PartitionKey
    topic_name: str | None
    must_send: bool
    max_bytes: int = 0


class Requested(NamedTuple):
    """A partition that a request lists, with its topic's name as far as it is known; its own limit, if it has one."""

    key: PartitionKey
    topic_name: str | None
    max_bytes: int = 0


@dataclass(slots=True)
class ShareSession:
    """One member's session on one node; `partitions` is in the order in which they are served."""

    group_id: str
    member_id: str
    connection_id: int
    used_ms: int = 0
    epoch: int = INITIAL_EPOCH + 1
    partitions: dict[PartitionKey, SessionPartition] = field(default_factory=dict)

    def update(self, requested: Iterable[Requested], forgotten: Iterable[PartitionKey]) -> None:
        """Add what is new, also what only carries acknowledgements, then forget (share-semantics 4.4)."""
        for key, topic_name, max_bytes in requested:
            known = self.partitions.setdefault(key, SessionPartition(key, topic_name, must_send=True))
            known.max_bytes = max_bytes
        for key in forgotten:
            self.partitions.pop(key, None)

    def must_answer(self, key: PartitionKey, *, has_records: bool, has_error: bool) -> bool:
        """Whether a later response carries this partition's row; takes note that it has been sent (4.5)."""
        partition = self.partitions[key]
        answers = has_records or has_error or partition.must_send
        partition.must_send = has_error
        if has_records:
            self.partitions[key] = self.partitions.pop(key)  # What gave records goes to the end of the queue.
        return answers


@dataclass(slots=True)
class _Made:
    """The session that a connection made last."""

    group_id: str
    member_id: str
    is_stale: bool = False


class ShareSessions:
    """The sessions of one node, and which connection made which. There is no eviction: a full room refuses."""

    def __init__(self) -> None:
        self._sessions: dict[tuple[str, str], ShareSession] = {}
        self._made_by: dict[int, _Made] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def get(self, group_id: str, member_id: str) -> ShareSession | None:
        """The member's session, if it has one."""
        return self._sessions.get((group_id, member_id))

    def has_group(self, group_id: str) -> bool:
        """Whether any member of the group has a session here."""
        return any(key[0] == group_id for key in self._sessions)

    def open(
        self,
        group_id: str,
        member_id: str,
        partitions: Sequence[Requested],
        *,
        connection_id: int,
        session_max: int,
        idle_ms: int = 0,
        now_ms: int = 0,
    ) -> ShareSession | None:
        """Make a session; an old one of the member goes without releasing anything (share-semantics 4.3).

        Args: idle_ms: a session that nobody has used for longer than that makes room; 0 where none does.
        Returns: None when there are `session_max` sessions already.
        Raises: UNKNOWN_SERVER_ERROR for a partition listed twice.
        """
        self.remove(group_id, member_id)
        session = ShareSession(group_id, member_id, connection_id, now_ms)
        for key, topic_name, max_bytes in partitions:
            if key in session.partitions:
                raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
            session.partitions[key] = SessionPartition(key, topic_name, must_send=False, max_bytes=max_bytes)
        if len(self._sessions) >= session_max and not (idle_ms and self._evict(now_ms - idle_ms)):
            return None
        self._sessions[group_id, member_id] = session
        self._made_by[connection_id] = _Made(group_id, member_id)  # Only the last one made is remembered (4.6).
        return session

    def _evict(self, before_ms: int) -> bool:
        """Forget the session that has not been used for longest, if that was before; it releases nothing."""
        oldest = min(self._sessions.values(), key=lambda session: session.used_ms)
        if oldest.used_ms >= before_ms:
            return False
        self.remove(oldest.group_id, oldest.member_id)
        return True

    def step(self, group_id: str, member_id: str, epoch: int, *, now_ms: int = 0) -> ShareSession:
        """Accept a request of an open session, and expect the next epoch. A closing one is accepted in any epoch.

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
        session.used_ms = now_ms
        return session

    def remove(self, group_id: str, member_id: str) -> ShareSession | None:
        """Forget the member's session; what it held is the caller's to release, or not.

        Its connection then closes nothing any more when it ends, as in 4.3.0 not even a session made by it later on.
        """
        session = self._sessions.pop((group_id, member_id), None)
        made = self._made_by.get(session.connection_id) if session is not None else None
        if made is not None:
            made.is_stale = True
        return session

    def disconnected(self, connection_id: int) -> tuple[str, ShareSession | None] | None:
        """The group of the session that this connection made last, and the session if it ends with the connection.

        None when the connection never made one. The session is gone then, its records are the caller's to release.
        """
        made = self._made_by.pop(connection_id, None)
        if made is None:
            return None
        return made.group_id, None if made.is_stale else self.remove(made.group_id, made.member_id)

    def clear(self) -> None:
        """Forget all sessions: share groups have been switched off."""
        self._sessions.clear()
