"""Lines about changes of the cluster, which traffic at a real cluster causes."""

from __future__ import annotations

import logging
import re
from typing import Any

import pytest

from kwire import Client
from kwire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kwire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kwire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kwire.messages.delete_groups import DeleteGroupsRequest
from kwire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kwire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from mockbroker import Cluster
from mockbroker.server import Server
from mockbroker.state.metadata.topics import CoordinatorKind
from tests.support.brokers.group_requests import commit, join, share, sync
from tests.support.brokers.streams_requests import beat

_REPLICATED = {"default.replication.factor": 2, "offsets.topic.num.partitions": 2}


@pytest.fixture(autouse=True)
def _info(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "mockbroker")


def _messages(caplog: pytest.LogCaptureFixture, *subjects: str) -> list[str]:
    names = {f"mockbroker.{subject}" for subject in subjects}
    return [record.getMessage() for record in caplog.records if record.name in names]


def _fields(caplog: pytest.LogCaptureFixture, subject: str) -> list[dict[str, Any]]:
    return [vars(record)["fields"] for record in caplog.records if record.name == f"mockbroker.{subject}"]


def test_start_listeners_and_end_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    with Cluster(nodes=2, topics={"orders": 3}, advertised="broker.example:19092") as cluster:
        cluster_id = cluster.run(lambda server: server.core.state.cluster_id)
        ports = cluster.run(
            lambda server: [server.require_started().require_listeners().ports(node)[0] for node in (0, 1)]
        )

    assert _messages(caplog, "server", "topics") == [
        f"cluster {cluster_id} started: nodes 2, Kafka 4.4",
        f"node 0 listens on PLAINTEXT://127.0.0.1:{ports[0]}, advertised as broker.example:19092",
        f"node 1 listens on PLAINTEXT://127.0.0.1:{ports[1]}, advertised as broker.example:19093",
        "topic orders was made: partitions 3, replicas 1",
        f"cluster {cluster_id} ended: nodes 2, Kafka 4.4",
    ]


def test_a_topic_that_is_made_extended_and_deleted_has_three_lines(caplog: pytest.LogCaptureFixture) -> None:
    with Cluster() as cluster, Client(cluster.bootstrap_servers) as client:
        client.send(CreateTopicsRequest(topics=[CreatableTopic("a", 1, 1)], timeout_ms=1000))
        client.send(CreatePartitionsRequest(topics=[CreatePartitionsTopic("a", 3, None)], timeout_ms=1000))
        client.send(DeleteTopicsRequest(topics=[DeleteTopicState("a")], timeout_ms=1000))

    assert _messages(caplog, "topics", "leaders") == [
        "topic a was made: partitions 1, replicas 1",
        "topic a got partitions: 3 now",
        "topic a was deleted",
    ]
    made, _, deleted = _fields(caplog, "topics")
    assert made["topic_id"] == deleted["topic_id"]


def test_partitions_that_move_together_are_one_line(caplog: pytest.LogCaptureFixture) -> None:
    with Cluster(nodes=2, topics={"orders": 4}, properties=_REPLICATED, seed=1) as cluster:
        cluster.move_leader("orders", 0, to=1)
        cluster.move_leader("orders", 0, to=0)
        cluster.stop_node(1)
        cluster.start_node(1)

    moved, back, stopped = _fields(caplog, "leaders")
    lines = _messages(caplog, "leaders")
    assert lines[:2] == [
        "leader of orders [0] moved from node 0 to node 1",
        "leader of orders [0] moved from node 1 to node 0",
    ]
    assert moved == {"topic": "orders", "partitions": [0], "partition_count": 1, "from_node": 0, "to_node": 1}
    assert (back["from_node"], back["to_node"]) == (1, 0)
    assert (stopped["from_node"], stopped["to_node"]) == (1, 0)
    assert stopped["partition_count"] == len(stopped["partitions"]) == 2
    assert _messages(caplog, "nodes") == ["node 1 has ended", "node 1 has started again"]


def test_a_partition_without_a_leader_and_its_new_one_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    with Cluster(nodes=2, topics={"orders": 2}) as cluster:
        cluster.stop_node(1)
        cluster.start_node(1)
    lost, found = _messages(caplog, "leaders")

    assert re.fullmatch(r"leader of orders \[[01]\] was node 1; there is none any more", lost)
    assert re.fullmatch(r"leader of orders \[[01]\] is node 1; there was none", found)


def test_nodes_that_are_killed_paused_and_added_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    with Cluster(nodes=2) as cluster:
        cluster.pause_node(0)
        cluster.resume_node(0)
        cluster.kill_node(1)
        cluster.clock.advance(60_000)
        cluster.add_node()

    assert _messages(caplog, "nodes") == [
        "node 0 is paused",
        "node 0 goes on",
        "node 1 has ended",
        "node 1 is fenced, as its session has expired",
        "node 2 was added",
    ]
    assert [line for line in _messages(caplog, "server") if line.startswith("node 2 listens on ")]


def test_a_classic_group_is_logged_from_the_first_member_to_its_end(caplog: pytest.LogCaptureFixture) -> None:
    with (
        Cluster(topics={"T": 1}, profile="quick") as cluster,
        Client(cluster.bootstrap_servers, client_id="one") as client,
    ):
        first = client.send(join(), 3)
        client.send(sync(first.member_id, 1, assigned={first.member_id: b""}), 3)
        client.send(LeaveGroupRequest("g", members=[MemberIdentity(first.member_id)]))
        client.send(DeleteGroupsRequest(groups_names=("g",)))

    member = f"group 'g': member '{first.member_id}' of client 'one' at 127.0.0.1"
    assert _messages(caplog, "groups") == [
        f"{member} joined",
        "group 'g' has rebalanced: classic, epoch 1, members 1",
        f"{member} left",
        "group 'g' has rebalanced: classic, epoch 2, members 0",
        "group 'g' was deleted",
    ]


def test_two_members_of_a_consumer_group_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    with Cluster(topics={"T": 2}, profile="quick") as cluster, Client(cluster.bootstrap_servers) as client:
        for member in ("m1", "m2"):
            client.send(ConsumerGroupHeartbeatRequest("g", member, 0, None, None, 9000, ("T",), None, None, []))
        client.send(ConsumerGroupHeartbeatRequest("g", "m1", -1))
        client.send(ConsumerGroupHeartbeatRequest("g", "m2", 3))

    who = "of client 'kwire' at 127.0.0.1"
    assert _messages(caplog, "groups") == [
        f"group 'g': member 'm1' {who} joined",
        "group 'g' has rebalanced: consumer, epoch 2, members 1",
        f"group 'g': member 'm2' {who} joined",
        "group 'g' has rebalanced: consumer, epoch 3, members 2",
        f"group 'g': member 'm1' {who} left",
        "group 'g' has rebalanced: consumer, epoch 4, members 1",
    ]


@pytest.mark.parametrize(
    ("kind", "request_of"), [("share", lambda: share(0, "T", member="m")), ("streams", lambda: beat("m", 0))]
)
def test_the_first_member_of_a_group_of_another_kind_is_logged(
    kind: str, request_of: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with Cluster(topics={"T": 2}, profile="quick") as cluster, Client(cluster.bootstrap_servers) as client:
        client.send(request_of())

    joined, rebalanced = _fields(caplog, "groups")
    assert (joined["group"], joined["member"], joined["group_type"]) == ("g", "m", kind)
    assert (rebalanced["member_count"], rebalanced["group_type"]) == (1, kind)


def test_a_member_whose_session_ends_without_a_request_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with Cluster(topics={"T": 2}, profile="quick") as cluster, Client(cluster.bootstrap_servers) as client:
        client.send(share(0, "T", member="m"))
        cluster.clock.advance(600_000)

    assert _messages(caplog, "groups")[-2].endswith("member 'm' of client 'kwire' at 127.0.0.1 left")


def test_offsets_alone_are_no_change_of_a_group(caplog: pytest.LogCaptureFixture) -> None:
    with Cluster(topics={"T": 1}) as cluster, Client(cluster.bootstrap_servers) as client:
        assert client.send(commit(1), 9).topics[0].partitions[0].error_code == 0

    assert _messages(caplog, "groups") == []


def test_members_of_a_group_that_another_node_coordinates_now_have_no_line(caplog: pytest.LogCaptureFixture) -> None:
    with Cluster(nodes=2, topics={"T": 2}, properties=_REPLICATED, profile="quick") as cluster:
        coordinator = cluster.run(lambda server: server.core.state.metadata.coordinator_id(CoordinatorKind.GROUP, "g"))
        addresses = cluster.bootstrap_servers.split(",")
        with Client(addresses[coordinator]) as client:
            epoch = client.send(share(0, "T", member="m")).member_epoch
        cluster.clock.now_ms()  # The event has ended, after which its lines are logged.
        before = len(_messages(caplog, "groups"))
        cluster.stop_node(coordinator)
        with Client(addresses[1 - coordinator]) as client:
            assert client.send(share(epoch, member="m")).error_code == 0

    assert before == 2
    assert not [line for line in _messages(caplog, "groups")[2:] if "rebalanced" not in line]


def test_a_group_that_flaps_is_limited_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    with Cluster(topics={"T": 1}, profile="quick") as cluster, Client(cluster.bootstrap_servers) as client:
        for _ in range(40):
            client.send(share(0, "T", member="m"))
            client.send(share(-1, member="m"))

    joined = [line for line in _messages(caplog, "groups") if line.endswith(" joined")]
    counts = [line for line in joined if " more like this in " in line]
    assert len(joined) - len(counts) >= 10
    assert sum(int(line.split(" ")[0]) for line in counts) + len(joined) - len(counts) == 40
    assert counts or len(joined) == 40


def test_after_a_reset_the_lines_are_those_of_the_new_cluster(caplog: pytest.LogCaptureFixture) -> None:
    with Cluster(topics={"orders": 1}) as cluster:
        cluster.create_topic("a")
        cluster.reset()
        cluster.create_topic("a")

    assert _messages(caplog, "topics") == [
        "topic orders was made: partitions 1, replicas 1",
        "topic a was made: partitions 1, replicas 1",
        "topic orders was made: partitions 1, replicas 1",
        "topic a was made: partitions 1, replicas 1",
    ]


def test_nothing_is_collected_while_its_lines_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "mockbroker")
    with Cluster() as cluster:
        cluster.create_topic("orders", 1)
        assert _collected(cluster) == 0
        caplog.set_level(logging.INFO, "mockbroker")
        cluster.create_topic("later", 1)

    assert _messages(caplog, "topics") == ["topic later was made: partitions 1, replicas 1"]


def _collected(cluster: Cluster) -> int:
    def count(server: Server) -> int:
        log = server._cluster_log
        return len(log._topics) + len(log._leaders)

    return cluster.run(count)
