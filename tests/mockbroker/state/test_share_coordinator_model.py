"""The share coordinator against a plain-dict model: any order of its five operations, loads, and topics that go."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError
from mockbroker.state.metadata import Change, Metadata, Topic
from mockbroker.state.share_coordinator import Fact, ShareCoordinator, ShareKey, Snapshot, Summary, Update, Written
from mockbroker.state.share_rules import RELEASED, ShareRules
from mockbroker.state.state_batches import StateBatch

_AVAILABLE = 0
_UPDATES = "share.coordinator.snapshot.update.records.per.snapshot"
_CONFIG: dict[str, object] = {
    "num.partitions": 2,
    "default.replication.factor": 1,
    _UPDATES: 3,
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
    state_fence: int
    leader_fence: int
    updates: int
    offsets: dict[int, tuple[int, int]] = field(default_factory=dict)

    def merge(self, batches: list[StateBatch], start: int, *, follows: bool) -> None:
        """The higher rank wins each offset; what lies below the start is forgotten for good.

        follows: the start passes what is done, and does not go back.
        """
        for batch in batches:
            says = (batch.delivery_count, batch.state)
            for offset in range(batch.first, batch.last + 1):
                self.offsets[offset] = max(self.offsets.get(offset, says), says)
        if start != -1:
            self.start = max(start, self.start) if follows else start
        while follows and self.offsets.get(self.start, (0, _AVAILABLE))[1] != _AVAILABLE:
            self.start += 1
        self.offsets = {offset: rank for offset, rank in self.offsets.items() if offset >= self.start}


class Coordinators(RuleBasedStateMachine):
    """One group's share partitions of a topic with two partitions. share_rules: what it plays by."""

    share_rules: ClassVar[ShareRules] = RELEASED

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
        return ShareCoordinator(
            self.metadata, _CONFIG, record=lambda fact, _: self.facts.append(fact), rules=self.share_rules
        )

    def _key(self, partition: int) -> ShareKey:
        return ShareKey("g", self.topic_id, partition)

    def _is_no_place(self, partition: int) -> ErrorCode | None:
        return ErrorCode.INVALID_REQUEST if partition < 0 else None

    def _is_unknown(self, partition: int) -> ErrorCode | None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if self.topic is None or partition > 1 else None

    @property
    def _updates_max(self) -> int:
        configured, at_most = int(str(_CONFIG[_UPDATES])), self.share_rules.updates_max
        return min(configured, at_most) if at_most else configured

    @property
    def _updates_min(self) -> int:
        """What updates are counted from: the first of all may not count."""
        return 0 if self.share_rules.counts_first_update else -1

    def _refusal(self, call: Callable[[], object], *facts: type[Fact]) -> ErrorCode | None:
        """Why a call is refused; else it has written exactly these facts."""
        self.now_ms += 1
        before = len(self.facts)
        try:
            call()
        except KafkaError as refusal:
            assert len(self.facts) == before, "a refused operation has written something"
            return refusal.code
        assert [type(fact) for fact in self.facts[before:]] == list(facts)
        return None

    @rule(partition=_PARTITIONS, epoch=_EPOCHS, start=_STARTS)
    def initialize(self, partition: int, epoch: int, start: int) -> None:
        """A fresh state, unless a newer one is stored."""
        if not self.share_rules.manages_state:
            return
        kept = self.model.get(partition)
        is_fenced = kept is not None and epoch != -1 and epoch < kept.state_fence
        got = self._refusal(
            lambda: self.room.initialize(
                self._key(partition), state_epoch=epoch, start_offset=start, now_ms=self.now_ms
            ),
            Snapshot,
        )
        wanted = self._is_no_place(partition)
        wanted = wanted or (ErrorCode.FENCED_STATE_EPOCH if is_fenced else None) or self._is_unknown(partition)
        assert got is wanted
        if got is None:
            fence = max(kept.leader_fence if kept else 0, 0)
            state_fence = max(epoch, kept.state_fence) if kept else epoch
            updates = self._after_snapshot(kept.updates) if kept else self._updates_min
            self.model[partition] = _Kept(start, -1 if start == -1 else 0, epoch, 0, state_fence, fence, updates)

    @rule(partition=_PARTITIONS, leader_epoch=_EPOCHS)
    def read(self, partition: int, leader_epoch: int) -> None:
        """What is stored; a leader with an old epoch is fenced, one with a new epoch is remembered."""
        rules, kept = self.share_rules, self.model.get(partition)
        is_new = rules.knows_leader_epochs and leader_epoch not in (-1, kept.leader_fence if kept else None)
        facts = [self._kind(kept, [], -1)] if is_new else []
        got = self._refusal(
            lambda: self.room.read(self._key(partition), leader_epoch=leader_epoch, now_ms=self.now_ms), *facts
        )
        wanted = self._is_no_place(partition)
        if wanted is None and kept is None and rules.state_first:
            wanted = rules.unknown_state
        elif wanted is None and kept is not None and rules.knows_leader_epochs and kept.leader_fence > leader_epoch:
            wanted = ErrorCode.FENCED_LEADER_EPOCH
        assert got is (wanted or self._is_unknown(partition))
        if got is not None or not is_new:
            return
        if kept is None:
            self.model[partition] = _Kept(-1, -1, 0, leader_epoch, 0, leader_epoch, self._updates_min)
            return
        kept.leader_epoch = kept.leader_fence = leader_epoch
        self._note(kept, facts[0], [], -1)

    @rule(partition=_PARTITIONS, state_epoch=_EPOCHS, leader_epoch=_EPOCHS, start=_STARTS, batches=_BATCHES)
    def write(self, partition: int, state_epoch: int, leader_epoch: int, start: int, batches: list[StateBatch]) -> None:
        """Merged offset by offset; old epochs are fenced, newer ones are not kept, or fenced too."""
        rules, kept = self.share_rules, self.model.get(partition)
        written = Written(state_epoch, leader_epoch, start, len(batches), batches)
        kind = self._kind(kept, batches, start)
        got = self._refusal(lambda: self.room.write(self._key(partition), written, now_ms=self.now_ms), kind)
        leader_epoch = leader_epoch if rules.knows_leader_epochs else -1
        wanted = self._is_no_place(partition)
        if wanted is None and kept is None and rules.state_first:
            wanted = rules.unknown_state
        elif wanted is None and kept is not None and -1 != leader_epoch < kept.leader_fence:
            wanted = ErrorCode.FENCED_LEADER_EPOCH
        elif wanted is None and kept is not None and self._is_fenced(kept, state_epoch):
            wanted = ErrorCode.FENCED_STATE_EPOCH
        assert got is (wanted or self._is_unknown(partition))
        if got is not None:
            return
        if kept is None:
            epochs = (state_epoch, leader_epoch)
            kept = self.model[partition] = _Kept(start, 0, *epochs, *epochs, self._updates_min)
            kept.merge(batches, start, follows=False)
        else:
            if rules.keeps_written_epochs and leader_epoch != -1:
                kept.leader_epoch = kept.leader_fence = leader_epoch
            if rules.keeps_written_epochs and kind is Snapshot:
                kept.state_epoch = max(kept.state_epoch, state_epoch)
                kept.state_fence = max(kept.state_fence, state_epoch)
            self._note(kept, kind, batches, start)
        kept.count = len(batches)

    def _is_fenced(self, kept: _Kept, state_epoch: int) -> bool:
        if self.share_rules.fences_other_epochs and state_epoch != kept.state_epoch:
            return state_epoch != -1
        return -1 != state_epoch < kept.state_fence

    def _kind(self, kept: _Kept | None, batches: list[StateBatch], start: int) -> type[Fact]:
        """A snapshot after enough updates, at the beginning, and where it is small if the rules prefer it then."""
        if kept is None or kept.updates >= self._updates_max:
            return Snapshot
        if not self.share_rules.prefers_snapshots:
            return Update
        after = _Kept(kept.start, 0, 0, 0, 0, 0, 0, dict(kept.offsets))
        after.merge(batches, start, follows=self.share_rules.start_follows)
        return Update if after.offsets else Snapshot

    def _note(self, kept: _Kept, kind: type[Fact], batches: list[StateBatch], start: int) -> None:
        kept.merge(batches, start, follows=self.share_rules.start_follows)
        kept.updates = self._after_snapshot(kept.updates) if kind is Snapshot else kept.updates + 1

    def _after_snapshot(self, updates: int) -> int:
        """A snapshot that was not due leaves the count of updates as it is."""
        return 0 if updates >= self._updates_max else updates

    @rule(partition=_PARTITIONS)
    def delete(self, partition: int) -> None:
        """Gone, whether it was there or not."""
        if not self.share_rules.manages_state:
            return
        facts = [Snapshot] if partition in self.model else []
        got = self._refusal(lambda: self.room.delete(self._key(partition), now_ms=self.now_ms), *facts)
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
            kept.state_fence, kept.leader_fence, kept.updates = self._of_log(partition)

    def _of_log(self, partition: int) -> tuple[int, int, int]:
        """The highest epochs that the log still tells of, compaction may have taken higher ones; and its updates."""
        state_epoch = leader_epoch = -1
        updates = self._updates_min
        for fact in self.facts:
            if fact.key != self._key(partition):
                continue
            if isinstance(fact, Update):
                leader_epoch = max(leader_epoch, fact.leader_epoch)
                updates += 1
            elif fact.value is None:
                state_epoch = leader_epoch = -1
                updates = self._updates_min
            else:
                state_epoch = max(state_epoch, fact.value.state_epoch)
                leader_epoch = max(leader_epoch, fact.value.leader_epoch)
                updates = self._after_snapshot(updates)
        return state_epoch, leader_epoch, updates

    @rule()
    def compact(self) -> None:
        """A later load begins at the last snapshot of each share partition."""
        last = {fact.key: at for at, fact in enumerate(self.facts) if isinstance(fact, Snapshot)}
        self.facts = [fact for at, fact in enumerate(self.facts) if at >= last.get(fact.key, 0)]

    @rule()
    def cold(self) -> None:
        """Fresh snapshots change nothing that can be read."""
        self.now_ms += 400_000
        before = len(self.facts)
        self.room.snapshot_cold(now_ms=self.now_ms)
        for fact in self.facts[before:]:
            assert isinstance(fact, Snapshot)
            kept = self.model[fact.key.partition]
            kept.updates = self._after_snapshot(kept.updates)
            kept.state_fence = max(kept.state_fence, kept.state_epoch)

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
                self._is_summed_up_as_unknown(partition)
                continue
            assert (stored.start_offset, stored.delivery_complete_count) == (kept.start, kept.count)
            assert stored.leader_epoch == kept.leader_epoch
            summary = self.room.summary(self._key(partition))
            assert summary == Summary(kept.start, kept.count, kept.leader_epoch, kept.state_epoch)
            offsets = {
                offset: (batch.delivery_count, batch.state)
                for batch in stored.batches
                for offset in range(batch.first, batch.last + 1)
            }
            assert offsets == kept.offsets
            assert all(one.last < two.first for one, two in zip(stored.batches, stored.batches[1:], strict=False))
        assert all(isinstance(fact, Snapshot | Update) for fact in self.facts)

    def _is_summed_up_as_unknown(self, partition: int) -> None:
        is_known = self.share_rules.sums_up_unknown
        wanted = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if self.topic is None else None
        wanted = wanted or (None if is_known else self.share_rules.unknown_state)
        assert self._refusal(lambda: self.room.summary(self._key(partition))) is wanted
        if wanted is None:
            assert self.room.summary(self._key(partition)) == Summary(-1, -1, 0, 0)


TestCoordinators = Coordinators.TestCase
TestCoordinators.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
