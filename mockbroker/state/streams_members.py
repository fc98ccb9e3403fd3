"""A member of a streams group, its tasks, and how it gets from what it has to its target (KIP-1071).

Source: Kafka's CurrentAssignmentBuilder; pinned by the conversations other-streams-two-members, -threads and -standby.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import NamedTuple

#: A subtopology's id and a partition.
Task = tuple[str, int]


class Tasks(NamedTuple):
    """Tasks that a member should have, or says that it has."""

    active: Set[Task] = frozenset()
    standby: Set[Task] = frozenset()
    warmup: Set[Task] = frozenset()


class Held(NamedTuple):
    """Tasks that a member has; active ones with the member epoch in which each was assigned."""

    active: Mapping[Task, int] = {}
    standby: Set[Task] = frozenset()
    warmup: Set[Task] = frozenset()

    @property
    def is_empty(self) -> bool:
        """Say whether there is none."""
        return not (self.active or self.standby or self.warmup)

    def shares(self, tasks: Tasks) -> bool:
        """Say whether one of them is among these, as a task of the same kind."""
        pairs = ((self.active.keys(), tasks.active), (self.standby, tasks.standby), (self.warmup, tasks.warmup))
        return any(not mine.isdisjoint(theirs) for mine, theirs in pairs)


class MemberState(IntEnum):
    """Where a member is on the way to its target; the numbers are those of Kafka's records."""

    STABLE = 1
    UNREVOKED = 2
    UNRELEASED = 3


@dataclass(frozen=True, slots=True)
class StreamsMember:
    """One member as it is between two heartbeats. client_tags: sorted by key."""

    member_id: str
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
    assigned: Held = field(default_factory=Held)
    revoking: Held = field(default_factory=Held)

    def is_at(self, assignment_epoch: int) -> bool:
        """Say whether it has all of the target of this epoch."""
        return self.state is MemberState.STABLE and self.member_epoch == assignment_epoch

    def has_moved(self, before: StreamsMember) -> bool:
        """Say whether it has got other tasks, or another epoch, than it had."""
        return (self.member_epoch, self.state, self.assigned, self.revoking) != (
            before.member_epoch,
            before.state,
            before.assigned,
            before.revoking,
        )

    def moved(self, state: MemberState, epoch: int, assigned: Held, revoking: Held) -> StreamsMember:
        """The member in an epoch; the one before stays acceptable, as its answer may have been lost."""
        return replace(
            self,
            state=state,
            member_epoch=epoch,
            previous_member_epoch=self.member_epoch,
            assigned=assigned,
            revoking=revoking,
        )


class Holders:
    """Which processes have which tasks now, those that are still to be given up included."""

    def __init__(self, members: Iterable[StreamsMember]) -> None:
        self._active: dict[Task, str] = {}
        self._copies: set[tuple[str, Task]] = set()
        for member in members:
            for held in (member.assigned, member.revoking):
                self._active.update(dict.fromkeys(held.active, member.process_id))
                self._copies.update((member.process_id, task) for task in (*held.standby, *held.warmup))

    def keep_active(self, task: Task, process_id: str) -> bool:
        """Say whether nobody may work on the task yet: somebody does, or this process has a copy of its state."""
        return task in self._active or (process_id, task) in self._copies

    def keep_copy(self, task: Task, process_id: str) -> bool:
        """Say whether this process may have no copy of the task's state yet, as it has that state in another role."""
        return self._active.get(task) == process_id or (process_id, task) in self._copies


def reconcile(member: StreamsMember, epoch: int, target: Tasks, owned: Tasks | None, holders: Holders) -> StreamsMember:
    """Take one step towards the target of an epoch. owned: what the member says it has, None if it says nothing."""
    if member.is_at(epoch):
        return member
    current_epoch = member.member_epoch
    if member.state is MemberState.UNREVOKED:
        if owned is None or member.revoking.shares(owned):
            return member
        current_epoch += 1
    kept = Held(
        {task: since for task, since in member.assigned.active.items() if task in target.active},
        member.assigned.standby & target.standby,
        member.assigned.warmup & target.warmup,
    )
    revoking = Held(
        {task: since for task, since in member.assigned.active.items() if task not in target.active},
        member.assigned.standby - target.standby,
        member.assigned.warmup - target.warmup,
    )
    if not revoking.is_empty and (owned is None or revoking.shares(owned)):
        return member.moved(MemberState.UNREVOKED, current_epoch, kept, revoking)
    process_id = member.process_id
    wanted = Tasks(target.active - kept.active.keys(), target.standby - kept.standby, target.warmup - kept.warmup)
    free = Tasks(
        {task for task in wanted.active if not holders.keep_active(task, process_id)},
        {task for task in wanted.standby if not holders.keep_copy(task, process_id)},
        {task for task in wanted.warmup if not holders.keep_copy(task, process_id)},
    )
    assigned = Held(
        {**kept.active, **dict.fromkeys(free.active, epoch)},
        frozenset(kept.standby | free.standby),
        frozenset(kept.warmup | free.warmup),
    )
    state = MemberState.STABLE if free == wanted else MemberState.UNRELEASED
    return member.moved(state, epoch, assigned, Held())
