"""Conditions on what requests name: versions, partitions that only responses have, and the keys of coordinators."""

from __future__ import annotations

from typing import Any

import pytest

from kwire.messages.api_versions import ApiVersionsRequest
from kwire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from kwire.messages.find_coordinator import FindCoordinatorRequest
from kwire.messages.list_groups import ListGroupsRequest
from kwire.messages.metadata import MetadataRequest, MetadataRequestTopic
from mockbroker.faults import FaultError
from tests.support.brokers.faulty_broker import FaultyBroker

_LEADER_NOT_AVAILABLE = 5


def test_a_version_matches_requests_of_this_version_only() -> None:
    broker = FaultyBroker()
    fault = broker.add("ListGroups", version=4, error="COORDINATOR_LOAD_IN_PROGRESS")
    codes = [broker.call(ListGroupsRequest(), version).error_code for version in (3, 4, 5)]

    assert codes == [0, 14, 0]
    assert fault.hits == 1
    assert "its version was 5, not 4" in fault.near_misses[-1]


def test_a_version_without_an_api_matches_every_api() -> None:
    broker = FaultyBroker()
    fault = broker.add(version=4, delay_ms=1)
    broker.send(ListGroupsRequest(), 4)
    broker.send(_metadata([]), 12)

    assert fault.hits == 1


def test_a_version_that_the_cluster_does_not_serve_is_refused() -> None:
    with pytest.raises(FaultError, match="version: this cluster serves no ListGroups version 9, only 0 to 5"):
        FaultyBroker().add("ListGroups", version=9, drop=True)


def test_an_api_versions_request_of_any_version_can_be_matched() -> None:
    broker = FaultyBroker()
    fault = broker.add("ApiVersions", version=9, drop=True)
    broker.send(ApiVersionsRequest(), 0)
    number = broker.connect("b")
    broker.core.submit(number, bytes((0, 18, 0, 9, 0, 0, 0, 1, 255, 255)), broker.now_ms)

    assert fault.hits == 1


def _metadata(topics: list[str] | None) -> MetadataRequest:
    return MetadataRequest(topics=None if topics is None else [MetadataRequestTopic(name=name) for name in topics])


def _own(response: Any) -> list[Any]:
    """The rows of the topics A and B, without internal ones."""
    return [topic for topic in response.topics if topic.name in ("A", "B")]


@pytest.mark.parametrize("topics", [["A", "B"], None])
@pytest.mark.parametrize(
    ("options", "faulty"),
    [({"topic": "A", "partition": 1}, {"A1"}), ({"partition": 0}, {"A0", "B0"})],
)
@pytest.mark.parametrize("after", [False, True])
def test_a_partition_of_metadata_has_the_error_and_its_topic_none(
    topics: list[str] | None, options: dict[str, Any], faulty: set[str], *, after: bool
) -> None:
    broker = FaultyBroker()
    fault = broker.add("Metadata", error="LEADER_NOT_AVAILABLE", after=after, **options)
    response = broker.call(_metadata(topics), 12)

    rows = {
        f"{topic.name}{row.partition_index}": row.error_code for topic in _own(response) for row in topic.partitions
    }
    assert rows == {name: _LEADER_NOT_AVAILABLE * (name in faulty) for name in ("A0", "A1", "B0", "B1")}
    assert [topic.error_code for topic in _own(response)] == [0, 0]
    assert fault.hits == 1


@pytest.mark.parametrize("options", [{"topic": "A", "partition": 2}, {"topic": "C", "partition": 0}, {"partition": 7}])
def test_metadata_does_not_match_a_partition_that_no_topic_has(options: dict[str, Any]) -> None:
    broker = FaultyBroker()
    fault = broker.add("Metadata", error="LEADER_NOT_AVAILABLE", **options)
    broker.call(_metadata(["A", "B"]), 12)

    assert fault.hits == 0
    assert "its partition was 0, 1" in fault.near_misses[0] or "its topic was" in fault.near_misses[0]


def test_fields_of_one_partition_of_metadata_are_set() -> None:
    broker = FaultyBroker()
    broker.add("Metadata", topic="B", partition=1, set_fields={"topics.partitions.leader_id": 9})
    response = broker.call(_metadata(None), 12)

    leaders = {
        (topic.name, row.partition_index): row.leader_id for topic in response.topics for row in topic.partitions
    }
    assert [key for key, leader in leaders.items() if leader == 9] == [("B", 1)]


@pytest.mark.parametrize("names", [["A", "B"], []])
def test_a_partition_of_described_topics_has_the_error(names: list[str]) -> None:
    broker = FaultyBroker()
    broker.add("DescribeTopicPartitions", topic="A", partition=0, error="LEADER_NOT_AVAILABLE")
    request = DescribeTopicPartitionsRequest(topics=[TopicRequest(name) for name in names])
    response = broker.call(request, 0)

    rows = {(topic.name, row.partition_index): row.error_code for topic in _own(response) for row in topic.partitions}
    assert rows == {("A", 0): 5, ("A", 1): 0, ("B", 0): 0, ("B", 1): 0}


@pytest.mark.parametrize("version", [2, 5])
@pytest.mark.parametrize(
    ("options", "key_type", "key"),
    [
        ({"group": "g"}, 0, "g"),
        ({"transactional_id": "t"}, 1, "t"),
        ({"group": "a:b"}, 2, "a:b:AAAAAAAAAAAAAAAAAAAAAQ:0"),
    ],
)
def test_find_coordinator_names_a_group_by_its_key(
    options: dict[str, Any], key_type: int, key: str, version: int
) -> None:
    if key_type == 2:
        version = 6
    broker = FaultyBroker()
    fault = broker.add("FindCoordinator", error="COORDINATOR_NOT_AVAILABLE", **options)

    def code(name: str, kind: int) -> int:
        keys = {"coordinator_keys": (name,)} if version > 3 else {"key": name}
        request = FindCoordinatorRequest(key_type=kind, **keys)
        response = broker.call(request, version)
        return int(response.coordinators[0].error_code if version > 3 else response.error_code)

    others = [code("other", 0), code(key, 1 - key_type if key_type < 2 else 0)]
    assert code(key, key_type) == 15
    assert 15 not in others
    assert fault.hits == 1


def test_find_coordinator_names_no_member() -> None:
    with pytest.raises(FaultError, match="member: a FindCoordinator request names no member; it names group, trans"):
        FaultyBroker().add("FindCoordinator", member="m", drop=True)
