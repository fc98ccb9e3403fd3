"""Settings of one broker, which the topics and groups inherit there and nowhere else."""

from __future__ import annotations

from typing import Any

from kwire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kwire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.nodes.replica_requests import append_batch
from tests.nodes.scenario_client import ScenarioClient

_TOPIC_KIND, _BROKER_KIND, _GROUP_KIND = 2, 4, 32
_TOPIC = "inherits"
_SET, _DELETE = 0, 1
_INTERVAL = "consumer.assignment.interval.ms"


def alter_broker(client: ScenarioClient, name: str, values: dict[str, str | None]) -> None:
    """Change the settings of a broker, or with an empty name those of all; None removes one."""
    rows = [AlterableConfig(key, _DELETE if value is None else _SET, value) for key, value in values.items()]
    request = IncrementalAlterConfigsRequest([AlterConfigsResource(_BROKER_KIND, name, rows)])
    answer = client.send(int(name or 0), request)
    assert answer.responses[0].error_code == 0, answer


def describe_key(client: ScenarioClient, node: int, kind: int, name: str, key: str) -> list[Any]:
    """Value, source and synonyms of a configuration, as a broker describes it."""
    resource = DescribeConfigsResource(kind, name, (key,))
    row = client.send(node, DescribeConfigsRequest([resource], True), 4).results[0].configs[0]
    return [row.value, row.config_source, [[one.name, one.value, one.source] for one in row.synonyms]]


def settings_of_one_broker(client: ScenarioClient, observed: dict[str, Any]) -> None:
    """Topics and groups inherit a broker's own settings from the broker that describes or uses them."""
    client.create_topic(_TOPIC, [(1, 2), (2, 1)])
    own = {"log.retention.ms": "1234567", "group.consumer.assignment.interval.ms": "1500", "message.max.bytes": "200"}
    alter_broker(client, "1", {**own})
    alter_broker(client, "", {"group.consumer.assignment.interval.ms": "1200", "log.retention.ms": "7654321"})
    client.wait_until(
        lambda: [describe_key(client, node, _TOPIC_KIND, _TOPIC, "retention.ms")[0] for node in range(3)],
        lambda values: values == ["7654321", "1234567", "7654321"],
    )
    for node in range(3):
        observed[f"topic at {node}"] = describe_key(client, node, _TOPIC_KIND, _TOPIC, "retention.ms")
        observed[f"group at {node}"] = describe_key(client, node, _GROUP_KIND, "inherits", _INTERVAL)
        observed[f"limit at {node}"] = describe_key(client, node, _TOPIC_KIND, _TOPIC, "max.message.bytes")
    observed["at the limit"] = append_batch(client, 1, _TOPIC, b"v" * 300, 1, acks=1)
    alter_broker(client, "1", {"message.max.bytes": None})
    alter_broker(client, "2", {"message.max.bytes": "200"})
    client.wait_until(
        lambda: describe_key(client, 1, _TOPIC_KIND, _TOPIC, "max.message.bytes")[1], lambda source: source == 5
    )
    observed["where the follower has it"] = append_batch(client, 1, _TOPIC, b"v" * 300, 1, acks=-1)
    client.cluster.move_leader(_TOPIC, 0, 2)
    client.wait_for_partition(2, _TOPIC, leader=2)
    observed["where the new leader has it"] = append_batch(client, 2, _TOPIC, b"v" * 300, 1, acks=1)
    for name in ("1", "2"):
        alter_broker(client, name, dict.fromkeys((*own, "message.max.bytes")))
    alter_broker(client, "", {"group.consumer.assignment.interval.ms": None, "log.retention.ms": None})


SCENARIOS = (settings_of_one_broker,)
