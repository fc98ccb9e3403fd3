"""Our nodes come and go as those of a real 4.3.0 cluster; `python -m tests.nodes.record` has recorded its answers."""

from __future__ import annotations

import json

import pytest

from mockbroker import Cluster
from tests.nodes.record import ANSWERS
from tests.nodes.stories import STORIES, tell

SESSION_MS = 3_000
PROPERTIES = {
    "broker.session.timeout.ms": SESSION_MS,
    "group.share.assignment.interval.ms": 0,
    "auto.leader.rebalance.enable": False,
    "offsets.topic.num.partitions": 5,
    "share.coordinator.state.topic.num.partitions": 3,
}


class OurCluster:
    """A running `Cluster` as the stories want it."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.stop = cluster.stop_node
        self.start = cluster.start_node

    def address(self, node: int) -> str:
        """HOST:PORT of a node."""
        return self._cluster.bootstrap_servers.split(",")[node]

    def kill(self, node: int) -> None:
        """End a node at once."""
        self._cluster.kill_node(node)

    def move(self, topic: str, partition: int, to: int) -> None:
        """Have another replica lead."""
        self._cluster.move_leader(topic, partition, to=to)


@pytest.mark.parametrize("name", STORIES)
def test_nodes_come_and_go_as_in_a_real_cluster(name: str) -> None:
    recorded = json.loads((ANSWERS / f"{name}.json").read_text())
    with Cluster(nodes=3, properties=PROPERTIES) as cluster:
        seen = tell(name, OurCluster(cluster))

    assert json.loads(json.dumps(seen)) == recorded
