"""A handler runs once; waking a parked request any number of times changes only the time of its response."""

from __future__ import annotations

from kwire.error_codes import ErrorCode
from kwire.messages import share_acknowledge as acknowledge
from kwire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kwire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kwire.messages.list_groups import ListGroupsRequest
from kwire.messages.sync_group import SyncGroupRequest
from tests.support.brokers.broker import Broker
from tests.support.brokers.share_members import ShareBroker

WAKES = 100
_PROTOCOLS = [JoinGroupRequestProtocol(name="range", metadata=b"")]


def _wake(broker: Broker, *, parked: int = 1) -> None:
    assert broker.core.parked_count == parked
    for _ in range(WAKES):
        broker.core.wake_all()
    assert broker.core.parked_count == parked


def test_a_parked_fetch_is_answered_once_with_the_new_records() -> None:
    broker = ShareBroker()
    topic = FetchTopic(topic_id=broker.topic_id("A"), partitions=[FetchPartition(partition_max_bytes=1_000)])
    request = FetchRequest(max_wait_ms=500, min_bytes=1, topics=[topic])
    assert broker.call(request, 17) is None
    _wake(broker)

    broker.produce("A", 3)

    answer = broker.take_response()
    assert answer.responses[0].partitions[0].high_watermark == 3
    assert broker.take_response() is None


def test_a_parked_share_fetch_acquires_once() -> None:
    broker = ShareBroker()
    broker.fetch("m1", 0, "A0")
    assert broker.fetch("m1", 1, wait_ms=500) is None
    _wake(broker)

    broker.produce("A", 3)
    answer = broker.take_response("m1")
    acquired = answer.responses[0].partitions[0].acquired_records

    assert [(range_.first_offset, range_.last_offset, range_.delivery_count) for range_ in acquired] == [(0, 2, 1)]
    partition = broker.core.state.nodes[0].share_partitions.get("g", broker.topic_id("A"), 0)
    assert partition is not None
    assert partition.window.in_flight_count == 3


def test_an_acknowledgement_that_waits_for_its_write_is_applied_once() -> None:
    broker = ShareBroker()
    broker.fetch("m1", 0, "A0")
    broker.produce("A", 3)
    assert broker.fetch("m1", 1) == "A0 0-2/1"
    rows = [acknowledge.AcknowledgePartition(0, [acknowledge.AcknowledgementBatch(0, 2, (2,))])]
    request = acknowledge.ShareAcknowledgeRequest("g", "m1", 2)
    request.topics = [acknowledge.AcknowledgeTopic(broker.topic_id("A"), rows)]
    assert broker.call(request, 2, connection="m1", settle=False) is None
    _wake(broker)

    broker.advance(0)

    assert broker.take_response("m1").responses[0].partitions[0].error_code == ErrorCode.NONE
    assert broker.fetch("m1", 3) == "A0 0-2/2"


def test_a_parked_join_creates_one_member_and_a_parked_sync_gets_one_response() -> None:
    broker = Broker(config={"group.initial.rebalance.delay.ms": "3000"})

    def join(connection: str, member_id: str = "") -> JoinGroupRequest:
        timeouts = (30_000, 30_000)
        return JoinGroupRequest("c", *timeouts, member_id, protocol_type="consumer", protocols=_PROTOCOLS)

    names = {}
    for connection in ("one", "two"):
        refused = broker.call(join(connection), 9, connection=connection)
        names[connection] = refused.member_id
        broker.call(join(connection, refused.member_id), 9, connection=connection)
    _wake(broker, parked=2)
    broker.advance(6_000)
    answers = {connection: broker.take_response(connection) for connection in names}

    leader = answers["one"].leader
    assert {answer.leader for answer in answers.values()} == {leader}
    members = answers["one"].members or answers["two"].members
    assert sorted(member.member_id for member in members) == sorted(names.values())

    follower = next(connection for connection, name in names.items() if name != leader)
    sync = SyncGroupRequest(group_id="c", generation_id=answers[follower].generation_id, member_id=names[follower])
    sync.protocol_type, sync.protocol_name = "consumer", "range"
    assert broker.call(sync, 5, connection=follower) is None
    _wake(broker)
    assert [group.group_id for group in broker.call(ListGroupsRequest(), 5, connection="admin").groups] == ["c"]
