"""Members of a streams group, their tasks, and their reconciliation with the target (KIP-1071).

Source: Kafka's CurrentAssignmentBuilder; pinned by the conversations other-streams-two-members, -threads and -standby.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field, replace
from enum import IntEnum
from operator import attrgetter
from typing import NamedTuple

#: A subtopology's id and a partition.
Task = tuple[str, int]


class Tasks(NamedTuple):
    """The target tasks of a member, or those that it lists."""

    active: Set[Task] = frozenset()
    standby: Set[Task] = frozenset()
    warmup: Set[Task] = frozenset()


class AssignedTasks(NamedTuple):
    """The assigned tasks of a member; active ones with the member epoch in which each was assigned."""

    active: Mapping[Task, int] = {}
    standby: Set[Task] = frozenset()
    warmup: Set[Task] = frozenset()

    @property
    def is_empty(self) -> bool:
        """Return whether there are no tasks."""
        return not (self.active or self.standby or self.warmup)

    def tasks(self) -> Tasks:
        """The tasks without epochs."""
        return Tasks(self.active.keys(), self.standby, self.warmup)

    def intersects(self, tasks: Tasks) -> bool:
        """Return whether one of these tasks is assigned in the same role."""
        pairs = ((self.active.keys(), tasks.active), (self.standby, tasks.standby), (self.warmup, tasks.warmup))
        return any(not assigned.isdisjoint(other) for assigned, other in pairs)


class MemberState(IntEnum):
    """The reconciliation states of a member; the numbers are those of Kafka's records."""

    STABLE = 1
    UNREVOKED = 2
    UNRELEASED = 3


@dataclass(frozen=True, slots=True)
class StreamsMember:
    """The state of a member between two heartbeats.

    instance_id: of a static member. client_tags: sorted by key.
    """

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topology_epoch: int = -1
    process_id: str = ""
    user_endpoint: tuple[str, int] | None = None
    client_tags: tuple[tuple[str, str], ...] = ()
    member_epoch: int = 0
    previous_member_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: AssignedTasks = field(default_factory=AssignedTasks)
    revoking: AssignedTasks = field(default_factory=AssignedTasks)

    def is_at(self, assignment_epoch: int) -> bool:
        """Return whether it has the whole target of this epoch."""
        return self.state is MemberState.STABLE and self.member_epoch == assignment_epoch

    def has_changed_since(self, before: StreamsMember) -> bool:
        """Return whether its tasks or its epoch have changed."""
        return bool(_RECONCILED_FIELDS(self) != _RECONCILED_FIELDS(before))

    def with_assignment(
        self, state: MemberState, epoch: int, assigned: AssignedTasks, revoking: AssignedTasks
    ) -> StreamsMember:
        """The member in an epoch; the previous one stays acceptable, as its response may have been lost."""
        last = self.member_epoch
        return replace(
            self, state=state, member_epoch=epoch, previous_member_epoch=last, assigned=assigned, revoking=revoking
        )


_RECONCILED_FIELDS = attrgetter("member_epoch", "state", "assigned", "revoking")


class TaskOwners:
    """The processes that have each task now, those that still have to revoke it included.

    Processes are not counted: where two members of a process have a copy of a task, and one gives it up, the process
    has none, as in Kafka.
    """

    def __init__(self) -> None:
        self._active: dict[Task, str] = {}
        self._standby: set[tuple[str, Task]] = set()
        self._warmup: set[tuple[str, Task]] = set()

    def replace_member(self, before: StreamsMember | None, after: StreamsMember | None) -> None:
        """Remove the tasks that a member had, and add those that it has."""
        if before is not None:
            for tasks in (before.assigned, before.revoking):
                for task in tasks.active:
                    if self._active.get(task) == before.process_id:
                        del self._active[task]
                self._standby.difference_update((before.process_id, task) for task in tasks.standby)
                self._warmup.difference_update((before.process_id, task) for task in tasks.warmup)
        if after is not None:
            for tasks in (after.assigned, after.revoking):
                self._active.update(dict.fromkeys(tasks.active, after.process_id))
                self._standby.update((after.process_id, task) for task in tasks.standby)
                self._warmup.update((after.process_id, task) for task in tasks.warmup)

    def find_assignable(self, missing: Tasks, process_id: str, own: AssignedTasks) -> Tasks:
        """The missing tasks that a member can get now.

        A task that is active somewhere, or of which the process has the state in another role, is not assignable. own:
        tasks of the member that it can get in another role.
        """

        def has_active(task: Task) -> bool:
            return self._active.get(task) == process_id

        def has_standby(task: Task) -> bool:
            return (process_id, task) in self._standby and task not in own.standby

        def has_warmup(task: Task) -> bool:
            return (process_id, task) in self._warmup and task not in own.warmup

        def is_free(task: Task) -> bool:
            return not has_standby(task) and not has_warmup(task)

        return Tasks(
            {task for task in missing.active if task not in self._active and is_free(task)},
            {task for task in missing.standby if is_free(task) and (task in own.active or not has_active(task))},
            {task for task in missing.warmup if is_free(task) and not has_active(task)},
        )


class TaskChange(NamedTuple):
    """One step of a member: the tasks that it has and keeps, those that it revokes, and those that it gets."""

    kept: AssignedTasks
    revoking: AssignedTasks
    added: Tasks

    def is_waiting(self, owned: Tasks | None) -> bool:
        """Return whether the member has not revoked all of the tasks. owned: those that it lists, None for no list."""
        return not self.revoking.is_empty and (owned is None or self.revoking.intersects(owned))

    def change_roles_in_place(self, assigned: AssignedTasks, target: Tasks, owned: Tasks | None) -> TaskChange:
        """Let the member have its tasks in their new roles without revoking them first.

        Source: the role changes of CurrentAssignmentBuilder in Kafka 4.4.0.
        """
        demoted = assigned.active.keys() & self.added.standby
        to_warmup, to_standby = assigned.standby & self.added.warmup, assigned.warmup & self.added.standby
        change = TaskChange(
            self.kept._replace(
                standby=self.kept.standby | demoted | to_standby,
                warmup=self.kept.warmup | to_warmup,
            ),
            self.revoking._replace(
                standby=self.revoking.standby - to_warmup - target.active,
                warmup=self.revoking.warmup - to_standby - target.active,
            ),
            self.added._replace(
                standby=self.added.standby - demoted - to_standby,
                warmup=self.added.warmup - to_warmup,
            ),
        )
        granted = set() if change.is_waiting(owned) else change.added.active
        kept = change.kept
        return change._replace(
            kept=kept._replace(
                standby=kept.standby | ((assigned.standby & target.active) - granted),
                warmup=kept.warmup | ((assigned.warmup & target.active) - granted),
            )
        )


def reconcile_member(
    member: StreamsMember,
    epoch: int,
    target: Tasks,
    owned: Tasks | None,
    holders: TaskOwners,
    *,
    changes_roles_in_place: bool = False,
) -> StreamsMember:
    """Take one step towards the target of an epoch. owned: the tasks that the member lists, None without a list."""
    if member.is_at(epoch):
        return member
    current_epoch = member.member_epoch
    if member.state is MemberState.UNREVOKED:
        if owned is None or member.revoking.intersects(owned):
            return member
        current_epoch += 1
    has = member.assigned
    kept = AssignedTasks(
        {task: since for task, since in has.active.items() if task in target.active},
        has.standby & target.standby,
        has.warmup & target.warmup,
    )
    revoking = AssignedTasks(
        {task: since for task, since in has.active.items() if task not in target.active},
        has.standby - target.standby,
        has.warmup - target.warmup,
    )
    missing = Tasks(target.active - kept.active.keys(), target.standby - kept.standby, target.warmup - kept.warmup)
    own = has if changes_roles_in_place else AssignedTasks()
    assignable = holders.find_assignable(missing, member.process_id, own)
    change = TaskChange(kept, revoking, assignable)
    if changes_roles_in_place:
        change = change.change_roles_in_place(has, target, owned)
    kept, added = change.kept, change.added
    if change.is_waiting(owned):
        return member.with_assignment(MemberState.UNREVOKED, current_epoch, kept, change.revoking)
    assigned = AssignedTasks(
        {**kept.active, **dict.fromkeys(added.active, epoch)},
        frozenset(kept.standby | added.standby),
        frozenset(kept.warmup | added.warmup),
    )
    state = MemberState.STABLE if assignable == missing else MemberState.UNRELEASED
    return member.with_assignment(state, epoch, assigned, AssignedTasks())


def partitions_by_subtopology(tasks: Iterable[Task]) -> dict[str, tuple[int, ...]]:
    """The partitions of tasks by subtopology, both in ascending order."""
    grouped: dict[str, tuple[int, ...]] = {}
    for subtopology_id, index in sorted(tasks):
        grouped[subtopology_id] = (*grouped.get(subtopology_id, ()), index)
    return grouped
