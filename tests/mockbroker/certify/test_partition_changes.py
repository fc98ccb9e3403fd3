"""Changes of partitions that cases make."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import mockbroker
from mockbroker.certify.partition_changes import add_partitions, reassign


def test_partitions_are_added_and_moved() -> None:
    with mockbroker.Cluster(topics={"orders": 1}, profile="quick") as cluster:
        run: Any = SimpleNamespace(cluster=cluster, wire=cluster)
        add_partitions(run, "orders", 2)
        node = cluster.add_node()
        reassign(run, "orders", 1, node)

        assert [row.leader for row in cluster.describe_topic("orders").partitions] == [0, node]
        with pytest.raises(RuntimeError, match="partitions of orders: INVALID_PARTITIONS"):
            add_partitions(run, "orders", 1)
