"""Requests that cause more than 10,000 records of the metadata log. Source: answers of a real 4.4.0."""

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
