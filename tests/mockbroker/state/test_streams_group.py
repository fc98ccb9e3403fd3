"""A streams group as a pure machine: what holds whatever its members do, and what no conversation can show."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping

import pytest

from kwire.error_codes import ErrorCode
from mockbroker.config import BrokerConfig
from mockbroker.kafka_error import KafkaError
from mockbroker.state.group_timers import Timers
from mockbroker.state.metadata import Metadata
from mockbroker.state.streams_group import StreamsGroup, StreamsHeartbeat
from mockbroker.state.streams_join import Owned, StreamsJoin
from mockbroker.state.streams_members import Held, MemberState
from mockbroker.state.streams_topology import InternalTopic, Subtopology, Topology

BROKER = {"group.streams.max.size": 100}
SETTINGS = {
    "streams.session.timeout.ms": 45_000,
    "streams.initial.rebalance.delay.ms": 0,
    "streams.assignment.interval.ms": 0,
    "streams.num.standby.replicas": 1,
}
PARTITIONS = 5
TOPOLOGY = Topology(
    0,
    (
        Subtopology("0", ("T",), (), (), (), (), ()),
        Subtopology("1", ("U",), (), (InternalTopic("C", 0, 0),), (), (), ()),
    ),
)


def make_group() -> StreamsGroup:
    metadata = Metadata([0], BrokerConfig(), random.Random(1))
    for name in ("T", "U", "C"):
        metadata.create_topic(name, partition_count=PARTITIONS)
    return StreamsGroup("g", metadata, Timers())


def owned_rows(held: Held) -> Owned:
    def grouped(
        tasks: Mapping[tuple[str, int], int] | frozenset[tuple[str, int]],
    ) -> tuple[tuple[str, tuple[int, ...]], ...]:
        names = sorted({name for name, _ in tasks})
        return tuple((name, tuple(sorted(index for each, index in tasks if each == name))) for name in names)

    return Owned(grouped(dict(held.active)), grouped(frozenset(held.standby)), ())


def beat(
    group: StreamsGroup, member_id: str, epoch: int, held: Held | None, process_id: str | None = None
) -> StreamsHeartbeat:
    joins = epoch == 0
    join = StreamsJoin(
        member_id,
        epoch,
        None,
        "client",
        "/127.0.0.1",
        60_000 if joins else -1,
        TOPOLOGY if joins else None,
        None if held is None else owned_rows(held),
        process_id,
        None,
        None,
        shutdown=False,
        endpoint_epoch=0,
    )
    return group.heartbeat(join, settings=SETTINGS, broker=BROKER, now_ms=0)


def check(group: StreamsGroup) -> None:
    """No task has two owners, and no process has the state of a task twice."""
    owners: Counter[tuple[str, int]] = Counter()
    states: Counter[tuple[str, tuple[str, int]]] = Counter()
    for member in group.members.values():
        for held in (member.assigned, member.revoking):
            owners.update(held.active.keys())
            states.update((member.process_id, task) for task in (*held.active, *held.standby))
    assert all(count == 1 for count in owners.values())
    assert all(count == 1 for count in states.values())


@pytest.mark.parametrize("seed", range(40))
def test_no_task_ever_has_two_owners_and_all_settle_when_everybody_is_heard(seed: int) -> None:
    chance, group = random.Random(seed), make_group()
    has: dict[str, Held] = {}
    for step in range(120):
        choice = chance.random()
        if not has or (choice < 0.2 and len(has) < 7):
            member_id = f"m{step}"
            has[member_id] = beat(group, member_id, 0, Held(), f"p{chance.randrange(4)}").member.assigned
        elif choice < 0.3 and len(has) > 1:
            member_id = chance.choice(sorted(has))
            group.leave(member_id, shutdown=False, now_ms=0)
            del has[member_id]
        else:
            member_id = chance.choice(sorted(has))
            slow = chance.random() < 0.3
            said = None if slow else has[member_id]
            heard = beat(group, member_id, group.members[member_id].member_epoch, said)
            has[member_id] = has[member_id] if slow else heard.member.assigned
        check(group)
    for _ in range(6):
        for member_id in sorted(has):
            has[member_id] = beat(
                group, member_id, group.members[member_id].member_epoch, has[member_id]
            ).member.assigned
            check(group)

    assert group.state_name == "Stable"
    assert sum(len(held.active) for held in has.values()) == 2 * PARTITIONS


def test_what_is_refused_changes_nothing() -> None:
    group = make_group()
    beat(group, "a", 0, Held(), "p1")
    before = dict(group.members), group.group_epoch, group.assignment_epoch, dict(group.target)
    with pytest.raises(KafkaError) as refused:
        beat(group, "a", 2, Held({("9", 0): 2}))

    assert refused.value.code is ErrorCode.INVALID_REQUEST
    assert (dict(group.members), group.group_epoch, group.assignment_epoch, dict(group.target)) == before


def test_a_task_that_was_to_be_given_up_and_is_wanted_again_comes_back_a_heartbeat_later() -> None:
    group = make_group()
    first = beat(group, "a", 0, Held(), "p1").member.assigned
    beat(group, "b", 0, Held(), "p2")
    giving = beat(group, "a", 2, first).member
    assert giving.state is MemberState.UNREVOKED
    group.leave("b", shutdown=False, now_ms=0)
    waits = beat(group, "a", 2, giving.assigned).member
    back = beat(group, "a", waits.member_epoch, waits.assigned).member

    assert waits.state is MemberState.UNRELEASED
    assert (back.state, back.assigned.active.keys()) == (MemberState.STABLE, first.active.keys())
