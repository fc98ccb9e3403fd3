"""The report on groups of real clients, of all three kinds, agrees with the broker's own journal."""

from __future__ import annotations

from collections import defaultdict
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from confluent_kafka import Consumer, ShareConsumer

from kwire.report import tables
from kwire.report.levels import read_levels
from mockbroker import Cluster
from mockbroker.journal import Exchange
from tests.clients.fast_share_groups import FAST_SHARE_GROUPS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.client]

TOPIC = "orders"
HEARTBEATS = ("ConsumerGroupHeartbeat", "ShareGroupHeartbeat")


class Group(NamedTuple):
    """Members by id, their epochs or generations, and how many of them sent a leave."""

    members: frozenset[str]
    epochs: frozenset[int]
    left: int


def consumer(cluster: Cluster, group: str, protocol: str) -> Consumer:
    config = {"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0, "auto.offset.reset": "earliest"}
    made = Consumer({**config, "group.id": group, "group.protocol": protocol})
    made.subscribe([TOPIC])
    return made


def work(cluster: Cluster) -> None:
    """Two members of each group join one after the other; the first one leaves first."""
    with ExitStack() as stack:
        for protocol in ("classic", "consumer"):
            members: list[Consumer] = []
            for _ in range(2):
                members.append(stack.enter_context(closing(consumer(cluster, f"{protocol}-group", protocol))))
                while not all(member.assignment() for member in members):
                    for member in members:
                        member.poll(0.1)
        config = {"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0, "group.id": "share-group"}
        for _ in range(2):
            sharer = stack.enter_context(closing(ShareConsumer(config)))
            sharer.subscribe([TOPIC])
            for _ in range(10):
                sharer.poll(0.1)


def groups_of(journal: list[Exchange]) -> dict[str, Group]:
    """The values in requests and responses."""
    members: dict[str, set[str]] = defaultdict(set)
    epochs: dict[str, set[int]] = defaultdict(set)
    left: dict[str, int] = defaultdict(int)
    for each in journal:
        request: Any = each.request
        response: Any = each.response
        if each.api_name == "LeaveGroup":
            left[request.group_id] += 1
        elif each.api_name in ("SyncGroup", "Heartbeat", *HEARTBEATS) and response is not None:
            members[request.group_id].add(request.member_id)
            if getattr(request, "member_epoch", 0) < 0:
                left[request.group_id] += 1
            elif not response.error_code:
                is_new = each.api_name in HEARTBEATS
                epochs[request.group_id].add(response.member_epoch if is_new else request.generation_id)
    return {name: Group(frozenset(members[name]), frozenset(epochs[name]), left[name]) for name in members}


def test_members_epochs_and_departures_are_those_of_the_journal(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "groups.pcapng"
    properties = {**FAST_SHARE_GROUPS, "group.initial.rebalance.delay.ms": 0, "group.share.assignment.interval.ms": 0}
    with Cluster(topics={TOPIC: 4}, properties=properties, capture=path) as cluster:
        work(cluster)
        expected = groups_of(cluster.exchanges())
    levels = read_levels(spark, [str(path)], {})
    made = tables.build_tables(levels, start_us=0, step_us=1_000_000_000_000, has_shares=True)
    found = {row["group_id"]: row for row in made["rebalances"].collect()}
    steps = made["membership"].collect()

    kinds = {"classic-group": "Classic", "consumer-group": "Consumer", "share-group": "Share"}
    assert {name: row["kind"] for name, row in found.items()} == kinds
    for name, group in expected.items():
        mine = [row for row in steps if row["group_id"] == name and row["state"] == "member"]
        assert {row["member_id"] for row in mine} == group.members
        assert {row["epoch"] for row in mine} == group.epochs
        assert (found[name]["epochs"], found[name]["left"]) == (len(group.epochs), group.left)
        assert len(group.members) == group.left == 2
