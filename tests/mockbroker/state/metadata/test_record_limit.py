"""Requests that cause more than 10,000 records of the metadata log. Source: answers of a real 4.4.0 (and 4.3.0)."""

from __future__ import annotations

from typing import Any

import pytest

from kwire import from_json
from kwire.error_codes import ErrorCode
from tests.support.brokers.broker import Broker

pytestmark = pytest.mark.slow

LIMIT = 10_000
_AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


def send(broker: Broker, api: str, version: int, **body: Any) -> Any:
    return broker.call(from_json(f"{api}Request", version, body), version)


def codes(rows: list[Any]) -> set[int]:
    return {row.error_code for row in rows}


def alter(broker: Broker, *resources: tuple[int, str, list[tuple[str, int, str | None]]], only: bool = False) -> Any:
    rows = [
        {
            "resourceType": kind,
            "resourceName": name,
            "configs": [{"name": key, "configOperation": operation, "value": text} for key, operation, text in changes],
        }
        for kind, name, changes in resources
    ]
    answer = send(broker, "IncrementalAlterConfigs", 1, resources=rows, validateOnly=only)
    return [row.error_code for row in answer.responses]


def broker_changes(count: int, operation: int = 0) -> list[tuple[str, int, str | None]]:
    return [(f"x.{number}", operation, None if operation else "1") for number in range(count)]


@pytest.mark.parametrize("only", [True, False])
def test_altered_configurations_have_the_limit_together(only: bool) -> None:
    broker = Broker(topics={"t": 1})
    too_many = ErrorCode.POLICY_VIOLATION
    changed, same = ("retention.ms", 0, "77"), ("retention.ms", 1, None)

    assert alter(broker, (4, "", broker_changes(LIMIT + 1)), only=only) == [too_many]
    # A row that the controller refuses has the error of the request.
    assert alter(broker, (4, "", broker_changes(LIMIT + 1)), (2, "none", []), only=only) == [too_many] * 2
    assert alter(broker, (4, "", broker_changes(LIMIT)), (2, "t", [changed]), only=only) == [too_many] * 2
    assert alter(broker, (4, "", [*broker_changes(LIMIT - 1), ("min.insync.replicas", 0, "1")]), only=only) == [
        too_many
    ]
    assert broker.core.state.configs.topic("t")["retention.ms"] != 77
    assert alter(broker, (4, "", broker_changes(LIMIT)), (2, "t", [same]), only=only) == [0, 0]
    # Records of a broker are written even if nothing changes.
    assert alter(broker, (4, "", broker_changes(LIMIT + 1, operation=1)), only=only) == [too_many]


def test_quotas_have_the_limit_together() -> None:
    broker = Broker()

    def change(count: int, name: str) -> Any:
        entries = [
            {
                "entity": [{"entityType": "user", "entityName": f"{name}{number}"}],
                "ops": [{"key": "consumer_byte_rate", "value": 1000.0, "remove": False}],
            }
            for number in range(count)
        ]
        return send(broker, "AlterClientQuotas", 1, entries=entries, validateOnly=False).entries

    assert codes(change(LIMIT + 1, "a")) == {ErrorCode.POLICY_VIOLATION}
    assert not list(broker.core.state.broker_storage.quotas.find_entities((), strict=False))
    assert codes(change(LIMIT, "a")) == {0}
    assert codes(change(LIMIT + 1, "a")) == {0}  # Only the last one is new.


def test_created_and_deleted_acls_have_the_limit() -> None:
    broker = Broker(config=_AUTHORIZER)

    def create(count: int, name: str) -> Any:
        creations = [
            {
                "resourceType": 2,
                "resourceName": f"{name}{number}",
                "resourcePatternType": 3,
                "principal": "User:u",
                "host": "*",
                "operation": 3,
                "permissionType": 3,
            }
            for number in range(count)
        ]
        return send(broker, "CreateAcls", 3, creations=creations).results

    def delete() -> Any:
        any_acl = {
            "resourceTypeFilter": 2,
            "resourceNameFilter": None,
            "patternTypeFilter": 1,
            "principalFilter": None,
            "hostFilter": None,
            "operation": 1,
            "permissionType": 1,
        }
        return send(broker, "DeleteAcls", 3, filters=[any_acl]).filter_results

    assert codes(create(LIMIT + 1, "a")) == {ErrorCode.POLICY_VIOLATION}
    assert codes(create(LIMIT, "a")) == {0}
    assert len(delete()[0].matching_acls) == LIMIT
    assert codes(create(LIMIT, "a")) == codes(create(LIMIT + 1, "a")) == {0}
    row = delete()[0]
    assert (row.error_code, row.matching_acls) == (ErrorCode.INVALID_REQUEST, [])


def test_topics_beyond_the_limit_are_not_deleted() -> None:
    """Source: Kafka's ReplicationControlManager.deleteTopics, which catches the error of each topic."""
    broker = Broker()
    for number in range(LIMIT + 1):
        broker.metadata.create_topic(f"t{number}", partition_count=1)
    rows = send(
        broker, "DeleteTopics", 6, topics=[{"name": f"t{number}"} for number in range(LIMIT + 1)], timeoutMs=1000
    ).responses

    assert codes(rows[:LIMIT]) == {0}
    assert rows[LIMIT].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert [topic.name for topic in broker.metadata.topics()] == [f"t{LIMIT}"]


@pytest.mark.parametrize("only", [True, False])
def test_the_rows_of_added_partitions_have_the_limit_whatever_they_lead_to(only: bool) -> None:
    broker = Broker(topics={"t": 1})

    def add(count: int, *more: tuple[str, int]) -> list[int]:
        rows = [*((f"none{number}", 2) for number in range(count)), *more]
        topics = [{"name": name, "count": total, "assignments": None} for name, total in rows]
        answer = send(broker, "CreatePartitions", 3, topics=topics, timeoutMs=1000, validateOnly=only)
        return [row.error_code for row in answer.results]

    unknown, too_many = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.POLICY_VIOLATION
    doubled = (("d", 2), ("d", 2))

    assert set(add(LIMIT)) == {unknown}
    assert set(add(LIMIT + 1)) == {too_many}
    assert set(add(LIMIT, ("t", 3))) == {too_many}
    assert len(broker.topic("t").partitions) == 1
    assert sorted(add(LIMIT - 1, ("t", 3))) == [0, *[unknown] * (LIMIT - 1)]
    # Names that occur twice are refused before, and do not count.
    assert sorted(add(LIMIT, *doubled)) == [*[unknown] * LIMIT, ErrorCode.INVALID_REQUEST]
    assert add(LIMIT + 1, *doubled) == [too_many] * (LIMIT + 3)


def move(broker: Broker, *replicas: int, times: int = 1, others: int = 0) -> list[int]:
    """The codes of reassignments of t-0, and of others of t-1."""
    rows = [(0, replicas)] * times + [(1, replicas)] * others
    partitions = [{"partitionIndex": index, "replicas": list(nodes)} for index, nodes in rows]
    answer = send(broker, "AlterPartitionReassignments", 1, topics=[{"name": "t", "partitions": partitions}])
    assert answer.error_code == 0
    return [row.error_code for row in answer.responses[0].partitions]


def elect(broker: Broker, *indexes: int, version: int = 2) -> tuple[int, list[int]]:
    topics = [{"topic": "t", "partitions": list(indexes)}]
    answer = send(broker, "ElectLeaders", version, topicPartitions=topics, timeoutMs=1000)
    return answer.error_code, [row.error_code for row in answer.replica_election_results[0].partition_result]


def make_two_nodes() -> Broker:
    """Two partitions whose preferred leader, node 1, does not lead."""
    broker = Broker(nodes=2)
    broker.metadata.create_topic("t", assignments={0: [0, 1], 1: [0, 1]})
    assert move(broker, 1, 0, others=1) == [0, 0]
    return broker


def test_elections_have_the_limit_and_each_row_counts() -> None:
    """Answers of a real 4.4.0 and 4.3.0, to which a partition that is named n times is n elections."""
    broker = make_two_nodes()
    too_many, unknown_error = ErrorCode.POLICY_VIOLATION, ErrorCode.UNKNOWN_SERVER_ERROR
    partition = broker.topic("t").partitions[0]

    assert elect(broker, *[0] * (LIMIT + 1)) == (too_many, [too_many] * (LIMIT + 1))
    assert elect(broker, *[0] * (LIMIT + 1), version=0) == (0, [too_many] * (LIMIT + 1))
    assert elect(broker, *[0] * LIMIT, 1, 9) == (too_many, [too_many] * (LIMIT + 2))
    assert (partition.leader, partition.leader_epoch) == (0, 0)
    assert elect(broker, *[0] * (LIMIT - 1)) == (0, [0] * (LIMIT - 1))
    assert (partition.leader, partition.leader_epoch) == (1, LIMIT - 1)
    # What needs no election does not count.
    assert elect(broker, *[0] * (LIMIT + 1)) == (0, [ErrorCode.ELECTION_NOT_NEEDED] * (LIMIT + 1))
    # A full batch of records is written, and the empty one after it fails.
    assert elect(broker, *[1] * LIMIT) == (unknown_error, [unknown_error] * LIMIT)
    assert broker.topic("t").partitions[1].leader == 1


def test_elections_of_all_partitions_have_the_limit() -> None:
    broker = Broker(nodes=2)
    broker.metadata.create_topic("t", assignments={index: [0, 1] for index in range(LIMIT + 1)})
    for partition in broker.topic("t").partitions:
        partition.replicas = (1, 0)

    answer = send(broker, "ElectLeaders", 2, topicPartitions=None, timeoutMs=1000)
    assert (answer.error_code, answer.replica_election_results) == (ErrorCode.POLICY_VIOLATION, [])
    assert {partition.leader for partition in broker.topic("t").partitions} == {0}


def test_reassignments_beyond_the_limit_fail_row_by_row() -> None:
    """Answers of a real 4.4.0 and 4.3.0; rows without a change have no record."""
    broker = make_two_nodes()

    assert move(broker, 0, 1, times=LIMIT + 1) == [*[0] * LIMIT, ErrorCode.UNKNOWN_SERVER_ERROR]
    assert broker.topic("t").partitions[0].replicas == (0, 1)
    assert move(broker, 0, 1, times=LIMIT + 1, others=1) == [0] * (LIMIT + 2)
    assert broker.topic("t").partitions[1].replicas == (0, 1)
