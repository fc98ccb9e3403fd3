"""A coordinator's topic is deleted: its coordinators lose everything, once, and the next topic is empty."""

from __future__ import annotations

from typing import Any

import pytest

from kwire.error_codes import ErrorCode
from kwire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kwire.messages.init_producer_id import InitProducerIdRequest
from kwire.messages.initialize_share_group_state import InitializeShareGroupStateRequest, InitializeStateData
from kwire.messages.initialize_share_group_state import PartitionData as InitializePartition
from kwire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from mockbroker.state.metadata.topics import INTERNAL_TOPICS, CoordinatorKind
from mockbroker.state.share_coordinator.share_coordinator import ShareKey
from tests.support.brokers.broker import Broker

_COUNT = 40


def _broker(*, is_cold: bool = False) -> Broker:
    config = {"mockbroker.cold.coordinators": "true"} if is_cold else {}
    return Broker(nodes=3, topics={"t": 2}, config=config)


def _ask(broker: Broker, kind: CoordinatorKind, key: str, request: Any, version: int) -> Any:
    broker.metadata.ensure_internal_topic(kind)
    node = broker.metadata.coordinator_id(kind, key)
    return broker.call(request, version, connection=f"at-{node}", node=node)


def _fill(broker: Broker, kind: CoordinatorKind) -> None:
    """Many groups, transactional ids or share partitions, at the coordinators of all nodes."""
    for number in range(_COUNT):
        name = f"name-{number}"
        if kind is CoordinatorKind.GROUP:
            rows = [OffsetCommitRequestTopic("t", partitions=[OffsetCommitRequestPartition(0, 5)])]
            answer = _ask(broker, kind, name, OffsetCommitRequest(name, topics=rows), 8)
            assert answer.topics[0].partitions[0].error_code == 0
        elif kind is CoordinatorKind.TRANSACTION:
            answer = _ask(broker, kind, name, InitProducerIdRequest(name, transaction_timeout_ms=60_000), 4)
            assert answer.error_code == 0
        else:
            key = ShareKey(name, broker.topic("t").topic_id, number % 2)
            rows = [InitializeStateData(key.topic_id, [InitializePartition(key.partition, 1, 0)])]
            answer = _ask(broker, kind, str(key), InitializeShareGroupStateRequest(name, rows), 0)
            assert answer.results[0].partitions[0].error_code == 0


def _delete(broker: Broker, kind: CoordinatorKind) -> int:
    name = INTERNAL_TOPICS[kind].name
    request = DeleteTopicsRequest([DeleteTopicState(name)], timeout_ms=1_000)
    code: int = broker.call(request, 6, connection="admin").responses[0].error_code
    return code


def _count_states(broker: Broker, kind: CoordinatorKind) -> int:
    """What the coordinators of all nodes have in memory. No coordinator is looked up, which would create the topic."""
    nodes = broker.core.state.nodes.values()
    if kind is CoordinatorKind.GROUP:
        return sum(len(node.groups.all_groups()) + len(set(node.offsets.group_ids())) for node in nodes)
    if kind is CoordinatorKind.TRANSACTION:
        return sum(len(node.transactions.all_transactions()) for node in nodes)
    topic_id = broker.topic("t").topic_id
    keys = [ShareKey(f"name-{number}", topic_id, number % 2) for number in range(_COUNT)]
    return sum(node.share_state_log.coordinator.find_state(key) is not None for node in nodes for key in keys)


@pytest.mark.parametrize("is_cold", [False, True])
@pytest.mark.parametrize("kind", CoordinatorKind)
def test_the_deletion_of_a_coordinators_topic_removes_all_that_it_stored_and_creates_nothing(
    kind: CoordinatorKind, *, is_cold: bool
) -> None:
    """Source: Kafka's BrokerMetadataPublisher, whose coordinators resign from the partitions of a deleted topic."""
    broker = _broker(is_cold=is_cold)
    _fill(broker, kind)
    assert _count_states(broker, kind) >= _COUNT

    assert _delete(broker, kind) == 0
    assert not broker.metadata.has_internal_topic(kind)
    assert _count_states(broker, kind) == 0


@pytest.mark.parametrize("kind", CoordinatorKind)
def test_the_next_topic_of_a_coordinator_is_empty_and_used_as_any_other(kind: CoordinatorKind) -> None:
    broker = _broker()
    _fill(broker, kind)
    before = broker.topic(INTERNAL_TOPICS[kind].name).topic_id
    _delete(broker, kind)
    _fill(broker, kind)

    assert broker.topic(INTERNAL_TOPICS[kind].name).topic_id != before
    assert _delete(broker, kind) == 0
    assert _count_states(broker, kind) == 0


def test_what_waits_for_the_replicas_of_a_deleted_topic_is_refused_at_once() -> None:
    """Source: Kafka's CoordinatorRuntime, which fails the deferred events of a partition that it unloads."""
    broker = Broker(nodes=3, topics={"t": 1}, config={"offsets.topic.num.partitions": "1", "min.insync.replicas": "2"})
    name = INTERNAL_TOPICS[CoordinatorKind.GROUP].name
    _fill(broker, CoordinatorKind.GROUP)
    leader = broker.leader(name)
    for node in {0, 1, 2} - {leader}:
        broker.stop_node(node)
    rows = [OffsetCommitRequestTopic("t", partitions=[OffsetCommitRequestPartition(0, 6)])]
    commit = OffsetCommitRequest("name-1", topics=rows)
    assert broker.call(commit, 8, connection="waiting", node=leader) is None
    request = DeleteTopicsRequest([DeleteTopicState(name)], timeout_ms=1_000)
    broker.call(request, 6, connection="admin", node=leader)

    answer = broker.take_response("waiting")
    assert answer.topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR


def test_a_load_of_a_deleted_topic_is_cancelled() -> None:
    broker = _broker()
    for kind in CoordinatorKind:
        _fill(broker, kind)
        name = INTERNAL_TOPICS[kind].name
        for partition in range(len(broker.topic(name).partitions)):
            broker.core.move_leader(name, partition, broker.now_ms, to=(broker.leader(name, partition) + 1) % 3)
        broker.metadata.delete_topic(broker.topic(name))
        broker.advance(10_000)
        assert _count_states(broker, kind) == 0
