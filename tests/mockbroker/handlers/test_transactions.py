"""Transactions through the whole broker of three nodes: verification, markers, offsets, timeouts, administration."""

from __future__ import annotations

from typing import Any

import pytest

from kwire.error_codes import ErrorCode
from kwire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kwire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kwire.messages.delete_topics import DeleteTopicsRequest
from kwire.messages.describe_transactions import DescribeTransactionsRequest
from kwire.messages.end_txn import EndTxnRequest
from kwire.messages.init_producer_id import InitProducerIdRequest
from kwire.messages.list_transactions import ListTransactionsRequest
from kwire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kwire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from kwire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kwire.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from kwire.records import Record, read_batches, write_batch
from mockbroker.calls import Fate, Loss
from mockbroker.state.log import PartitionLog
from mockbroker.state.metadata import CoordinatorKind
from mockbroker.state.transaction import Holder
from tests.mockbroker.broker import Broker

OLD_PRODUCE, ABORTABLE_PRODUCE, ADDING_PRODUCE = 10, 11, 12


class Producer:
    """A transactional producer that asks the right node each time, as a client would."""

    def __init__(self, broker: Broker, name: str = "tx", *, version: int = 5) -> None:
        self.broker = broker
        self.name = name
        self.version = version
        self.sequences: dict[int, int] = {}
        self.holder = Holder(-1, -1)
        self.begin()

    def begin(self) -> int:
        """InitProducerId, until no transaction of another is in the way."""
        answer = self.coordinator(InitProducerIdRequest(self.name, 60_000), 5)
        if not answer.error_code:
            self.holder = Holder(answer.producer_id, answer.producer_epoch)
            self.sequences.clear()
        return int(answer.error_code)

    def coordinator(self, request: Any, version: int) -> Any:
        node = self.broker.core.state.metadata.coordinator_for(CoordinatorKind.TRANSACTION, self.name)
        return self.broker.ask(request, version, connection=f"{self.name}-{node}", node=node)

    def add(self, *partitions: int) -> list[int]:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self.holder.producer_id,
            v3_and_below_producer_epoch=self.holder.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic("t", partitions)],
        )
        answer = self.coordinator(request, 3)
        return [row.partition_error_code for row in answer.results_by_topic_v3_and_below[0].results_by_partition]

    def produce(self, partition: int = 0, *, version: int = ADDING_PRODUCE, holder: Holder | None = None) -> int:
        """One record; the code of the answer."""
        sequence = self.sequences.get(partition, 0)
        topic = self.broker.core.state.metadata.topic("t")
        assert topic is not None
        holder = holder or self.holder
        batch = write_batch(
            [Record(0, self.broker.now_ms, None, b"v")],
            producer_id=holder.producer_id,
            producer_epoch=holder.epoch,
            base_sequence=sequence,
            transactional=True,
        )
        request = ProduceRequest(
            transactional_id=self.name,
            acks=-1,
            topic_data=[TopicProduceData("t", topic.topic_id, [PartitionProduceData(partition, batch)])],
        )
        node = topic.partitions[partition].leader
        answer = self.broker.ask(request, version, connection=f"{self.name}-{node}", node=node)
        code = int(answer.responses[0].partition_responses[0].error_code)
        if not code:
            self.sequences[partition] = sequence + 1
        return code

    def end(self, *, commit: bool = True) -> int:
        request = EndTxnRequest(self.name, *self.holder, committed=commit)
        answer = self.coordinator(request, self.version)
        if not answer.error_code and self.version >= 5:
            self.holder = Holder(answer.producer_id, answer.producer_epoch)
            self.sequences.clear()
        return int(answer.error_code)

    def commit_offset(self, offset: int, *, version: int = 5, topic: str = "t", **member: Any) -> int:
        rows = [TxnOffsetCommitRequestTopic(topic, [TxnOffsetCommitRequestPartition(0, offset, -1, "")])]
        request = TxnOffsetCommitRequest(self.name, "g", *self.holder, topics=rows, **member)
        answer = group_coordinator(self.broker, request, version)
        return int(answer.topics[0].partitions[0].error_code)


def group_coordinator(broker: Broker, request: Any, version: int) -> Any:
    node = broker.core.state.metadata.coordinator_for(CoordinatorKind.GROUP, "g")
    return broker.ask(request, version, connection=f"g-{node}", node=node)


def committed(broker: Broker, *, stable: bool = False) -> tuple[int, int]:
    """The group's offset, and the code beside it."""
    asked = OffsetFetchRequestGroup("g", topics=[OffsetFetchRequestTopics("t", partition_indexes=(0,))])
    answer = group_coordinator(broker, OffsetFetchRequest(groups=[asked], require_stable=stable), 8)
    row = answer.groups[0].topics[0].partitions[0]
    return row.committed_offset, row.error_code


def log_of(broker: Broker, partition: int = 0) -> PartitionLog:
    topic = broker.core.state.metadata.topic("t")
    assert topic is not None
    return broker.core.state.nodes[topic.partitions[partition].leader].logs.get(topic.topic_id, partition)


def markers(broker: Broker, partition: int = 0) -> list[int]:
    """Offsets of the control batches of a log."""
    data = log_of(broker, partition).read(0, 1 << 20).join()
    return [batch.base_offset for batch in read_batches(data) if batch.is_control]


@pytest.fixture
def broker() -> Broker:
    return Broker(nodes=3, topics={"t": 3})


@pytest.fixture
def producer(broker: Broker) -> Producer:
    return Producer(broker)


def test_a_commit_reaches_every_partition_wherever_it_is_led(broker: Broker, producer: Producer) -> None:
    assert [producer.produce(partition) for partition in (0, 1, 2)] == [0, 0, 0]
    assert [log_of(broker, partition).last_stable_offset for partition in (0, 1, 2)] == [0, 0, 0]
    assert producer.end() == 0

    assert [markers(broker, partition) for partition in (0, 1, 2)] == [[1], [1], [1]]
    assert [log_of(broker, partition).last_stable_offset for partition in (0, 1, 2)] == [2, 2, 2]
    assert producer.holder.epoch == 1


def test_markers_travel_between_nodes_as_messages(broker: Broker, producer: Producer) -> None:
    producer.produce()
    broker.core.state.calls.latency_ms = 40
    assert producer.end() == 0

    assert markers(broker) == []
    broker.advance(39)
    assert markers(broker) == []
    broker.advance(1)
    assert markers(broker) == [1]


@pytest.mark.parametrize(
    ("version", "code"),
    [(OLD_PRODUCE, ErrorCode.INVALID_TXN_STATE), (ABORTABLE_PRODUCE, ErrorCode.TRANSACTION_ABORTABLE)],
)
def test_a_batch_for_a_partition_that_was_not_added_is_refused(producer: Producer, version: int, code: int) -> None:
    assert producer.add(1) == [0]

    assert producer.produce(0, version=version) == code
    assert producer.produce(1, version=version) == 0
    assert producer.produce(1, version=version) == 0


def test_without_verification_older_clients_are_believed() -> None:
    broker = Broker(topics={"t": 1}, config={"transaction.partition.verification.enable": "false"})
    producer = Producer(broker)

    assert producer.produce(version=ABORTABLE_PRODUCE) == 0


def _slow(producer: Producer) -> tuple[ProduceRequest, int]:
    """A Produce whose verification takes 20 ms, and the node that it is for."""
    topic = producer.broker.core.state.metadata.topic("t")
    assert topic is not None
    producer.broker.core.state.calls.latency_ms = 10
    batch = write_batch(
        [Record(0, producer.broker.now_ms, None, b"v")],
        producer_id=producer.holder.producer_id,
        producer_epoch=producer.holder.epoch,
        base_sequence=0,
        transactional=True,
    )
    rows = [TopicProduceData("t", topic.topic_id, [PartitionProduceData(0, batch)])]
    return ProduceRequest(transactional_id=producer.name, acks=-1, topic_data=rows), topic.partitions[0].leader


def test_a_batch_that_waits_for_the_coordinator_is_written_once_however_often_it_is_woken(
    broker: Broker, producer: Producer
) -> None:
    request, leader = _slow(producer)
    broker.send(request, ADDING_PRODUCE, connection="slow", node=leader)
    for _ in range(100):
        broker.core.wake_all()
    assert broker.answer("slow") is None
    broker.advance(20)

    assert broker.answer("slow").responses[0].partition_responses[0].base_offset == 0
    assert log_of(broker).end_offset == 1


def test_a_batch_is_written_though_its_sender_has_gone(broker: Broker, producer: Producer) -> None:
    request, leader = _slow(producer)
    broker.send(request, ADDING_PRODUCE, connection="slow", node=leader)
    broker.disconnect("slow")
    broker.advance(20)

    assert log_of(broker).end_offset == 1


def test_a_batch_that_waits_dies_with_its_broker(producer: Producer) -> None:
    broker = producer.broker
    request, leader = _slow(producer)
    broker.send(request, ADDING_PRODUCE, connection="slow", node=leader)
    log = log_of(broker)
    broker.kill_node(leader)
    broker.advance(20)

    assert log.end_offset == 0


def test_partitions_are_added_all_or_none(producer: Producer) -> None:
    assert producer.add(0, 9) == [ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert producer.produce(0, version=ABORTABLE_PRODUCE) == ErrorCode.TRANSACTION_ABORTABLE


def test_a_fenced_producer_writes_no_more(broker: Broker, producer: Producer) -> None:
    producer.produce()
    newer = Producer(broker)

    assert newer.holder.epoch == -1  # Its first try found the open transaction, and began to abort it.
    assert markers(broker) == [1]
    assert newer.begin() == 0
    assert producer.produce() == ErrorCode.INVALID_PRODUCER_EPOCH
    assert newer.holder.epoch == 2
    assert producer.end() == ErrorCode.PRODUCER_FENCED
    assert log_of(broker).aborted_transactions(0, 2)[0].producer_id == producer.holder.producer_id


def test_a_transaction_that_is_open_for_too_long_is_aborted(broker: Broker, producer: Producer) -> None:
    producer.produce()
    broker.advance(60_000)
    assert markers(broker) == []
    broker.advance(10_000)

    assert markers(broker) == [1]
    # The epoch is the one before, so it reads as the repetition of an end; and that was no commit.
    assert producer.end() == ErrorCode.INVALID_TXN_STATE
    assert producer.produce() == ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_marker_waits_for_a_leader(broker: Broker, producer: Producer) -> None:
    producer.produce()
    topic = broker.core.state.metadata.topic("t")
    assert topic is not None
    leader = topic.partitions[0].leader
    broker.core.state.metadata.lead(topic, 0, -1)
    producer.end()
    broker.advance(1_000)
    assert producer.begin() == ErrorCode.CONCURRENT_TRANSACTIONS
    broker.core.state.metadata.lead(topic, 0, leader)
    broker.advance(1_000)

    assert markers(broker) == [1]
    assert producer.begin() == 0


def test_a_deleted_topic_does_not_keep_a_transaction_open(broker: Broker, producer: Producer) -> None:
    producer.produce()
    broker.ask(DeleteTopicsRequest(topic_names=("t",)), 5)

    assert producer.end() == 0
    assert producer.begin() == 0


def test_offsets_count_once_the_transaction_commits(broker: Broker, producer: Producer) -> None:
    assert producer.commit_offset(7) == 0
    assert committed(broker) == (-1, 0)
    assert committed(broker, stable=True) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    producer.end()

    assert committed(broker, stable=True) == (7, 0)


def test_offsets_of_an_aborted_transaction_are_dropped(broker: Broker, producer: Producer) -> None:
    producer.commit_offset(7)
    producer.end(commit=False)

    assert committed(broker, stable=True) == (-1, 0)


def test_an_offset_committed_meanwhile_is_newer_and_stays(broker: Broker, producer: Producer) -> None:
    producer.commit_offset(7)
    rows = [OffsetCommitRequestTopic("t", partitions=[OffsetCommitRequestPartition(0, 9, committed_metadata="")])]
    group_coordinator(broker, OffsetCommitRequest("g", topics=rows), 8)
    producer.end()

    assert committed(broker) == (9, 0)


@pytest.mark.parametrize("commit", [True, False])
def test_offsets_that_wait_move_with_their_group(commit: bool) -> None:
    broker = Broker(nodes=3, topics={"t": 1}, config={"default.replication.factor": "3"})
    producer = Producer(broker)
    producer.commit_offset(7)
    former = broker.core.state.metadata.coordinator_for(CoordinatorKind.GROUP, "g")
    broker.stop_node(former)

    assert committed(broker, stable=True) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    assert producer.end(commit=commit) == 0
    assert committed(broker, stable=True) == (7 if commit else -1, 0)


def test_a_coordinator_that_cannot_be_reached_makes_producers_try_again(broker: Broker) -> None:
    producer = Producer(broker)
    producer.add(0)
    broker.core.state.calls.fate = lambda to, now_ms: Fate(0, 0, Loss.REQUEST)

    assert producer.produce(version=ABORTABLE_PRODUCE) == ErrorCode.NOT_ENOUGH_REPLICAS
    assert producer.produce(version=ADDING_PRODUCE) == ErrorCode.NOT_ENOUGH_REPLICAS
    assert producer.commit_offset(7, version=4) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert producer.commit_offset(7, version=1) == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_while_answers_are_lost_one_marker_at_a_time_is_under_way_to_just_the_partition_that_failed(
    broker: Broker,
) -> None:
    producer = Producer(broker)
    producer.produce()
    producer.produce(1)
    topic = broker.core.state.metadata.topic("t")
    assert topic is not None
    lost_at = topic.partitions[0].leader
    broker.core.state.calls.fate = lambda to, now_ms: Fate(10, 10, Loss.ANSWER if to == lost_at else None)
    producer.end()
    broker.advance(1_200)

    # Twenty milliseconds there and back, and a hundred until the next.
    assert len(markers(broker)) == 10
    assert len(markers(broker, 1)) == 1


def test_a_marker_whose_answer_is_lost_is_written_again(broker: Broker) -> None:
    producer = Producer(broker)
    producer.produce()
    fates = iter([Fate(0, 0, Loss.ANSWER)])
    broker.core.state.calls.fate = lambda to, now_ms: next(fates, Fate(0, 0))
    producer.end()
    broker.advance(1_000)

    assert markers(broker) == [1, 2]
    assert log_of(broker).last_stable_offset == 3
    assert producer.produce() == 0


def test_older_clients_add_the_group_first(broker: Broker) -> None:
    producer = Producer(broker, version=3)
    assert producer.commit_offset(7, version=3) == ErrorCode.INVALID_TXN_STATE
    assert producer.commit_offset(7, version=4) == ErrorCode.TRANSACTION_ABORTABLE
    answer = producer.coordinator(AddOffsetsToTxnRequest(producer.name, *producer.holder, "g"), 3)
    assert answer.error_code == 0

    assert producer.commit_offset(7, version=3) == 0
    assert producer.end() == 0
    assert committed(broker) == (7, 0)


def test_offsets_of_unknown_topics_members_and_generations_are_refused(producer: Producer) -> None:
    assert producer.commit_offset(7, topic="nosuch") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert producer.commit_offset(7, generation_id=4, member_id="m") == ErrorCode.ILLEGAL_GENERATION


def test_the_group_coordinator_asks_only_for_the_first_offsets_of_a_transaction(
    broker: Broker, producer: Producer
) -> None:
    producer.commit_offset(7)
    broker.core.state.calls.latency_ms = 40

    assert producer.commit_offset(8) == 0


def test_brokers_may_ask_for_several_transactions_at_once(broker: Broker, producer: Producer) -> None:
    producer.add(0)
    topics = [AddPartitionsToTxnTopic("t", (0, 1))]
    known = AddPartitionsToTxnTransaction("tx", *producer.holder, verify_only=True, topics=topics)
    unknown = AddPartitionsToTxnTransaction("tx", 999, 0, verify_only=True, topics=topics)
    answer = producer.coordinator(AddPartitionsToTxnRequest(transactions=[known, unknown]), 5)

    codes = [
        [row.partition_error_code for row in result.topic_results[0].results_by_partition]
        for result in answer.results_by_transaction
    ]
    assert codes == [[0, ErrorCode.TRANSACTION_ABORTABLE], [ErrorCode.INVALID_PRODUCER_ID_MAPPING] * 2]


def test_an_admin_may_abort_a_hanging_transaction_by_hand(broker: Broker, producer: Producer) -> None:
    producer.produce()
    topic = broker.core.state.metadata.topic("t")
    assert topic is not None
    leader = topic.partitions[0].leader
    marker = WritableTxnMarker(*producer.holder, False, [WritableTxnMarkerTopic("t", (0, 9))])
    answer = broker.ask(WriteTxnMarkersRequest([marker]), 1, connection="admin", node=leader)

    rows = answer.markers[0].topics[0].partitions
    assert [row.error_code for row in rows] == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert log_of(broker).last_stable_offset == 2


def test_transactions_are_described_and_listed_by_their_coordinator(broker: Broker, producer: Producer) -> None:
    producer.produce()
    described = producer.coordinator(DescribeTransactionsRequest(("tx", "")), 0).transaction_states
    listed = producer.coordinator(ListTransactionsRequest(transactional_id_pattern="t."), 2).transaction_states
    broker.advance(1_000)

    assert (described[0].transaction_state, described[0].topics[0].partitions) == ("Ongoing", (0,))
    assert described[1].error_code == ErrorCode.INVALID_REQUEST
    assert [row.transactional_id for row in listed] == ["tx"]
    for filters in ({"transactional_id_pattern": "t"}, {"duration_filter": 1_000}, {"producer_id_filters": (77,)}):
        assert producer.coordinator(ListTransactionsRequest(**filters), 2).transaction_states == []
    refused = producer.coordinator(ListTransactionsRequest(transactional_id_pattern="("), 2)
    assert refused.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


def test_another_node_says_that_it_is_not_the_coordinator(broker: Broker, producer: Producer) -> None:
    mine = broker.core.state.metadata.coordinator_for(CoordinatorKind.TRANSACTION, "tx")
    other = (mine + 1) % 3

    answer = broker.ask(EndTxnRequest("tx", *producer.holder, committed=True), 5, connection="other", node=other)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (ErrorCode.NOT_COORDINATOR, -1, -1)
    row = broker.ask(DescribeTransactionsRequest(("tx",)), 0, connection="other", node=other).transaction_states[0]
    assert row.error_code == ErrorCode.NOT_COORDINATOR


def test_a_transaction_that_ends_while_its_batch_is_asked_for_keeps_the_batch_out(
    broker: Broker, producer: Producer
) -> None:
    producer.version = 3
    producer.add(0)
    request, leader = _slow(producer)
    broker.send(request, ABORTABLE_PRODUCE, connection="late", node=leader)
    broker.advance(10)
    # The coordinator has said yes; before its answer is back, a marker is written.
    log_of(broker).append_marker(
        commit=False,
        producer_id=producer.holder.producer_id,
        producer_epoch=producer.holder.epoch,
        coordinator_epoch=0,
        now_ms=broker.now_ms,
    )
    broker.advance(10)
    codes = [row.error_code for row in broker.answer("late").responses[0].partition_responses]

    assert codes == [ErrorCode.INVALID_TXN_STATE]
