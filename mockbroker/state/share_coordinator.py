"""The share coordinator: the stored state of share partitions, and the facts that change it.

Every operation decides on facts (snapshot, update, tombstone), and only `replay` changes the state, so the facts are
all that a log has to keep. Source: share-semantics 7.2 and 7.3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from kwire import uuids
from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError
from mockbroker.state.metadata import Change, Topic
from mockbroker.state.share_rules import RELEASED, ShareRules
from mockbroker.state.state_batches import StateBatch, combine

UNINITIALIZED_START = -1
NO_EPOCH = -1
#: The delivery state of records that are not done.
_AVAILABLE = 0


class ShareKey(NamedTuple):
    """A share partition: one group's view of one partition."""

    group_id: str
    topic_id: bytes
    partition: int

    def __str__(self) -> str:
        return f"{self.group_id}:{uuids.to_text(self.topic_id)}:{self.partition}"


@dataclass(frozen=True, slots=True)
class Stored:
    """What is stored of a share partition; also the content of a snapshot."""

    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: tuple[StateBatch, ...]
    created_ms: int
    written_ms: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The whole state of a share partition from now on; None says that it is deleted."""

    key: ShareKey
    value: Stored | None


@dataclass(frozen=True, slots=True)
class Update:
    """A change since the last snapshot. A start offset of -1 leaves the start as it is."""

    key: ShareKey
    snapshot_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: tuple[StateBatch, ...]


Fact = Snapshot | Update

#: What a share partition begins with that nobody has initialised, where nobody has to.
_UNDECIDED = Stored(0, 0, 0, UNINITIALIZED_START, -1, (), 0, 0)


class Written(NamedTuple):
    """What a leader wants stored. A state or leader epoch of -1 is not compared."""

    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: Sequence[StateBatch]


class Summary(NamedTuple):
    """What ReadShareGroupStateSummary tells."""

    start_offset: int
    delivery_complete_count: int
    leader_epoch: int
    state_epoch: int


class Image(Protocol):
    """What the coordinator must know of the cluster's topics."""

    def topic_by_id(self, topic_id: bytes) -> Topic | None:
        """The topic, or None."""
        ...


class ShareCoordinator:
    """One node's share coordinator.

    is_mine: whether this node coordinates a key now, with its shard loaded. shard_of: the partition of the
    coordinator's topic that a key's facts go to. record: keeps a fact, as of a time; a refusal (KafkaError) undoes the
    operation.
    """

    def __init__(
        self,
        topics: Image,
        config: Mapping[str, object],
        *,
        is_mine: Callable[[ShareKey], bool] = lambda key: True,
        shard_of: Callable[[ShareKey], int] = lambda key: 0,
        record: Callable[[Fact, int], None] = lambda fact, now_ms: None,
        rules: ShareRules = RELEASED,
    ) -> None:
        self._rules = rules
        self._topics = topics
        self._config = config
        self._is_mine = is_mine
        self._shard_of = shard_of
        self._record = record
        self._seen_ms = 0
        self._stored: dict[ShareKey, Stored] = {}
        self._leader_epochs: dict[ShareKey, int] = {}
        self._state_epochs: dict[ShareKey, int] = {}
        self._updates: dict[ShareKey, int] = {}

    def stored(self, key: ShareKey) -> Stored | None:
        """What is stored of a key, to look at."""
        return self._stored.get(key)

    # Operations, each for one share partition; the checks are in Kafka's order.

    def initialize(self, key: ShareKey, *, state_epoch: int, start_offset: int, now_ms: int) -> None:
        """Replace everything by a fresh state. Raises: INVALID_REQUEST, FENCED_STATE_EPOCH, UNKNOWN_TOPIC..."""
        self._check_place(key)
        self._check_state_epoch(key, state_epoch)
        self._check_topic(key)
        old = self._stored.get(key)
        complete = UNINITIALIZED_START if start_offset == UNINITIALIZED_START else 0
        epoch = 0 if old is None else old.snapshot_epoch + 1
        self._do(Snapshot(key, Stored(epoch, state_epoch, 0, start_offset, complete, (), now_ms, now_ms)), now_ms)

    def read(self, key: ShareKey, *, leader_epoch: int, now_ms: int) -> Stored:
        """The state for a leader that takes over; a new leader epoch is stored with it."""
        self._check_place(key)
        stored = self._existing(key) if self._rules.state_first else self._stored.get(key, _UNDECIDED)
        if not self._rules.knows_leader_epochs:
            self._check_topic(key)
            return stored
        if self._leader_epochs.get(key, NO_EPOCH) > leader_epoch:
            raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH, f"leader epoch {leader_epoch} of {key} is old")
        self._check_topic(key)
        if leader_epoch not in (NO_EPOCH, self._leader_epochs.get(key)):
            written = Written(stored.state_epoch, leader_epoch, stored.start_offset, stored.delivery_complete_count, ())
            self._do(self._fact(key, written, leader_epoch, now_ms), now_ms)
        return stored

    def write(self, key: ShareKey, written: Written, *, now_ms: int) -> None:
        """Merge what a leader has settled. Higher epochs are accepted, and not stored."""
        self._check_place(key)
        stored = self._existing(key) if self._rules.state_first else self._stored.get(key, _UNDECIDED)
        if written.leader_epoch != NO_EPOCH and self._leader_epochs.get(key, NO_EPOCH) > written.leader_epoch:
            raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH, f"leader epoch {written.leader_epoch} of {key} is old")
        self._check_state_epoch(key, written.state_epoch)
        if self._rules.fences_other_epochs and written.state_epoch not in (NO_EPOCH, stored.state_epoch):
            raise KafkaError(ErrorCode.FENCED_STATE_EPOCH, f"state epoch {written.state_epoch} of {key} is another one")
        self._check_topic(key)
        leader_epoch = written.leader_epoch if self._rules.keeps_written_epochs else stored.leader_epoch
        self._do(self._fact(key, written, leader_epoch, now_ms), now_ms)

    def delete(self, key: ShareKey, *, now_ms: int) -> None:
        """Forget a share partition; one that is not known is a success."""
        self._check_place(key)
        self._check_topic(key)
        if key in self._stored:
            self._do(Snapshot(key, None), now_ms)

    def summary(self, key: ShareKey) -> Summary:
        """Start and count for admin tools; of a key that is not known, the values that say so."""
        self._check_place(key)
        self._check_topic(key)
        stored = self._stored.get(key)
        if stored is None:
            if not self._rules.sums_up_unknown:
                raise self._unknown(key)
            return Summary(UNINITIALIZED_START, -1, 0, 0)
        return Summary(stored.start_offset, stored.delivery_complete_count, stored.leader_epoch, stored.state_epoch)

    def topic_changed(self, change: Change, topic: Topic) -> None:
        """Forget all share partitions of a topic that was deleted; what cannot be recorded now stays, out of reach."""
        if change is Change.DELETED:
            for key in [key for key in self._stored if key.topic_id == topic.topic_id]:
                with suppress(KafkaError):
                    self._do(Snapshot(key, None), self._seen_ms)

    def snapshot_cold(self, *, now_ms: int) -> None:
        """Write a fresh snapshot of what has not had one for long; not in shards where all have been so kept (7.5)."""
        warm = {self._shard_of(key) for key, stored in self._stored.items() if stored.created_ms == stored.written_ms}
        interval_ms = self._number("share.coordinator.cold.partition.snapshot.interval.ms")
        for key, stored in list(self._stored.items()):
            if self._shard_of(key) in warm and now_ms - stored.written_ms >= interval_ms:
                fresh = replace(stored, snapshot_epoch=stored.snapshot_epoch + 1, written_ms=now_ms)
                with suppress(KafkaError):
                    self._do(Snapshot(key, fresh), now_ms)

    def unload(self, shard: int) -> None:
        """Forget a shard that another node coordinates now; its facts are in the log."""
        for key in [key for key in self._stored if self._shard_of(key) == shard]:
            self._forget(key)

    # Facts.

    def replay(self, fact: Fact) -> None:
        """Take over a fact, from an operation or from the log at a load."""
        key = fact.key
        if isinstance(fact, Update):
            self._raise_epoch(self._leader_epochs, key, fact.leader_epoch)
            self._stored[key] = self._merged(self._stored.get(key), fact)
            before = 0 if self._rules.counts_first_update else -1
            self._updates[key] = self._updates.get(key, before) + 1
        elif fact.value is None:
            self._forget(key)
        else:
            self._raise_epoch(self._leader_epochs, key, fact.value.leader_epoch)
            self._raise_epoch(self._state_epochs, key, fact.value.state_epoch)
            self._stored[key] = fact.value
            if self._updates.get(key, 0) >= self._updates_per_snapshot:
                self._updates[key] = 0

    def _do(self, fact: Fact, now_ms: int) -> None:
        self._seen_ms = now_ms
        self._record(fact, now_ms)
        self.replay(fact)

    def _forget(self, key: ShareKey) -> None:
        for table in (self._stored, self._leader_epochs, self._state_epochs, self._updates):
            table.pop(key, None)

    def _fact(self, key: ShareKey, written: Written, leader_epoch: int, now_ms: int) -> Fact:
        """An update, or after enough of them a snapshot with everything merged (7.2)."""
        if key not in self._stored:
            return self._first(key, written, now_ms)
        stored = self._stored[key]
        is_due = self._updates.get(key, 0) >= self._updates_per_snapshot
        if not is_due and not (self._rules.prefers_snapshots and not self._accumulated(stored, written)[1]):
            batches = combine((), written.batches, written.start_offset)
            return Update(
                key,
                stored.snapshot_epoch,
                leader_epoch,
                written.start_offset,
                written.delivery_complete_count,
                tuple(batches),
            )
        start, merged = self._accumulated(stored, written)
        state_epoch = stored.state_epoch
        if self._rules.keeps_written_epochs:
            state_epoch = max(state_epoch, written.state_epoch)
            leader_epoch = stored.leader_epoch if leader_epoch == NO_EPOCH else leader_epoch
        value = Stored(
            stored.snapshot_epoch + 1,
            state_epoch,
            leader_epoch,
            start,
            written.delivery_complete_count,
            merged,
            now_ms,
            now_ms,
        )
        return Snapshot(key, value)

    def _accumulated(self, stored: Stored, change: Written | Update) -> tuple[int, tuple[StateBatch, ...]]:
        """The start and the states that are stored, once a change is as well."""
        start = stored.start_offset if change.start_offset == -1 else change.start_offset
        if self._rules.start_follows:
            start = max(start, stored.start_offset)
        merged = combine(stored.batches, change.batches, start)
        if self._rules.start_follows:
            done = 0
            for batch in merged:
                if batch.first > start or batch.state == _AVAILABLE:
                    break
                start, done = batch.last + 1, done + 1
            del merged[:done]
        return start, tuple(merged)

    @staticmethod
    def _first(key: ShareKey, written: Written, now_ms: int) -> Fact:
        """The snapshot with which a state begins that nobody has initialised."""
        batches = tuple(combine((), written.batches, written.start_offset))
        complete = written.delivery_complete_count
        epochs = (0, written.state_epoch, written.leader_epoch)
        return Snapshot(key, Stored(*epochs, written.start_offset, complete, batches, now_ms, now_ms))

    def _merged(self, stored: Stored | None, update: Update) -> Stored:
        if stored is None:  # Only a log whose snapshot is missing begins with an update.
            stored = Stored(update.snapshot_epoch, 0, update.leader_epoch, update.start_offset, -1, (), 0, 0)
        start, merged = self._accumulated(stored, update)
        return replace(
            stored,
            leader_epoch=stored.leader_epoch if update.leader_epoch == NO_EPOCH else update.leader_epoch,
            start_offset=start,
            delivery_complete_count=update.delivery_complete_count,
            batches=merged,
        )

    @staticmethod
    def _raise_epoch(epochs: dict[ShareKey, int], key: ShareKey, epoch: int) -> None:
        epochs[key] = max(epochs.get(key, epoch), epoch)

    # Checks.

    @property
    def _updates_per_snapshot(self) -> int:
        configured = self._number("share.coordinator.snapshot.update.records.per.snapshot")
        return min(configured, self._rules.updates_max) if self._rules.updates_max else configured

    def _number(self, name: str) -> int:
        value = self._config[name]
        assert isinstance(value, int)
        return value

    def _check_place(self, key: ShareKey) -> None:
        if not self._is_mine(key):
            raise KafkaError(ErrorCode.NOT_COORDINATOR, f"{key} is coordinated elsewhere")
        if key.partition < 0:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"partition {key.partition} is negative")

    def _check_state_epoch(self, key: ShareKey, state_epoch: int) -> None:
        if state_epoch != NO_EPOCH and self._state_epochs.get(key, NO_EPOCH) > state_epoch:
            raise KafkaError(ErrorCode.FENCED_STATE_EPOCH, f"state epoch {state_epoch} of {key} is old")

    def _existing(self, key: ShareKey) -> Stored:
        stored = self._stored.get(key)
        if stored is None:
            raise self._unknown(key)
        return stored

    def _unknown(self, key: ShareKey) -> KafkaError:
        return KafkaError(self._rules.unknown_state, f"{key} has not been initialized")

    def _check_topic(self, key: ShareKey) -> None:
        topic = self._topics.topic_by_id(key.topic_id)
        if topic is None or key.partition >= len(topic.partitions):
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"no partition {key.partition} of its topic")
