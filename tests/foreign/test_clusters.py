"""The commands with which tests of another process control their cluster."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kwire import Client
from kwire.messages.describe_cluster import DescribeClusterRequest
from tests.foreign.clusters import ClusterControl, MockCluster


@pytest.fixture
def control() -> Iterator[ClusterControl]:
    control = ClusterControl(MockCluster)
    yield control
    control.close()


def start(control: ClusterControl, nodes: int = 1, **properties: str) -> dict[int, str]:
    message = {"cluster": "start", "nodes": nodes, "properties": properties, "node_properties": {}, "features": {}}
    response = control.carry_out(message)
    addresses: dict[int, str] = response["addresses"]
    return addresses


def running_nodes(address: str) -> set[int]:
    with Client(address) as client:
        return {broker.broker_id for broker in client.send(DescribeClusterRequest()).brokers}


def test_a_cluster_listens_on_a_port_of_its_own_for_each_node(control: ClusterControl) -> None:
    addresses = start(control, nodes=3)

    assert len(set(addresses.values())) == 3
    assert running_nodes(addresses[2]) == {0, 1, 2}


def test_a_node_is_stopped_and_started_at_its_address(control: ClusterControl) -> None:
    addresses = start(control, nodes=2)
    control.carry_out({"cluster": "stop-node", "node": 0})
    without_first = running_nodes(addresses[1])
    response = control.carry_out({"cluster": "start-node", "node": 0})

    assert without_first == {1}
    assert response == {"addresses": addresses}
    assert running_nodes(addresses[0]) == {0, 1}


def test_a_stopped_cluster_does_not_listen_any_more(control: ClusterControl) -> None:
    addresses = start(control)

    assert control.carry_out({"cluster": "stop"}) == {}
    with pytest.raises(OSError, match="refused"):
        running_nodes(addresses[0])


@pytest.mark.parametrize(
    ("message", "error"),
    [
        ({"cluster": "stop-node", "node": 0}, "RuntimeError: no cluster is running"),
        (
            {"cluster": "start", "nodes": 0, "properties": {}, "node_properties": {}, "features": {}},
            "ConfigError: nodes: 0; a cluster has 1 to 100 nodes",
        ),
    ],
)
def test_a_command_that_fails_is_answered_with_its_error(
    control: ClusterControl, message: dict[str, object], error: str
) -> None:
    assert control.carry_out(message) == {"error": error}


def test_an_unknown_command_or_node_is_answered_with_its_error(control: ClusterControl) -> None:
    start(control)

    assert "'jump' is not a command" in control.carry_out({"cluster": "jump"})["error"]
    assert "node 7" in control.carry_out({"cluster": "stop-node", "node": 7})["error"]
