"""Rules about members of groups."""

from __future__ import annotations

from kwire.error_codes import ErrorCode
from kwire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kwire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kwire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kwire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from tests.support.observed_traffic import ObservedTraffic


def joined(generation: int) -> JoinGroupResponse:
    return JoinGroupResponse(generation_id=generation, member_id="m")


def beat(epoch: int) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=epoch)


def beaten(epoch: int, assignment: Assignment | None = None) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(
        member_id="m", member_epoch=epoch, heartbeat_interval_ms=1000, assignment=assignment
    )


def committed(error_code: int) -> OffsetCommitResponse:
    partition = OffsetCommitResponsePartition(error_code=error_code)
    return OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="t", partitions=[partition])])


def test_a_member_must_use_the_generation_that_it_was_given() -> None:
    traffic = ObservedTraffic()
    traffic.send(0, JoinGroupRequest(group_id="g", member_id="m"), joined(4))
    traffic.send(10, HeartbeatRequest(group_id="g", member_id="m", generation_id=4), HeartbeatResponse())
    traffic.send(20, JoinGroupRequest(group_id="g", member_id="m"), joined(5))
    traffic.send(30, HeartbeatRequest(group_id="g", member_id="m", generation_id=4), HeartbeatResponse())
    traffic.send(40, HeartbeatRequest(group_id="g", member_id="m", generation_id=5), HeartbeatResponse())

    assert traffic.broken() == [("stale-generation", (3, 4))]


def test_a_request_that_crosses_the_new_generation_is_not_judged() -> None:
    traffic = ObservedTraffic()
    traffic.send(0, JoinGroupRequest(group_id="g", member_id="m"), joined(4))
    traffic.send(20, JoinGroupRequest(group_id="g", member_id="m"), joined(5), took_ms=10)
    # Sent while the join was in flight, so later ones on this connection may cross its response.
    traffic.send(25, HeartbeatRequest(group_id="g", member_id="m", generation_id=4), HeartbeatResponse())
    traffic.send(35, HeartbeatRequest(group_id="g", member_id="m", generation_id=4), HeartbeatResponse())
    traffic.send(36, HeartbeatRequest(group_id="g", member_id="m", generation_id=4), connection="c2")

    assert traffic.broken() == []


def test_an_older_member_epoch_is_a_note_only_if_the_coordinator_refused_it() -> None:
    """Source: KIP-1251; a real Kafka 4.4 accepts the older epoch in tests/captures/kafka_scripts.pcap."""
    traffic = ObservedTraffic()
    commit = OffsetCommitRequest(group_id="g", member_id="m", generation_id_or_member_epoch=1)
    traffic.send(0, beat(1), beaten(2))
    traffic.send(10, commit, committed(0))
    traffic.send(20, commit, committed(ErrorCode.STALE_MEMBER_EPOCH))

    assert traffic.broken() == [("stale-generation", (1, 3))]


def test_heartbeats_without_news_wait_for_the_interval() -> None:
    traffic = ObservedTraffic()
    for index in range(6):
        traffic.send(index * 100, beat(2), beaten(2))

    assert traffic.broken() == [("heartbeat-too-soon", (3, 4))]


def test_heartbeats_with_news_are_sent_at_once() -> None:
    traffic = ObservedTraffic()
    for index in range(6):
        traffic.send(index * 1000, beat(2), beaten(2))
    for index in range(6):
        traffic.send(10_000 + index * 100, beat(2), beaten(2, assignment=Assignment()))
    for index in range(6):
        traffic.send(20_000 + index * 100, beat(2 + index), beaten(2 + index))

    assert traffic.broken() == []


def test_a_client_that_ends_must_leave_its_groups() -> None:
    traffic = ObservedTraffic()
    traffic.send(0, beat(0), beaten(1))
    share = ShareGroupHeartbeatRequest(group_id="s", member_id="n")
    traffic.send(1, share, ShareGroupHeartbeatResponse(member_id="n", member_epoch=1, heartbeat_interval_ms=1000))
    traffic.close(10)

    assert traffic.broken() == [("group-left-without-leave", (1,)), ("group-left-without-leave", (2,))]
    assert traffic.notes()[0].text == (
        "closed its connections as member 'm' of group 'g' without a heartbeat that leaves"
    )


def test_a_member_that_has_left_or_may_come_back_is_no_note() -> None:
    left, static, reset, alive, lossy, crossed = (ObservedTraffic() for _ in range(6))
    for traffic in (left, static, reset, alive, lossy, crossed):
        traffic.send(0, beat(0), beaten(1), took_ms=4)
    crossed.send(1, beat(-1), beaten(-1), took_ms=4)
    crossed.close(10)
    left.send(5, beat(-1), beaten(-1))
    left.close(10)
    static.send(5, beat(-2))
    static.close(10)
    reset.close(10, is_clean=False)
    alive.send(5, HeartbeatRequest(), connection="c2")
    alive.close(10)
    lossy.lose(5)
    lossy.close(10)

    assert [traffic.broken() for traffic in (left, static, reset, alive, lossy, crossed)] == [[]] * 6
