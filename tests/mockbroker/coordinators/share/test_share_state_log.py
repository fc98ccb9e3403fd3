"""The share coordinator's topic: real records, loading after a restart or a move, snapshots and pruning (7.2, 7.5)."""

from __future__ import annotations

from typing import Any

import pytest

from kwire.codec import decode
from kwire.error_codes import ErrorCode
from kwire.messages.initialize_share_group_state import InitializeShareGroupStateRequest, InitializeStateData
from kwire.messages.initialize_share_group_state import PartitionData as InitializePartition
from kwire.messages.read_share_group_state import PartitionData as ReadPartition
from kwire.messages.read_share_group_state import ReadShareGroupStateRequest, ReadStateData
from kwire.messages.read_share_group_state_summary import PartitionData as SummaryPartition
from kwire.messages.read_share_group_state_summary import ReadShareGroupStateSummaryRequest, ReadStateSummaryData
from kwire.messages.write_share_group_state import PartitionData as WritePartition
from kwire.messages.write_share_group_state import StateBatch, WriteShareGroupStateRequest, WriteStateData
from kwire.records.coordinator.share_snapshot import ShareSnapshotKey, ShareSnapshotValue
from kwire.records.coordinator.share_update import ShareUpdateKey, ShareUpdateValue
from mockbroker.state.metadata.cluster_image import CoordinatorKind
from mockbroker.state.share.state_batches import StateBatch as CompletedBatch
from mockbroker.state.share_coordinator.share_coordinator import ShareKey, StateWrite
from mockbroker.state.storage.partition_log import PartitionLog
from tests.support.brokers.broker import Broker

TOPIC = "__share_group_state"
INTERVAL_MS = 300_000


class StateBroker(Broker):
    """Three nodes, a topic, and the state RPCs of the coordinator of one share partition."""

    def __init__(self, **config: str) -> None:
        super().__init__(nodes=3, topics={"orders": 2}, config=config)
        self.key = ShareKey("g", self.topic("orders").topic_id, 0)
        self.shard = self.metadata.coordinator_partition_index(CoordinatorKind.SHARE, str(self.key))

    @property
    def coordinator(self) -> int:
        return self.leader(TOPIC, self.shard)

    @property
    def log(self) -> PartitionLog:
        return self.leader_log(TOPIC, self.shard)

    def _ask_coordinator(self, request: Any, version: int) -> Any:
        node = self.coordinator
        answer = self.call(request, version, connection=f"at-{node}-{id(self.core.state.nodes[node])}", node=node)
        return answer.results[0].partitions[0]

    def initialize(self, start: int = 0, epoch: int = 1) -> Any:
        rows = [InitializeStateData(self.key.topic_id, [InitializePartition(0, epoch, start)])]
        return self._ask_coordinator(InitializeShareGroupStateRequest("g", rows), 0)

    def write(self, first: int, last: int, *, start: int, count: int = 0) -> Any:
        return self._ask_coordinator(self.written(first, last, start=start, count=count), 1)

    def written(self, first: int, last: int, *, start: int, count: int = 0) -> WriteShareGroupStateRequest:
        """The request of `write`."""
        partition = WritePartition(0, 1, 0, start, count, [StateBatch(first, last, 2, 1)])
        return WriteShareGroupStateRequest("g", [WriteStateData(self.key.topic_id, [partition])])

    def read(self) -> Any:
        return self._ask_coordinator(self.read_request, 0)

    @property
    def read_request(self) -> ReadShareGroupStateRequest:
        """The request of `read`."""
        return ReadShareGroupStateRequest("g", [ReadStateData(self.key.topic_id, [ReadPartition(0, 0)])])

    @property
    def summary_request(self) -> ReadShareGroupStateSummaryRequest:
        """A request for the stored start."""
        topics = [ReadStateSummaryData(self.key.topic_id, [SummaryPartition(0, 0)])]
        return ReadShareGroupStateSummaryRequest("g", topics)

    def stop_followers(self) -> int:
        """Stop the two other replicas of the coordinator's topic. Returns: one of them."""
        others = [node for node in range(3) if node != self.coordinator]
        for node in others:
            self.stop_node(node)
        return others[0]

    def records(self) -> list[tuple[int, str, Any]]:
        """Offset, name and decoded value of every record; the key is checked on the way."""
        found: list[tuple[int, str, Any]] = []
        for batch in self.log.read(self.log.start_offset, 1 << 30).batches:
            for record in batch.records():
                assert record.key is not None
                kind = int.from_bytes(record.key[:2], "big")
                key = decode((ShareSnapshotKey, ShareUpdateKey)[kind], 0, record.key[2:])
                assert isinstance(key, ShareSnapshotKey | ShareUpdateKey)
                assert (key.group_id, key.topic_id, key.partition) == self.key
                value_class: type[ShareSnapshotValue | ShareUpdateValue]
                value_class = (ShareSnapshotValue, ShareUpdateValue)[kind]
                value = None
                if record.value is not None:
                    assert bytes(record.value[:2]) == b"\0\0"
                    value = decode(value_class, 0, record.value[2:])
                found.append((record.offset, value_class.NAME.removesuffix("Value"), value))
        return found


@pytest.fixture
def broker() -> StateBroker:
    return StateBroker()


def test_7_2_an_initialization_is_a_snapshot_and_a_write_an_update(broker: StateBroker) -> None:
    broker.initialize(start=5)
    broker.write(5, 9, start=5, count=5)
    (_, first, snapshot), (_, second, update) = broker.records()

    assert (first, second) == ("ShareSnapshot", "ShareUpdate")
    assert (snapshot.snapshot_epoch, snapshot.state_epoch, snapshot.start_offset) == (0, 1, 5)
    assert (snapshot.delivery_complete_count, snapshot.state_batches) == (0, [])
    assert snapshot.create_timestamp == snapshot.write_timestamp == broker.now_ms
    assert (update.snapshot_epoch, update.start_offset, update.delivery_complete_count) == (0, 5, 5)
    assert [(row.first_offset, row.last_offset, row.delivery_state) for row in update.state_batches] == [(5, 9, 2)]


def test_7_2_a_deleted_topic_leaves_a_snapshot_key_without_value(broker: StateBroker) -> None:
    broker.initialize()
    broker.metadata.delete_topic(broker.topic("orders"))

    assert [(name, value is None) for _, name, value in broker.records()] == [
        ("ShareSnapshot", False),
        ("ShareSnapshot", True),
    ]


@pytest.mark.parametrize("how", ["stop", "kill", "move", "restart"])
def test_7_5_state_is_loaded_from_the_log_after_an_election(how: str) -> None:
    replicas = "1" if how == "restart" else "3"
    broker = StateBroker(**{"share.coordinator.state.topic.replication.factor": replicas})
    broker.initialize()
    broker.write(0, 4, start=0, count=5)
    broker.write(7, 9, start=0, count=8)
    before, old = broker.read(), broker.coordinator
    if how == "move":
        broker.core.move_leader(TOPIC, broker.shard, broker.now_ms, to=(old + 1) % 3)
        broker.advance(0)
    elif how == "kill":
        broker.kill_node(old)
        broker.advance(9_000)
    else:
        broker.stop_node(old)
    if how == "restart":
        assert broker.coordinator == -1
        broker.start_node(old)
    after = broker.read()

    assert (broker.coordinator == old) == (how == "restart")
    assert (after.error_code, after.start_offset, after.state_epoch) == (0, 0, 1)
    assert after.state_batches == before.state_batches
    assert [(row.first_offset, row.last_offset) for row in after.state_batches] == [(0, 4), (7, 9)]


def test_7_2_updates_are_counted_on_after_a_load() -> None:
    broker = StateBroker(**{"share.coordinator.snapshot.update.records.per.snapshot": "3"})
    broker.initialize()
    broker.write(0, 0, start=0)
    broker.write(1, 1, start=0)
    broker.core.move_leader(TOPIC, broker.shard, broker.now_ms, to=(broker.coordinator + 1) % 3)
    broker.advance(0)
    broker.write(2, 2, start=0)
    broker.write(3, 3, start=0)

    assert [name for _, name, _ in broker.records()] == ["ShareSnapshot", *["ShareUpdate"] * 3, "ShareSnapshot"]
    assert [(row.first_offset, row.last_offset) for row in broker.records()[-1][2].state_batches] == [(0, 3)]


def test_a_former_coordinator_refuses(broker: StateBroker) -> None:
    broker.initialize()
    old = broker.coordinator
    broker.core.move_leader(TOPIC, broker.shard, broker.now_ms, to=(old + 1) % 3)
    broker.advance(0)
    answer = broker.call(broker.read_request, 0, connection="old", node=old)

    assert answer.results[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR


def test_too_few_replicas_in_sync_make_the_coordinator_unavailable(broker: StateBroker) -> None:
    broker.initialize()
    follower = broker.stop_followers()
    asked = broker.written(0, 0, start=0)
    assert broker.call(asked, 0, connection="writer", node=broker.coordinator) is None
    broker.advance(4_999)
    assert broker.take_response("writer") is None
    broker.advance(1)
    assert broker.take_response("writer").results[0].partitions[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    # A read has seen what is not committed, and waits for it as well (the story state_cannot_be_written).
    assert broker.call(broker.read_request, 0, connection="reader", node=broker.coordinator) is None
    broker.advance(5_000)
    assert broker.take_response("reader").results[0].partitions[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    broker.start_node(follower)

    # What was written stays, and counts: only the answer was that it is not known whether it does.
    assert [(row.first_offset, row.last_offset) for row in broker.read().state_batches] == [(0, 0)]


def test_summaries_and_refusals_wait_for_the_writes_that_they_have_read(broker: StateBroker) -> None:
    """Source: Kafka 4.3.0, ShareCoordinatorService.readStateSummary and CoordinatorRuntime.waitForPendingWrites."""
    broker.initialize()
    follower = broker.stop_followers()
    assert broker.call(broker.written(0, 0, start=3), 0, connection="writer", node=broker.coordinator) is None
    fenced = WriteShareGroupStateRequest(
        "g", [WriteStateData(broker.key.topic_id, [WritePartition(0, 0, 0, 3, 0, [])])]
    )
    requests = {"summary": (broker.summary_request, 1), "fenced": (fenced, 0)}
    answers = {name: broker.call(*asked, connection=name, node=broker.coordinator) for name, asked in requests.items()}
    assert answers == {"summary": None, "fenced": None}
    broker.start_node(follower)

    row = broker.take_response("summary").results[0].partitions[0]
    assert (row.error_code, row.start_offset) == (0, 3)
    assert broker.take_response("fenced").results[0].partitions[0].error_code == ErrorCode.FENCED_STATE_EPOCH


def test_a_write_is_answered_as_soon_as_enough_replicas_have_it(broker: StateBroker) -> None:
    broker.initialize()
    follower = broker.stop_followers()
    asked = broker.written(0, 0, start=0)
    assert broker.call(asked, 0, connection="writer", node=broker.coordinator) is None
    broker.start_node(follower)

    assert broker.take_response("writer").results[0].partitions[0].error_code == 0


def test_the_persister_waits_for_the_replicas_and_comes_again(broker: StateBroker) -> None:
    broker.initialize()
    follower = broker.stop_followers()
    answers: list[tuple[object, int]] = []
    started_ms = broker.now_ms
    persister = broker.core.state.nodes[broker.coordinator].persister
    written = StateWrite(1, 0, 0, 0, [CompletedBatch(0, 0, 2, 1)])
    persister.write_states(broker.key, written, done=lambda answer, at: answers.append((answer, at)), now_ms=started_ms)
    broker.advance(6_000)
    broker.start_node(follower)
    assert answers == []
    broker.advance(2_000)

    (answer, at_ms), *none = answers
    assert not none
    assert answer is None
    assert 5_000 + 1_600 <= at_ms - started_ms <= 5_000 + 2_440


def test_7_5_a_cold_share_partition_gets_a_snapshot_once(broker: StateBroker) -> None:
    broker.initialize()
    broker.write(0, 4, start=0, count=5)
    broker.advance(INTERVAL_MS)
    _, name, cold = broker.records()[-1]

    assert (name, cold.snapshot_epoch, cold.delivery_complete_count) == ("ShareSnapshot", 1, 5)
    assert cold.write_timestamp - cold.create_timestamp == INTERVAL_MS
    count = len(broker.records())
    broker.advance(3 * INTERVAL_MS)
    assert len(broker.records()) <= count


def test_7_5_times_without_anything_to_keep_up_are_left_out(broker: StateBroker) -> None:
    broker.initialize()
    broker.write(0, 4, start=0, count=5)
    log = broker.core.state.nodes[broker.coordinator].share_state_log
    first_ms = log.next_deadline_ms()
    broker.advance(3 * INTERVAL_MS)

    assert first_ms is not None
    assert log.next_deadline_ms() is None
    broker.write(5, 9, start=0, count=5)
    assert log.next_deadline_ms() == first_ms + 3 * INTERVAL_MS


def test_7_5_what_lies_before_the_last_snapshot_is_pruned() -> None:
    broker = StateBroker(**{"share.coordinator.snapshot.update.records.per.snapshot": "2"})
    broker.initialize()
    for offset in range(4):
        broker.write(offset, offset, start=0)
    last = max(offset for offset, name, _ in broker.records() if name == "ShareSnapshot")
    assert last > 0
    assert broker.log.start_offset == 0
    broker.advance(INTERVAL_MS)

    assert broker.log.start_offset >= last
    broker.stop_node(broker.coordinator)
    assert [(row.first_offset, row.last_offset) for row in broker.read().state_batches] == [(0, 3)]


def test_7_5_nothing_is_kept_up_while_share_groups_are_off() -> None:
    broker = StateBroker()
    broker.core.state.features["share.version"] = 0
    broker.initialize()
    broker.advance(2 * INTERVAL_MS)

    assert len(broker.records()) == 1


def test_7_5_what_lies_above_the_high_watermark_is_pruned_later() -> None:
    broker = StateBroker(**{"share.coordinator.snapshot.update.records.per.snapshot": "2"})
    broker.initialize()
    for offset in range(4):
        broker.write(offset, offset, start=0)
    broker.log.hold_high_watermark(0)
    broker.advance(INTERVAL_MS)
    assert broker.log.start_offset == 0
    broker.log.hold_high_watermark(None)
    broker.advance(INTERVAL_MS)

    assert broker.log.start_offset > 0


def test_7_5_nothing_is_pruned_before_the_snapshots_that_replace_it_are_committed(broker: StateBroker) -> None:
    """Source: Kafka 4.3.0, ShareCoordinatorService.performRecordPruning and CoordinatorRuntime.waitForPendingWrites."""
    broker.initialize()
    broker.write(0, 4, start=0, count=5)
    broker.log.hold_high_watermark(2)
    broker.advance(INTERVAL_MS)
    assert [(offset, name) for offset, name, _ in broker.records()] == [(0, "ShareSnapshot"), (1, "ShareUpdate")]
    broker.log.hold_high_watermark(None)
    broker.advance(20)

    assert [(offset, name) for offset, name, _ in broker.records()] == [(2, "ShareSnapshot")]


def test_7_5_a_pruning_that_waits_ends_with_the_leadership(broker: StateBroker) -> None:
    """Its node may lead again soon, with another log behind the same offset."""
    broker.initialize()
    broker.write(0, 4, start=0, count=5)
    broker.log.hold_high_watermark(2)
    broker.advance(INTERVAL_MS)
    first = broker.coordinator
    for leader in ((first + 1) % 3, first):
        broker.core.move_leader(TOPIC, broker.shard, broker.now_ms, to=leader)
    broker.advance(1)
    broker.log.hold_high_watermark(None)
    broker.advance(20)

    assert broker.coordinator == first
    assert broker.log.start_offset == 0


def test_7_5_what_is_loaded_is_not_read_before_it_is_committed(broker: StateBroker) -> None:
    """Source: Kafka 4.3.0, CoordinatorLoaderImpl: the last written offset is the end of the log."""
    broker.initialize()
    broker.write(0, 0, start=0)
    broker.core.move_leader(TOPIC, broker.shard, broker.now_ms, to=(broker.coordinator + 1) % 3)
    broker.log.hold_high_watermark(1)
    broker.advance(1)
    assert broker.call(broker.read_request, 0, connection="reader", node=broker.coordinator) is None
    broker.log.hold_high_watermark(None)
    broker.write(1, 1, start=0)

    row = broker.take_response("reader").results[0].partitions[0]
    assert [(batch.first_offset, batch.last_offset) for batch in row.state_batches] == [(0, 0)]
