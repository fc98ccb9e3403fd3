"""When idle producers leave a partition: by the timestamps of their records, and the settings of the leader."""

from __future__ import annotations

import random

from kwire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from kwire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kwire.records import Record, write_batch
from mockbroker.log_directory.simulated_files import SimulatedFiles
from mockbroker.state.metadata.configs import ResourceKind
from tests.support.brokers.broker import Broker
from tests.support.brokers.producer import Producer, produce
from tests.support.stored.stored_broker import StoredBroker

DAY_MS = 86_400_000
CHECK_MS = 600_000
FAST = {"producer.id.expiration.ms": "5000", "producer.id.expiration.check.interval.ms": "1000"}


def send_batch(
    broker: Broker, producer_id: int, sequence: int = 0, *, timestamp: int | None = None, epoch: int = 0
) -> int:
    timestamp = broker.now_ms if timestamp is None else timestamp
    data = write_batch(
        [Record(0, timestamp, None, b"v")], producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence
    )
    node = broker.leader("t")
    answer = broker.call(produce(broker.topic("t"), data), 13, connection=f"p{node}", node=node)
    return int(answer.responses[0].partition_responses[0].error_code)


def producer_ids(broker: Broker, node: int | None = None) -> list[int]:
    node = broker.leader("t") if node is None else node
    answer = broker.call(DescribeProducersRequest([TopicRequest("t", (0,))]), 0, connection=f"d{node}", node=node)
    (row,) = answer.topics[0].partitions
    assert row.error_code == 0
    return [producer.producer_id for producer in row.active_producers]


def set_on_broker(broker: Broker, node: int | str, **values: str) -> None:
    rows = [AlterableConfig(name.replace("_", "."), 0, value) for name, value in values.items()]
    resource = AlterConfigsResource(ResourceKind.BROKER, str(node), rows)
    to = int(node) if str(node) else 0
    answer = broker.call(IncrementalAlterConfigsRequest([resource]), 1, connection=f"d{to}", node=to)
    assert answer.responses[0].error_code == 0, answer


def test_with_the_defaults_an_idle_producer_leaves_at_the_first_check_after_a_day() -> None:
    broker = Broker(topics={"t": 1})
    broker.advance(7)
    send_batch(broker, 1)

    due_ms = broker.core.next_deadline_ms()
    assert due_ms is not None
    assert DAY_MS <= due_ms - broker.now_ms <= DAY_MS + CHECK_MS
    broker.advance(due_ms - broker.now_ms - 1)
    assert producer_ids(broker) == [1]
    broker.advance(1)
    assert producer_ids(broker) == []


def test_a_producer_that_goes_on_stays() -> None:
    broker = Broker(topics={"t": 1}, config=FAST)
    for sequence in range(10):
        assert send_batch(broker, 1, sequence) == 0
        broker.advance(4_999)

    assert producer_ids(broker) == [1]
    broker.advance(1_001)
    assert producer_ids(broker) == []


def test_the_timestamps_of_records_decide_and_not_when_they_came() -> None:
    broker = Broker(topics={"t": 1}, config=FAST)
    send_batch(broker, 1, timestamp=broker.now_ms + 60_000)
    send_batch(broker, 2, timestamp=0)
    broker.advance(1_000)

    assert producer_ids(broker) == [1]
    broker.advance(60_000)
    assert producer_ids(broker) == [1]
    broker.advance(4_000)
    assert producer_ids(broker) == []


def test_a_producer_that_has_expired_may_go_on_with_any_sequence() -> None:
    broker = Broker(topics={"t": 1}, config=FAST)
    send_batch(broker, 1)
    assert send_batch(broker, 1, 5) == 45

    broker.advance(6_000)

    assert send_batch(broker, 1, 5) == 0


def test_a_producer_with_an_open_transaction_stays_until_it_has_ended_for_so_long() -> None:
    producer = Producer(Broker(topics={"t": 1}, config={**FAST, "transaction.max.timeout.ms": "900000"}))
    broker = producer.broker
    assert producer.produce() == 0
    broker.advance(30_000)
    assert producer_ids(broker) == [producer.holder.producer_id]

    producer.end(commit=True)
    broker.advance(4_000)
    assert producer_ids(broker) == [producer.holder.producer_id]
    broker.advance(2_000)

    assert producer_ids(broker) == []
    assert broker.leader_log("t").last_stable_offset == broker.leader_log("t").end_offset


def test_a_verification_that_failed_is_forgotten_after_that_time() -> None:
    broker = Broker(topics={"t": 1}, config=FAST)
    log = broker.leader_log("t")
    guard = log.start_verification(7, 0, 3, adds=False, now_ms=broker.now_ms)
    assert log.start_verification(7, 0, 3, adds=False, now_ms=broker.now_ms + 4_000) is guard

    broker.advance(4_000)
    assert log.start_verification(7, 0, 3, adds=False, now_ms=broker.now_ms) is guard
    broker.advance(1_000)

    assert log.start_verification(7, 0, 3, adds=False, now_ms=broker.now_ms) is not guard


def test_the_time_can_change_while_brokers_run_for_all_or_for_one() -> None:
    broker = Broker(nodes=2, topics={"t": 1}, config={"producer.id.expiration.check.interval.ms": "1000"})
    send_batch(broker, 1)
    set_on_broker(broker, "", producer_id_expiration_ms="60000")
    broker.advance(59_000)
    assert producer_ids(broker) == [1]

    set_on_broker(broker, 1 - broker.leader("t"), producer_id_expiration_ms="1000")
    broker.advance(500)
    assert producer_ids(broker) == [1]
    set_on_broker(broker, broker.leader("t"), producer_id_expiration_ms="1000")
    broker.advance(1_000)

    assert producer_ids(broker) == []


def test_a_deleted_topic_has_no_deadline() -> None:
    broker = Broker(topics={"t": 1}, config=FAST)
    send_batch(broker, 1)
    assert broker.core.next_deadline_ms() is not None

    broker.metadata.delete_topic(broker.topic("t"))

    broker.advance(5_000)  # The check that was planned finds nothing to do.
    assert broker.core.next_deadline_ms() is None


def test_a_truncated_log_still_forgets_its_producers() -> None:
    broker = Broker(topics={"t": 1}, config=FAST)
    send_batch(broker, 1)
    send_batch(broker, 1, 1)

    broker.leader_log("t").truncate_to(1)
    broker.advance(6_000)

    assert producer_ids(broker) == []


def test_each_replica_forgets_by_itself_where_followers_fetch() -> None:
    broker = Broker(nodes=3, config={**FAST, "mockbroker.replication": "real", "default.replication.factor": "3"})
    broker.metadata.add_topic(broker.metadata.plan_topic("t"))
    leader = broker.leader("t")
    follower, other = (node for node in range(3) if node != leader)
    set_on_broker(broker, other, producer_id_expiration_ms="60000")
    broker.advance(2_000)
    send_batch(broker, 1)
    broker.advance(1_000)
    assert [producer_ids(broker, node) for node in (leader, follower, other)] == [[1], [1], [1]]

    broker.advance(6_000)

    assert [producer_ids(broker, node) for node in (leader, follower, other)] == [[], [], [1]]


def test_a_producer_that_expired_while_the_cluster_was_down_is_not_loaded() -> None:
    files = SimulatedFiles(random.Random(1))
    broker = StoredBroker(files, topics={"t": 1}, config=FAST)
    send_batch(broker, 1)
    broker.advance(3_000)
    send_batch(broker, 2)
    broker.end()

    again = StoredBroker(files, config=FAST, now_ms=broker.now_ms + 2_000)

    assert producer_ids(again) == [2]


def test_a_snapshot_has_no_producer_that_has_expired() -> None:
    files = SimulatedFiles(random.Random(1))
    broker = StoredBroker(files, topics={"t": 1}, config=FAST)
    send_batch(broker, 1)
    broker.advance(6_000)
    send_batch(broker, 2)
    broker.end()

    again = StoredBroker(files, now_ms=broker.now_ms)

    assert producer_ids(again) == [2]
