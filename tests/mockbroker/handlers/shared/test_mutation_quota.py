"""The quota of created and deleted partitions; integration/test_throttled_as_by_kafka.py compares with a real Kafka."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kwire.error_codes import ErrorCode
from kwire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kwire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kwire.messages.delete_topics import DeleteTopicsRequest
from kwire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.support.brokers.broker import Broker
from tests.support.client_quotas import limit_client

_EXCEEDED = ErrorCode.THROTTLING_QUOTA_EXCEEDED


def _exhausted_broker() -> Broker:
    """A broker whose client has created five partitions more than its quota of eleven in eleven seconds allows."""
    broker = Broker(topics={"old": 1})
    limit_client(broker, "controller_mutation_rate", 1)
    assert _create(broker, 5, many=16).throttle_time_ms == 5_000
    broker.forget_connection("a")  # The first one is muted.
    return broker


def _create(broker: Broker, version: int, *, validate_only: bool = False, **counts: int) -> Any:
    rows = [CreatableTopic(name, count, 1) for name, count in counts.items()]
    return broker.call(CreateTopicsRequest(rows, 1_000, validate_only), version)


def _codes(response: Any) -> list[int]:
    rows = getattr(response, "topics", None) or getattr(response, "results", None) or response.responses
    return [row.error_code for row in rows]


_REQUESTS: dict[str, tuple[msgspec.Struct, int]] = {
    "CreateTopics": (CreateTopicsRequest([CreatableTopic("new", 1, 1)], 1_000), 6),
    "DeleteTopics": (DeleteTopicsRequest(topic_names=("old",), timeout_ms=1_000), 5),
    "CreatePartitions": (CreatePartitionsRequest([CreatePartitionsTopic("old", 2, None)], 1_000), 3),
}


@pytest.mark.parametrize("api", _REQUESTS)
def test_newer_requests_are_refused_and_change_nothing_when_the_quota_is_exhausted(api: str) -> None:
    broker = _exhausted_broker()
    request, version = _REQUESTS[api]
    response = broker.call(request, version)

    assert _codes(response) == [_EXCEEDED]
    assert response.throttle_time_ms == 5_000
    assert broker.metadata.topic("new") is None
    assert len(broker.topic("old").partitions) == 1


@pytest.mark.parametrize("api", _REQUESTS)
def test_older_requests_are_carried_out_and_throttled_for_longer(api: str) -> None:
    broker = _exhausted_broker()
    request, strict_since = _REQUESTS[api]
    response = broker.call(request, strict_since - 1)

    assert _codes(response) == [ErrorCode.NONE]
    assert response.throttle_time_ms == 6_000


def test_a_refused_request_succeeds_when_the_time_has_passed() -> None:
    broker = _exhausted_broker()
    refused = _create(broker, 7, new=1)
    broker.advance(refused.throttle_time_ms)

    assert _codes(refused) == [_EXCEEDED]
    assert _codes(_create(broker, 7, new=1)) == [ErrorCode.NONE]


def test_of_several_topics_those_are_created_for_which_there_are_credits() -> None:
    broker = Broker()
    limit_client(broker, "controller_mutation_rate", 1)
    response = _create(broker, 7, a=10, b=2, c=1)

    assert _codes(response) == [ErrorCode.NONE, ErrorCode.NONE, _EXCEEDED]
    assert response.throttle_time_ms == 1_000


def test_all_brokers_count_together() -> None:
    broker = Broker(nodes=2)
    limit_client(broker, "controller_mutation_rate", 1)
    _create(broker, 5, many=16)
    broker.forget_connection("a")
    response = broker.call(CreateTopicsRequest([CreatableTopic("new", 1, 1)], 1_000), 7, node=1)

    assert _codes(response) == [_EXCEEDED]


def test_metadata_creates_no_topic_when_the_quota_is_exhausted_and_is_not_throttled() -> None:
    broker = _exhausted_broker()
    request = MetadataRequest([MetadataRequestTopic(name="auto")], allow_auto_topic_creation=True)
    first = broker.call(request, 9)
    created = broker.metadata.topic("auto") is not None
    broker.advance(5_000)
    broker.call(request, 9)

    assert (first.topics[0].error_code, first.throttle_time_ms) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0)
    assert not created
    assert broker.metadata.topic("auto") is not None
