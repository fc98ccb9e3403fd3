"""The share coordinator against a plain-dict model: any order of its five operations, loads, and topics that go."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError
from mockbroker.state.metadata import Change, Metadata, Topic
from mockbroker.state.share_coordinator import Fact, ShareCoordinator, ShareKey, Snapshot, Summary, Update, Written
from mockbroker.state.state_batches import StateBatch

_CONFIG: dict[str, object] = {
    "num.partitions": 2,
    "default.replication.factor": 1,
    "share.coordinator.snapshot.update.records.per.snapshot": 3,
    "share.coordinator.cold.partition.snapshot.interval.ms": 300_000,
}
#: Mostly what is accepted, so that there is something to merge, and now and then what is not.
_PARTITIONS = st.sampled_from([0, 0, 0, 0, 0, 0, 1, 1, 2, -1])
_EPOCHS = st.sampled_from([-1, -1, -1, -1, 4, 4, 3, 2, 0])
_STARTS = st.integers(-1, 20)
_BATCHES = st.lists(
    st.builds(
        lambda first, size, state, count: StateBatch(first, first + size, state, count),
        st.integers(0, 20),
        st.integers(0, 6),
        st.sampled_from([0, 2, 4]),
        st.integers(1, 5),
    ),
    max_size=4,
)


@dataclass
class _Kept:
    """What the model keeps of a share partition: each offset on its own, with the rank that decides what wins."""

    start: int
    count: int
    state_epoch: int
    leader_epoch: int
    leader_fence: int
    offsets: dict[int, tuple[int, int]] = field(default_factory=dict)

    def merge(self, batches: list[StateBatch], start: int) -> None:
        """The higher rank wins each offset; what lies below the start is forgotten for good."""
        for batch in batches:
            says = (batch.delivery_count, batch.state)
            for offset in range(batch.first, batch.last + 1):
                self.offsets[offset] = max(self.offsets.get(offset, says), says)
        self.start = self.start if start == -1 else start
        self.offsets = {offset: rank for offset, rank in self.offsets.items() if offset >= self.start}


class Coordinators(RuleBasedStateMachine):
    """One group's share partitions of a topic with two partitions."""

    def __init__(self) -> None:
        super().__init__()
        self.metadata = Metadata([0], _CONFIG, random.Random(0))
        self.topic: Topic | None = self.metadata.create_topic("t")
        self.topic_id = self.topic.topic_id
        self.facts: list[Fact] = []
        self.now_ms = 0
        self.room = self._room()
        self.model: dict[int, _Kept] = {}
        self.initialize(0, 0, 0)
        self.initialize(1, 0, 5)

    def _room(self) -> ShareCoordinator:
        return ShareCoordinator(self.metadata, _CONFIG, record=lambda fact, _: self.facts.append(fact))

    def _key(self, partition: int) -> ShareKey:
        return ShareKey("g", self.topic_id, partition)

    def _is_no_place(self, partition: int) -> ErrorCode | None:
        return ErrorCode.INVALID_REQUEST if partition < 0 else None

    def _is_unknown(self, partition: int) -> ErrorCode | None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if self.topic is None or partition > 1 else None

    def _refusal(self, call: Callable[[], object]) -> ErrorCode | None:
        self.now_ms += 1
        before = len(self.facts)
        try:
            call()
        except KafkaError as refusal:
            assert len(self.facts) == before, "a refused operation has written something"
            return refusal.code
        return None

    @rule(partition=_PARTITIONS, epoch=_EPOCHS, start=_STARTS)
    def initialize(self, partition: int, epoch: int, start: int) -> None:
        """A fresh state, unless a newer one is stored."""
        kept = self.model.get(partition)
        is_fenced = kept is not None and epoch != -1 and epoch < kept.state_epoch
        got = self._refusal(
            lambda: self.room.initialize(
                self._key(partition), state_epoch=epoch, start_offset=start, now_ms=self.now_ms
            )
        )
        wanted = self._is_no_place(partition)
        wanted = wanted or (ErrorCode.FENCED_STATE_EPOCH if is_fenced else None) or self._is_unknown(partition)
        assert got is wanted
        if got is None:
            fence = max(kept.leader_fence if kept else 0, 0)
            state_fence = max(epoch, kept.state_epoch) if kept else epoch
            self.model[partition] = _Kept(start, -1 if start == -1 else 0, state_fence, 0, fence)

    @rule(partition=_PARTITIONS, leader_epoch=_EPOCHS)
    def read(self, partition: int, leader_epoch: int) -> None:
        """What is stored; a leader with an old epoch is fenced, one with a new epoch is remembered."""
        kept = self.model.get(partition)
        got = self._refusal(lambda: self.room.read(self._key(partition), leader_epoch=leader_epoch, now_ms=self.now_ms))
        wanted = self._is_no_place(partition)
        if wanted is None and kept is None:
            wanted = ErrorCode.INVALID_REQUEST
        elif wanted is None and kept is not None and kept.leader_fence > leader_epoch:
            wanted = ErrorCode.FENCED_LEADER_EPOCH
        assert got is (wanted or self._is_unknown(partition))
        if got is None and kept is not None and leader_epoch not in (-1, kept.leader_fence):
            kept.leader_epoch = kept.leader_fence = leader_epoch

    @rule(partition=_PARTITIONS, state_epoch=_EPOCHS, leader_epoch=_EPOCHS, start=_STARTS, batches=_BATCHES)
    def write(self, partition: int, state_epoch: int, leader_epoch: int, start: int, batches: list[StateBatch]) -> None:
        """Merged offset by offset; old epochs are fenced, newer ones are not kept."""
        kept = self.model.get(partition)
        written = Written(state_epoch, leader_epoch, start, len(batches), batches)
        got = self._refusal(lambda: self.room.write(self._key(partition), written, now_ms=self.now_ms))
        wanted = self._is_no_place(partition)
        if wanted is None and kept is None:
            wanted = ErrorCode.INVALID_REQUEST
        elif wanted is None and kept is not None and -1 != leader_epoch < kept.leader_fence:
            wanted = ErrorCode.FENCED_LEADER_EPOCH
        elif wanted is None and kept is not None and -1 != state_epoch < kept.state_epoch:
            wanted = ErrorCode.FENCED_STATE_EPOCH
        assert got is (wanted or self._is_unknown(partition))
        if got is None and kept is not None:
            kept.merge(batches, start)
            kept.count = len(batches)

    @rule(partition=_PARTITIONS)
    def delete(self, partition: int) -> None:
        """Gone, whether it was there or not."""
        got = self._refusal(lambda: self.room.delete(self._key(partition), now_ms=self.now_ms))
        assert got is (self._is_no_place(partition) or self._is_unknown(partition))
        if got is None:
            self.model.pop(partition, None)

    @rule()
    def load(self) -> None:
        """Another node takes over, from the facts alone."""
        self.room = self._room()
        for fact in self.facts:
            self.room.replay(fact)
        for partition, kept in self.model.items():
            kept.state_epoch, kept.leader_fence = self._fences(partition)

    def _fences(self, partition: int) -> tuple[int, int]:
        """The highest epochs that the log still tells of; compaction may have taken higher ones."""
        state_epoch = leader_epoch = -1
        for fact in self.facts:
            if fact.key != self._key(partition):
                continue
            if isinstance(fact, Update):
                leader_epoch = max(leader_epoch, fact.leader_epoch)
            elif fact.value is None:
                state_epoch = leader_epoch = -1
            else:
                state_epoch = max(state_epoch, fact.value.state_epoch)
                leader_epoch = max(leader_epoch, fact.value.leader_epoch)
        return state_epoch, leader_epoch

    @rule()
    def compact(self) -> None:
        """A later load begins at the last snapshot of each share partition."""
        last = {fact.key: at for at, fact in enumerate(self.facts) if isinstance(fact, Snapshot)}
        self.facts = [fact for at, fact in enumerate(self.facts) if at >= last.get(fact.key, 0)]

    @rule()
    def cold(self) -> None:
        """Fresh snapshots change nothing that can be read."""
        self.now_ms += 400_000
        self.room.snapshot_cold(now_ms=self.now_ms)

    @rule(chance=st.integers(0, 40))
    def topic_goes(self, chance: int) -> None:
        """A deleted topic takes its state along."""
        if chance == 40 and self.topic is not None:
            self.metadata.delete_topic(self.topic)
            self.room.topic_changed(Change.DELETED, self.topic)
            self.topic = None
            self.model.clear()

    @invariant()
    def same(self) -> None:
        """Every share partition is stored as the model has it, in batches that do not overlap and rise."""
        for partition in (0, 1):
            stored, kept = self.room.stored(self._key(partition)), self.model.get(partition)
            assert (stored is None) == (kept is None)
            if stored is None or kept is None:
                continue
            assert (stored.start_offset, stored.delivery_complete_count) == (kept.start, kept.count)
            assert stored.leader_epoch == kept.leader_epoch
            summary = self.room.summary(self._key(partition))
            assert summary == Summary(kept.start, kept.count, kept.leader_epoch, stored.state_epoch)
            offsets = {
                offset: (batch.delivery_count, batch.state)
                for batch in stored.batches
                for offset in range(batch.first, batch.last + 1)
            }
            assert offsets == kept.offsets
            assert all(one.last < two.first for one, two in zip(stored.batches, stored.batches[1:], strict=False))
        assert all(isinstance(fact, Snapshot | Update) for fact in self.facts)


TestCoordinators = Coordinators.TestCase
TestCoordinators.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
