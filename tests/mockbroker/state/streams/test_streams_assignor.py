"""The tasks of streams members; choices among equals are pinned by other-streams-sticky."""

from __future__ import annotations

import random
from collections.abc import Mapping

from mockbroker.state.streams.streams_assignor import AssignmentHistory, TaskCount, assign_tasks
from mockbroker.state.streams.streams_members import Tasks
from mockbroker.state.streams.streams_rules import StreamsRules

COUNTS = [TaskCount("0", 4, False), TaskCount("1", 6, True)]
NEW = AssignmentHistory()
ALL = {(row.subtopology_id, index) for row in COUNTS for index in range(row.task_count)}


def active_of(target: Mapping[str, Tasks]) -> list[tuple[str, int]]:
    return sorted(task for tasks in target.values() for task in tasks.active)


def test_every_task_has_one_owner_and_loads_differ_by_one() -> None:
    target = assign_tasks({"a": "p1", "b": "p2", "c": "p3"}, NEW, COUNTS, standbys=0)

    assert active_of(target) == sorted(ALL)
    assert sorted(len(tasks.active) for tasks in target.values()) == [3, 3, 4]


def test_without_changes_no_task_moves() -> None:
    members = {"a": "p1", "b": "p2", "c": "p3"}
    first = assign_tasks(members, NEW, COUNTS, standbys=1)

    assert assign_tasks(members, AssignmentHistory(first), COUNTS, standbys=1) == first


def test_a_remaining_member_keeps_its_tasks_when_another_leaves() -> None:
    before = assign_tasks({"a": "p1", "b": "p2", "c": "p3"}, NEW, COUNTS, standbys=0)
    after = assign_tasks({"a": "p1", "b": "p2"}, AssignmentHistory(before), COUNTS, standbys=0)

    assert before["a"].active <= after["a"].active
    assert before["b"].active <= after["b"].active


def test_members_of_one_process_share_the_tasks_of_a_process_of_their_size() -> None:
    target = assign_tasks({"a": "p1", "b": "p1", "c": "p2"}, NEW, [TaskCount("0", 6, False)], standbys=0)

    assert sorted(len(tasks.active) for tasks in target.values()) == [2, 2, 2]


def test_a_copy_is_never_on_the_process_of_its_task_and_stateless_tasks_have_none() -> None:
    chance = random.Random(5)
    before: dict[str, Tasks] = {}
    for _ in range(200):
        members = {f"m{index}": f"p{chance.randrange(4)}" for index in chance.sample(range(9), chance.randint(1, 8))}
        target = assign_tasks(members, AssignmentHistory(before), COUNTS, standbys=2)
        assert active_of(target) == sorted(ALL)
        for member_id, tasks in target.items():
            assert {task[0] for task in tasks.standby} <= {"1"}
            on_process = [target[member].active for member in members if members[member] == members[member_id]]
            assert not tasks.standby & set().union(*on_process)
        before = {member_id: target[member_id] for member_id in members}


def test_a_copy_becomes_the_task_when_its_owner_leaves() -> None:
    before = assign_tasks({"a": "p1", "b": "p2"}, NEW, [TaskCount("1", 2, True)], standbys=1)
    after = assign_tasks({"b": "p2"}, AssignmentHistory(before), [TaskCount("1", 2, True)], standbys=1)

    assert before["b"].standby == before["a"].active
    assert after["b"].active == {("1", 0), ("1", 1)}
    assert not after["b"].standby


def test_a_member_that_reports_an_offset_gets_the_task_before_one_that_is_less_far() -> None:
    members, counts = {"a": "p1", "b": "p2", "c": "p3"}, [TaskCount("1", 1, True)]

    for first, second in (("a", "b"), ("b", "c"), ("c", "a")):
        offsets = {first: {("1", 0): 7}, second: {("1", 0): 6}}
        target = assign_tasks(members, AssignmentHistory({}, offsets), counts, standbys=0)
        assert target[first].active == {("1", 0)}


def test_a_standby_task_counts_more_than_an_offset() -> None:
    history = AssignmentHistory({"a": Tasks(standby=frozenset({("1", 0)}))}, {"b": {("1", 0): 9}})
    target = assign_tasks({"a": "p1", "b": "p2"}, history, [TaskCount("1", 1, True)], standbys=0)

    assert target["a"].active == {("1", 0)}


def test_a_copy_stays_although_another_process_with_a_copy_has_the_task_now() -> None:
    members, task = {"a": "p1", "b": "p2", "c": "p3"}, ("1", 0)
    history = AssignmentHistory({member: Tasks(standby=frozenset({task})) for member in "ab"})

    target = assign_tasks(
        members, history, [TaskCount("1", 1, True)], standbys=1, rules=StreamsRules(passes_over_holders=True)
    )

    assert {member for member in members if target[member].active} | {
        member for member in members if target[member].standby
    } == {"a", "b"}
