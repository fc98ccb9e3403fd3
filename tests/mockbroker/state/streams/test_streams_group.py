"""A streams group as a pure machine: what holds whatever its members do, and what no conversation can show."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable

import pytest

from kwire.error_codes import ErrorCode
from mockbroker.config.broker_config import BrokerConfig
from mockbroker.state.group.coordinator_records import discard_records
from mockbroker.state.metadata.cluster_image import ClusterImage
from mockbroker.state.release import RELEASES
from mockbroker.state.streams.streams_group import StreamsGroup, StreamsHeartbeat
from mockbroker.state.streams.streams_join import OwnedTasks, StreamsJoin, TaskRows
from mockbroker.state.streams.streams_members import AssignedTasks, MemberState, Task
from mockbroker.state.streams.streams_membership import LEFT_FOR_A_WHILE
from mockbroker.state.streams.streams_rules import DEFAULT_STREAMS_RULES, StreamsRules
from mockbroker.state.streams.streams_topology import StreamsInternalTopic, Subtopology, Topology
from mockbroker.state.timers import Timers
from tests.support.raises_code import raises_code

BROKER = {"group.streams.max.size": 100}
SETTINGS = {
    "streams.session.timeout.ms": 45_000,
    "streams.initial.rebalance.delay.ms": 0,
    "streams.assignment.interval.ms": 0,
    "streams.num.standby.replicas": 1,
}
PARTITIONS = 5
STATELESS = Subtopology("0", ("T",), (), (), (), (), ())
STATEFUL = Subtopology("1", ("U",), (), (StreamsInternalTopic("C", 0, 0),), (), (), ())
TOPOLOGY = Topology(0, (STATELESS, STATEFUL))


def make_group(rules: StreamsRules = DEFAULT_STREAMS_RULES) -> StreamsGroup:
    metadata = ClusterImage([0], BrokerConfig(), random.Random(1))
    for name in ("T", "U", "C"):
        metadata.create_topic(name, partition_count=PARTITIONS)
    return StreamsGroup("g", metadata, Timers(), discard_records, rules)


def owned_rows(assigned: AssignedTasks) -> OwnedTasks:
    def grouped(tasks: Iterable[Task]) -> TaskRows:
        names = sorted({name for name, _ in tasks})
        return tuple((name, tuple(sorted(index for each, index in tasks if each == name))) for name in names)

    return OwnedTasks(grouped(assigned.active), grouped(assigned.standby), ())


def beat(
    group: StreamsGroup, member_id: str, epoch: int, assigned: AssignedTasks | None, process_id: str | None = None
) -> StreamsHeartbeat:
    timeout_ms, topology = (60_000, TOPOLOGY) if epoch == 0 else (-1, None)
    client = ("client", "/127.0.0.1")
    owned = None if assigned is None else owned_rows(assigned)
    join = StreamsJoin(member_id, epoch, None, *client, timeout_ms, topology, owned, process_id, None, None, False, 0)
    return group.heartbeat(join, settings=SETTINGS, broker=BROKER, now_ms=0)


def check(group: StreamsGroup) -> None:
    """No task has two owners, and no process has the state of a task twice."""
    owners: Counter[tuple[str, int]] = Counter()
    states: Counter[tuple[str, tuple[str, int]]] = Counter()
    for member in group.members.values():
        for assigned in (member.assigned, member.revoking):
            owners.update(assigned.active.keys())
            states.update((member.process_id, task) for task in (*assigned.active, *assigned.standby))
    assert all(count == 1 for count in owners.values())
    assert all(count == 1 for count in states.values())


@pytest.mark.parametrize("seed", range(40))
def test_no_task_ever_has_two_owners_and_all_members_become_stable_after_heartbeats(seed: int) -> None:
    chance, group = random.Random(seed), make_group()
    has: dict[str, AssignedTasks] = {}
    for step in range(120):
        choice = chance.random()
        if not has or (choice < 0.2 and len(has) < 7):
            member_id = f"m{step}"
            has[member_id] = beat(group, member_id, 0, AssignedTasks(), f"p{chance.randrange(4)}").member.assigned
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
            epoch = group.members[member_id].member_epoch
            has[member_id] = beat(group, member_id, epoch, has[member_id]).member.assigned
            check(group)

    assert group.state_name == "Stable"
    assert sum(len(assigned.active) for assigned in has.values()) == 2 * PARTITIONS


@pytest.mark.parametrize("seed", range(40))
def test_static_members_return_to_tasks_that_nobody_else_has(seed: int) -> None:
    chance, group = random.Random(seed), make_group(RELEASES["4.4"].streams)
    has: dict[str, AssignedTasks] = {}
    for step in range(120):
        names = sorted(group.members)
        away = [name for name in names if group.members[name].member_epoch == LEFT_FOR_A_WHILE]
        present = [name for name in names if name not in away]
        choice = chance.random()
        if not present or (choice < 0.2 and len(names) < 7):
            instance_id = group.members[chance.choice(away)].instance_id if away and choice < 0.1 else f"i{step}"
            has[f"m{step}"] = join_as(group, f"m{step}", instance_id, f"p{chance.randrange(4)}").member.assigned
        elif choice < 0.3:
            name = chance.choice(present)
            instance_id = group.members[name].instance_id
            group.leave(name, instance_id=instance_id, for_a_while=choice < 0.27, shutdown=False, now_ms=0)
        else:
            name = chance.choice(present)
            has[name] = beat(group, name, group.members[name].member_epoch, has[name]).member.assigned
        check_owners(group)
    for name in [name for name in group.members if group.members[name].member_epoch == LEFT_FOR_A_WHILE]:
        new = f"back-{name}"
        has[new] = join_as(group, new, group.members[name].instance_id, group.members[name].process_id).member.assigned
    for _ in range(8):
        for name in sorted(group.members):
            has[name] = beat(group, name, group.members[name].member_epoch, has[name]).member.assigned
            check_owners(group)

    assert group.state_name == "Stable"
    assert sum(len(has[name].active) for name in group.members) == 2 * PARTITIONS


def join_as(group: StreamsGroup, member_id: str, instance_id: str | None, process_id: str) -> StreamsHeartbeat:
    client = ("client", "/127.0.0.1")
    owned = OwnedTasks((), (), ())
    join = StreamsJoin(
        *(member_id, 0, None, *client, 60_000, TOPOLOGY, owned, process_id, None, None, False, 0), instance_id
    )
    return group.heartbeat(join, settings=SETTINGS, broker=BROKER, now_ms=0)


def check_owners(group: StreamsGroup) -> None:
    """No task is active twice."""
    owners = Counter(
        task
        for member in group.members.values()
        for assigned in (member.assigned, member.revoking)
        for task in assigned.active
    )
    assert all(count == 1 for count in owners.values())


def test_a_rejected_heartbeat_changes_nothing() -> None:
    group = make_group()
    beat(group, "a", 0, AssignedTasks(), "p1")
    before = dict(group.members), group.group_epoch, group.assignment_epoch, dict(group.target)
    with raises_code(ErrorCode.INVALID_REQUEST):
        beat(group, "a", 2, AssignedTasks({("9", 0): 2}))
    assert (dict(group.members), group.group_epoch, group.assignment_epoch, dict(group.target)) == before


def test_a_task_to_revoke_that_is_assigned_again_returns_one_heartbeat_later() -> None:
    group = make_group()
    first = beat(group, "a", 0, AssignedTasks(), "p1").member.assigned
    beat(group, "b", 0, AssignedTasks(), "p2")
    giving = beat(group, "a", 2, first).member
    assert giving.state is MemberState.UNREVOKED
    group.leave("b", shutdown=False, now_ms=0)
    waits = beat(group, "a", 2, giving.assigned).member
    back = beat(group, "a", waits.member_epoch, waits.assigned).member

    assert waits.state is MemberState.UNRELEASED
    assert (back.state, back.assigned.active.keys()) == (MemberState.STABLE, first.active.keys())
