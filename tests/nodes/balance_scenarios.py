"""Leaders that the controller elects periodically, without a request."""

from __future__ import annotations

from typing import Any

from tests.nodes.replica_requests import (
    alter_topic_config,
    append_batch,
    describe_replicas,
    fetch_records,
    wait_for_replicas,
)
from tests.nodes.scenario_client import ScenarioClient


def preferred_leaders_lead_again(client: ScenarioClient, observed: dict[str, Any]) -> None:
    """The preferred replica restarts, and some time later it is the leader again."""
    client.create_topic("balanced", [(1, 2)])
    client.cluster.stop(1)
    observed["other"] = wait_for_replicas(client, 0, "balanced", leader=2)
    client.pass_time(3)
    observed["still the other"] = describe_replicas(client, 0, "balanced")
    client.cluster.start(1)
    wait_for_replicas(client, 0, "balanced", isr=[1, 2])
    observed["first again"] = wait_for_replicas(client, 0, "balanced", leader=1)


def an_unclean_election_that_is_allowed_late(client: ScenarioClient, observed: dict[str, Any]) -> None:
    """The partition has no leader until the topic's configuration allows the loss of records."""
    client.create_topic("late", [(1, 2)])
    append_batch(client, 1, "late", b"a", 2, acks=-1)
    client.pass_time(1)
    client.cluster.stop(2)
    client.wait_for_partition(0, "late", isr=[1])
    append_batch(client, 1, "late", b"b", 2, acks=1)
    client.cluster.stop(1)
    client.wait_for_partition(0, "late", leader=-1)
    client.cluster.start(2)
    client.wait_for_brokers(0, [0, 2])
    client.pass_time(4)
    observed["nobody"] = client.describe_partition(0, "late")
    alter_topic_config(client, "late", {"unclean.leader.election.enable": "true"})
    observed["elected"] = client.wait_for_partition(2, "late", leader=2)
    observed["read"] = client.wait_until(lambda: fetch_records(client, 2, "late"), lambda row: row[0] == 0)
    client.cluster.start(1)
    observed["back"] = client.wait_for_partition(0, "late", isr=[1, 2])
    observed["balanced"] = wait_for_replicas(client, 0, "late", leader=1)


SCENARIOS = (preferred_leaders_lead_again, an_unclean_election_that_is_allowed_late)
