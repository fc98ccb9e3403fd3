"""Leaders that are elected without anybody's request, a while after they could be."""

from __future__ import annotations

from typing import Any

from tests.nodes.replica_kit import append, configure, fetched, replicas
from tests.nodes.teller import Teller


def preferred_leaders_lead_again(teller: Teller, seen: dict[str, Any]) -> None:
    """The first replica comes back, and some time later it leads again."""
    teller.create("balanced", [(1, 2)])
    teller.venue.stop(1)
    seen["other"] = teller.until(lambda: replicas(teller, 0, "balanced"), lambda row: row["leader"] == 2)
    teller.let_pass(3)
    seen["still the other"] = replicas(teller, 0, "balanced")
    teller.venue.start(1)
    teller.until(lambda: replicas(teller, 0, "balanced"), lambda row: row["isr"] == [1, 2])
    seen["first again"] = teller.until(lambda: replicas(teller, 0, "balanced"), lambda row: row["leader"] == 1)


def an_unclean_election_that_is_allowed_late(teller: Teller, seen: dict[str, Any]) -> None:
    """Nobody leads, until the topic's configuration allows that records are lost."""
    teller.create("late", [(1, 2)])
    append(teller, 1, "late", b"a", 2, acks=-1)
    teller.let_pass(1)
    teller.venue.stop(2)
    teller.until(lambda: teller.partition(0, "late"), lambda row: row["isr"] == [1])
    append(teller, 1, "late", b"b", 2, acks=1)
    teller.venue.stop(1)
    teller.until(lambda: teller.partition(0, "late"), lambda row: row["leader"] == -1)
    teller.venue.start(2)
    teller.until(lambda: teller.brokers(0), lambda brokers: brokers == [0, 2])
    teller.let_pass(4)
    seen["nobody"] = teller.partition(0, "late")
    configure(teller, "late", {"unclean.leader.election.enable": "true"})
    seen["elected"] = teller.until(lambda: teller.partition(2, "late"), lambda row: row["leader"] == 2)
    seen["read"] = teller.until(lambda: fetched(teller, 2, "late"), lambda row: row[0] == 0)
    teller.venue.start(1)
    seen["back"] = teller.until(lambda: teller.partition(0, "late"), lambda row: row["isr"] == [1, 2])
    seen["balanced"] = teller.until(lambda: replicas(teller, 0, "late"), lambda row: row["leader"] == 1)


STORIES = (preferred_leaders_lead_again, an_unclean_election_that_is_allowed_late)
