"""Nodes stop and start as in real clusters of each release, whose answers `python -m tests.nodes.live` has recorded."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from kwire.schema import RELEASES
from mockbroker import Cluster
from mockbroker.config.properties import parse_properties
from tests.nodes.scenario_client import SocketConnection, wait_in_real_time
from tests.nodes.scenarios import BALANCED, PROPERTIES_FILES, RECORDED, REPLICATED, run_scenario, scenario_names
from tests.nodes.virtual_cluster import VirtualCluster

HERE = Path(__file__).parent
#: The properties that tools/oracle/start-cluster sets on every broker, and the additional ones of the recordings.
PROPERTIES = {
    "auto.leader.rebalance.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "5",
    "share.coordinator.state.topic.num.partitions": "3",
    **parse_properties((HERE / "cluster.properties").read_text()),
}
#: By the name of the file with the additional ones; each broker has a rack of its own.
ADDITIONAL_PROPERTIES = {
    None: {},
    BALANCED: parse_properties((HERE / BALANCED).read_text()),
    REPLICATED: {
        **parse_properties((HERE / REPLICATED).read_text()),
        "mockbroker.replication": "real",
        "mockbroker.racks": "rack-0,rack-1,rack-2",
    },
}
#: Scenarios that are fast enough to run over sockets, in real time, as well.
OVER_SOCKETS = ("two_replicas", "an_unclean_election_goes_back", "replicas_are_reassigned")


class SocketCluster:
    """A running `Cluster` with the interface of the scenarios."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.stop = cluster.stop_node
        self.kill = cluster.kill_node
        self.start = cluster.start_node
        self.pause = cluster.pause_node
        self.resume = cluster.resume_node
        self.pass_time = wait_in_real_time

    def connect(self, node: int) -> SocketConnection:
        """A new connection to a node."""
        return SocketConnection(self._cluster.bootstrap_servers.split(",")[node])

    def now_s(self) -> float:
        """The clock of the machine, in seconds."""
        return time.monotonic()

    def time_ms(self) -> int:
        """The clock of the machine, which the brokers use."""
        return time.time_ns() // 1_000_000

    def move_leader(self, topic: str, partition: int, to: int) -> None:
        """Make another replica the leader."""
        self._cluster.move_leader(topic, partition, to=to)


@pytest.mark.parametrize(
    ("name", "release"), [(name, release) for release in RELEASES for name in scenario_names(release)]
)
def test_nodes_stop_and_start_as_in_a_real_cluster(name: str, release: str) -> None:
    properties = {**PROPERTIES, **ADDITIONAL_PROPERTIES[PROPERTIES_FILES.get(name)]}

    observed = run_scenario(name, VirtualCluster(properties, release))

    assert json.loads(json.dumps(observed)) == RECORDED.read(name, release)


@pytest.mark.parametrize("name", scenario_names(RELEASES[0]))
def test_nodes_whose_followers_fetch_stop_and_start_as_in_a_real_cluster(name: str) -> None:
    additional = {**ADDITIONAL_PROPERTIES[PROPERTIES_FILES.get(name)], "mockbroker.replication": "real"}

    observed = run_scenario(name, VirtualCluster({**PROPERTIES, **additional}, RELEASES[0]))

    assert json.loads(json.dumps(observed)) == RECORDED.read(name, RELEASES[0])


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("name", OVER_SOCKETS)
def test_nodes_behind_sockets_stop_and_start_as_in_a_real_cluster(name: str, release: str) -> None:
    with Cluster(nodes=3, properties=PROPERTIES, release=release) as cluster:
        observed = run_scenario(name, SocketCluster(cluster))

    assert json.loads(json.dumps(observed)) == RECORDED.read(name, release)
