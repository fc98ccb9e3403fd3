"""Who gets which tasks of a streams application; the choices among equals are pinned by other-streams-sticky."""

from __future__ import annotations

import random
from collections.abc import Mapping

from mockbroker.state.streams_assignor import TaskCount, assign
from mockbroker.state.streams_members import Tasks

COUNTS = [TaskCount("0", 4, False), TaskCount("1", 6, True)]
ALL = {(row.subtopology_id, index) for row in COUNTS for index in range(row.task_count)}


def active_of(target: Mapping[str, Tasks]) -> list[tuple[str, int]]:
    return sorted(task for tasks in target.values() for task in tasks.active)


def test_every_task_has_one_owner_and_loads_differ_by_one() -> None:
    target = assign({"a": "p1", "b": "p2", "c": "p3"}, {}, COUNTS, standbys=0)

    assert active_of(target) == sorted(ALL)
    assert sorted(len(tasks.active) for tasks in target.values()) == [3, 3, 4]


def test_nothing_moves_when_nothing_changes() -> None:
    members = {"a": "p1", "b": "p2", "c": "p3"}
    first = assign(members, {}, COUNTS, standbys=1)

    assert assign(members, first, COUNTS, standbys=1) == first


def test_who_stays_keeps_all_its_tasks_when_another_leaves() -> None:
    before = assign({"a": "p1", "b": "p2", "c": "p3"}, {}, COUNTS, standbys=0)
    after = assign({"a": "p1", "b": "p2"}, before, COUNTS, standbys=0)

    assert before["a"].active <= after["a"].active
    assert before["b"].active <= after["b"].active


def test_members_of_one_process_share_what_a_process_of_their_size_gets() -> None:
    target = assign({"a": "p1", "b": "p1", "c": "p2"}, {}, [TaskCount("0", 6, False)], standbys=0)

    assert sorted(len(tasks.active) for tasks in target.values()) == [2, 2, 2]


def test_a_copy_is_never_on_the_process_of_its_task_and_stateless_tasks_have_none() -> None:
    chance = random.Random(5)
    before: dict[str, Tasks] = {}
    for _ in range(200):
        members = {f"m{index}": f"p{chance.randrange(4)}" for index in chance.sample(range(9), chance.randint(1, 8))}
        target = assign(members, before, COUNTS, standbys=2)
        assert active_of(target) == sorted(ALL)
        for member_id, tasks in target.items():
            assert {task[0] for task in tasks.standby} <= {"1"}
            on_process = [target[each].active for each in members if members[each] == members[member_id]]
            assert not tasks.standby & set().union(*on_process)
        before = {member_id: target[member_id] for member_id in members}


def test_a_copy_becomes_the_task_when_its_owner_leaves() -> None:
    before = assign({"a": "p1", "b": "p2"}, {}, [TaskCount("1", 2, True)], standbys=1)
    after = assign({"b": "p2"}, before, [TaskCount("1", 2, True)], standbys=1)

    assert before["b"].standby == before["a"].active
    assert after["b"].active == {("1", 0), ("1", 1)}
    assert not after["b"].standby
