"""Cases on a cluster that is not the command's own: topics and groups by the raw client, questions to the proxy."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import kwire
from kwire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kwire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from mockbroker import Cluster
from mockbroker.certify import kafka_admin
from mockbroker.certify.case import Case, ClusterPlan, Level, Source, case
from mockbroker.certify.case_broker import is_playable_on_kafka, open_kafka, refuse_used_topics
from mockbroker.certify.case_run import CaseRun
from mockbroker.certify.driver.process import DriverProcess
from mockbroker.certify.kafka_admin import KafkaAdmin, KafkaUnavailable
from mockbroker.certify.play import PlayOptions, play_case
from mockbroker.certify.verdicts import Verdict
from tests.support.certify.scripted_driver import command

#: A commit without a member, which makes a group of its own.
COMMIT = OffsetCommitRequest(
    group_id="made",
    topics=[OffsetCommitRequestTopic(name="orders", partitions=[OffsetCommitRequestPartition(0, 1)])],
)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=2, topics={"others": 1}, profile="quick") as started:
        yield started


def _make(plan: ClusterPlan, *, on_kafka: bool = True) -> Case:
    def look(run: CaseRun) -> None:
        """No fault."""
        run.produce("orders", "a", "b", partition=1)
        with kwire.Client(run.wire.bootstrap_servers, client_id="raw") as client:
            client.send(COMMIT, 7)
            partition = ListOffsetsPartition(partition_index=0, timestamp=-1)
            client.send(ListOffsetsRequest(topics=[ListOffsetsTopic(name="orders", partitions=[partition])]), 6)
        run.expect(run.wire.requests("OffsetCommit", group="made"), "the commit is recorded")
        run.expect(run.wire.requests("ListOffsets", topic="orders"), "the question by topic is answered")

    source = Source("KIP-1")
    return case("fetching.a.b", title="T", level=Level.MUST, rule="R.", source=source, cluster=plan, on_kafka=on_kafka)(
        look
    )


def test_topics_and_records_are_made_and_deleted(cluster: Cluster) -> None:
    admin = KafkaAdmin(cluster.bootstrap_servers)

    admin.create_topics({"orders": 2})
    admin.produce("orders", ["a", None], partition=1)
    assert admin.node_count() == 2
    assert admin.topic_names() == {"others", "orders"}
    assert [(each.partition, each.value) for each in cluster.read("orders")] == [(1, b"a"), (1, None)]
    admin.delete_topics(["orders", "never-there"])
    assert cluster.topics() == {"others": 1}


def test_records_wait_for_the_leader_of_a_new_partition(cluster: Cluster) -> None:
    admin = KafkaAdmin(cluster.bootstrap_servers)
    admin.create_topics({"orders": 1})
    fault = cluster.faults.add("Produce", error="NOT_LEADER_OR_FOLLOWER", times=2)
    admin.produce("orders", ["a"], partition=0)

    assert fault.hits == 2
    assert [each.value for each in cluster.read("orders")] == [b"a"]


def test_a_group_is_deleted_when_its_last_member_has_gone() -> None:
    with Cluster(topics={"orders": 1}) as cluster:
        with kwire.Client(cluster.bootstrap_servers, client_id="raw") as client:
            client.send(COMMIT, 7)
        fault = cluster.faults.add("DeleteGroups", error="NON_EMPTY_GROUP", times=2)
        admin = KafkaAdmin(cluster.bootstrap_servers)
        before = admin.groups()

        admin.delete_groups(["made", "never-there"])

        assert fault.hits == 2
        assert (before, admin.groups()) == ({"made"}, set())


def test_a_deletion_that_is_not_answered_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_admin, "_DELETION_S", 0.2)
    with Cluster(topics={"orders": 1}) as cluster:
        fault = cluster.faults.add("DeleteGroups", answer="never", times=1)

        KafkaAdmin(cluster.bootstrap_servers).delete_groups(["made"])

        assert fault.hits == 1


def test_a_group_that_cannot_be_deleted_is_named(cluster: Cluster) -> None:
    admin = KafkaAdmin(cluster.bootstrap_servers.partition(",")[0])
    cluster.faults.add("DeleteGroups", error="GROUP_AUTHORIZATION_FAILED", times=1)

    with pytest.raises(KafkaUnavailable, match="group made cannot be deleted: GROUP_AUTHORIZATION_FAILED"):
        admin.delete_groups(["made"])


def test_a_refused_topic_is_named(cluster: Cluster) -> None:
    with pytest.raises(KafkaUnavailable, match="topic others cannot be created: TOPIC_ALREADY_EXISTS"):
        KafkaAdmin(cluster.bootstrap_servers).create_topics({"others": 1})


def test_a_case_is_played_through_a_proxy_and_leaves_nothing_behind(cluster: Cluster, tmp_path: Path) -> None:
    admin = KafkaAdmin(cluster.bootstrap_servers.partition(",")[0])
    process = DriverProcess(command())
    made = _make(ClusterPlan(topics={"orders": 2}))
    options = PlayOptions(open_kafka(admin, seed=1), keep_captures=True)
    try:
        hello = process.hello()
        played = play_case(
            made, process, hello, options=options, path=tmp_path / "case", start_driver=lambda: (process, hello)
        )
    finally:
        process.kill()

    assert (played.verdict, played.seen) == (Verdict.OK, "")
    assert cluster.topics() == {"others": 1, "__consumer_offsets": cluster.topics()["__consumer_offsets"]}
    assert cluster.group("made") is None
    assert (tmp_path / "case.pcapng").stat().st_size > 0


def test_a_case_that_is_for_kafka_must_not_use_the_cluster(cluster: Cluster, tmp_path: Path) -> None:
    def wrong(run: CaseRun) -> None:
        """No fault."""
        run.cluster.move_leader("orders", 0)

    source = Source("KIP-1")
    made = case("fetching.a.b", title="T", level=Level.MUST, rule="R.", source=source, on_kafka=True)(wrong)
    admin = KafkaAdmin(cluster.bootstrap_servers.partition(",")[0])
    process = DriverProcess(command())
    try:
        hello = process.hello()
        options = PlayOptions(open_kafka(admin, seed=1), keep_captures=False)
        path = tmp_path / "case"
        played = play_case(made, process, hello, options=options, path=path, start_driver=lambda: (process, hello))
    finally:
        process.kill()

    assert played.verdict is Verdict.ERROR
    assert "case fetching.a.b uses run.cluster, and says on_kafka=True" in played.seen


@pytest.mark.parametrize(
    ("made", "is_playable"),
    [
        (_make(ClusterPlan(topics={"orders": 1})), True),
        (_make(ClusterPlan(topics={"orders": 1}), on_kafka=False), False),
        (_make(ClusterPlan(nodes=2)), True),
        (_make(ClusterPlan(nodes=3)), False),
        (_make(ClusterPlan(properties={"a": 1})), False),
    ],
)
def test_cases_that_need_only_topics_and_nodes_are_playable(made: Case, *, is_playable: bool) -> None:
    assert is_playable_on_kafka(made, 2) is is_playable


def test_topics_of_others_are_not_deleted(cluster: Cluster) -> None:
    made = _make(ClusterPlan(topics={"others": 1}))

    with pytest.raises(KafkaUnavailable, match="the cluster has the topic others, which the cases would delete"):
        refuse_used_topics(KafkaAdmin(cluster.bootstrap_servers), [made])
