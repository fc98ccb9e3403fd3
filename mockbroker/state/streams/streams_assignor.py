"""The assignor of streams groups: tasks stay where they were, else they go to the least loaded process.

The choice between equal processes depends in Kafka on the order of its hash maps and heaps, which is reproduced here.
Source: Kafka's StickyTaskAssignor and ProcessState; pinned by the conversations other-streams-sticky, -standby and
-44-task-offsets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from mockbroker.state.java.hash_order import JavaMap, JavaSet
from mockbroker.state.java.priority_queue import JavaHeap
from mockbroker.state.metadata.topics import java_hash
from mockbroker.state.streams.streams_members import Task, Tasks
from mockbroker.state.streams.streams_rules import DEFAULT_STREAMS_RULES, StreamsRules


class TaskCount(NamedTuple):
    """The number of tasks of a subtopology, and whether it has state."""

    subtopology_id: str
    task_count: int
    is_stateful: bool


class AssignmentHistory(NamedTuple):
    """From what an assignment continues.

    tasks: by member. offsets: of the state that members have, by member and task; such a member is chosen for a copy
    after those that have one as standby task, the largest offset first.
    """

    tasks: Mapping[str, Tasks] = {}
    offsets: Mapping[str, Mapping[Task, int]] = {}


class _TaskPlace(NamedTuple):
    process_id: str
    member_id: str


class _Process:
    """The members of one process, and their assigned tasks."""

    def __init__(self) -> None:
        self.counts: JavaMap[str, int] = JavaMap(java_hash)
        self.tasks: set[Task] = set()
        self.active: dict[str, set[Task]] = {}
        self.standby: dict[str, set[Task]] = {}
        self._heap: JavaHeap[list[str | int]] | None = None
        self._total = 0

    @property
    def load(self) -> float:
        return self._total / len(self.counts)

    def tasks_of(self, member_id: str) -> Tasks:
        """The tasks of a member."""
        return Tasks(frozenset(self.active.get(member_id, ())), frozenset(self.standby.get(member_id, ())))

    def add(self, member_id: str, task: Task, *, active: bool) -> int:
        """Assign a task to a member, and return its number of tasks."""
        self._heap = None
        return self._add(member_id, task, active=active)

    def _add(self, member_id: str, task: Task, *, active: bool) -> int:
        self._total += 1
        self.tasks.add(task)
        (self.active if active else self.standby).setdefault(member_id, set()).add(task)
        self.counts[member_id] = self.counts[member_id] + 1
        return self.counts[member_id]

    def add_to_least_loaded(self, task: Task, *, active: bool) -> int:
        """Assign a task to the member with the fewest, and return its number of tasks."""
        if len(self.counts) == 1:
            return self._add(next(iter(self.counts)), task, active=active)
        if self._heap is None:
            self._heap = JavaHeap(lambda entry: entry[1])
            for member_id in self.counts:
                self._heap.add([member_id, self.counts[member_id]])
        entry = self._heap.poll()
        entry[1] = self._add(str(entry[0]), task, active=active)
        self._heap.add(entry)
        return int(entry[1])


class _TaskQuota:
    """The number of tasks that each member may keep; a full member leaves the average."""

    def __init__(self, tasks: int, members: int) -> None:
        self._tasks = tasks
        self._members = members
        self._update_quota()

    def _update_quota(self) -> None:
        self.per_member = -(-self._tasks // self._members) if self._members else 0

    def add_assigned(self, count: int) -> None:
        """A member has this many tasks now."""
        if count == self.per_member:
            self._members -= 1
            self._tasks -= count
            self._update_quota()


class _AssignmentRun:
    """One computation of a target assignment."""

    def __init__(
        self,
        members: Mapping[str, str],
        history: AssignmentHistory,
        counts: Sequence[TaskCount],
        standbys: int,
        rules: StreamsRules,
    ) -> None:
        self._standbys = standbys
        self._rules = rules
        active = sum(row.task_count for row in counts)
        copies = sum(row.task_count for row in counts if row.is_stateful) * standbys
        self._active_quota = _TaskQuota(active, len(members))
        self._quota = _TaskQuota(active + copies, len(members))
        # Java's constructor takes the number of buckets here, not that of the entries that are expected.
        self.processes: JavaMap[str, _Process] = JavaMap(java_hash, buckets=len(members))
        self._was_active: dict[Task, _TaskPlace] = {}
        ranked: dict[Task, list[tuple[bool, int, _TaskPlace]]] = {}
        for member_id in JavaSet(java_hash, members):
            place = _TaskPlace(members[member_id], member_id)
            if place.process_id not in self.processes:
                add = self.processes.add_computed if rules.computes_process_entries else self.processes.__setitem__
                add(place.process_id, _Process())
            self.processes[place.process_id].counts[member_id] = 0
            previous, offsets = history.tasks.get(member_id, Tasks()), history.offsets.get(member_id, {})
            self._was_active.update(dict.fromkeys(previous.active, place))
            for task in previous.standby | offsets.keys():
                ranked.setdefault(task, []).append((task not in previous.standby, -offsets.get(task, 0), place))
        self._was_standby = {
            task: [place for *_, place in sorted(rows, key=lambda row: row[:2])] for task, rows in ranked.items()
        }

    def _processes_by_load(self) -> JavaHeap[_Process]:
        heap: JavaHeap[_Process] = JavaHeap(lambda process: process.load)
        for process_id in self.processes:
            heap.add(self.processes[process_id])
        return heap

    def _count_active(self, count: int) -> None:
        self._active_quota.add_assigned(count)
        self._quota.add_assigned(count)

    def assign_active(self, tasks: list[Task]) -> None:
        """Assign tasks to their previous member, then to one with a standby copy, then to the least loaded."""
        by_partition = sorted(tasks, key=lambda task: (task[1], task[0]))
        unassigned = [task for task in by_partition if not self._keep_active(task, self._was_active.get(task))]
        unassigned = [task for task in unassigned if not self._keep_active(task, self._least_loaded(task, new=True))]
        heap = self._processes_by_load()
        for task in sorted(unassigned):
            process = heap.poll()
            self._count_active(process.add_to_least_loaded(task, active=True))
            heap.add(process)

    def _keep_active(self, task: Task, place: _TaskPlace | None) -> bool:
        if place is None:
            return False
        process = self.processes[place.process_id]
        if process.counts[place.member_id] >= self._active_quota.per_member:
            return False
        self._count_active(process.add(place.member_id, task, active=True))
        return True

    def _least_loaded(self, task: Task, *, new: bool) -> _TaskPlace | None:
        """The least loaded of the members that had a copy; new: the task is unassigned, so none is excluded.

        The check at the end uses the first of them even if another one was chosen, as that of Kafka 4.3.0 does.
        """
        places = self._was_standby.get(task, [])
        if self._rules.passes_over_holders and not new:
            places = [place for place in places if task not in self.processes[place.process_id].tasks]
        if not places:
            return None
        best = places[0]
        first = self.processes[best.process_id]
        process_load, member_load = first.load, first.counts[best.member_id]
        for place in places[1:]:
            process = self.processes[place.process_id]
            if process.load < process_load and (new or task not in process.tasks):
                count = process.counts[place.member_id]
                if count < member_load:
                    best, process_load, member_load = place, process.load, count
        return best if new or task not in first.tasks else None

    def assign_standby(self, tasks: list[Task]) -> None:
        """Assign copies where the task or its copy was, then to the least loaded member that has neither."""
        unassigned: list[tuple[Task, int]] = []
        for task in sorted(tasks, key=lambda task: (task[1], task[0]), reverse=True):
            for index in range(self._standbys):
                if not self._keep_standby(task):
                    unassigned.append((task, self._standbys - index))
                    break
        heap = self._processes_by_load()
        for task, missing in sorted(unassigned, reverse=True):
            for _ in range(missing):
                if not self._place_standby(heap, task):
                    break

    def _keep_standby(self, task: Task) -> bool:
        place = self._was_active.get(task)
        if place is not None and task not in self.processes[place.process_id].tasks and self._add_copy(task, place):
            return True
        place = self._least_loaded(task, new=False)
        return place is not None and self._add_copy(task, place)

    def _add_copy(self, task: Task, place: _TaskPlace) -> bool:
        process = self.processes[place.process_id]
        if process.counts[place.member_id] >= self._quota.per_member:
            return False
        self._quota.add_assigned(process.add(place.member_id, task, active=False))
        return True

    def _place_standby(self, heap: JavaHeap[_Process], task: Task) -> bool:
        if not heap:
            return False
        process = heap.poll()
        if task in process.tasks:
            placed = self._place_standby(heap, task)
        else:
            self._quota.add_assigned(process.add_to_least_loaded(task, active=False))
            placed = True
        heap.add(process)
        return placed


def assign_tasks(
    members: Mapping[str, str],
    history: AssignmentHistory,
    counts: Sequence[TaskCount],
    *,
    standbys: int,
    rules: StreamsRules = DEFAULT_STREAMS_RULES,
) -> dict[str, Tasks]:
    """The tasks of all members. members: process ids by member id."""
    run = _AssignmentRun(members, history, counts, standbys, rules)
    run.assign_active([(row.subtopology_id, index) for row in counts for index in range(row.task_count)])
    if standbys > 0:
        stateful = [row for row in counts if row.is_stateful]
        run.assign_standby([(row.subtopology_id, index) for row in stateful for index in range(row.task_count)])
    return {member_id: run.processes[process_id].tasks_of(member_id) for member_id, process_id in members.items()}
