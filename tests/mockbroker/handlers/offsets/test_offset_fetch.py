"""OffsetFetch: errors of members and coordinators."""

from __future__ import annotations

from kwire.error_codes import ErrorCode
from kwire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kwire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopic
from mockbroker.state.metadata.topics import CoordinatorKind
from tests.support.brokers.broker import Broker


def test_a_stale_epoch_and_an_unknown_member_are_different_errors_when_offsets_are_read() -> None:
    broker = Broker(topics={"T": 1})
    beat = ConsumerGroupHeartbeatRequest(
        "g", "c1", 0, rebalance_timeout_ms=10_000, subscribed_topic_names=("T",), topic_partitions=[]
    )
    broker.call(beat, 1)

    def code(member_id: str | None, epoch: int) -> int:
        request = OffsetFetchRequestGroup(group_id="g", member_id=member_id, member_epoch=epoch, topics=None)
        answer = broker.call(OffsetFetchRequest(groups=[request]), 9)
        value = answer.groups[0].error_code
        assert isinstance(value, int)
        return value

    assert code("c1", 2) == code(None, -1) == ErrorCode.NONE
    assert code("c1", 1) == ErrorCode.STALE_MEMBER_EPOCH
    assert code("zz", 2) == ErrorCode.UNKNOWN_MEMBER_ID


def test_an_old_offset_fetch_has_its_errors_in_the_rows() -> None:
    broker = Broker(nodes=3, topics={"T": 1})
    other = (broker.metadata.coordinator_id(CoordinatorKind.GROUP, "g") + 1) % 3
    request = OffsetFetchRequest(group_id="g", topics=[OffsetFetchRequestTopic("T", (0,))])

    old = broker.call(request, 1, connection="other", node=other)
    newer = broker.call(request, 5, connection="other", node=other)

    assert old.topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR
    assert (newer.error_code, newer.topics) == (ErrorCode.NOT_COORDINATOR, [])
