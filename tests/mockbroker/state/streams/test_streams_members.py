"""Role changes of the tasks of a streams member; the rest of reconciliation is in test_streams_group."""

from __future__ import annotations

from mockbroker.state.streams.streams_members import (
    AssignedTasks,
    MemberState,
    StreamsMember,
    TaskOwners,
    Tasks,
    reconcile_member,
)

TASK, OTHER = ("1", 0), ("1", 1)


def member_with(assigned: AssignedTasks) -> StreamsMember:
    return StreamsMember("m", process_id="p", member_epoch=4, previous_member_epoch=3, assigned=assigned)


def reconcile(member: StreamsMember, target: Tasks, owned: Tasks, *others: StreamsMember) -> StreamsMember:
    owners = TaskOwners()
    for each in (member, *others):
        owners.replace_member(None, each)
    return reconcile_member(member, 5, target, owned, owners, changes_roles_in_place=True)


def test_a_copy_becomes_the_task_in_one_step() -> None:
    copy = frozenset({TASK})

    member = reconcile(member_with(AssignedTasks(standby=copy)), Tasks(active=copy), Tasks(standby=copy))

    assert (member.state, member.assigned) == (MemberState.STABLE, AssignedTasks({TASK: 5}))


def test_a_copy_is_kept_while_another_process_has_the_task() -> None:
    copy = frozenset({TASK})
    owner = StreamsMember("o", process_id="q", assigned=AssignedTasks({TASK: 2}))

    member = reconcile(member_with(AssignedTasks(standby=copy)), Tasks(active=copy), Tasks(standby=copy), owner)

    assert (member.state, member.assigned) == (MemberState.UNRELEASED, AssignedTasks(standby=copy))


def test_a_revoked_task_is_a_copy_at_once() -> None:
    tasks = frozenset({TASK})

    member = reconcile(member_with(AssignedTasks({TASK: 2})), Tasks(standby=tasks), Tasks(active=tasks))

    assert (member.state, member.revoking) == (MemberState.UNREVOKED, AssignedTasks({TASK: 2}))
    assert member.assigned == AssignedTasks(standby=tasks)


def test_a_copy_becomes_a_warm_up_task_and_back_without_revocation() -> None:
    tasks = frozenset({TASK})

    warming = reconcile(member_with(AssignedTasks(standby=tasks)), Tasks(warmup=tasks), Tasks(standby=tasks))
    back = reconcile(member_with(AssignedTasks(warmup=tasks)), Tasks(standby=tasks), Tasks(warmup=tasks))

    assert warming.assigned == AssignedTasks(warmup=tasks)
    assert back.assigned == AssignedTasks(standby=tasks)
    assert warming.state is back.state is MemberState.STABLE


def test_a_copy_waits_for_the_revocation_of_another_task() -> None:
    copy = frozenset({TASK})
    assigned = AssignedTasks({OTHER: 2}, standby=copy)

    member = reconcile(member_with(assigned), Tasks(active=copy), Tasks(frozenset({OTHER}), copy))

    assert (member.state, member.revoking) == (MemberState.UNREVOKED, AssignedTasks({OTHER: 2}))
    assert member.assigned == AssignedTasks(standby=copy)
