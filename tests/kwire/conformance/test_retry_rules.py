"""Requests that are sent again after an error that no retry can change."""

from __future__ import annotations

import pytest

from kwire.error_codes import ErrorCode
from kwire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from kwire.records import Record, write_batch
from tests.support.observed_traffic import ObservedTraffic


def produce(value: bytes, sequence: int = 0, records: int = 1) -> ProduceRequest:
    batch = write_batch(
        [Record(offset=index, timestamp=0, value=value) for index in range(records)],
        producer_id=1,
        producer_epoch=0,
        base_sequence=sequence,
    )
    partition = PartitionProduceData(index=0, records=batch)
    return ProduceRequest(acks=-1, topic_data=[TopicProduceData(name="t", partition_data=[partition])])


def produced(error_code: int = 0) -> ProduceResponse:
    partition = PartitionProduceResponse(index=0, error_code=error_code)
    return ProduceResponse(responses=[TopicProduceResponse(name="t", partition_responses=[partition])])


@pytest.mark.parametrize(
    ("error", "is_broken"),
    [
        (ErrorCode.UNKNOWN_MEMBER_ID, True),
        (ErrorCode.FENCED_INSTANCE_ID, True),
        (ErrorCode.REBALANCE_IN_PROGRESS, False),
        (ErrorCode.NOT_COORDINATOR, False),
        (ErrorCode.NONE, False),
    ],
)
def test_a_heartbeat_is_not_repeated_after_its_member_is_gone(error: ErrorCode, is_broken: bool) -> None:
    traffic = ObservedTraffic()
    heartbeat = HeartbeatRequest(group_id="g", member_id="m", generation_id=1)
    traffic.send(0, heartbeat, HeartbeatResponse(error_code=error))
    traffic.send(10, HeartbeatRequest(group_id="g", member_id="m", generation_id=1), HeartbeatResponse())
    traffic.send(20, HeartbeatRequest(group_id="g", member_id="m2", generation_id=1), HeartbeatResponse())

    assert traffic.broken() == ([("retry-after-fatal-error", (1, 2))] if is_broken else [])


@pytest.mark.parametrize(
    ("error", "is_broken"), [(ErrorCode.MESSAGE_TOO_LARGE, True), (ErrorCode.NOT_LEADER_OR_FOLLOWER, False)]
)
def test_a_rejected_batch_is_not_repeated_unchanged(error: ErrorCode, is_broken: bool) -> None:
    traffic = ObservedTraffic()
    traffic.send(0, produce(b"large"), produced(error))
    traffic.send(10, produce(b"large"), produced(error), connection="c1")
    traffic.send(20, produce(b"small"), produced())

    assert traffic.broken() == ([("retry-after-fatal-error", (1, 2))] if is_broken else [])


def test_a_request_that_crosses_the_error_is_not_judged() -> None:
    traffic = ObservedTraffic()
    heartbeat = HeartbeatRequest(group_id="g", member_id="m", generation_id=1)
    traffic.send(0, heartbeat, HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID), took_ms=10)
    traffic.send(5, heartbeat, HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID), took_ms=10)
    traffic.send(16, heartbeat, HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))

    assert traffic.broken() == []
