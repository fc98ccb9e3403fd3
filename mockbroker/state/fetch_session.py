"""Incremental fetch sessions (KIP-227): what a consumer asks for again and again, remembered per node.

Source: Kafka's FetchManager, FetchSession and FetchContext; pinned by the conversation other-fetch-session.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import msgspec

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError

#: A topic's name before Fetch v13 and its id from then on, and a partition.
PartitionKey = tuple[str | bytes, int]

#: A full fetch without a session, and the first one of a new session.
FINAL_EPOCH = -1
INITIAL_EPOCH = 0
_EPOCH_MAX = (1 << 31) - 1
#: A session that was not used for so long makes room for a new one.
_EVICTABLE_AFTER_MS = 120_000


class Chance(Protocol):
    """What this room needs of a seeded `random.Random`."""

    def randrange(self, start: int, stop: int, /) -> int:
        """A number from start to stop - 1."""


class Wanted(msgspec.Struct, frozen=True):
    """A partition that is fetched, and from where. Epochs and the log start are -1 when not given."""

    key: PartitionKey
    offset: int
    max_bytes: int
    leader_epoch: int = -1
    last_fetched_epoch: int = -1


class Seen(msgspec.Struct, frozen=True):
    """What a response row says that a session compares with the row before it."""

    key: PartitionKey
    error_code: int
    high_watermark: int
    log_start_offset: int
    has_records: bool
    diverging: bool


class _Cached(msgspec.Struct):
    wanted: Wanted
    high_watermark: int = -1
    log_start_offset: int = -1

    def changed_by(self, seen: Seen) -> bool:
        """Take over what a row says, and whether it has to be sent. An error is sent every time."""
        changed = (
            seen.has_records
            or seen.error_code != 0
            or seen.diverging
            or (self.high_watermark, self.log_start_offset) != (seen.high_watermark, seen.log_start_offset)
        )
        self.high_watermark = -1 if seen.error_code else seen.high_watermark
        self.log_start_offset = seen.log_start_offset
        return changed


class FetchSession(msgspec.Struct):
    """A consumer's partitions in the order in which they are served next, and the epoch that it has to send."""

    session_id: int
    by_id: bool
    epoch: int
    used_ms: int
    partitions: dict[PartitionKey, _Cached] = msgspec.field(default_factory=dict)

    def update(self, wanted: Iterable[Wanted], forgotten: Iterable[PartitionKey]) -> None:
        """Add and change partitions, then forget some."""
        for one in wanted:
            cached = self.partitions.get(one.key)
            if cached is None:
                self.partitions[one.key] = _Cached(one)
            else:
                cached.wanted = one
        for key in forgotten:
            self.partitions.pop(key, None)

    def changed(self, rows: Sequence[Seen]) -> list[bool]:
        """Which rows of an incremental response have to be sent; who got records goes to the end of the queue."""
        return [self._changed(seen) for seen in rows]

    def _changed(self, seen: Seen) -> bool:
        cached = self.partitions.get(seen.key)
        if cached is None:
            return True
        changed = cached.changed_by(seen)
        if changed and seen.has_records:
            self.partitions[seen.key] = self.partitions.pop(seen.key)
        return changed


class FetchPlan(msgspec.Struct):
    """What one Fetch request reads, and how its answer is told: whole, or only what changed.

    `session` is None for a full fetch. `opens` says that a session is made when the answer is known.
    """

    wanted: list[Wanted]
    session: FetchSession | None = None
    opens: bool = False


class FetchSessions:
    """The sessions of one node.

    slots: how many there may be, `max.incremental.fetch.session.cache.slots`.
    """

    def __init__(self, slots: int = 1000) -> None:
        self.slots = slots
        self._sessions: dict[int, FetchSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def plan(
        self,
        session_id: int,
        epoch: int,
        wanted: Sequence[Wanted],
        forgotten: Sequence[PartitionKey],
        *,
        by_id: bool,
        now_ms: int,
    ) -> FetchPlan:
        """One step of the session protocol.

        Raises: FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH, FETCH_SESSION_TOPIC_ID_ERROR.
        """
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            # A full fetch ends the session that it names.
            self._sessions.pop(session_id, None)
            return FetchPlan(list(wanted), opens=epoch == INITIAL_EPOCH)
        session = self._sessions.get(session_id)
        if session is None:
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, f"no fetch session {session_id}")
        if epoch != session.epoch:
            raise KafkaError(
                ErrorCode.INVALID_FETCH_SESSION_EPOCH, f"epoch {epoch} was sent, {session.epoch} is expected"
            )
        if by_id != session.by_id:
            raise KafkaError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, "names and topic ids do not mix in a session")
        session.update(wanted, forgotten)
        if not session.partitions:
            del self._sessions[session_id]
            return FetchPlan(list(wanted))
        session.used_ms = now_ms
        session.epoch = next_epoch(session.epoch)
        return FetchPlan([cached.wanted for cached in session.partitions.values()], session)

    def open(self, wanted: Sequence[Wanted], rows: Sequence[Seen], *, by_id: bool, now_ms: int, chance: Chance) -> int:
        """Make a session of a full fetch and its answer; returns its id, 0 when there is no room."""
        if len(self._sessions) >= self.slots and not self._make_room(now_ms):
            return 0
        session_id = chance.randrange(1, 1 << 31)
        while session_id in self._sessions:
            session_id = chance.randrange(1, 1 << 31)
        session = FetchSession(session_id, by_id, next_epoch(INITIAL_EPOCH), now_ms)
        session.update(wanted, ())
        session.changed(rows)
        self._sessions[session_id] = session
        return session_id

    def _make_room(self, now_ms: int) -> bool:
        oldest = min(self._sessions.values(), key=lambda session: session.used_ms, default=None)
        if oldest is None or now_ms - oldest.used_ms <= _EVICTABLE_AFTER_MS:
            return False
        del self._sessions[oldest.session_id]
        return True


def next_epoch(epoch: int) -> int:
    """The epoch after this one; after the largest int32 comes 1."""
    return 1 if epoch == _EPOCH_MAX else epoch + 1
