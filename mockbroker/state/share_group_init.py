"""Which share-partitions of a group have their state at the share coordinator: only those can be assigned.

Source: share-semantics 5.7, and the record ShareGroupStatePartitionMetadata of 5.8.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from mockbroker.state.group_facts import StatesFact
from mockbroker.state.group_kinds import Assignment, Topics


@dataclass(frozen=True, slots=True)
class Initialise:
    """What the persister is to be asked for: these partitions, with this state epoch."""

    group_id: str
    state_epoch: int
    partitions: Assignment


@dataclass(slots=True)
class _Started:
    partitions: frozenset[int]
    since_ms: int


@dataclass(slots=True)
class ShareGroupStates:
    """The three lists of one group: initialising, initialised, deleting.

    A deleted topic leaves all three the next time somebody looks, as its id never comes back.
    is_recorded: there was something to note once, so that Kafka has a record of the lists, be they empty now.
    is_changed: somebody touched the lists since they were written, even if they are the same again.
    notes_starts: what is being initialised is written down as well. left: of topics that are deleted in parts, the
    partitions that there is still state of.
    """

    initializing: dict[bytes, _Started] = field(default_factory=dict)
    initialized: Assignment = field(default_factory=dict)
    deleting: set[bytes] = field(default_factory=set)
    is_recorded: bool = False
    is_changed: bool = False
    notes_starts: bool = True
    left: dict[bytes, frozenset[int]] = field(default_factory=dict)

    def written(self, now_ms: int, epoch: int = 0) -> StatesFact:
        """The lists as they are written now, at this group epoch; what is on its way counts from this moment.

        Source: Kafka's GroupMetadataManager.replay, which stamps the whole record.
        """
        self.is_changed = False
        for started in self.initializing.values():
            started.since_ms = now_ms
        noted = self.initializing if self.notes_starts else {}
        initializing = {topic_id: started.partitions for topic_id, started in noted.items()}
        return StatesFact(initializing, dict(self.initialized), frozenset(self.deleting), epoch)

    def replay(self, fact: StatesFact | None, *, now_ms: int) -> None:
        """Take the lists over from the log."""
        initializing = fact.initializing if fact else {}
        self.initializing = {topic_id: _Started(indexes, now_ms) for topic_id, indexes in initializing.items()}
        self.initialized = dict(fact.initialized) if fact else {}
        self.deleting = set(fact.deleting) if fact else set()
        self.is_recorded = fact is not None

    def missing(self, names: tuple[str, ...], topics: Topics, *, retry_ms: int, now_ms: int) -> Assignment:
        """Find the partitions of subscribed topics that are neither initialised nor lately on their way to it.

        retry_ms: how long an initialisation may take before it is asked for again.
        """
        wanted: Assignment = {}
        for name in names:
            topic = topics.topic(name)
            if topic is None:
                continue
            started = self.initializing.get(topic.topic_id)
            on_the_way = started.partitions if started and now_ms - started.since_ms < retry_ms else frozenset()
            known = self.initialized.get(topic.topic_id, frozenset()) | on_the_way
            if len(known) < len(topic.partitions):
                wanted[topic.topic_id] = frozenset(range(len(topic.partitions))) - known
        return wanted

    def start(self, partitions: Assignment, *, now_ms: int) -> None:
        """Note that an initialisation is on its way; a topic being deleted is wanted again."""
        if self.notes_starts:
            self.is_recorded = self.is_changed = True
        for topic_id, indexes in partitions.items():
            before = self.initializing.get(topic_id)
            self.initializing[topic_id] = _Started(indexes | (before.partitions if before else frozenset()), now_ms)
            self.deleting.discard(topic_id)

    def succeed(self, partitions: Assignment) -> None:
        """Move partitions to the initialised ones: the persister has stored all of them."""
        before = dict(self.initialized)
        for topic_id, indexes in partitions.items():
            self.initialized[topic_id] = self.initialized.get(topic_id, frozenset()) | indexes
        self.is_recorded = True
        self.is_changed |= self.initialized != before
        self.fail(partitions)

    def fail(self, partitions: Assignment) -> None:
        """Take partitions out of the initialising ones: a later heartbeat asks for them again."""
        self.is_changed |= self.notes_starts
        for topic_id, indexes in partitions.items():
            started = self.initializing.get(topic_id)
            if started is None:
                continue
            started.partitions -= indexes
            if not started.partitions:
                del self.initializing[topic_id]

    def below(self, partitions: Assignment) -> Assignment:
        """The partitions that lie below these in their topics, and are not initialised."""
        lower = {
            topic_id: frozenset(range(max(indexes, default=0))) - indexes - self.initialized.get(topic_id, frozenset())
            for topic_id, indexes in partitions.items()
        }
        return {topic_id: indexes for topic_id, indexes in lower.items() if indexes}

    def topic_ids(self) -> set[bytes]:
        """All topics that there may be state of."""
        return self.initializing.keys() | self.initialized.keys() | self.deleting

    def known(self, topic_id: bytes, topics: Topics) -> frozenset[int]:
        """The partitions of a topic that there may be state of; all of them when it is being deleted."""
        topic = topics.topic_by_id(topic_id)
        if topic is not None and topic_id in self.deleting:
            return frozenset(range(len(topic.partitions)))
        started = self.initializing.get(topic_id)
        return self.initialized.get(topic_id, frozenset()) | (started.partitions if started else frozenset())

    def initialized_or_deleting(self, topic_id: bytes, topics: Topics) -> frozenset[int]:
        """The initialised partitions of a topic alone; without any, all of them when it is being deleted."""
        return self.initialized.get(topic_id) or (
            self.known(topic_id, topics) if topic_id in self.deleting else frozenset()
        )

    def start_deleting(self, topic_ids: set[bytes], *, keep_initializing: bool = False) -> None:
        """Note that the state of whole topics is being deleted: they can be assigned no more."""
        for topic_id in topic_ids:
            self.initialized.pop(topic_id, None)
            if not keep_initializing:
                self.initializing.pop(topic_id, None)
        self.deleting |= topic_ids
        self.is_changed = self.is_recorded

    def deleted(self, topic_ids: set[bytes]) -> None:
        """Note that the share coordinator has forgotten these topics."""
        self.deleting -= topic_ids
        self.is_changed = self.is_recorded

    def start_deleting_in_parts(self, topic_ids: Iterable[bytes], topics: Topics) -> None:
        """Note that the state of topics is being deleted, one leader's partitions after the other's."""
        known = {topic_id for topic_id in topic_ids if topic_id in self.topic_ids()}
        for topic_id in known:
            self.left.setdefault(topic_id, self.known(topic_id, topics))
        self.start_deleting(known)

    def deleted_in_part(self, partitions: Assignment) -> None:
        """Note that the share coordinator has forgotten these; a topic of which nothing is left is done with."""
        for topic_id, indexes in partitions.items():
            left = self.left.get(topic_id, frozenset()) - indexes
            if topic_id in self.left and not left:
                del self.left[topic_id]
                self.deleted({topic_id})
            elif topic_id in self.left:
                self.left[topic_id] = left

    def prune(self, topics: Topics) -> None:
        """Forget topics that are no more."""
        gone = {topic_id for topic_id in self.topic_ids() if topics.topic_by_id(topic_id) is None}
        if gone:
            self.start_deleting(gone)
            self.deleted(gone)
