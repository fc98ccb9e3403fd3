"""Followers that fetch, on virtual time: high watermarks, the ISR, elections, and conditions of the network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from kwire.error_codes import ErrorCode
from kwire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kwire.messages.init_producer_id import InitProducerIdRequest
from kwire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kwire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.records import Record, write_batch
from mockbroker.cluster_services.inter_broker import Delivery, Loss
from mockbroker.replication.replicated_log_store import ReplicatedLogStore
from mockbroker.state.metadata.configs import Resource, ResourceKind
from mockbroker.state.metadata.topics import CoordinatorKind, Partition
from mockbroker.state.storage.partition_log import PartitionLog
from mockbroker.state.timers import NEVER_MS
from tests.support.brokers.broker import Broker

WAIT_MS, LAG_MS, BACKOFF_MS = 500, 30_000, 1_000
CONFIG = {"mockbroker.replication": "real", "broker.session.timeout.ms": "600000"}


def make(*replicas: int, config: Mapping[str, str] | None = None, **settings: str) -> Broker:
    """Three nodes whose followers fetch, and the topic t with one partition; the followers have fetched once."""
    broker = Broker(nodes=3, config={**CONFIG, **(config or {})})
    broker.metadata.create_topic("t", assignments={0: replicas or (0, 1, 2)})
    given = {name.replace("_", "."): value for name, value in settings.items()}
    broker.core.state.configs.set_overrides(Resource(ResourceKind.TOPIC, "t"), given)
    broker.advance(0)
    return broker


def partition(broker: Broker) -> Partition:
    return broker.topic("t").partitions[0]


def log_of(broker: Broker, node: int) -> PartitionLog:
    store = broker.core.state.log_store
    assert isinstance(store, ReplicatedLogStore)
    log = store.find_replica_log(node, broker.topic("t"), 0)
    assert log is not None
    return log


def offsets(broker: Broker) -> list[tuple[int, int]]:
    """End and high watermark of each replica, in order of the assignment."""
    return [(log_of(broker, n).end_offset, log_of(broker, n).high_watermark) for n in partition(broker).replicas]


def produce(broker: Broker, *, node: int = 0, acks: int = 1, count: int = 1, timeout_ms: int = 120_000) -> Any:
    """The row of an answer; None while there is none. Calls between nodes wait for the next `advance`."""
    batch = write_batch([Record(at, broker.now_ms, None, b"v%d" % node) for at in range(count)])
    rows = [TopicProduceData(name="t", partition_data=[PartitionProduceData(0, batch)])]
    request = ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=rows)
    return row_of(broker.call(request, 12, connection=f"producer-{node}", node=node, settle=False))


def row_of(answer: Any) -> Any:
    return answer and answer.responses[0].partition_responses[0]


def fetch(broker: Broker, node: int, offset: int, *, committed: bool = False) -> tuple[int, int, int, int]:
    """The response to a consumer: code, high watermark, last stable offset, bytes."""
    row = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=100_000)
    request = FetchRequest(max_wait_ms=0, min_bytes=0, isolation_level=int(committed), topics=[])
    request.topics = [FetchTopic("t", partitions=[row])]
    found = broker.call(request, 12, connection=f"reader-{node}", node=node, settle=False).responses[0].partitions[0]
    return found.error_code, found.high_watermark, found.last_stable_offset, len(found.records or b"")


def latest(broker: Broker, node: int, version: int = 7) -> tuple[int, int]:
    """The code and the offset of ListOffsets."""
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic("t", [ListOffsetsPartition(0, timestamp=-1)])])
    answer = broker.call(request, version, connection=f"lister-{node}", node=node, settle=False)
    row = answer.topics[0].partitions[0]
    return row.error_code, row.offset


def apply(broker: Broker) -> None:
    """Let the brokers do what the controller has decided."""
    assert broker.core.state.log_store is not None
    broker.core.state.log_store.update_replicas()


def slow_down(broker: Broker, *, to: int, out_ms: int = 0, back_ms: int = 0, loss: Loss | None = None) -> None:
    """Let messages to a node take time, or be lost."""
    channel = broker.core.state.inter_broker
    plan = channel.plan_delivery

    def plan_slow(target: int, now_ms: int) -> Delivery:
        return Delivery(out_ms, back_ms, loss) if target == to else plan(target, now_ms)

    channel.plan_delivery = plan_slow


def test_followers_get_records_by_messages_and_the_high_watermark_one_fetch_later() -> None:
    broker = make()

    produce(broker, count=3)
    at_once = offsets(broker)
    broker.advance(0)
    fetched = offsets(broker)
    broker.advance(WAIT_MS - 1)
    waiting = offsets(broker)
    broker.advance(1)

    assert at_once == [(3, 0), (0, 0), (0, 0)]
    assert fetched[0] == (3, 3)
    assert [end for end, _ in fetched] == [3, 3, 3]
    assert [high for _, high in waiting] != [3, 3, 3]
    assert offsets(broker) == [(3, 3), (3, 3), (3, 3)]


def test_acks_all_waits_for_the_slowest_replica_in_sync() -> None:
    broker = make()
    slow_down(broker, to=0, out_ms=200, back_ms=100)
    broker.advance(2_000)

    assert produce(broker, acks=-1) is None
    broker.advance(99)
    early = broker.take_response("producer-0")
    broker.advance(2 * WAIT_MS)

    assert early is None
    assert row_of(broker.take_response("producer-0")).error_code == ErrorCode.NONE


def test_acks_all_of_a_lone_replica_does_not_wait() -> None:
    assert produce(make(0), acks=-1).error_code == ErrorCode.NONE


def test_a_follower_that_does_not_fetch_leaves_the_isr_and_comes_back() -> None:
    broker = make()
    broker.pause_node(2)

    assert produce(broker, acks=-1) is None
    broker.advance(LAG_MS)
    still = partition(broker).isr
    broker.advance(LAG_MS // 2)
    answered = row_of(broker.take_response("producer-0"))
    shrunk, high_watermark = partition(broker).isr, log_of(broker, 0).high_watermark
    broker.resume_node(2)
    broker.advance(BACKOFF_MS + WAIT_MS)

    assert still == (0, 1, 2)
    assert answered.error_code == ErrorCode.NONE
    assert (shrunk, high_watermark) == ((0, 1), 1)
    assert partition(broker).isr == (0, 1, 2)
    assert offsets(broker) == [(1, 1)] * 3


def test_below_the_minimum_acks_all_is_refused_and_waiting_requests_time_out() -> None:
    broker = make(0, 1, min_insync_replicas="2")
    broker.pause_node(1)
    produce(broker, acks=-1, timeout_ms=50_000)
    broker.advance(LAG_MS + LAG_MS // 2)

    late = produce(broker, acks=-1, node=0)  # On the same connection: it is read after the first one is answered.
    broker.advance(50_000)

    assert late is None
    assert row_of(broker.take_response("producer-0")).error_code == ErrorCode.REQUEST_TIMED_OUT
    assert row_of(broker.take_response("producer-0")).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert log_of(broker, 0).high_watermark == 0


def test_records_that_too_few_replicas_have_in_the_end_are_reported_after_the_append() -> None:
    broker = make(0, 1, 2)
    broker.pause_node(2)
    produce(broker, acks=-1)
    broker.advance(LAG_MS + LAG_MS // 2 - 1)
    broker.core.state.configs.set_overrides(Resource(ResourceKind.TOPIC, "t"), {"min.insync.replicas": "2"})
    broker.pause_node(1)
    partition(broker).isr = (0, 1)  # The controller fences the one and then the other.
    apply(broker)
    partition(broker).isr = (0,)
    apply(broker)
    broker.advance(1)

    assert log_of(broker, 0).high_watermark == 1
    assert row_of(broker.take_response("producer-0")).error_code == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


def test_a_consumer_reads_from_a_follower_what_that_has_and_knows_to_be_committed() -> None:
    broker = make(0, 1)
    slow_down(broker, to=0, back_ms=100)
    broker.advance(2_000)
    produce(broker, count=2)
    broker.advance(100)  # The records are there, their high watermark is not.

    ahead = log_of(broker, 1).end_offset, log_of(broker, 1).high_watermark
    below, at_end, beyond = fetch(broker, 1, 0), fetch(broker, 1, 2), fetch(broker, 1, 3)
    broker.advance(WAIT_MS + 100)

    assert ahead == (2, 0)
    assert below == (ErrorCode.NONE, 0, 0, 0)
    assert at_end == (ErrorCode.NONE, 0, 0, 0)
    assert beyond[0] == ErrorCode.OFFSET_OUT_OF_RANGE
    assert fetch(broker, 1, 0)[:2] == (ErrorCode.NONE, 2)


def test_a_new_leader_does_not_know_the_end_until_it_knows_that_it_is_committed() -> None:
    broker = make(0, 1, 2)
    slow_down(broker, to=0, back_ms=100)
    slow_down(broker, to=1, out_ms=300)
    broker.advance(2_000)
    produce(broker, count=2)
    broker.advance(100)

    broker.core.move_leader("t", 0, broker.now_ms, to=1)
    unknown = latest(broker, 1), latest(broker, 1, 4)
    broker.advance(2_000)

    assert unknown == ((ErrorCode.OFFSET_NOT_AVAILABLE, -1), (ErrorCode.LEADER_NOT_AVAILABLE, -1))
    assert latest(broker, 1) == (ErrorCode.NONE, 2)


def test_a_lost_fetch_is_sent_again_after_the_back_off() -> None:
    broker = make(0, 1)
    plan = broker.core.state.inter_broker.plan_delivery
    slow_down(broker, to=0, loss=Loss.ANSWER)
    broker.advance(WAIT_MS)  # The answer to the waiting fetch arrives still; the next one is lost.
    produce(broker)
    broker.core.state.inter_broker.plan_delivery = plan
    broker.advance(BACKOFF_MS - 1)
    before = log_of(broker, 1).end_offset
    broker.advance(1)

    assert before == 0
    assert log_of(broker, 1).end_offset == 1


def test_a_killed_leader_is_followed_by_one_that_has_everything_that_was_acknowledged() -> None:
    broker = make(config={"broker.session.timeout.ms": "9000"})
    produce(broker, acks=-1, count=3)
    broker.advance(0)
    assert row_of(broker.take_response("producer-0")).error_code == ErrorCode.NONE

    produce(broker, acks=1, count=2)  # Nobody fetches it.
    broker.kill_node(0)
    broker.advance(9_000)
    leader = partition(broker).leader
    produce(broker, acks=1, node=leader)
    broker.advance(BACKOFF_MS + WAIT_MS)
    broker.start_node(0)
    broker.advance(BACKOFF_MS + 2 * WAIT_MS)

    assert leader in (1, 2)
    assert offsets(broker) == [(4, 4)] * 3  # The old leader has cut what it alone had.
    assert [batch.leader_epoch for batch in log_of(broker, 0).batches_from(0)] == [0, partition(broker).leader_epoch]
    assert set(partition(broker).isr) == {0, 1, 2}


def test_an_unclean_leader_makes_others_cut_what_it_lacks() -> None:
    broker = make(0, 1, unclean_leader_election_enable="true")
    broker.stop_node(1)
    produce(broker, count=4)
    broker.stop_node(0)
    broker.start_node(1)
    broker.advance(10_000)

    elected = partition(broker).leader, log_of(broker, 1).end_offset
    produce(broker, node=1, count=2)
    broker.start_node(0)
    broker.advance(BACKOFF_MS + 2 * WAIT_MS)

    assert elected == (1, 0)
    assert offsets(broker) == [(2, 2), (2, 2)]


def test_a_follower_without_what_the_leader_still_has_starts_at_the_leaders_start() -> None:
    broker = make(0, 1)
    broker.pause_node(1)
    for _ in range(3):
        produce(broker, count=2)
    broker.advance(LAG_MS + LAG_MS // 2)
    log_of(broker, 0).delete_records_before(3)  # In the middle of the second batch.
    broker.resume_node(1)
    broker.advance(2 * BACKOFF_MS + 2 * WAIT_MS)

    follower = log_of(broker, 1)
    assert (follower.start_offset, follower.end_offset, follower.high_watermark) == (3, 6, 6)
    assert [batch.base_offset for batch in follower.batches_from(0)] == [2, 4]
    assert partition(broker).isr == (0, 1)


def test_deleted_records_are_deleted_by_followers_with_their_next_fetch() -> None:
    broker = make(0, 1)
    produce(broker, acks=-1, count=4)
    broker.advance(WAIT_MS)

    log_of(broker, 0).delete_records_before(2)
    broker.advance(2 * WAIT_MS)

    assert log_of(broker, 1).start_offset == 2


def test_a_reassigned_replica_joins_when_it_has_fetched_and_the_old_one_loses_its_log() -> None:
    broker = make(0, 1)
    produce(broker, acks=-1, count=5)
    broker.advance(WAIT_MS)
    slow_down(broker, to=0, back_ms=300)
    found = partition(broker)
    found.replicas, found.adding, found.removing = (0, 1, 2), (2,), (1,)
    broker.metadata.mark_changed(broker.topic("t"))
    controller = broker.core.state.controller
    assert controller is not None
    controller.apply_leader_changes(now_ms=broker.now_ms)
    broker.advance(100)
    under_way = found.replicas, found.isr
    broker.advance(2_000)

    store = broker.core.state.log_store
    assert isinstance(store, ReplicatedLogStore)
    assert under_way == ((0, 1, 2), (0, 1))
    after = partition(broker)
    assert (after.replicas, after.isr, after.adding, after.removing) == ((0, 2), (0, 2), (), ())
    assert store.find_replica_log(1, broker.topic("t"), 0) is None
    assert log_of(broker, 2).end_offset == 5


def test_a_deleted_topic_is_deleted_on_all_nodes() -> None:
    broker = make()
    produce(broker)
    topic = broker.topic("t")

    broker.metadata.delete_topic(topic)
    broker.advance(LAG_MS)

    store = broker.core.state.log_store
    assert isinstance(store, ReplicatedLogStore)
    assert [store.find_replica_log(node, topic, 0) for node in range(3)] == [None] * 3


def test_a_change_of_the_isr_is_sent_again_while_it_is_lost() -> None:
    broker = make(0, 1)
    broker.pause_node(1)
    produce(broker)
    slow_down(broker, to=-1, loss=Loss.REQUEST)
    broker.advance(2 * LAG_MS)
    lost = partition(broker).isr
    slow_down(broker, to=-1)
    broker.advance(100)

    assert lost == (0, 1)
    assert partition(broker).isr == (0,)


def test_the_next_deadline_stays_known_while_followers_wait_and_old_records_are_deleted_on_all_replicas() -> None:
    broker = make(config={"log.retention.check.interval.ms": "60000"}, retention_ms="100000", segment_ms="50000")
    produce(broker)
    broker.advance(60_000)
    produce(broker)
    broker.advance(1_000)
    next_ms = broker.core.state.earliest_deadline.ms

    broker.advance(120_000)

    assert broker.now_ms - 120_000 < next_ms < NEVER_MS
    assert [log_of(broker, node).start_offset for node in (0, 1, 2)] == [1, 1, 1]


def test_a_cluster_whose_followers_do_not_fetch_has_nothing_of_it() -> None:
    broker = Broker(nodes=3, topics={"t": 1}, config={"default.replication.factor": "3"})

    assert [node.replication for node in broker.core.state.nodes.values()] == [None] * 3
    assert broker.core.state.inter_broker.next_deadline_ms() is None


@pytest.mark.parametrize("acks", [0, 1, -1])
def test_the_same_records_are_on_all_replicas(acks: int) -> None:
    broker = make()
    for count in (1, 4, 2):
        produce(broker, acks=acks, count=count)
        broker.advance(WAIT_MS)
        broker.take_response("producer-0")

    logs = [[bytes(batch.raw) for batch in log_of(broker, node).batches_from(0)] for node in range(3)]

    assert logs[0] == logs[1] == logs[2]
    assert len(logs[0]) == 3


def initialize_producer(broker: Broker, node: int) -> Any:
    """The response of the transaction coordinator, None while there is none."""
    request = InitProducerIdRequest("x", 60_000)
    return broker.call(request, 4, connection=f"initializer-{node}", node=node, settle=False)


def test_a_transaction_coordinator_answers_when_the_replicas_in_sync_have_its_record() -> None:
    broker = make(config={"transaction.state.log.num.partitions": "1"})
    topic = broker.metadata.ensure_internal_topic(CoordinatorKind.TRANSACTION)
    coordinator = topic.partitions[0].leader
    broker.advance(WAIT_MS)

    first = initialize_producer(broker, coordinator)
    broker.advance(WAIT_MS)
    answered = broker.take_response(f"initializer-{coordinator}")
    broker.pause_node((coordinator + 1) % 3)
    slow = initialize_producer(broker, coordinator)
    broker.advance(LAG_MS)

    assert first is None
    assert answered.error_code == ErrorCode.NONE
    assert slow is None
    assert broker.take_response(f"initializer-{coordinator}").error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
