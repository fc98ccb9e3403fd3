"""Incremental fetch sessions (KIP-227): the partitions that a consumer fetches repeatedly, cached per node.

Source: Kafka's FetchManager, FetchSession and FetchContext; pinned by the conversation other-fetch-session.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec
from msgspec import structs

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError
from mockbroker.state.random_source import RandomSource

#: A topic's name before Fetch v13 and its id from then on, and a partition.
FetchPartitionKey = tuple[str | bytes, int]

#: The epochs of a full fetch without a session, and of the first fetch of a new session.
FINAL_EPOCH = -1
INITIAL_EPOCH = 0
_EPOCH_MAX = (1 << 31) - 1
#: A session that was not used for this long can be evicted for a new one.
_EVICTABLE_AFTER_MS = 120_000


class FetchRequestPartition(msgspec.Struct, frozen=True):
    """A requested partition and its fetch offset. Epochs are negative when not given.

    topic_name: the name of the topic, None while the topic id in the key is unknown. A session uses the name that it
    found first.
    """

    key: FetchPartitionKey
    offset: int
    max_bytes: int
    leader_epoch: int = -1
    last_fetched_epoch: int = -1
    topic_name: str | None = None


class FetchResponseSummary(msgspec.Struct, frozen=True):
    """The fields of a response row that a session compares with the previous row."""

    key: FetchPartitionKey
    error_code: int
    high_watermark: int
    log_start_offset: int
    has_records: bool
    diverging: bool


class _CachedPartition(msgspec.Struct):
    request: FetchRequestPartition
    high_watermark: int = -1
    log_start_offset: int = -1

    def is_changed(self, summary: FetchResponseSummary) -> bool:
        """Whether a row has to be sent. An error is always sent."""
        return (
            summary.has_records
            or summary.error_code != 0
            or summary.diverging
            or (self.high_watermark, self.log_start_offset) != (summary.high_watermark, summary.log_start_offset)
        )

    def update_from(self, summary: FetchResponseSummary) -> bool:
        """Store the values of a row, and return whether it has to be sent."""
        changed = self.is_changed(summary)
        self.high_watermark = -1 if summary.error_code else summary.high_watermark
        self.log_start_offset = summary.log_start_offset
        return changed


class FetchSession(msgspec.Struct):
    """The partitions of a consumer in the order in which they are served next, and the epoch of its next request."""

    session_id: int
    by_id: bool
    epoch: int
    used_ms: int
    partitions: dict[FetchPartitionKey, _CachedPartition] = msgspec.field(default_factory=dict)

    def update(self, requested: Iterable[FetchRequestPartition], forgotten: Iterable[FetchPartitionKey]) -> None:
        """Add and change partitions, then remove some."""
        for partition in requested:
            cached = self.partitions.get(partition.key)
            if cached is None:
                self.partitions[partition.key] = _CachedPartition(partition)
            else:
                name = cached.request.topic_name
                cached.request = structs.replace(partition, topic_name=name) if name is not None else partition
        for key in forgotten:
            self.partitions.pop(key, None)

    def resolve_names(self, find_name: Callable[[FetchPartitionKey], str | None]) -> None:
        """Find the names of topics that were unknown when their partitions were added."""
        for key, cached in self.partitions.items():
            if cached.request.topic_name is None:
                cached.request = structs.replace(cached.request, topic_name=find_name(key))

    def find_changed(self, rows: Sequence[FetchResponseSummary]) -> list[bool]:
        """Return which rows of an incremental response would have to be sent; nothing is stored."""
        cached = (self.partitions.get(row.key) for row in rows)
        return [entry is None or entry.is_changed(row) for entry, row in zip(cached, rows, strict=True)]

    def select_changed(self, rows: Sequence[FetchResponseSummary]) -> list[bool]:
        """Return which rows of an incremental response have to be sent; partitions with records move to the end."""
        return [self._is_changed(row) for row in rows]

    def _is_changed(self, summary: FetchResponseSummary) -> bool:
        cached = self.partitions.get(summary.key)
        if cached is None:
            return True
        changed = cached.update_from(summary)
        if changed and summary.has_records:
            self.partitions[summary.key] = self.partitions.pop(summary.key)
        return changed


class FetchPlan(msgspec.Struct):
    """The partitions that a Fetch request reads, and whether the response is full or incremental.

    `session` is None for a full fetch. `opens_session`: a session is created with the response. `next_epoch`: the epoch
    of the session after this request.
    """

    partitions: list[FetchRequestPartition]
    session: FetchSession | None = None
    opens_session: bool = False
    next_epoch: int = -1

    @property
    def is_superseded(self) -> bool:
        """Whether another request of the session came before the response to this one."""
        return self.session is not None and self.session.epoch != self.next_epoch


class FetchSessions:
    """The sessions of one node.

    slots: how many there may be, `max.incremental.fetch.session.cache.slots`.
    """

    def __init__(self, slots: int = 1000) -> None:
        self.slots = slots
        self._sessions: dict[int, FetchSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def get(self, session_id: int) -> FetchSession | None:
        """The session with this id, if there is one."""
        return self._sessions.get(session_id)

    def plan_fetch(
        self,
        session_id: int,
        epoch: int,
        requested: Sequence[FetchRequestPartition],
        forgotten: Sequence[FetchPartitionKey],
        *,
        by_id: bool,
        now_ms: int,
        find_name: Callable[[FetchPartitionKey], str | None] = lambda key: None,
    ) -> FetchPlan:
        """Apply a request to its session.

        find_name: the name of the topic of a partition, None for an unknown id.
        Raises: FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH, FETCH_SESSION_TOPIC_ID_ERROR.
        """
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            # A full fetch closes its session.
            self._sessions.pop(session_id, None)
            return FetchPlan(list(requested), opens_session=epoch == INITIAL_EPOCH)
        session = self._sessions.get(session_id)
        if session is None:
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, f"no fetch session {session_id}")
        if epoch != session.epoch:
            message = f"epoch {epoch} was sent, {session.epoch} is expected"
            raise KafkaError(ErrorCode.INVALID_FETCH_SESSION_EPOCH, message)
        if by_id != session.by_id:
            raise KafkaError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, "names and topic ids cannot be mixed in a session")
        session.update(requested, forgotten)
        if not session.partitions:
            del self._sessions[session_id]
            return FetchPlan(list(requested))
        session.used_ms = now_ms
        session.epoch = next_epoch(session.epoch)
        session.resolve_names(find_name)
        requests = [cached.request for cached in session.partitions.values()]
        return FetchPlan(requests, session, next_epoch=session.epoch)

    def open_session(
        self,
        requested: Sequence[FetchRequestPartition],
        rows: Sequence[FetchResponseSummary],
        *,
        by_id: bool,
        now_ms: int,
        rng: RandomSource,
    ) -> int:
        """Create a session from a full fetch and its response; returns its id, 0 when the cache is full.

        Its partitions are in the order of the rows.
        """
        if len(self._sessions) >= self.slots and not self._evict_oldest(now_ms):
            return 0
        session_id = rng.randrange(1, 1 << 31)
        while session_id in self._sessions:
            session_id = rng.randrange(1, 1 << 31)
        session = FetchSession(session_id, by_id, next_epoch(INITIAL_EPOCH), now_ms)
        by_key = {partition.key: partition for partition in requested}
        session.update([by_key[row.key] for row in rows], ())
        for row in rows:
            session.partitions[row.key].update_from(row)
        self._sessions[session_id] = session
        return session_id

    def _evict_oldest(self, now_ms: int) -> bool:
        oldest = min(self._sessions.values(), key=lambda session: session.used_ms, default=None)
        if oldest is None or now_ms - oldest.used_ms <= _EVICTABLE_AFTER_MS:
            return False
        del self._sessions[oldest.session_id]
        return True


def next_epoch(epoch: int) -> int:
    """The next epoch; the largest int32 is followed by 1."""
    return 1 if epoch == _EPOCH_MAX else epoch + 1
