"""Replicas that fall behind: min.insync.replicas, elections with and without loss, reassignments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kwire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kwire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kwire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from tests.nodes.replica_requests import (
    PREFERRED,
    UNCLEAN,
    alter_topic_config,
    append_batch,
    describe_replicas,
    elect_leaders,
    fetch_epoch_end,
    fetch_records,
    list_offset,
    produce_request,
    summarize_produce,
    wait_for_replicas,
)
from tests.nodes.scenario_client import ScenarioClient


def too_few_in_sync(client: ScenarioClient, observed: dict[str, Any]) -> None:
    """With fewer in-sync replicas than the minimum the high watermark does not advance."""
    client.create_topic("scarce", [(1, 2)])
    alter_topic_config(client, "scarce", {"min.insync.replicas": "2"})
    observed["all in sync"] = append_batch(client, 1, "scarce", b"a", 3, acks=-1)
    client.cluster.stop(2)
    observed["one in sync"] = client.wait_for_partition(0, "scarce", isr=[1])
    observed["acks all"] = append_batch(client, 1, "scarce", b"b", 1, acks=-1)
    observed["acks 1"] = append_batch(client, 1, "scarce", b"c", 2, acks=1)
    observed["read"] = fetch_records(client, 1, "scarce")
    observed["read at the high watermark"] = fetch_records(client, 1, "scarce", 3)
    observed["read beyond it"] = fetch_records(client, 1, "scarce", 4)
    observed["read at the end"] = fetch_records(client, 1, "scarce", 5)
    observed["read beyond the end"] = fetch_records(client, 1, "scarce", 6)
    observed["latest"] = list_offset(client, 1, "scarce")
    observed["largest timestamp"] = list_offset(client, 1, "scarce", -3)
    observed["epoch"] = fetch_epoch_end(client, 1, "scarce", 0)
    rows = [DeleteRecordsTopic("scarce", [DeleteRecordsPartition(0, 4)])]
    answer = client.send(1, DeleteRecordsRequest(rows, 5_000), 2)
    observed["delete beyond"] = answer.topics[0].partitions[0].error_code
    client.cluster.start(2)
    client.wait_for_partition(0, "scarce", isr=[1, 2])
    observed["read again"] = client.wait_until(lambda: fetch_records(client, 1, "scarce"), lambda row: row[1] == 5)


def a_minimum_that_is_lowered(client: ScenarioClient, observed: dict[str, Any]) -> None:
    """The high watermark advances with the next append after the minimum was lowered."""
    client.create_topic("eased", [(1, 2)])
    alter_topic_config(client, "eased", {"min.insync.replicas": "2"})
    append_batch(client, 1, "eased", b"a", 1, acks=-1)
    client.cluster.stop(2)
    client.wait_for_partition(0, "eased", isr=[1])
    observed["appended"] = append_batch(client, 1, "eased", b"b", 1, acks=1)
    alter_topic_config(client, "eased", {"min.insync.replicas": "1"})
    client.pass_time(1)
    observed["lowered"] = fetch_records(client, 1, "eased")
    observed["eligible"] = client.describe_partition(0, "eased")
    observed["acks all"] = append_batch(client, 1, "eased", b"c", 1, acks=-1)
    observed["then"] = fetch_records(client, 1, "eased")
    client.cluster.start(2)
    client.wait_for_partition(0, "eased", isr=[1, 2])


def producers_wait_for_a_dead_follower(client: ScenarioClient, observed: dict[str, Any]) -> None:
    """A follower is killed; until its session ends no record is on all in-sync replicas."""
    for topic, least in (("patient", "1"), ("strict", "2")):
        client.create_topic(topic, [(1, 2)])
        alter_topic_config(client, topic, {"min.insync.replicas": least})
        observed[f"{topic}: all in sync"] = append_batch(client, 1, topic, b"a", 1, acks=-1)
    client.cluster.kill(2)
    others = [ScenarioClient(client.cluster) for _ in range(3)]
    hasty = others[0].send_async(1, produce_request("patient", b"b", 1, acks=-1, timeout_ms=500), 12)
    patient = others[1].send_async(1, produce_request("patient", b"c", 2, acks=-1), 12)
    strict = others[2].send_async(1, produce_request("strict", b"b", 2, acks=-1), 12)
    observed["acks 1"] = append_batch(client, 1, "patient", b"d", 1, acks=1)
    observed["read"] = fetch_records(client, 1, "patient")
    observed["hasty"] = summarize_produce(hasty())
    observed["patient"] = summarize_produce(patient())
    observed["strict"] = summarize_produce(strict())
    observed["read later"] = fetch_records(client, 1, "patient")
    observed["strict: read"] = fetch_records(client, 1, "strict")
    observed["strict: acks all"] = append_batch(client, 1, "strict", b"c", 1, acks=-1)
    for other in others:
        other.close()
    client.cluster.start(2)
    client.wait_for_partition(0, "strict", isr=[1, 2])
    observed["strict: read again"] = client.wait_until(
        lambda: fetch_records(client, 1, "strict"), lambda row: row[1] == 3
    )


def an_unclean_election(client: ScenarioClient, observed: dict[str, Any]) -> None:
    """The next leader lacks the records that were written while it was down."""
    client.create_topic("unclean", [(1, 2)])
    alter_topic_config(client, "unclean", {"unclean.leader.election.enable": "true"})
    append_batch(client, 1, "unclean", b"a", 5, acks=-1)
    client.cluster.stop(2)
    client.wait_for_partition(0, "unclean", isr=[1])
    observed["alone"] = [append_batch(client, 1, "unclean", value, 2, acks=1) for value in (b"b", b"c")]
    observed["before"] = fetch_records(client, 1, "unclean")
    client.cluster.kill(1)
    observed["dead"] = client.wait_for_partition(0, "unclean", leader=-1)
    client.cluster.start(2)
    observed["elected"] = client.wait_for_partition(2, "unclean", leader=2)
    client.wait_until(lambda: fetch_records(client, 2, "unclean"), lambda row: row[0] == 0)
    observed["latest"] = list_offset(client, 2, "unclean")
    observed["read"] = fetch_records(client, 2, "unclean")
    observed["read at the end"] = fetch_records(client, 2, "unclean", 5)
    observed["read beyond"] = fetch_records(client, 2, "unclean", 7)
    for last in (0, 1, 2, 3):
        observed[f"read beyond, from epoch {last}"] = fetch_records(client, 2, "unclean", 7, epoch=2, last=last)
        observed[f"end of epoch {last}"] = fetch_epoch_end(client, 2, "unclean", last)
    observed["read with the old epoch"] = fetch_records(client, 2, "unclean", 5, epoch=0, last=0)
    observed["written"] = append_batch(client, 2, "unclean", b"d", 4, acks=-1)
    observed["ends"] = [fetch_epoch_end(client, 2, "unclean", epoch) for epoch in (0, 1, 2)]
    observed["diverging"] = fetch_records(client, 2, "unclean", 7, epoch=2, last=0)
    client.cluster.start(1)
    observed["back"] = client.wait_for_partition(2, "unclean", isr=[1, 2])
    client.cluster.move_leader("unclean", 0, 1)
    client.wait_for_partition(1, "unclean", leader=1)
    observed["at the first again"] = client.wait_until(
        lambda: fetch_records(client, 1, "unclean"), lambda row: row[:2] == [0, 9]
    )


def an_unclean_election_goes_back(client: ScenarioClient, observed: dict[str, Any]) -> None:
    """A replica without loss is elected after the other one, before it has followed: its own records are back."""
    client.create_topic("torn", [(1, 2)])
    alter_topic_config(client, "torn", {"unclean.leader.election.enable": "true"})
    append_batch(client, 1, "torn", b"a", 2, acks=-1)
    client.cluster.stop(2)
    client.wait_for_partition(0, "torn", isr=[1])
    append_batch(client, 1, "torn", b"b", 3, acks=1)
    client.cluster.stop(1)
    client.wait_for_partition(0, "torn", leader=-1)
    client.cluster.start(2)
    client.wait_for_partition(2, "torn", leader=2)
    client.wait_until(lambda: append_batch(client, 2, "torn", b"c", 2, acks=1), lambda row: row[0] == 0)
    observed["second"] = fetch_records(client, 2, "torn")
    client.cluster.stop(2)
    client.wait_for_partition(0, "torn", leader=-1)
    client.cluster.start(1)
    observed["elected"] = client.wait_for_partition(1, "torn", leader=1)
    observed["first"] = client.wait_until(lambda: fetch_records(client, 1, "torn"), lambda row: row[0] == 0)
    observed["ends"] = [fetch_epoch_end(client, 1, "torn", epoch) for epoch in range(5)]
    observed["diverging"] = fetch_records(client, 1, "torn", 4, last=2)
    client.cluster.start(2)
    client.wait_for_partition(1, "torn", isr=[1, 2])
    client.cluster.move_leader("torn", 0, 2)
    client.wait_for_partition(2, "torn", leader=2)
    observed["second again"] = client.wait_until(
        lambda: fetch_records(client, 2, "torn"), lambda row: row[:2] == [0, 5]
    )


def an_eligible_replica_leads(client: ScenarioClient, observed: dict[str, Any]) -> None:
    """Below the minimum the first replica to leave may become a clean leader: no visible record is lost (KIP-966)."""
    client.create_topic("eligible", [(1, 2)])
    alter_topic_config(client, "eligible", {"min.insync.replicas": "2"})
    append_batch(client, 1, "eligible", b"a", 3, acks=-1)
    client.pass_time(1)  # The follower learns of the high watermark by its next fetch.
    client.cluster.stop(2)
    client.wait_for_partition(0, "eligible", isr=[1])
    observed["alone"] = append_batch(client, 1, "eligible", b"b", 2, acks=1)
    client.cluster.stop(1)
    observed["none"] = client.wait_for_partition(0, "eligible", leader=-1)
    client.cluster.start(2)
    observed["elected"] = client.wait_for_partition(2, "eligible", leader=2)
    observed["read"] = client.wait_until(lambda: fetch_records(client, 2, "eligible"), lambda row: row[0] == 0)
    observed["acks all"] = append_batch(client, 2, "eligible", b"c", 1, acks=-1)
    observed["acks 1"] = append_batch(client, 2, "eligible", b"d", 1, acks=1)
    observed["held"] = fetch_records(client, 2, "eligible")
    client.cluster.start(1)
    observed["back"] = client.wait_for_partition(2, "eligible", isr=[1, 2])
    observed["read again"] = client.wait_until(lambda: fetch_records(client, 2, "eligible"), lambda row: row[1] == 4)


def a_crash_ends_eligibility(client: ScenarioClient, observed: dict[str, Any]) -> None:
    """A node that restarts after a crash is no eligible leader; without any, the last leader is elected (KIP-966)."""
    client.create_topic("crashed", [(1, 2)])
    alter_topic_config(client, "crashed", {"min.insync.replicas": "2"})
    append_batch(client, 1, "crashed", b"a", 3, acks=-1)
    client.cluster.kill(2)
    observed["one dead"] = client.wait_for_partition(0, "crashed", isr=[1])
    client.cluster.kill(1)
    observed["both dead"] = client.wait_for_partition(0, "crashed", leader=-1)
    client.cluster.start(2)
    client.wait_for_brokers(0, [0, 2])
    client.pass_time(1)
    observed["second back"] = client.describe_partition(0, "crashed")
    client.cluster.start(1)
    observed["both back"] = client.wait_for_partition(0, "crashed", isr=[1, 2])
    observed["read"] = client.wait_until(lambda: fetch_records(client, 1, "crashed"), lambda row: row[:2] == [0, 3])


def leaders_are_elected_by_request(client: ScenarioClient, observed: dict[str, Any]) -> None:
    """ElectLeaders: the preferred replica, and without a leader any live one."""
    client.delete_topic("asked")
    client.create_topic("elected", [(1, 2), (2, 1)])
    client.create_topic("lone", [(1,)])
    client.cluster.stop(1)
    client.wait_for_partition(0, "elected", leader=2)
    wanted = {"elected": (0, 1, 7), "lone": (0,), "nowhere": (0,)}
    observed["preferred, while it is down"] = elect_leaders(client, 0, PREFERRED, wanted)
    observed["unclean, while it is down"] = elect_leaders(client, 0, UNCLEAN, wanted)
    observed["any, while it is down"] = elect_leaders(client, 0, PREFERRED, None)
    client.cluster.start(1)
    client.wait_for_partition(0, "elected", 0, isr=[1, 2])
    client.wait_for_partition(0, "elected", 1, isr=[1, 2])
    observed["version 0"] = elect_leaders(client, 0, PREFERRED, wanted, version=0)
    observed["version 1"] = elect_leaders(client, 0, PREFERRED, wanted, version=1)
    observed["unclean"] = elect_leaders(client, 0, UNCLEAN, wanted)
    observed["unknown type"] = elect_leaders(client, 0, 7, wanted)
    observed["all"] = elect_leaders(client, 0, PREFERRED, None)
    observed["leads"] = describe_replicas(client, 0, "elected")
    observed["nothing"] = elect_leaders(client, 0, PREFERRED, {})


def an_unclean_election_by_request(client: ScenarioClient, observed: dict[str, Any]) -> None:
    """An admin may elect an unclean leader even if the configuration forbids it."""
    client.create_topic("asked", [(1, 2)])
    append_batch(client, 1, "asked", b"a", 2, acks=-1)
    client.cluster.stop(2)
    client.wait_for_partition(0, "asked", isr=[1])
    append_batch(client, 1, "asked", b"b", 2, acks=1)
    client.cluster.stop(1)
    client.wait_for_partition(0, "asked", leader=-1)
    observed["nobody lives"] = elect_leaders(client, 0, UNCLEAN, {"asked": (0,)})
    client.cluster.start(2)
    client.wait_for_brokers(0, [0, 2])
    client.pass_time(1)
    observed["nobody leads"] = client.describe_partition(0, "asked")
    observed["preferred"] = elect_leaders(client, 0, PREFERRED, {"asked": (0,)})
    observed["unclean"] = elect_leaders(client, 0, UNCLEAN, {"asked": (0,)})
    observed["elected"] = client.wait_for_partition(2, "asked", leader=2)
    observed["read"] = client.wait_until(lambda: fetch_records(client, 2, "asked"), lambda row: row[0] == 0)
    client.cluster.start(1)
    client.wait_for_partition(0, "asked", isr=[1, 2])


def alter_reassignments(
    client: ScenarioClient,
    rows: Mapping[str, Mapping[int, tuple[int, ...] | None]],
    *,
    version: int = 1,
    allow: bool = True,
) -> Any:
    """AlterPartitionReassignments: the code at the top, and those of the rows."""
    topics = [
        ReassignableTopic(topic, [ReassignablePartition(index, to) for index, to in partitions.items()])
        for topic, partitions in rows.items()
    ]
    request = AlterPartitionReassignmentsRequest(10_000, allow_replication_factor_change=allow, topics=topics)
    answer = client.send(0, request, version)
    codes = {
        f"{topic.name}-{row.partition_index}": row.error_code for topic in answer.responses for row in topic.partitions
    }
    return [answer.error_code, codes]


def list_reassignments(client: ScenarioClient, wanted: Mapping[str, tuple[int, ...]] | None) -> Any:
    """ListPartitionReassignments: the ongoing ones."""
    topics = None if wanted is None else [ListPartitionReassignmentsTopics(*one) for one in wanted.items()]
    answer = client.send(0, ListPartitionReassignmentsRequest(10_000, topics))
    return [
        answer.error_code,
        {
            f"{topic.name}-{row.partition_index}": [
                list(row.replicas),
                list(row.adding_replicas),
                list(row.removing_replicas),
            ]
            for topic in answer.topics
            for row in topic.partitions
        },
    ]


def replicas_are_reassigned(client: ScenarioClient, observed: dict[str, Any]) -> None:
    """Replicas are added and removed; a reassignment to a stopped node waits for it, and can be cancelled."""
    client.create_topic("spread", [(1, 2), (1, 2)])
    append_batch(client, 1, "spread", b"a", 3, acks=-1)
    observed["refused"] = alter_reassignments(client, {"spread": {0: (), 1: (1, 1), 5: (1, 2)}, "nowhere": {0: (1,)}})
    observed["refused more"] = alter_reassignments(client, {"spread": {0: (1, 8), 1: None}})
    observed["no other factor"] = alter_reassignments(client, {"spread": {0: (0, 1, 2)}}, allow=False)
    observed["version 0"] = alter_reassignments(client, {"spread": {0: (2, 1)}}, version=0)
    observed["another order"] = wait_for_replicas(client, 0, "spread", replicas=[2, 1])
    observed["one more"] = alter_reassignments(client, {"spread": {0: (1, 2, 0)}})
    observed["three"] = wait_for_replicas(client, 0, "spread", isr=[0, 1, 2])
    observed["leader goes"] = alter_reassignments(client, {"spread": {0: (0, 2)}})
    observed["moved"] = wait_for_replicas(client, 0, "spread", replicas=[0, 2])
    observed["read"] = client.wait_until(lambda: fetch_records(client, 0, "spread"), lambda row: row[:2] == [0, 3])
    observed["under way"] = list_reassignments(client, None)
    client.cluster.stop(1)
    client.wait_for_brokers(0, [0, 2])
    observed["to a dead node"] = alter_reassignments(client, {"spread": {0: (1, 2)}})
    observed["waits"] = client.wait_until(
        lambda: describe_replicas(client, 0, "spread"), lambda row: len(row["replicas"]) == 3
    )
    observed["waits: eligible"] = client.describe_partition(0, "spread")
    observed["listed"] = list_reassignments(client, None)
    observed["listed by name"] = list_reassignments(client, {"spread": (0, 1, 9), "nowhere": (0,)})
    observed["cancelled"] = alter_reassignments(client, {"spread": {0: None}})
    observed["as before"] = client.wait_until(
        lambda: describe_replicas(client, 0, "spread"), lambda row: len(row["replicas"]) == 2
    )
    observed["again"] = alter_reassignments(client, {"spread": {0: (1, 2)}})
    client.wait_until(lambda: describe_replicas(client, 0, "spread"), lambda row: len(row["replicas"]) == 3)
    observed["another target"] = alter_reassignments(client, {"spread": {0: (2, 1)}})
    observed["listed again"] = client.wait_until(lambda: list_reassignments(client, None), lambda row: row[1] != {})
    client.cluster.start(1)
    observed["done"] = wait_for_replicas(client, 0, "spread", replicas=[2, 1])
    observed["nothing is under way"] = list_reassignments(client, None)


SCENARIOS = (
    too_few_in_sync,
    a_minimum_that_is_lowered,
    producers_wait_for_a_dead_follower,
    an_unclean_election,
    an_unclean_election_goes_back,
    an_eligible_replica_leads,
    a_crash_ends_eligibility,
    leaders_are_elected_by_request,
    an_unclean_election_by_request,
    replicas_are_reassigned,
)
