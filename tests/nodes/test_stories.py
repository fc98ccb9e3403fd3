"""Our nodes come and go as those of a real 4.3.0 cluster; `python -m tests.nodes.record` has recorded its answers."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from mockbroker import Cluster
from mockbroker.properties import parse_properties
from tests.nodes.record import ANSWERS
from tests.nodes.stories import BALANCED, STORIES, tell
from tests.nodes.teller import Socket, let_pass
from tests.nodes.virtual import VirtualCluster

HERE = Path(__file__).parent
#: What tools/oracle/start-cluster says to every broker, and what the cluster of the recordings was told beside.
PROPERTIES = {
    "auto.leader.rebalance.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "5",
    "share.coordinator.state.topic.num.partitions": "3",
    **parse_properties((HERE / "cluster.properties").read_text()),
}
#: For the stories that need them.
MORE = parse_properties((HERE / "balanced.properties").read_text())
#: Stories that are quick enough for sockets and the time of the world, too.
OVER_SOCKETS = ("two_replicas", "an_unclean_election_goes_back", "replicas_are_reassigned")


class OurCluster:
    """A running `Cluster` as the stories want it."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.stop = cluster.stop_node
        self.kill = cluster.kill_node
        self.start = cluster.start_node
        self.let_pass = let_pass

    def connect(self, node: int) -> Socket:
        """A new connection to a node."""
        return Socket(self._cluster.bootstrap_servers.split(",")[node])

    def now_s(self) -> float:
        """The machine's clock."""
        return time.monotonic()

    def time_ms(self) -> int:
        """The brokers have the same clock."""
        return time.time_ns() // 1_000_000

    def move(self, topic: str, partition: int, to: int) -> None:
        """Have another replica lead."""
        self._cluster.move_leader(topic, partition, to=to)


def recorded(name: str) -> object:
    return json.loads((ANSWERS / f"{name}.json").read_text())


@pytest.mark.parametrize("name", STORIES)
def test_nodes_come_and_go_as_in_a_real_cluster(name: str) -> None:
    seen = tell(name, VirtualCluster({**PROPERTIES, **MORE} if name in BALANCED else PROPERTIES))

    assert json.loads(json.dumps(seen)) == recorded(name)


@pytest.mark.parametrize("name", OVER_SOCKETS)
def test_nodes_behind_sockets_come_and_go_as_in_a_real_cluster(name: str) -> None:
    with Cluster(nodes=3, properties=PROPERTIES) as cluster:
        seen = tell(name, OurCluster(cluster))

    assert json.loads(json.dumps(seen)) == recorded(name)
