"""Fetch through the whole broker: several nodes, long polls, and what ends them."""

from __future__ import annotations

from typing import Any

from kwire.error_codes import ErrorCode
from kwire.messages.delete_topics import DeleteTopicsRequest
from kwire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kwire.records import read_batches
from mockbroker.state.metadata.cluster_image import Topic
from tests.support.brokers.broker import Broker
from tests.support.brokers.producer import produce, record_batch

LATEST_FETCH = 18
LATEST_PRODUCE = 13


def fetch(
    topic: Topic, offset: int = 0, *, wait_ms: int = 500, min_bytes: int = 1, leader_epoch: int = -1
) -> FetchRequest:
    row = FetchPartition(current_leader_epoch=leader_epoch, fetch_offset=offset, partition_max_bytes=1 << 20)
    topics = [FetchTopic(topic_id=topic.topic_id, partitions=[row])]
    return FetchRequest(max_wait_ms=wait_ms, min_bytes=min_bytes, topics=topics)


def test_produced_batches_are_fetched_unchanged_except_for_offset_and_epoch() -> None:
    broker = Broker(topics={"t": 1})
    topic, data = broker.topic("t"), record_batch(3)
    answer = broker.call(produce(topic, data), LATEST_PRODUCE)
    row = broker.call(fetch(topic), LATEST_FETCH).responses[0].partitions[0]

    assert answer.responses[0].partition_responses[0].base_offset == 0
    assert bytes(row.records)[16:] == data[16:]
    assert (row.high_watermark, row.last_stable_offset, row.log_start_offset) == (3, 3, 0)


def test_a_fetch_waits_for_min_bytes_at_most_for_max_wait() -> None:
    broker = Broker(topics={"t": 1})
    topic = broker.topic("t")
    size = len(record_batch())
    assert broker.call(fetch(topic, min_bytes=2 * size), LATEST_FETCH) is None
    broker.call(produce(topic, record_batch()), LATEST_PRODUCE, connection="p")
    assert broker.take_response() is None
    broker.call(produce(topic, record_batch()), LATEST_PRODUCE, connection="p")

    assert [b.base_offset for b in read_batches(broker.take_response().responses[0].partitions[0].records)] == [0, 1]
    assert broker.call(fetch(topic, 2), LATEST_FETCH) is None
    broker.advance(499)
    assert broker.take_response() is None
    broker.advance(1)
    assert broker.take_response().responses[0].partitions[0].records == b""


def test_a_parked_fetch_may_be_woken_any_number_of_times() -> None:
    broker = Broker(topics={"t": 1})
    topic = broker.topic("t")
    broker.call(fetch(topic), LATEST_FETCH)
    for _ in range(100):
        broker.core.wake_all()
    broker.call(produce(topic, record_batch()), LATEST_PRODUCE, connection="p")

    assert len(broker.take_response().responses[0].partitions) == 1
    assert broker.take_response() is None


def test_a_waiting_fetch_fails_at_once_when_its_topic_is_deleted() -> None:
    """As a real 4.3.0 answered to a Fetch of version 17."""
    broker = Broker(topics={"t": 1})
    topic = broker.topic("t")
    assert broker.call(fetch(topic, wait_ms=60_000), LATEST_FETCH) is None
    broker.call(DeleteTopicsRequest(topic_names=("t",), timeout_ms=1_000), 5, connection="admin")

    row = broker.take_response().responses[0].partitions[0]
    assert (row.error_code, row.aborted_transactions) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)


def test_a_waiting_fetch_fails_at_once_when_the_leader_changes() -> None:
    broker = Broker(nodes=2, config={"default.replication.factor": "2"})
    topic = broker.metadata.create_topic("t", assignments={0: [0, 1]})
    assert broker.call(fetch(topic, wait_ms=60_000, leader_epoch=0), LATEST_FETCH) is None
    broker.metadata.change_leader(topic, 0, 1)
    broker.core.wake_all()
    broker.advance(0)

    answer = broker.take_response()
    row = answer.responses[0].partitions[0]
    assert row.error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert (row.current_leader.leader_id, row.current_leader.leader_epoch) == (1, 1)
    assert [(node.node_id, node.port) for node in answer.node_endpoints] == [(1, 9093)]


def test_the_first_partition_with_records_may_pass_the_limit_and_the_rest_may_not() -> None:
    broker = Broker(topics={"t": 2})
    topic = broker.topic("t")
    for partition in (0, 1):
        broker.call(produce(topic, record_batch(size=1000), partition=partition), LATEST_PRODUCE)
    both = [FetchPartition(at, partition_max_bytes=1 << 20) for at in (0, 1)]
    request = FetchRequest(max_bytes=1, topics=[FetchTopic(topic_id=topic.topic_id, partitions=both)])
    rows = broker.call(request, LATEST_FETCH).responses[0].partitions

    assert [len(row.records) > 0 for row in rows] == [True, False]


def read_rows(broker: Broker, topic: Topic, limits: list[int], *, max_bytes: int = 1 << 20, committed: int = 1) -> Any:
    rows = [FetchPartition(partition=index, partition_max_bytes=limit) for index, limit in enumerate(limits)]
    request = FetchRequest(max_wait_ms=0, max_bytes=max_bytes, isolation_level=committed)
    request.topics = [FetchTopic(topic_id=topic.topic_id, partitions=rows)]
    return broker.call(request, LATEST_FETCH).responses[0].partitions


def test_a_limit_within_a_batch_returns_its_beginning_except_for_the_first_batch() -> None:
    """As a real 4.3.0 answered for batches of 570 bytes: 1000 bytes, and nothing for a limit of 10 in a second row."""
    broker = Broker(topics={"t": 2})
    topic, data = broker.topic("t"), record_batch(size=500)
    for partition in (0, 0, 1):
        broker.call(produce(topic, data, partition=partition), LATEST_PRODUCE)

    assert [len(row.records) for row in read_rows(broker, topic, [1000, 10])] == [1000, 0]
    assert [len(row.records) for row in read_rows(broker, topic, [2000, 2000], max_bytes=1000)] == [1000, 0]


def test_a_first_batch_beyond_the_rest_of_the_limit_has_null_instead_of_aborted_transactions() -> None:
    """As a real 4.3.0 answered for read_committed: null with 32 bytes left, an empty list with none left."""
    broker = Broker(topics={"t": 2})
    topic, data = broker.topic("t"), record_batch(size=500)
    for partition in (0, 1):
        broker.call(produce(topic, data, partition=partition), LATEST_PRODUCE)

    aborted = [
        [row.aborted_transactions for row in read_rows(broker, topic, [1 << 20] * 2, max_bytes=max_bytes)]
        for max_bytes in (len(data) + 32, len(data))
    ]
    assert aborted == [[[], None], [[], []]]


def test_a_later_request_of_a_session_supersedes_one_that_waits() -> None:
    """Source: Kafka's FetchContext.IncrementalFetchContext: the epoch of the session must not have changed."""
    broker = Broker(topics={"t": 1})
    request = fetch(broker.topic("t"))
    request.session_epoch = 0
    request.max_wait_ms = 0
    session_id = broker.call(request, LATEST_FETCH).session_id
    waiting = FetchRequest(max_wait_ms=500, min_bytes=1, session_id=session_id, session_epoch=1)
    assert broker.call(waiting, LATEST_FETCH) is None
    later = FetchRequest(max_wait_ms=0, session_id=session_id, session_epoch=2)
    assert broker.call(later, LATEST_FETCH, connection="b").error_code == ErrorCode.NONE

    broker.advance(500)
    answer = broker.take_response()
    assert (answer.error_code, answer.session_id) == (ErrorCode.INVALID_FETCH_SESSION_EPOCH, session_id)
