"""Produce, Fetch and ListOffsets through the whole broker: several nodes, long polls, and what ends them."""

from __future__ import annotations

from kwire import uuids
from kwire.error_codes import ErrorCode
from kwire.messages.delete_topics import DeleteTopicsRequest
from kwire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kwire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kwire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.records import Record, read_batches, write_batch
from mockbroker.state.metadata import Topic
from tests.mockbroker.broker import Broker

LATEST_FETCH = 18
LATEST_PRODUCE = 13


def batch(broker: Broker, count: int = 1, size: int = 10) -> bytes:
    return write_batch([Record(at, broker.now_ms, None, b"v" * size) for at in range(count)])


def topic_of(broker: Broker, name: str = "t") -> Topic:
    topic = broker.core.state.metadata.topic(name)
    assert topic is not None
    return topic


def produce(topic: Topic, data: bytes, *, partition: int = 0, acks: int = -1) -> ProduceRequest:
    row = TopicProduceData(topic_id=topic.topic_id, partition_data=[PartitionProduceData(partition, data)])
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[row])


def fetch(
    topic: Topic,
    offset: int = 0,
    *,
    wait_ms: int = 500,
    min_bytes: int = 1,
    partition: int = 0,
    leader_epoch: int = -1,
) -> FetchRequest:
    wanted = FetchPartition(
        partition, current_leader_epoch=leader_epoch, fetch_offset=offset, partition_max_bytes=1 << 20
    )
    return FetchRequest(
        max_wait_ms=wait_ms, min_bytes=min_bytes, topics=[FetchTopic(topic_id=topic.topic_id, partitions=[wanted])]
    )


def test_what_is_produced_is_fetched_byte_for_byte_but_for_offset_and_epoch() -> None:
    broker = Broker(topics={"t": 1})
    topic, data = topic_of(broker), batch(broker, 3)
    answer = broker.ask(produce(topic, data), LATEST_PRODUCE)
    row = broker.ask(fetch(topic), LATEST_FETCH).responses[0].partitions[0]

    assert answer.responses[0].partition_responses[0].base_offset == 0
    assert bytes(row.records)[16:] == data[16:]
    assert (row.high_watermark, row.last_stable_offset, row.log_start_offset) == (3, 3, 0)


def test_a_fetch_waits_for_its_bytes_and_no_longer_than_it_said() -> None:
    broker = Broker(topics={"t": 1})
    topic = topic_of(broker)
    size = len(batch(broker))
    assert broker.ask(fetch(topic, min_bytes=2 * size), LATEST_FETCH) is None
    broker.ask(produce(topic, batch(broker)), LATEST_PRODUCE, connection="p")
    assert broker.answer() is None
    broker.ask(produce(topic, batch(broker)), LATEST_PRODUCE, connection="p")

    assert [b.base_offset for b in read_batches(broker.answer().responses[0].partitions[0].records)] == [0, 1]
    assert broker.ask(fetch(topic, 2), LATEST_FETCH) is None
    broker.advance(499)
    assert broker.answer() is None
    broker.advance(1)
    assert broker.answer().responses[0].partitions[0].records == b""


def test_a_parked_fetch_may_be_woken_any_number_of_times() -> None:
    broker = Broker(topics={"t": 1})
    topic = topic_of(broker)
    broker.ask(fetch(topic), LATEST_FETCH)
    for _ in range(100):
        broker.core.wake_all()
    broker.ask(produce(topic, batch(broker)), LATEST_PRODUCE, connection="p")

    assert len(broker.answer().responses[0].partitions) == 1
    assert broker.answer() is None


def test_a_fetch_learns_at_once_that_its_topic_is_gone() -> None:
    broker = Broker(topics={"t": 1})
    topic = topic_of(broker)
    assert broker.ask(fetch(topic, wait_ms=60_000), LATEST_FETCH) is None
    broker.ask(DeleteTopicsRequest(topic_names=("t",)), 5, connection="admin")

    assert broker.answer().responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_a_fetch_learns_at_once_that_somebody_else_leads() -> None:
    broker = Broker(nodes=2, config={"default.replication.factor": "2"})
    topic = broker.core.state.metadata.create_topic("t", assignments={0: [0, 1]})
    assert broker.ask(fetch(topic, wait_ms=60_000, leader_epoch=0), LATEST_FETCH) is None
    broker.core.state.metadata.lead(topic, 0, 1)
    broker.core.wake_all()
    broker.advance(0)

    answer = broker.answer()
    row = answer.responses[0].partitions[0]
    assert row.error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert (row.current_leader.leader_id, row.current_leader.leader_epoch) == (1, 1)
    assert [(node.node_id, node.port) for node in answer.node_endpoints] == [(1, 9093)]


def test_records_for_another_node_are_refused_with_a_hint() -> None:
    broker = Broker(nodes=2)
    topic = broker.core.state.metadata.create_topic("t", assignments={0: [1]})
    answer = broker.ask(produce(topic, batch(broker)), LATEST_PRODUCE)

    row = answer.responses[0].partition_responses[0]
    assert (row.error_code, row.current_leader.leader_id) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, 1)
    assert [node.node_id for node in answer.node_endpoints] == [1]
    other = broker.ask(produce(topic, batch(broker)), LATEST_PRODUCE, connection="b", node=1)
    assert other.responses[0].partition_responses[0].error_code == 0


def test_without_acks_there_is_no_answer_and_an_error_ends_the_connection() -> None:
    broker = Broker(topics={"t": 1})
    topic = topic_of(broker)
    assert broker.ask(produce(topic, batch(broker), acks=0), LATEST_PRODUCE) is None
    assert broker.closed == {}
    broker.ask(produce(topic, batch(broker), acks=0, partition=9), LATEST_PRODUCE)

    assert "UNKNOWN_TOPIC_OR_PARTITION" in broker.closed["a"]
    assert broker.core.state.nodes[0].logs.get(topic.topic_id, 0).end_offset == 1


def test_enough_replicas_have_to_be_in_sync_for_acks_of_all() -> None:
    broker = Broker(nodes=2, config={"min.insync.replicas": "2"})
    topic = broker.core.state.metadata.create_topic("t", assignments={0: [0, 1]})
    topic.partitions[0].isr = (0,)

    def code(acks: int) -> int:
        answer = broker.ask(produce(topic, batch(broker), acks=acks), LATEST_PRODUCE)
        error: int = answer.responses[0].partition_responses[0].error_code
        return error

    assert code(-1) == ErrorCode.NOT_ENOUGH_REPLICAS
    assert code(1) == 0


def test_clients_do_not_write_into_coordinators_topics() -> None:
    broker = Broker(topics={"__consumer_offsets": 1})
    answer = broker.ask(produce(topic_of(broker, "__consumer_offsets"), batch(broker)), LATEST_PRODUCE)

    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_the_first_partition_with_records_may_pass_the_limit_and_the_rest_may_not() -> None:
    broker = Broker(topics={"t": 2})
    topic = topic_of(broker)
    for partition in (0, 1):
        broker.ask(produce(topic, batch(broker, size=1000), partition=partition), LATEST_PRODUCE)
    both = [FetchPartition(at, partition_max_bytes=1 << 20) for at in (0, 1)]
    request = FetchRequest(max_bytes=1, topics=[FetchTopic(topic_id=topic.topic_id, partitions=both)])
    rows = broker.ask(request, LATEST_FETCH).responses[0].partitions

    assert [len(row.records) > 0 for row in rows] == [True, False]


def test_metadata_names_leaders_over_all_nodes_and_partitions_without_one() -> None:
    broker = Broker(nodes=3, topics={"t": 3})
    topic = topic_of(broker)
    broker.core.state.metadata.lead(topic, 2, -1)
    asked = MetadataRequest(topics=[MetadataRequestTopic(uuids.ZERO, "t")])
    answer = broker.ask(asked, 13)

    assert [(node.node_id, node.port) for node in answer.brokers] == [(0, 9092), (1, 9093), (2, 9094)]
    rows = answer.topics[0].partitions
    assert sorted(row.leader_id for row in rows[:2]) != [-1, -1]
    assert (rows[2].leader_id, rows[2].error_code) == (-1, ErrorCode.LEADER_NOT_AVAILABLE)
