"""Initialization of share-partition state: the partitions of a group with stored state, which can be assigned.

Source: share-semantics 5.7, and the record ShareGroupStatePartitionMetadata of 5.8.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from mockbroker.state.group.coordinator_records import SharePartitionStatesValue
from mockbroker.state.group.group import Assignment, TopicLike, Topics


@dataclass(frozen=True, slots=True)
class InitializationRequest:
    """The partitions whose state the persister must initialize, with the state epoch.

    known_topics: those of which partitions were initialized, or were being initialized, before.
    """

    group_id: str
    state_epoch: int
    partitions: Assignment
    known_topics: frozenset[bytes] = frozenset()


@dataclass(slots=True)
class _InitializingPartitions:
    partitions: frozenset[int]
    since_ms: int


@dataclass(slots=True)
class ShareGroupStates:
    """The three lists of one group: initializing, initialized, deleting.

    A deleted topic is removed from all three at the next access, as its id is never used again.
    is_recorded: Kafka has a record of the lists, even if they are empty now.
    is_changed: the lists were modified since they were written, even if they are equal again.
    records_initializing: partitions being initialized are recorded as well. partly_deleted: of topics that are deleted
    partition by partition, the partitions that still have state.
    """

    initializing: dict[bytes, _InitializingPartitions] = field(default_factory=dict)
    initialized: Assignment = field(default_factory=dict)
    deleting: set[bytes] = field(default_factory=set)
    is_recorded: bool = False
    is_changed: bool = False
    records_initializing: bool = True
    partly_deleted: dict[bytes, frozenset[int]] = field(default_factory=dict)

    def build_record(self, now_ms: int, epoch: int = 0) -> SharePartitionStatesValue:
        """The record of the lists at this group epoch; the retry time of initializations starts again.

        Source: Kafka's GroupMetadataManager.replay, which stamps the whole record.
        """
        self.is_changed = False
        for started in self.initializing.values():
            started.since_ms = now_ms
        recorded = self.initializing if self.records_initializing else {}
        initializing = {topic_id: started.partitions for topic_id, started in recorded.items()}
        return SharePartitionStatesValue(initializing, dict(self.initialized), frozenset(self.deleting), epoch)

    def replay(self, value: SharePartitionStatesValue | None, *, now_ms: int) -> None:
        """Set the lists from a record of the log."""
        self.is_recorded = value is not None
        value = value or SharePartitionStatesValue({}, {}, frozenset())
        started = value.initializing.items()
        self.initializing = {topic_id: _InitializingPartitions(indexes, now_ms) for topic_id, indexes in started}
        self.initialized = dict(value.initialized)
        self.deleting = set(value.deleting)

    def missing_partitions(self, topics: Iterable[TopicLike], *, retry_ms: int, now_ms: int) -> Assignment:
        """The partitions of subscribed topics that are neither initialized nor being initialized.

        retry_ms: the time after which an initialization is requested again.
        """
        missing: Assignment = {}
        for topic in topics:
            started = self.initializing.get(topic.topic_id)
            in_progress = started.partitions if started and now_ms - started.since_ms < retry_ms else frozenset()
            known = self.initialized.get(topic.topic_id, frozenset()) | in_progress
            if len(known) < len(topic.partitions):
                missing[topic.topic_id] = frozenset(range(len(topic.partitions))) - known
        return missing

    def start_initializing(self, partitions: Assignment, *, now_ms: int) -> None:
        """An initialization was requested; a topic being deleted is used again."""
        if self.records_initializing:
            self.is_recorded = self.is_changed = True
        for topic_id, indexes in partitions.items():
            before = self.initializing.get(topic_id)
            partitions_now = indexes | before.partitions if before else indexes
            self.initializing[topic_id] = _InitializingPartitions(partitions_now, now_ms)
            self.deleting.discard(topic_id)

    def complete_initializing(self, partitions: Assignment) -> None:
        """Move partitions to the initialized ones: the persister has stored all of them."""
        before = dict(self.initialized)
        for topic_id, indexes in partitions.items():
            self.initialized[topic_id] = self.initialized.get(topic_id, frozenset()) | indexes
        self.is_recorded = True
        self.is_changed |= self.initialized != before
        self.fail_initializing(partitions)

    def fail_initializing(self, partitions: Assignment) -> None:
        """Remove partitions from the initializing ones: a later heartbeat requests them again."""
        self.is_changed |= self.records_initializing
        for topic_id, indexes in partitions.items():
            started = self.initializing.get(topic_id)
            if started is None:
                continue
            started.partitions -= indexes
            if not started.partitions:
                del self.initializing[topic_id]

    def uninitialized_below(self, partitions: Assignment) -> Assignment:
        """The partitions that lie below these in their topics, and are not initialized."""
        lower = {
            topic_id: frozenset(range(max(indexes, default=0))) - indexes - self.initialized.get(topic_id, frozenset())
            for topic_id, indexes in partitions.items()
        }
        return {topic_id: indexes for topic_id, indexes in lower.items() if indexes}

    def topic_ids_with_state(self) -> set[bytes]:
        """All topics that may have state."""
        return self.initializing.keys() | self.initialized.keys() | self.deleting

    def partitions_with_state(self, topic_id: bytes, topics: Topics) -> frozenset[int]:
        """The partitions of a topic that may have state; all of them while it is being deleted."""
        topic = topics.topic_by_id(topic_id)
        if topic is not None and topic_id in self.deleting:
            return frozenset(range(len(topic.partitions)))
        started = self.initializing.get(topic_id)
        return self.initialized.get(topic_id, frozenset()) | (started.partitions if started else frozenset())

    def initialized_or_deleting_partitions(self, topic_id: bytes, topics: Topics) -> frozenset[int]:
        """Only the initialized partitions of a topic; if there are none and it is being deleted, all of them."""
        remaining = self.partitions_with_state(topic_id, topics) if topic_id in self.deleting else frozenset[int]()
        return self.initialized.get(topic_id) or remaining

    def start_deleting(self, topic_ids: set[bytes], *, keep_initializing: bool = False) -> None:
        """The state of whole topics is being deleted: they are not assigned any more."""
        for topic_id in topic_ids:
            self.initialized.pop(topic_id, None)
            if not keep_initializing:
                self.initializing.pop(topic_id, None)
        self.deleting |= topic_ids
        self.is_changed = self.is_recorded

    def complete_deleting(self, topic_ids: set[bytes]) -> None:
        """The share coordinator has deleted the state of these topics."""
        self.deleting -= topic_ids
        self.is_changed = self.is_recorded

    def start_deleting_partly(self, topic_ids: Iterable[bytes], topics: Topics) -> None:
        """The state of topics is being deleted, by each leader for its partitions."""
        known = {topic_id for topic_id in topic_ids if topic_id in self.topic_ids_with_state()}
        for topic_id in known:
            self.partly_deleted.setdefault(topic_id, self.partitions_with_state(topic_id, topics))
        self.start_deleting(known)

    def complete_deleting_partly(self, partitions: Assignment) -> None:
        """The state of these partitions was deleted; a topic without remaining partitions is complete."""
        for topic_id, indexes in partitions.items():
            remaining = self.partly_deleted.get(topic_id, frozenset()) - indexes
            if topic_id in self.partly_deleted and not remaining:
                del self.partly_deleted[topic_id]
                self.complete_deleting({topic_id})
            elif topic_id in self.partly_deleted:
                self.partly_deleted[topic_id] = remaining

    def remove_deleted_topics(self, topics: Topics) -> None:
        """Remove topics that were deleted."""
        deleted_ids = {topic_id for topic_id in self.topic_ids_with_state() if topics.topic_by_id(topic_id) is None}
        if deleted_ids:
            self.start_deleting(deleted_ids)
            self.complete_deleting(deleted_ids)
