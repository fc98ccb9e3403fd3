"""Produce through the whole broker: errors, acks, and other nodes."""

from __future__ import annotations

import pytest

from kwire.error_codes import ErrorCode
from kwire.messages.produce import PartitionProduceData
from tests.support.brokers.broker import Broker
from tests.support.brokers.producer import produce, record_batch

LATEST_PRODUCE = 13


def test_records_for_another_node_are_refused_with_a_hint() -> None:
    broker = Broker(nodes=2)
    topic = broker.metadata.create_topic("t", assignments={0: [1]})
    answer = broker.call(produce(topic, record_batch()), LATEST_PRODUCE)

    row = answer.responses[0].partition_responses[0]
    assert (row.error_code, row.current_leader.leader_id) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, 1)
    assert [node.node_id for node in answer.node_endpoints] == [1]
    other = broker.call(produce(topic, record_batch()), LATEST_PRODUCE, connection="b", node=1)
    assert other.responses[0].partition_responses[0].error_code == 0


def test_without_acks_there_is_no_response_and_an_error_closes_the_connection() -> None:
    broker = Broker(topics={"t": 1})
    topic = broker.topic("t")
    assert broker.call(produce(topic, record_batch(), acks=0), LATEST_PRODUCE) is None
    assert broker.closed == {}
    broker.call(produce(topic, record_batch(), acks=0, partition=9), LATEST_PRODUCE)

    assert "UNKNOWN_TOPIC_OR_PARTITION" in broker.closed["a"]
    assert broker.core.state.nodes[0].logs.find_log(topic.topic_id, 0).end_offset == 1


def test_enough_replicas_have_to_be_in_sync_for_acks_of_all() -> None:
    broker = Broker(nodes=2, config={"min.insync.replicas": "2"})
    topic = broker.metadata.create_topic("t", assignments={0: [0, 1]})
    topic.partitions[0].isr = (0,)

    def code(acks: int) -> int:
        answer = broker.call(produce(topic, record_batch(), acks=acks), LATEST_PRODUCE)
        error: int = answer.responses[0].partition_responses[0].error_code
        return error

    assert code(-1) == ErrorCode.NOT_ENOUGH_REPLICAS
    assert code(1) == 0


def test_clients_cannot_produce_to_internal_topics() -> None:
    broker = Broker(topics={"__consumer_offsets": 1})
    answer = broker.call(produce(broker.topic("__consumer_offsets"), record_batch()), LATEST_PRODUCE)

    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize("null_at", [0, 1, 2])
@pytest.mark.parametrize("acks", [-1, 1, 5])
def test_null_records_in_one_row_append_nothing_in_the_others(null_at: int, acks: int) -> None:
    """Source: a real 4.4.0 appends nothing, and never answers."""
    broker = Broker(topics={"t": 3})
    request = produce(broker.topic("t"), record_batch(), acks=acks)
    request.topic_data[0].partition_data = [
        PartitionProduceData(index=index, records=None if index == null_at else record_batch()) for index in range(3)
    ]
    rows = broker.call(request, LATEST_PRODUCE).responses[0].partition_responses

    assert [row.error_code for row in rows] == [ErrorCode.INVALID_RECORD] * 3
    assert f"t-{null_at}" in rows[0].error_message
    assert [broker.leader_log("t", index).end_offset for index in range(3)] == [0, 0, 0]


def test_null_records_for_an_unknown_partition_do_not_refuse_the_others() -> None:
    """Source: a real 4.4.0 appends the other rows."""
    broker = Broker(topics={"t": 1})
    request = produce(broker.topic("t"), record_batch())
    request.topic_data[0].partition_data.append(PartitionProduceData(index=7, records=None))
    rows = broker.call(request, LATEST_PRODUCE).responses[0].partition_responses

    assert [row.error_code for row in rows] == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert broker.leader_log("t").end_offset == 1
