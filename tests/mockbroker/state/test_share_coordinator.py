"""The share coordinator: checks in order, epochs, snapshots and updates (share-semantics 7.2 and 7.3)."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError
from mockbroker.state.metadata import Change, Metadata
from mockbroker.state.share_coordinator import Fact, ShareCoordinator, ShareKey, Snapshot, Summary, Update, Written
from mockbroker.state.share_rules import RELEASED, ShareRules
from tests.mockbroker.state.share_kit import stored

CONFIG: dict[str, object] = {
    "num.partitions": 2,
    "default.replication.factor": 1,
    "share.coordinator.snapshot.update.records.per.snapshot": 2,
    "share.coordinator.cold.partition.snapshot.interval.ms": 300_000,
}


class Room:
    """A share coordinator over one topic of two partitions, with the facts that it decided on."""

    def __init__(self, rules: ShareRules = RELEASED) -> None:
        self.metadata = Metadata([0], CONFIG, random.Random(0))
        self.topic = self.metadata.create_topic("t")
        self.facts: list[Fact] = []
        self.room = ShareCoordinator(self.metadata, CONFIG, record=lambda fact, _: self.facts.append(fact), rules=rules)
        self.key = ShareKey("g", self.topic.topic_id, 0)

    def initialize(self, *, epoch: int = 1, start: int = 0, now_ms: int = 0) -> None:
        self.room.initialize(self.key, state_epoch=epoch, start_offset=start, now_ms=now_ms)

    def write(self, *texts: str, start: int = 0, count: int = 0, state_epoch: int = 1, leader_epoch: int = 0) -> None:
        self.room.write(
            self.key, Written(state_epoch, leader_epoch, start, count, stored(*texts)), now_ms=len(self.facts)
        )


def refused(call: Callable[[], object]) -> ErrorCode:
    """The code with which a call is refused."""
    with pytest.raises(KafkaError) as refusal:
        call()
    return refusal.value.code


def test_7_3_what_was_never_initialized_reads_as_a_bad_request_and_sums_up_as_unknown() -> None:
    room = Room()

    assert refused(lambda: room.room.read(room.key, leader_epoch=0, now_ms=0)) is ErrorCode.INVALID_REQUEST
    assert refused(lambda: room.write("0-9:2/1")) is ErrorCode.INVALID_REQUEST
    assert room.room.summary(room.key) == Summary(-1, -1, 0, 0)
    room.room.delete(room.key, now_ms=0)
    assert room.facts == []


def test_7_3_a_start_of_minus_one_has_no_complete_count() -> None:
    room = Room()
    room.initialize(start=-1)
    assert room.room.summary(room.key) == Summary(-1, -1, 0, 1)
    room.initialize(start=12)

    assert room.room.summary(room.key) == Summary(12, 0, 0, 1)


def test_7_3_partitions_that_cannot_be() -> None:
    room = Room()
    negative, beyond = room.key._replace(partition=-1), room.key._replace(partition=2)

    assert refused(lambda: room.room.summary(negative)) is ErrorCode.INVALID_REQUEST
    assert refused(lambda: room.room.summary(beyond)) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert refused(lambda: room.room.delete(beyond, now_ms=0)) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    room.key = beyond
    assert refused(room.initialize) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_leader_of_a_state_before_a_deletion_writes_nothing_into_the_next_where_other_epochs_are_fenced() -> None:
    room = Room(ShareRules(fences_other_epochs=True))
    room.initialize(epoch=2)
    room.room.delete(room.key, now_ms=0)
    room.initialize(epoch=1)

    assert refused(lambda: room.write("0-9:2/1", state_epoch=2)) is ErrorCode.FENCED_STATE_EPOCH
    room.write("0-9:2/1", state_epoch=1)


def test_a_start_does_not_go_back_where_it_follows_what_is_done() -> None:
    room = Room(ShareRules(start_follows=True))
    room.initialize()
    room.write("0-9:2/1")
    room.write("4-4:2/2", start=3)

    assert room.room.summary(room.key).start_offset == 10


def test_7_3_old_epochs_are_fenced_and_higher_ones_accepted_but_not_stored() -> None:
    room = Room()
    room.initialize(epoch=5)
    assert room.room.read(room.key, leader_epoch=3, now_ms=0).start_offset == 0

    assert refused(lambda: room.write(state_epoch=4, leader_epoch=3)) is ErrorCode.FENCED_STATE_EPOCH
    assert refused(lambda: room.write(state_epoch=5, leader_epoch=2)) is ErrorCode.FENCED_LEADER_EPOCH
    assert refused(lambda: room.initialize(epoch=4)) is ErrorCode.FENCED_STATE_EPOCH
    assert refused(lambda: room.room.read(room.key, leader_epoch=-1, now_ms=0)) is ErrorCode.FENCED_LEADER_EPOCH
    room.write(state_epoch=9, leader_epoch=9)
    assert room.room.summary(room.key) == Summary(0, 0, 3, 5)
    room.write(state_epoch=-1, leader_epoch=-1)
    room.initialize(epoch=-1)


def test_7_3_a_lower_start_is_stored_as_given_and_minus_one_keeps_it() -> None:
    room = Room()
    room.initialize(start=15)
    room.write(start=3, count=4)
    assert room.room.summary(room.key)[:2] == (3, 4)
    room.write(start=-1, count=6)

    assert room.room.summary(room.key)[:2] == (3, 6)


def test_7_2_after_enough_updates_a_snapshot_is_written_with_everything_merged() -> None:
    room = Room()
    room.initialize(start=0)
    room.write("0-4:2/1", start=0)
    room.write("5-9:2/1", start=0)
    room.write("10-14:0/1", start=5)
    room.write("10-14:2/1", start=10)

    kinds = [(type(fact).__name__, fact.snapshot_epoch if isinstance(fact, Update) else None) for fact in room.facts]
    assert kinds == [("Snapshot", None), ("Update", 0), ("Update", 0), ("Snapshot", None), ("Update", 1)]
    snapshot = room.facts[3]
    assert isinstance(snapshot, Snapshot)
    assert snapshot.value is not None
    assert snapshot.value.snapshot_epoch == 1
    assert list(snapshot.value.batches) == stored("5-9:2/1", "10-14:0/1")
    now = room.room.stored(room.key)
    assert now is not None
    assert list(now.batches) == stored("10-14:2/1")


def test_7_2_the_facts_alone_give_the_state_again() -> None:
    room = Room()
    room.initialize(start=0)
    for first in range(0, 50, 5):
        room.write(f"{first}-{first + 4}:2/1", start=max(0, first - 10), count=first)
    again = ShareCoordinator(room.metadata, CONFIG)
    for fact in room.facts:
        again.replay(fact)

    assert again.stored(room.key) == room.room.stored(room.key)


def test_7_3_a_deleted_topic_takes_its_state_along() -> None:
    room = Room()
    room.initialize()
    room.room.topic_changed(Change.GREW, room.topic)
    assert room.room.stored(room.key) is not None
    room.room.topic_changed(Change.DELETED, room.topic)

    assert room.room.stored(room.key) is None
    assert room.facts[-1] == Snapshot(room.key, None)


def test_7_5_what_has_been_cold_for_long_gets_a_fresh_snapshot_once() -> None:
    room = Room()
    room.initialize(now_ms=1_000)
    room.room.snapshot_cold(now_ms=300_999)
    assert len(room.facts) == 1
    room.room.snapshot_cold(now_ms=301_000)
    assert len(room.facts) == 2
    room.room.snapshot_cold(now_ms=900_000)

    assert len(room.facts) == 2


def test_another_node_coordinates() -> None:
    room = Room()
    elsewhere = ShareCoordinator(room.metadata, CONFIG, is_mine=lambda key: False)

    assert refused(lambda: elsewhere.summary(room.key)) is ErrorCode.NOT_COORDINATOR
