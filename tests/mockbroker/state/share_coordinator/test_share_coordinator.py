"""The share coordinator: checks in order, epochs, snapshots and updates (share-semantics 7.2 and 7.3)."""

from __future__ import annotations

import random

import pytest

from kwire.error_codes import ErrorCode
from mockbroker.state.metadata.cluster_image import ClusterImage, TopicChange
from mockbroker.state.share.share_rules import RELEASED, ShareRules, StateRules
from mockbroker.state.share_coordinator.share_coordinator import (
    ShareCoordinator,
    ShareKey,
    StateRecord,
    StateSnapshot,
    StateSummary,
    StateUpdate,
    StateWrite,
)
from tests.support.brokers.share_partitions import stored_batches
from tests.support.raises_code import code_of, raises_code

CONFIG: dict[str, object] = {
    "num.partitions": 2,
    "default.replication.factor": 1,
    "share.coordinator.snapshot.update.records.per.snapshot": 2,
    "share.coordinator.cold.partition.snapshot.interval.ms": 300_000,
}


class CoordinatorHarness:
    """A share coordinator over one topic of two partitions, with the records that it decided on."""

    def __init__(self, rules: ShareRules = RELEASED) -> None:
        self.metadata = ClusterImage([0], CONFIG, random.Random(0))
        self.topic = self.metadata.create_topic("t")
        self.records: list[StateRecord] = []
        self.coordinator = ShareCoordinator(
            self.metadata, CONFIG, record=lambda record, _: self.records.append(record), rules=rules
        )
        self.key = ShareKey("g", self.topic.topic_id, 0)

    def initialize_state(self, *, epoch: int = 1, start: int = 0, now_ms: int = 0) -> None:
        self.coordinator.initialize_state(self.key, state_epoch=epoch, start_offset=start, now_ms=now_ms)

    def write_state(
        self, *texts: str, start: int = 0, count: int = 0, state_epoch: int = 1, leader_epoch: int = 0
    ) -> None:
        write = StateWrite(state_epoch, leader_epoch, start, count, stored_batches(*texts))
        self.coordinator.write_state(self.key, write, now_ms=len(self.records))


@pytest.fixture
def harness() -> CoordinatorHarness:
    return CoordinatorHarness()


def test_7_3_what_was_never_initialized_reads_as_a_bad_request_and_sums_up_as_unknown() -> None:
    harness = CoordinatorHarness()

    with raises_code(ErrorCode.INVALID_REQUEST):
        harness.coordinator.read_state(harness.key, leader_epoch=0, now_ms=0)
    assert code_of(lambda: harness.write_state("0-9:2/1")) is ErrorCode.INVALID_REQUEST
    assert harness.coordinator.read_summary(harness.key) == StateSummary(-1, -1, 0, 0)
    harness.coordinator.delete_state(harness.key, now_ms=0)
    assert harness.records == []


def test_7_3_a_start_of_minus_one_has_no_complete_count(harness: CoordinatorHarness) -> None:
    harness.initialize_state(start=-1)
    assert harness.coordinator.read_summary(harness.key) == StateSummary(-1, -1, 0, 1)
    harness.initialize_state(start=12)

    assert harness.coordinator.read_summary(harness.key) == StateSummary(12, 0, 0, 1)


def test_7_3_partitions_that_cannot_be(harness: CoordinatorHarness) -> None:
    negative, beyond = harness.key._replace(partition=-1), harness.key._replace(partition=2)

    assert code_of(lambda: harness.coordinator.read_summary(negative)) is ErrorCode.INVALID_REQUEST
    assert code_of(lambda: harness.coordinator.read_summary(beyond)) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert code_of(lambda: harness.coordinator.delete_state(beyond, now_ms=0)) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    harness.key = beyond
    assert code_of(harness.initialize_state) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_leader_of_a_state_before_a_deletion_writes_nothing_into_the_next_where_other_epochs_are_fenced() -> None:
    harness = CoordinatorHarness(ShareRules(state=StateRules(fences_different_state_epoch=True)))
    harness.initialize_state(epoch=2)
    harness.coordinator.delete_state(harness.key, now_ms=0)
    harness.initialize_state(epoch=1)

    assert code_of(lambda: harness.write_state("0-9:2/1", state_epoch=2)) is ErrorCode.FENCED_STATE_EPOCH
    harness.write_state("0-9:2/1", state_epoch=1)


def test_a_start_does_not_go_back_where_it_follows_what_is_done() -> None:
    harness = CoordinatorHarness(ShareRules(state=StateRules(start_passes_completed_records=True)))
    harness.initialize_state()
    harness.write_state("0-9:2/1")
    harness.write_state("4-4:2/2", start=3)

    assert harness.coordinator.read_summary(harness.key).start_offset == 10


def test_7_3_old_epochs_are_fenced_and_higher_ones_accepted_but_not_stored(harness: CoordinatorHarness) -> None:
    harness.initialize_state(epoch=5)
    assert harness.coordinator.read_state(harness.key, leader_epoch=3, now_ms=0).start_offset == 0

    assert code_of(lambda: harness.write_state(state_epoch=4, leader_epoch=3)) is ErrorCode.FENCED_STATE_EPOCH
    assert code_of(lambda: harness.write_state(state_epoch=5, leader_epoch=2)) is ErrorCode.FENCED_LEADER_EPOCH
    assert code_of(lambda: harness.initialize_state(epoch=4)) is ErrorCode.FENCED_STATE_EPOCH
    with raises_code(ErrorCode.FENCED_LEADER_EPOCH):
        harness.coordinator.read_state(harness.key, leader_epoch=-1, now_ms=0)
    harness.write_state(state_epoch=9, leader_epoch=9)
    assert harness.coordinator.read_summary(harness.key) == StateSummary(0, 0, 3, 5)
    harness.write_state(state_epoch=-1, leader_epoch=-1)
    harness.initialize_state(epoch=-1)


def test_7_3_a_lower_start_is_stored_as_given_and_minus_one_keeps_it(harness: CoordinatorHarness) -> None:
    harness.initialize_state(start=15)
    harness.write_state(start=3, count=4)
    assert harness.coordinator.read_summary(harness.key)[:2] == (3, 4)
    harness.write_state(start=-1, count=6)

    assert harness.coordinator.read_summary(harness.key)[:2] == (3, 6)


def test_7_2_after_enough_updates_a_snapshot_is_written_with_everything_merged(harness: CoordinatorHarness) -> None:
    harness.initialize_state(start=0)
    harness.write_state("0-4:2/1", start=0)
    harness.write_state("5-9:2/1", start=0)
    harness.write_state("10-14:0/1", start=5)
    harness.write_state("10-14:2/1", start=10)

    kinds = [type(record) for record in harness.records]
    assert kinds == [StateSnapshot, StateUpdate, StateUpdate, StateSnapshot, StateUpdate]
    assert [record.snapshot_epoch for record in harness.records if isinstance(record, StateUpdate)] == [0, 0, 1]
    snapshot = harness.records[3]
    assert isinstance(snapshot, StateSnapshot)
    assert snapshot.value is not None
    assert snapshot.value.snapshot_epoch == 1
    assert list(snapshot.value.batches) == stored_batches("5-9:2/1", "10-14:0/1")
    now = harness.coordinator.find_state(harness.key)
    assert now is not None
    assert list(now.batches) == stored_batches("10-14:2/1")


def test_7_2_the_facts_alone_give_the_state_again(harness: CoordinatorHarness) -> None:
    harness.initialize_state(start=0)
    for first in range(0, 50, 5):
        harness.write_state(f"{first}-{first + 4}:2/1", start=max(0, first - 10), count=first)
    again = ShareCoordinator(harness.metadata, CONFIG)
    for record in harness.records:
        again.replay_record(record)

    assert again.find_state(harness.key) == harness.coordinator.find_state(harness.key)


def test_7_3_a_deleted_topic_takes_its_state_along(harness: CoordinatorHarness) -> None:
    harness.initialize_state()
    harness.coordinator.on_topic_change(TopicChange.PARTITIONS_ADDED, harness.topic)
    assert harness.coordinator.find_state(harness.key) is not None
    harness.coordinator.on_topic_change(TopicChange.DELETED, harness.topic)

    assert harness.coordinator.find_state(harness.key) is None
    assert harness.records[-1] == StateSnapshot(harness.key, None)


def test_7_5_what_has_been_cold_for_long_gets_a_fresh_snapshot_once(harness: CoordinatorHarness) -> None:
    harness.initialize_state(now_ms=1_000)
    harness.coordinator.snapshot_cold_states(now_ms=300_999)
    assert len(harness.records) == 1
    harness.coordinator.snapshot_cold_states(now_ms=301_000)
    assert len(harness.records) == 2
    harness.coordinator.snapshot_cold_states(now_ms=900_000)

    assert len(harness.records) == 2


def test_another_node_coordinates(harness: CoordinatorHarness) -> None:
    elsewhere = ShareCoordinator(harness.metadata, CONFIG, is_coordinator=lambda key: False)

    assert code_of(lambda: elsewhere.read_summary(harness.key)) is ErrorCode.NOT_COORDINATOR
