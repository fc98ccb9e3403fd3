"""Coordinators that are being loaded, and those whose topic is being made: what each API answers meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kwire.error_codes import ErrorCode
from kwire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kwire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kwire.messages.delete_groups import DeleteGroupsRequest
from kwire.messages.describe_groups import DescribeGroupsRequest
from kwire.messages.describe_transactions import DescribeTransactionsRequest
from kwire.messages.end_txn import EndTxnRequest
from kwire.messages.find_coordinator import FindCoordinatorRequest
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.messages.init_producer_id import InitProducerIdRequest
from kwire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kwire.messages.list_groups import ListGroupsRequest
from kwire.messages.list_transactions import ListTransactionsRequest
from kwire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from kwire.messages.read_share_group_state import PartitionData, ReadShareGroupStateRequest, ReadStateData
from kwire.messages.share_group_describe import ShareGroupDescribeRequest
from kwire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kwire.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from mockbroker.state.metadata.configs import ALL_BROKERS
from mockbroker.state.metadata.topics import INTERNAL_TOPICS, CoordinatorKind
from mockbroker.state.share_coordinator.share_coordinator import ShareKey
from tests.support.brokers.broker import Broker
from tests.support.brokers.group_broker import GroupBroker
from tests.support.brokers.group_requests import commit, join, share, sync

LOAD_MS = 500
LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def top(answer: Any) -> int:
    return int(answer.error_code)


def first(name: str) -> Callable[[Any], int]:
    return lambda answer: int(getattr(answer, name)[0].error_code)


def partition(answer: Any) -> int:
    return int(answer.topics[0].partitions[0].error_code)


#: Each API with its version, and where its answer has the code.
ASKED: dict[str, tuple[Any, int, Callable[[Any], int]]] = {
    "JoinGroup": (join(), 9, top),
    "SyncGroup": (sync("m"), 5, top),
    "LeaveGroup": (LeaveGroupRequest("g", members=[MemberIdentity("m")]), 5, top),
    "OffsetCommit": (commit(1), 9, partition),
    "OffsetFetch": (
        OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)]),
        9,
        first("groups"),
    ),
    "DescribeGroups": (DescribeGroupsRequest(("g",)), 6, first("groups")),
    "ListGroups": (ListGroupsRequest(), 5, top),
    "DeleteGroups": (DeleteGroupsRequest(("g",)), 2, first("results")),
    "ConsumerGroupHeartbeat": (ConsumerGroupHeartbeatRequest("g", "m", 1), 1, top),
    "ConsumerGroupDescribe": (ConsumerGroupDescribeRequest(("g",)), 1, first("groups")),
    "ShareGroupHeartbeat": (share(1), 1, top),
    "ShareGroupDescribe": (ShareGroupDescribeRequest(("g",)), 1, first("groups")),
}


def loading_group() -> GroupBroker:
    """A group "g" with a committed offset, whose coordinator has just been elected."""
    broker = GroupBroker()
    asked, version, where = ASKED["OffsetCommit"]
    assert where(broker.call_coordinator(asked, version)) == 0
    broker.core.state.inter_broker.loading_ms = lambda node_id, now_ms: LOAD_MS
    broker.move_coordinator()
    return broker


@pytest.mark.parametrize("api", ASKED)
def test_a_group_that_is_being_loaded_is_refused_in_the_place_of_each_api(api: str) -> None:
    broker = loading_group()
    asked, version, where = ASKED[api]

    assert where(broker.call_coordinator(asked, version)) == LOADING
    broker.advance(LOAD_MS)
    assert where(broker.call_coordinator(asked, version)) != LOADING


def test_a_heartbeat_to_a_classic_group_that_is_being_loaded_is_taken_on_trust() -> None:
    broker = loading_group()

    assert broker.call_coordinator(HeartbeatRequest("g", 7, "unknown"), 4).error_code == 0
    broker.advance(LOAD_MS)
    assert broker.call_coordinator(HeartbeatRequest("g", 7, "unknown"), 4).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_what_was_committed_is_there_after_the_load_and_the_next_move_begins_another() -> None:
    broker = loading_group()
    asked, version, _ = ASKED["OffsetFetch"]
    broker.advance(LOAD_MS - 1)
    broker.move_coordinator()
    broker.advance(1)  # The first load would be over; it has been given up.
    assert broker.call_coordinator(asked, version).groups[0].error_code == LOADING
    broker.advance(LOAD_MS - 1)

    assert broker.call_coordinator(asked, version).groups[0].topics[0].partitions[0].committed_offset == 1


def test_a_node_that_dies_while_it_loads_loads_no_more() -> None:
    broker = loading_group()
    node = broker.core.state.nodes[broker.coordinator]
    broker.kill_node(broker.coordinator)
    broker.advance(LOAD_MS)

    assert node.groups.all_groups() == []


@pytest.mark.parametrize(("version", "code"), [(1, ErrorCode.COORDINATOR_NOT_AVAILABLE), (2, LOADING)])
def test_transactional_offsets_are_refused_by_a_word_that_the_version_knows(version: int, code: ErrorCode) -> None:
    broker = loading_group()
    broker.core.state.configs.set_overrides(ALL_BROKERS, {"transaction.partition.verification.enable": "false"})
    rows = [TxnOffsetCommitRequestTopic("T", partitions=[TxnOffsetCommitRequestPartition(0, 1)])]

    assert partition(broker.call_coordinator(TxnOffsetCommitRequest("x", "g", 1, 0, topics=rows), version)) == code


def test_a_marker_for_offsets_that_are_being_loaded_has_to_come_again() -> None:
    broker = loading_group()
    places = [WritableTxnMarkerTopic("__consumer_offsets", (broker.shard,))]
    marker = WriteTxnMarkersRequest([WritableTxnMarker(1, 0, True, places, 0)])

    def code() -> int:
        answer = broker.call_coordinator(marker, 1)
        return int(answer.markers[0].topics[0].partitions[0].error_code)

    assert code() == ErrorCode.NOT_LEADER_OR_FOLLOWER
    broker.advance(LOAD_MS)
    assert code() == 0


def test_a_transactional_id_that_is_being_loaded_is_refused() -> None:
    broker = Broker(nodes=3, config={"transaction.state.log.num.partitions": "1"})
    metadata = broker.metadata
    old = metadata.coordinator_id(CoordinatorKind.TRANSACTION, "x")
    broker.call(InitProducerIdRequest("x", 60_000), 5, node=old)
    broker.core.state.inter_broker.loading_ms = lambda node_id, now_ms: LOAD_MS
    new = (old + 1) % 3
    broker.core.move_leader("__transaction_state", 0, broker.now_ms, to=new)

    def codes() -> list[int]:
        def ask(request: Any, version: int) -> Any:
            return broker.call(request, version, connection="new", node=new)

        return [
            ask(InitProducerIdRequest("x", 60_000), 5).error_code,
            ask(EndTxnRequest("x", 0, 0, True), 4).error_code,
            ask(DescribeTransactionsRequest(("x",)), 0).transaction_states[0].error_code,
            ask(ListTransactionsRequest(), 1).error_code,
        ]

    assert codes() == [LOADING] * 4
    broker.advance(LOAD_MS)
    assert LOADING not in codes()


def test_a_share_coordinator_that_is_being_loaded_refuses_and_the_persister_comes_again() -> None:
    broker = Broker(nodes=3, topics={"t": 1}, config={"share.coordinator.state.topic.num.partitions": "1"})
    topic = broker.topic("t")
    key = ShareKey("g", topic.topic_id, 0)
    old = broker.metadata.coordinator_id(CoordinatorKind.SHARE, str(key))
    persister = broker.core.state.nodes[0].persister
    answers: list[Any] = []
    persister.initialize_states(key, state_epoch=1, done=lambda answer, at_ms: None, now_ms=broker.now_ms)
    broker.advance(0)
    broker.core.state.inter_broker.loading_ms = lambda node_id, now_ms: LOAD_MS
    new = (old + 1) % 3
    broker.core.move_leader("__share_group_state", 0, broker.now_ms, to=new)
    request = ReadShareGroupStateRequest("g", [ReadStateData(topic.topic_id, [PartitionData(0, 0)])])
    persister.read_summary(key, done=lambda answer, at_ms: answers.append((answer, at_ms)), now_ms=broker.now_ms)
    asked_ms = broker.now_ms

    assert broker.call(request, 0, node=new).results[0].partitions[0].error_code == LOADING
    broker.advance(3_000)
    assert broker.call(request, 0, node=new).results[0].partitions[0].error_code == 0
    (answer, at_ms), *none = answers
    assert not none
    assert answer.state_epoch == 1
    assert 1_600 <= at_ms - asked_ms <= 2_400  # One pause of the persister.


# First use.


def found(broker: Broker, kind: CoordinatorKind, key: str) -> Any:
    answer = broker.call(FindCoordinatorRequest(key_type=kind, coordinator_keys=(key,)), 6, settle=False)
    return answer.coordinators[0]


KEYS = {
    CoordinatorKind.GROUP: "g",
    CoordinatorKind.TRANSACTION: "x",
    CoordinatorKind.SHARE: "g:AAAAAAAAAAAAAAAAAAAAAQ:0",
}


@pytest.mark.parametrize(("kind", "key"), KEYS.items())
def test_a_warm_cluster_finds_a_coordinator_at_once(kind: CoordinatorKind, key: str) -> None:
    assert found(Broker(), kind, key).error_code == 0


@pytest.mark.parametrize(("kind", "key"), KEYS.items())
def test_a_cold_cluster_finds_none_until_its_topic_is_made(kind: CoordinatorKind, key: str) -> None:
    broker = Broker(config={"mockbroker.cold.coordinators": "true"})
    row = found(broker, kind, key)

    assert (row.error_code, row.node_id, row.host, row.port) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1, "", -1)
    assert broker.metadata.topic(INTERNAL_TOPICS[kind].name) is None
    broker.advance(0)
    assert found(broker, kind, key).error_code == 0


def test_a_cold_cluster_has_no_coordinator_for_any_request_and_makes_no_topic_for_it() -> None:
    broker = Broker(topics={"T": 1}, config={"mockbroker.cold.coordinators": "true"})
    others = {
        "Heartbeat": (HeartbeatRequest("g", 1, "m"), 4, top),
        "InitProducerId": (InitProducerIdRequest("x", 60_000), 5, top),
    }
    for name, (asked, version, where) in (ASKED | others).items():
        expected = ErrorCode.NONE if name == "ListGroups" else ErrorCode.NOT_COORDINATOR
        assert where(broker.call(asked, version)) == expected, name
    assert [topic.name for topic in broker.metadata.topics()] == ["T"]
