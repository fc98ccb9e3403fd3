"""The share coordinator against a plain-dict model: any order of its five operations, loads, and topic deletions."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError
from mockbroker.state.metadata.cluster_image import ClusterImage, Topic, TopicChange
from mockbroker.state.share.share_rules import RELEASED, ShareRules
from mockbroker.state.share.state_batches import StateBatch
from mockbroker.state.share_coordinator.share_coordinator import (
    ShareCoordinator,
    ShareKey,
    StateRecord,
    StateSnapshot,
    StateSummary,
    StateUpdate,
    StateWrite,
)

pytestmark = pytest.mark.slow

_AVAILABLE = 0
_UPDATES = "share.coordinator.snapshot.update.records.per.snapshot"
_CONFIG: dict[str, object] = {
    "num.partitions": 2,
    "default.replication.factor": 1,
    _UPDATES: 3,
    "share.coordinator.cold.partition.snapshot.interval.ms": 300_000,
}
#: Mostly accepted values, so that there are states to merge, and sometimes refused ones.
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
class _ModelState:
    """The model of a share partition: each offset separately, with the rank that decides a merge."""

    start: int
    count: int
    state_epoch: int
    leader_epoch: int
    state_fence: int
    leader_fence: int
    updates: int
    offsets: dict[int, tuple[int, int]] = field(default_factory=dict)

    def merge(self, batches: list[StateBatch], start: int, *, follows: bool) -> None:
        """The higher rank wins each offset; offsets below the start are removed for ever.

        follows: the start passes what is done, and cannot go back.
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
    """One group's share partitions of a topic with two partitions. share_rules: the rules of the edition."""

    share_rules: ClassVar[ShareRules] = RELEASED

    def __init__(self) -> None:
        super().__init__()
        self.metadata = ClusterImage([0], _CONFIG, random.Random(0))
        self.topic: Topic | None = self.metadata.create_topic("t")
        self.topic_id = self.topic.topic_id
        self.records: list[StateRecord] = []
        self.now_ms = 0
        self.coordinator = self._new_coordinator()
        self.model: dict[int, _ModelState] = {}
        self.initialize(0, 0, 0)
        self.initialize(1, 0, 5)

    def _new_coordinator(self) -> ShareCoordinator:
        return ShareCoordinator(
            self.metadata, _CONFIG, record=lambda record, _: self.records.append(record), rules=self.share_rules
        )

    def _key(self, partition: int) -> ShareKey:
        return ShareKey("g", self.topic_id, partition)

    def _error(self, partition: int, code: ErrorCode | None = None) -> ErrorCode | None:
        """The error of an operation, in Kafka's order. code: that of the checks of its epochs and its state."""
        if partition < 0:
            return ErrorCode.INVALID_REQUEST
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if self.topic is None or partition > 1 else None
        return unknown if code is None else code

    @property
    def _updates_max(self) -> int:
        configured, at_most = int(str(_CONFIG[_UPDATES])), self.share_rules.state.max_updates_per_snapshot
        return min(configured, at_most) if at_most else configured

    @property
    def _updates_min(self) -> int:
        """The first number of updates: the first one may not count."""
        return 0 if self.share_rules.state.first_update_counts else -1

    def _refusal(self, call: Callable[[], object], *records: type[StateRecord]) -> ErrorCode | None:
        """The error of a call; without one it has written exactly these records."""
        self.now_ms += 1
        before = len(self.records)
        try:
            call()
        except KafkaError as refusal:
            assert len(self.records) == before, "a refused operation has written something"
            return refusal.code
        assert [type(record) for record in self.records[before:]] == list(records)
        return None

    @rule(partition=_PARTITIONS, epoch=_EPOCHS, start=_STARTS)
    def initialize(self, partition: int, epoch: int, start: int) -> None:
        """Initialize a state, unless a newer one is stored."""
        if not self.share_rules.state.managed_by_coordinator:
            return
        state = self.model.get(partition)
        is_fenced = state is not None and epoch != -1 and epoch < state.state_fence
        got = self._refusal(
            lambda: self.coordinator.initialize_state(
                self._key(partition), state_epoch=epoch, start_offset=start, now_ms=self.now_ms
            ),
            StateSnapshot,
        )
        assert got is self._error(partition, ErrorCode.FENCED_STATE_EPOCH if is_fenced else None)
        if got is None:
            fence = max(state.leader_fence if state else 0, 0)
            state_fence = max(epoch, state.state_fence) if state else epoch
            updates = self._after_snapshot(state.updates) if state else self._updates_min
            self.model[partition] = _ModelState(start, -1 if start == -1 else 0, epoch, 0, state_fence, fence, updates)

    @rule(partition=_PARTITIONS, leader_epoch=_EPOCHS)
    def read(self, partition: int, leader_epoch: int) -> None:
        """Read the state; a leader with an old epoch is fenced, a new epoch is stored."""
        rules, state = self.share_rules, self.model.get(partition)
        is_new = rules.state.checks_leader_epochs and leader_epoch not in (-1, state.leader_fence if state else None)
        records = [self._kind(state, [], -1)] if is_new else []
        got = self._refusal(
            lambda: self.coordinator.read_state(self._key(partition), leader_epoch=leader_epoch, now_ms=self.now_ms),
            *records,
        )
        code = None
        if state is None and rules.state.initialized_before_assignment:
            code = rules.state.missing_state_error
        elif state is not None and rules.state.checks_leader_epochs and state.leader_fence > leader_epoch:
            code = ErrorCode.FENCED_LEADER_EPOCH
        assert got is self._error(partition, code)
        if got is not None or not is_new:
            return
        if state is None:
            self.model[partition] = _ModelState(-1, -1, 0, leader_epoch, 0, leader_epoch, self._updates_min)
            return
        state.leader_epoch = state.leader_fence = leader_epoch
        self._note(state, records[0], [], -1)

    @rule(partition=_PARTITIONS, state_epoch=_EPOCHS, leader_epoch=_EPOCHS, start=_STARTS, batches=_BATCHES)
    def write(self, partition: int, state_epoch: int, leader_epoch: int, start: int, batches: list[StateBatch]) -> None:
        """Merged offset by offset; old epochs are fenced, newer ones are not state, or fenced too."""
        rules, state = self.share_rules, self.model.get(partition)
        written = StateWrite(state_epoch, leader_epoch, start, len(batches), batches)
        kind = self._kind(state, batches, start)
        key = self._key(partition)
        got = self._refusal(lambda: self.coordinator.write_state(key, written, now_ms=self.now_ms), kind)
        leader_epoch = leader_epoch if rules.state.checks_leader_epochs else -1
        code = None
        if state is None and rules.state.initialized_before_assignment:
            code = rules.state.missing_state_error
        elif state is not None and -1 != leader_epoch < state.leader_fence:
            code = ErrorCode.FENCED_LEADER_EPOCH
        elif state is not None and self._is_fenced(state, state_epoch):
            code = ErrorCode.FENCED_STATE_EPOCH
        assert got is self._error(partition, code)
        if got is not None:
            return
        if state is None:
            epochs = (state_epoch, leader_epoch)
            state = self.model[partition] = _ModelState(start, 0, *epochs, *epochs, self._updates_min)
            state.merge(batches, start, follows=False)
        else:
            if rules.state.stores_written_epochs and leader_epoch != -1:
                state.leader_epoch = state.leader_fence = leader_epoch
            if rules.state.stores_written_epochs and kind is StateSnapshot:
                state.state_epoch = max(state.state_epoch, state_epoch)
                state.state_fence = max(state.state_fence, state_epoch)
            self._note(state, kind, batches, start)
        state.count = len(batches)

    def _is_fenced(self, state: _ModelState, state_epoch: int) -> bool:
        if self.share_rules.state.fences_different_state_epoch and state_epoch != state.state_epoch:
            return state_epoch != -1
        return -1 != state_epoch < state.state_fence

    def _kind(self, state: _ModelState | None, batches: list[StateBatch], start: int) -> type[StateRecord]:
        """A snapshot after enough updates, at the beginning, and where it is small if the rules prefer it then."""
        if state is None or state.updates >= self._updates_max:
            return StateSnapshot
        if not self.share_rules.state.snapshots_empty_state:
            return StateUpdate
        after = _ModelState(state.start, 0, 0, 0, 0, 0, 0, dict(state.offsets))
        after.merge(batches, start, follows=self.share_rules.state.start_passes_completed_records)
        return StateUpdate if after.offsets else StateSnapshot

    def _note(self, state: _ModelState, kind: type[StateRecord], batches: list[StateBatch], start: int) -> None:
        state.merge(batches, start, follows=self.share_rules.state.start_passes_completed_records)
        state.updates = self._after_snapshot(state.updates) if kind is StateSnapshot else state.updates + 1

    def _after_snapshot(self, updates: int) -> int:
        """A snapshot that was not due leaves the count of updates as it is."""
        return 0 if updates >= self._updates_max else updates

    @rule(partition=_PARTITIONS)
    def delete(self, partition: int) -> None:
        """Delete the state, whether it exists or not."""
        if not self.share_rules.state.managed_by_coordinator:
            return
        records = [StateSnapshot] if partition in self.model else []
        got = self._refusal(lambda: self.coordinator.delete_state(self._key(partition), now_ms=self.now_ms), *records)
        assert got is self._error(partition)
        if got is None:
            self.model.pop(partition, None)

    @rule()
    def load(self) -> None:
        """Load the state on another node, from the records alone."""
        self.coordinator = self._new_coordinator()
        for record in self.records:
            self.coordinator.replay_record(record)
        for partition, state in self.model.items():
            state.state_fence, state.leader_fence, state.updates = self._of_log(partition)

    def _of_log(self, partition: int) -> tuple[int, int, int]:
        """The highest epochs in the log, compaction may have taken higher ones; and its updates."""
        state_epoch = leader_epoch = -1
        updates = self._updates_min
        for record in self.records:
            if record.key != self._key(partition):
                continue
            if isinstance(record, StateUpdate):
                leader_epoch = max(leader_epoch, record.leader_epoch)
                updates += 1
            elif record.value is None:
                state_epoch = leader_epoch = -1
                updates = self._updates_min
            else:
                state_epoch = max(state_epoch, record.value.state_epoch)
                leader_epoch = max(leader_epoch, record.value.leader_epoch)
                updates = self._after_snapshot(updates)
        return state_epoch, leader_epoch, updates

    @rule()
    def compact(self) -> None:
        """Compact the log: a later load starts at the last snapshot of each share partition."""
        last = {record.key: at for at, record in enumerate(self.records) if isinstance(record, StateSnapshot)}
        self.records = [record for at, record in enumerate(self.records) if at >= last.get(record.key, 0)]

    @rule()
    def snapshot_cold_states(self) -> None:
        """Snapshots of cold states do not change any state."""
        self.now_ms += 400_000
        before = len(self.records)
        self.coordinator.snapshot_cold_states(now_ms=self.now_ms)
        for record in self.records[before:]:
            assert isinstance(record, StateSnapshot)
            state = self.model[record.key.partition]
            state.updates = self._after_snapshot(state.updates)
            state.state_fence = max(state.state_fence, state.state_epoch)

    @rule(chance=st.integers(0, 40))
    def delete_topic(self, chance: int) -> None:
        """Delete the topic, and with it its states."""
        if chance == 40 and self.topic is not None:
            self.metadata.delete_topic(self.topic)
            self.coordinator.on_topic_change(TopicChange.DELETED, self.topic)
            self.topic = None
            self.model.clear()

    @invariant()
    def states_match_the_model(self) -> None:
        """Every share partition is stored as the model has it, in batches that do not overlap and rise."""
        for partition in (0, 1):
            stored, state = self.coordinator.find_state(self._key(partition)), self.model.get(partition)
            assert (stored is None) == (state is None)
            if stored is None or state is None:
                self._is_summed_up_as_unknown(partition)
                continue
            assert (stored.start_offset, stored.delivery_complete_count) == (state.start, state.count)
            assert stored.leader_epoch == state.leader_epoch
            summary = self.coordinator.read_summary(self._key(partition))
            assert summary == StateSummary(state.start, state.count, state.leader_epoch, state.state_epoch)
            offsets: dict[int, tuple[int, int]] = {}
            for batch in stored.batches:
                offsets |= dict.fromkeys(range(batch.first, batch.last + 1), (batch.delivery_count, batch.state))
            assert offsets == state.offsets
            assert all(one.last < two.first for one, two in zip(stored.batches, stored.batches[1:], strict=False))
        assert all(isinstance(record, StateSnapshot | StateUpdate) for record in self.records)

    def _is_summed_up_as_unknown(self, partition: int) -> None:
        is_known = self.share_rules.state.summarizes_missing_state
        wanted = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if self.topic is None else None
        wanted = wanted or (None if is_known else self.share_rules.state.missing_state_error)
        assert self._refusal(lambda: self.coordinator.read_summary(self._key(partition))) is wanted
        if wanted is None:
            assert self.coordinator.read_summary(self._key(partition)) == StateSummary(-1, -1, 0, 0)


TestCoordinators = Coordinators.TestCase
TestCoordinators.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
