"""Replicas that fall behind: the minimum of those in sync, elections with and without loss, reassignments."""

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
from tests.nodes.replica_kit import (
    PREFERRED,
    UNCLEAN,
    append,
    configure,
    elect,
    epoch_end,
    fetched,
    listed,
    produce_request,
    produced,
    replicas,
)
from tests.nodes.teller import Teller


def too_few_in_sync(teller: Teller, seen: dict[str, Any]) -> None:
    """With fewer replicas in sync than the minimum the high watermark stands still."""
    teller.create("scarce", [(1, 2)])
    configure(teller, "scarce", {"min.insync.replicas": "2"})
    seen["all in sync"] = append(teller, 1, "scarce", b"a", 3, acks=-1)
    teller.venue.stop(2)
    seen["one in sync"] = teller.until(lambda: teller.partition(0, "scarce"), lambda row: row["isr"] == [1])
    seen["acks all"] = append(teller, 1, "scarce", b"b", 1, acks=-1)
    seen["acks 1"] = append(teller, 1, "scarce", b"c", 2, acks=1)
    seen["read"] = fetched(teller, 1, "scarce")
    seen["read at the high watermark"] = fetched(teller, 1, "scarce", 3)
    seen["read beyond it"] = fetched(teller, 1, "scarce", 4)
    seen["read at the end"] = fetched(teller, 1, "scarce", 5)
    seen["read beyond the end"] = fetched(teller, 1, "scarce", 6)
    seen["latest"] = listed(teller, 1, "scarce")
    seen["largest timestamp"] = listed(teller, 1, "scarce", -3)
    seen["epoch"] = epoch_end(teller, 1, "scarce", 0)
    rows = [DeleteRecordsTopic("scarce", [DeleteRecordsPartition(0, 4)])]
    answer = teller.ask(1, DeleteRecordsRequest(rows, 5_000), 2)
    seen["delete beyond"] = answer.topics[0].partitions[0].error_code
    teller.venue.start(2)
    teller.until(lambda: teller.partition(0, "scarce"), lambda row: row["isr"] == [1, 2])
    seen["read again"] = teller.until(lambda: fetched(teller, 1, "scarce"), lambda row: row[1] == 5)


def a_minimum_that_is_lowered(teller: Teller, seen: dict[str, Any]) -> None:
    """The high watermark goes on with the next append after the minimum was lowered."""
    teller.create("eased", [(1, 2)])
    configure(teller, "eased", {"min.insync.replicas": "2"})
    append(teller, 1, "eased", b"a", 1, acks=-1)
    teller.venue.stop(2)
    teller.until(lambda: teller.partition(0, "eased"), lambda row: row["isr"] == [1])
    seen["appended"] = append(teller, 1, "eased", b"b", 1, acks=1)
    configure(teller, "eased", {"min.insync.replicas": "1"})
    teller.let_pass(1)
    seen["lowered"] = fetched(teller, 1, "eased")
    seen["eligible"] = teller.partition(0, "eased")
    seen["acks all"] = append(teller, 1, "eased", b"c", 1, acks=-1)
    seen["then"] = fetched(teller, 1, "eased")
    teller.venue.start(2)
    teller.until(lambda: teller.partition(0, "eased"), lambda row: row["isr"] == [1, 2])


def producers_wait_for_a_dead_follower(teller: Teller, seen: dict[str, Any]) -> None:
    """A follower dies, and until its session ends nothing is on all replicas that count as in sync."""
    for topic, least in (("patient", "1"), ("strict", "2")):
        teller.create(topic, [(1, 2)])
        configure(teller, topic, {"min.insync.replicas": least})
        seen[f"{topic}: all in sync"] = append(teller, 1, topic, b"a", 1, acks=-1)
    teller.venue.kill(2)
    others = [Teller(teller.venue) for _ in range(3)]
    hasty = others[0].later(1, produce_request("patient", b"b", 1, acks=-1, timeout_ms=500), 12)
    patient = others[1].later(1, produce_request("patient", b"c", 2, acks=-1), 12)
    strict = others[2].later(1, produce_request("strict", b"b", 2, acks=-1), 12)
    seen["acks 1"] = append(teller, 1, "patient", b"d", 1, acks=1)
    seen["read"] = fetched(teller, 1, "patient")
    seen["hasty"] = produced(hasty())
    seen["patient"] = produced(patient())
    seen["strict"] = produced(strict())
    seen["read later"] = fetched(teller, 1, "patient")
    seen["strict: read"] = fetched(teller, 1, "strict")
    seen["strict: acks all"] = append(teller, 1, "strict", b"c", 1, acks=-1)
    for other in others:
        other.hang_up()
    teller.venue.start(2)
    teller.until(lambda: teller.partition(0, "strict"), lambda row: row["isr"] == [1, 2])
    seen["strict: read again"] = teller.until(lambda: fetched(teller, 1, "strict"), lambda row: row[1] == 3)


def an_unclean_election(teller: Teller, seen: dict[str, Any]) -> None:
    """Who takes over lacks what was written while it was down."""
    teller.create("unclean", [(1, 2)])
    configure(teller, "unclean", {"unclean.leader.election.enable": "true"})
    append(teller, 1, "unclean", b"a", 5, acks=-1)
    teller.venue.stop(2)
    teller.until(lambda: teller.partition(0, "unclean"), lambda row: row["isr"] == [1])
    seen["alone"] = [append(teller, 1, "unclean", value, 2, acks=1) for value in (b"b", b"c")]
    seen["before"] = fetched(teller, 1, "unclean")
    teller.venue.kill(1)
    seen["dead"] = teller.until(lambda: teller.partition(0, "unclean"), lambda row: row["leader"] == -1)
    teller.venue.start(2)
    seen["elected"] = teller.until(lambda: teller.partition(2, "unclean"), lambda row: row["leader"] == 2)
    teller.until(lambda: fetched(teller, 2, "unclean"), lambda row: row[0] == 0)
    seen["latest"] = listed(teller, 2, "unclean")
    seen["read"] = fetched(teller, 2, "unclean")
    seen["read at the end"] = fetched(teller, 2, "unclean", 5)
    seen["read beyond"] = fetched(teller, 2, "unclean", 7)
    for last in (0, 1, 2, 3):
        seen[f"read beyond, from epoch {last}"] = fetched(teller, 2, "unclean", 7, epoch=2, last=last)
        seen[f"end of epoch {last}"] = epoch_end(teller, 2, "unclean", last)
    seen["read with the old epoch"] = fetched(teller, 2, "unclean", 5, epoch=0, last=0)
    seen["written"] = append(teller, 2, "unclean", b"d", 4, acks=-1)
    seen["ends"] = [epoch_end(teller, 2, "unclean", epoch) for epoch in (0, 1, 2)]
    seen["diverging"] = fetched(teller, 2, "unclean", 7, epoch=2, last=0)
    teller.venue.start(1)
    seen["back"] = teller.until(lambda: teller.partition(2, "unclean"), lambda row: row["isr"] == [1, 2])
    teller.venue.move("unclean", 0, 1)
    teller.until(lambda: teller.partition(1, "unclean"), lambda row: row["leader"] == 1)
    seen["at the first again"] = teller.until(lambda: fetched(teller, 1, "unclean"), lambda row: row[:2] == [0, 9])


def an_unclean_election_goes_back(teller: Teller, seen: dict[str, Any]) -> None:
    """The one that had lost nothing is elected after the other, before it has followed: its own records are back."""
    teller.create("torn", [(1, 2)])
    configure(teller, "torn", {"unclean.leader.election.enable": "true"})
    append(teller, 1, "torn", b"a", 2, acks=-1)
    teller.venue.stop(2)
    teller.until(lambda: teller.partition(0, "torn"), lambda row: row["isr"] == [1])
    append(teller, 1, "torn", b"b", 3, acks=1)
    teller.venue.stop(1)
    teller.until(lambda: teller.partition(0, "torn"), lambda row: row["leader"] == -1)
    teller.venue.start(2)
    teller.until(lambda: teller.partition(2, "torn"), lambda row: row["leader"] == 2)
    teller.until(lambda: append(teller, 2, "torn", b"c", 2, acks=1), lambda row: row[0] == 0)
    seen["second"] = fetched(teller, 2, "torn")
    teller.venue.stop(2)
    teller.until(lambda: teller.partition(0, "torn"), lambda row: row["leader"] == -1)
    teller.venue.start(1)
    seen["elected"] = teller.until(lambda: teller.partition(1, "torn"), lambda row: row["leader"] == 1)
    seen["first"] = teller.until(lambda: fetched(teller, 1, "torn"), lambda row: row[0] == 0)
    seen["ends"] = [epoch_end(teller, 1, "torn", epoch) for epoch in range(5)]
    seen["diverging"] = fetched(teller, 1, "torn", 4, last=2)
    teller.venue.start(2)
    teller.until(lambda: teller.partition(1, "torn"), lambda row: row["isr"] == [1, 2])
    teller.venue.move("torn", 0, 2)
    teller.until(lambda: teller.partition(2, "torn"), lambda row: row["leader"] == 2)
    seen["second again"] = teller.until(lambda: fetched(teller, 2, "torn"), lambda row: row[:2] == [0, 5])


def an_eligible_replica_leads(teller: Teller, seen: dict[str, Any]) -> None:
    """Below the minimum the one that left first may lead cleanly: nothing that anybody has seen is lost (KIP-966)."""
    teller.create("eligible", [(1, 2)])
    configure(teller, "eligible", {"min.insync.replicas": "2"})
    append(teller, 1, "eligible", b"a", 3, acks=-1)
    teller.let_pass(1)  # The follower learns of the high watermark by its next fetch.
    teller.venue.stop(2)
    teller.until(lambda: teller.partition(0, "eligible"), lambda row: row["isr"] == [1])
    seen["alone"] = append(teller, 1, "eligible", b"b", 2, acks=1)
    teller.venue.stop(1)
    seen["none"] = teller.until(lambda: teller.partition(0, "eligible"), lambda row: row["leader"] == -1)
    teller.venue.start(2)
    seen["elected"] = teller.until(lambda: teller.partition(2, "eligible"), lambda row: row["leader"] == 2)
    seen["read"] = teller.until(lambda: fetched(teller, 2, "eligible"), lambda row: row[0] == 0)
    seen["acks all"] = append(teller, 2, "eligible", b"c", 1, acks=-1)
    seen["acks 1"] = append(teller, 2, "eligible", b"d", 1, acks=1)
    seen["held"] = fetched(teller, 2, "eligible")
    teller.venue.start(1)
    seen["back"] = teller.until(lambda: teller.partition(2, "eligible"), lambda row: row["isr"] == [1, 2])
    seen["read again"] = teller.until(lambda: fetched(teller, 2, "eligible"), lambda row: row[1] == 4)


def a_crash_ends_eligibility(teller: Teller, seen: dict[str, Any]) -> None:
    """A node that comes back after a crash is no eligible leader; of none, the last leader may lead (KIP-966)."""
    teller.create("crashed", [(1, 2)])
    configure(teller, "crashed", {"min.insync.replicas": "2"})
    append(teller, 1, "crashed", b"a", 3, acks=-1)
    teller.venue.kill(2)
    seen["one dead"] = teller.until(lambda: teller.partition(0, "crashed"), lambda row: row["isr"] == [1])
    teller.venue.kill(1)
    seen["both dead"] = teller.until(lambda: teller.partition(0, "crashed"), lambda row: row["leader"] == -1)
    teller.venue.start(2)
    teller.until(lambda: teller.brokers(0), lambda brokers: brokers == [0, 2])
    teller.let_pass(1)
    seen["second back"] = teller.partition(0, "crashed")
    teller.venue.start(1)
    seen["both back"] = teller.until(lambda: teller.partition(0, "crashed"), lambda row: row["isr"] == [1, 2])
    seen["read"] = teller.until(lambda: fetched(teller, 1, "crashed"), lambda row: row[:2] == [0, 3])


def leaders_are_elected_by_request(teller: Teller, seen: dict[str, Any]) -> None:
    """ElectLeaders: the preferred replica, and where nobody leads, any that lives."""
    teller.forget("asked")
    teller.create("elected", [(1, 2), (2, 1)])
    teller.create("lone", [(1,)])
    teller.venue.stop(1)
    teller.until(lambda: teller.partition(0, "elected"), lambda row: row["leader"] == 2)
    wanted = {"elected": (0, 1, 7), "lone": (0,), "nowhere": (0,)}
    seen["preferred, while it is down"] = elect(teller, 0, PREFERRED, wanted)
    seen["unclean, while it is down"] = elect(teller, 0, UNCLEAN, wanted)
    seen["any, while it is down"] = elect(teller, 0, PREFERRED, None)
    teller.venue.start(1)
    teller.until(lambda: teller.partition(0, "elected", 0), lambda row: row["isr"] == [1, 2])
    teller.until(lambda: teller.partition(0, "elected", 1), lambda row: row["isr"] == [1, 2])
    seen["version 0"] = elect(teller, 0, PREFERRED, wanted, version=0)
    seen["version 1"] = elect(teller, 0, PREFERRED, wanted, version=1)
    seen["unclean"] = elect(teller, 0, UNCLEAN, wanted)
    seen["unknown type"] = elect(teller, 0, 7, wanted)
    seen["all"] = elect(teller, 0, PREFERRED, None)
    seen["leads"] = replicas(teller, 0, "elected")
    seen["nothing"] = elect(teller, 0, PREFERRED, {})


def an_unclean_election_by_request(teller: Teller, seen: dict[str, Any]) -> None:
    """Where the configuration forbids it an admin may still have it."""
    teller.create("asked", [(1, 2)])
    append(teller, 1, "asked", b"a", 2, acks=-1)
    teller.venue.stop(2)
    teller.until(lambda: teller.partition(0, "asked"), lambda row: row["isr"] == [1])
    append(teller, 1, "asked", b"b", 2, acks=1)
    teller.venue.stop(1)
    teller.until(lambda: teller.partition(0, "asked"), lambda row: row["leader"] == -1)
    seen["nobody lives"] = elect(teller, 0, UNCLEAN, {"asked": (0,)})
    teller.venue.start(2)
    teller.until(lambda: teller.brokers(0), lambda brokers: brokers == [0, 2])
    teller.let_pass(1)
    seen["nobody leads"] = teller.partition(0, "asked")
    seen["preferred"] = elect(teller, 0, PREFERRED, {"asked": (0,)})
    seen["unclean"] = elect(teller, 0, UNCLEAN, {"asked": (0,)})
    seen["elected"] = teller.until(lambda: teller.partition(2, "asked"), lambda row: row["leader"] == 2)
    seen["read"] = teller.until(lambda: fetched(teller, 2, "asked"), lambda row: row[0] == 0)
    teller.venue.start(1)
    teller.until(lambda: teller.partition(0, "asked"), lambda row: row["isr"] == [1, 2])


def reassign(
    teller: Teller, rows: Mapping[str, Mapping[int, tuple[int, ...] | None]], *, version: int = 1, allow: bool = True
) -> Any:
    """AlterPartitionReassignments: the code at the top, and those of the rows."""
    topics = [
        ReassignableTopic(topic, [ReassignablePartition(index, to) for index, to in partitions.items()])
        for topic, partitions in rows.items()
    ]
    request = AlterPartitionReassignmentsRequest(10_000, allow_replication_factor_change=allow, topics=topics)
    answer = teller.ask(0, request, version)
    codes = {
        f"{topic.name}-{row.partition_index}": row.error_code for topic in answer.responses for row in topic.partitions
    }
    return [answer.error_code, codes]


def reassignments(teller: Teller, wanted: Mapping[str, tuple[int, ...]] | None) -> Any:
    """ListPartitionReassignments: what is under way."""
    topics = None if wanted is None else [ListPartitionReassignmentsTopics(*one) for one in wanted.items()]
    answer = teller.ask(0, ListPartitionReassignmentsRequest(10_000, topics))
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


def replicas_are_reassigned(teller: Teller, seen: dict[str, Any]) -> None:
    """Replicas come and go; a reassignment to a node that is down waits for it, and can be cancelled."""
    teller.create("spread", [(1, 2), (1, 2)])
    append(teller, 1, "spread", b"a", 3, acks=-1)
    seen["refused"] = reassign(
        teller,
        {"spread": {0: (), 1: (1, 1), 5: (1, 2)}, "nowhere": {0: (1,)}},
    )
    seen["refused more"] = reassign(teller, {"spread": {0: (1, 8), 1: None}})
    seen["no other factor"] = reassign(teller, {"spread": {0: (0, 1, 2)}}, allow=False)
    seen["version 0"] = reassign(teller, {"spread": {0: (2, 1)}}, version=0)
    seen["another order"] = teller.until(lambda: replicas(teller, 0, "spread"), lambda row: row["replicas"] == [2, 1])
    seen["one more"] = reassign(teller, {"spread": {0: (1, 2, 0)}})
    seen["three"] = teller.until(lambda: replicas(teller, 0, "spread"), lambda row: row["isr"] == [0, 1, 2])
    seen["leader goes"] = reassign(teller, {"spread": {0: (0, 2)}})
    seen["moved"] = teller.until(lambda: replicas(teller, 0, "spread"), lambda row: row["replicas"] == [0, 2])
    seen["read"] = teller.until(lambda: fetched(teller, 0, "spread"), lambda row: row[:2] == [0, 3])
    seen["under way"] = reassignments(teller, None)
    teller.venue.stop(1)
    teller.until(lambda: teller.brokers(0), lambda brokers: brokers == [0, 2])
    seen["to a dead node"] = reassign(teller, {"spread": {0: (1, 2)}})
    seen["waits"] = teller.until(lambda: replicas(teller, 0, "spread"), lambda row: len(row["replicas"]) == 3)
    seen["waits: eligible"] = teller.partition(0, "spread")
    seen["listed"] = reassignments(teller, None)
    seen["listed by name"] = reassignments(teller, {"spread": (0, 1, 9), "nowhere": (0,)})
    seen["cancelled"] = reassign(teller, {"spread": {0: None}})
    seen["as before"] = teller.until(lambda: replicas(teller, 0, "spread"), lambda row: len(row["replicas"]) == 2)
    seen["again"] = reassign(teller, {"spread": {0: (1, 2)}})
    teller.until(lambda: replicas(teller, 0, "spread"), lambda row: len(row["replicas"]) == 3)
    seen["another target"] = reassign(teller, {"spread": {0: (2, 1)}})
    seen["listed again"] = teller.until(lambda: reassignments(teller, None), lambda row: row[1] != {})
    teller.venue.start(1)
    seen["done"] = teller.until(lambda: replicas(teller, 0, "spread"), lambda row: row["replicas"] == [2, 1])
    seen["nothing is under way"] = reassignments(teller, None)


STORIES = (
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
