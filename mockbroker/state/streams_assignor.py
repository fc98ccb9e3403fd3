"""The assignor of streams groups: tasks stay where they were, else they go to the least loaded process.

Which of several equal processes is taken depends in Kafka on the order of its hash maps and heaps, and so here.
Source: Kafka's StickyTaskAssignor and ProcessState; pinned by the conversations other-streams-sticky and -standby.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from mockbroker.state.java_heap import JavaHeap
from mockbroker.state.java_order import JavaMap
from mockbroker.state.streams_members import Task, Tasks
from mockbroker.state.topics import java_hash


class TaskCount(NamedTuple):
    """How many tasks a subtopology has, and whether it keeps state."""

    subtopology_id: str
    task_count: int
    is_stateful: bool


class _Place(NamedTuple):
    process_id: str
    member_id: str


class _Process:
    """The members of one process, and what has been assigned to them."""

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

    def add(self, member_id: str, task: Task, *, active: bool) -> int:
        """Give a task to a member, and return how many it has now."""
        self._heap = None
        return self._add(member_id, task, active=active)

    def _add(self, member_id: str, task: Task, *, active: bool) -> int:
        self._total += 1
        self.tasks.add(task)
        (self.active if active else self.standby).setdefault(member_id, set()).add(task)
        self.counts[member_id] = self.counts[member_id] + 1
        return self.counts[member_id]

    def add_to_least_loaded(self, task: Task, *, active: bool) -> int:
        """Give a task to whichever member has the fewest, and return how many that one has now."""
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


class _Quota:
    """How many tasks each member may keep; who is full takes its share out of the count."""

    def __init__(self, tasks: int, members: int) -> None:
        self._tasks = tasks
        self._members = members
        self._set()

    def _set(self) -> None:
        self.per_member = -(-self._tasks // self._members) if self._members else 0

    def taken(self, count: int) -> None:
        """Somebody has this many now."""
        if count == self.per_member:
            self._members -= 1
            self._tasks -= count
            self._set()


class _Run:
    """One computation of a target assignment."""

    def __init__(
        self, members: Mapping[str, str], before: Mapping[str, Tasks], counts: Sequence[TaskCount], standbys: int
    ) -> None:
        self._standbys = standbys
        active = sum(row.task_count for row in counts)
        copies = sum(row.task_count for row in counts if row.is_stateful) * standbys
        self._active_quota = _Quota(active, len(members))
        self._quota = _Quota(active + copies, len(members))
        # Java's constructor takes the number of buckets here, not that of the entries that are expected.
        self.processes: JavaMap[str, _Process] = JavaMap(java_hash, buckets=len(members))
        self._was_active: dict[Task, _Place] = {}
        self._was_standby: dict[Task, list[_Place]] = {}
        order: JavaMap[str, str] = JavaMap(java_hash)
        for member_id, process_id in members.items():
            order[member_id] = process_id
        for member_id in order:
            place = _Place(order[member_id], member_id)
            if place.process_id not in self.processes:
                self.processes[place.process_id] = _Process()
            self.processes[place.process_id].counts[member_id] = 0
            had = before.get(member_id, Tasks())
            self._was_active.update(dict.fromkeys(had.active, place))
            for task in had.standby:
                self._was_standby.setdefault(task, []).append(place)

    def _by_load(self) -> JavaHeap[_Process]:
        heap: JavaHeap[_Process] = JavaHeap(lambda process: process.load)
        for process_id in self.processes:
            heap.add(self.processes[process_id])
        return heap

    def _count_active(self, count: int) -> None:
        self._active_quota.taken(count)
        self._quota.taken(count)

    def assign_active(self, tasks: list[Task]) -> None:
        """Leave tasks where they were, then with who has a copy of their state, then with the least loaded."""
        by_partition = sorted(tasks, key=lambda task: (task[1], task[0]))
        left = [task for task in by_partition if not self._stays(task, self._was_active.get(task))]
        left = [task for task in left if not self._stays(task, self._least_loaded(task, new=True))]
        heap = self._by_load()
        for task in sorted(left):
            process = heap.poll()
            self._count_active(process.add_to_least_loaded(task, active=True))
            heap.add(process)

    def _stays(self, task: Task, place: _Place | None) -> bool:
        if place is None:
            return False
        process = self.processes[place.process_id]
        if process.counts[place.member_id] >= self._active_quota.per_member:
            return False
        self._count_active(process.add(place.member_id, task, active=True))
        return True

    def _least_loaded(self, task: Task, *, new: bool) -> _Place | None:
        """Of those that had a copy the least loaded; new: the task has no place yet, so nobody is excluded.

        The check at the end looks at the first of them whoever was chosen, as Kafka's does.
        """
        places = self._was_standby.get(task, [])
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
        """Leave copies where the task or its copy was, then give them to the least loaded that has neither."""
        left: list[tuple[Task, int]] = []
        for task in sorted(tasks, key=lambda task: (task[1], task[0]), reverse=True):
            for index in range(self._standbys):
                if not self._copy_stays(task):
                    left.append((task, self._standbys - index))
                    break
        heap = self._by_load()
        for task, missing in sorted(left, reverse=True):
            for _ in range(missing):
                if not self._place_copy(heap, task):
                    break

    def _copy_stays(self, task: Task) -> bool:
        place = self._was_active.get(task)
        if place is not None and task not in self.processes[place.process_id].tasks and self._copy(task, place):
            return True
        place = self._least_loaded(task, new=False)
        return place is not None and self._copy(task, place)

    def _copy(self, task: Task, place: _Place) -> bool:
        process = self.processes[place.process_id]
        if process.counts[place.member_id] >= self._quota.per_member:
            return False
        self._quota.taken(process.add(place.member_id, task, active=False))
        return True

    def _place_copy(self, heap: JavaHeap[_Process], task: Task) -> bool:
        if not heap:
            return False
        process = heap.poll()
        if task in process.tasks:
            placed = self._place_copy(heap, task)
        else:
            self._quota.taken(process.add_to_least_loaded(task, active=False))
            placed = True
        heap.add(process)
        return placed


def assign(
    members: Mapping[str, str], before: Mapping[str, Tasks], counts: Sequence[TaskCount], *, standbys: int
) -> dict[str, Tasks]:
    """Who should have what. members: process ids by member id. before: the targets until now."""
    run = _Run(members, before, counts, standbys)
    run.assign_active([(row.subtopology_id, index) for row in counts for index in range(row.task_count)])
    if standbys > 0:
        stateful = [row for row in counts if row.is_stateful]
        run.assign_standby([(row.subtopology_id, index) for row in stateful for index in range(row.task_count)])
    return {
        member_id: Tasks(
            frozenset(run.processes[process_id].active.get(member_id, ())),
            frozenset(run.processes[process_id].standby.get(member_id, ())),
        )
        for member_id, process_id in members.items()
    }
