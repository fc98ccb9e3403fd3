"""What a streams group consists of, noted in its coordinator's log as it changes, and made again from the notes."""

from __future__ import annotations

from dataclasses import replace

from mockbroker.state.group_facts import (
    Fact,
    FactKind,
    Ledger,
    Record,
    TargetEpochFact,
    keep_no_record,
)
from mockbroker.state.java_order import JavaSet, timeline_walk
from mockbroker.state.streams_members import Held, MemberState, StreamsMember, Tasks
from mockbroker.state.streams_topology import Topology
from mockbroker.state.streams_values import (
    StreamsCurrentFact,
    StreamsEpochFact,
    StreamsMemberFact,
    StreamsTargetFact,
)
from mockbroker.state.topics import java_hash


class StreamsFacts:
    """Members, topology, epochs and target of one group."""

    def __init__(self, group_id: str, record: Record = keep_no_record) -> None:
        self.group_id = group_id
        self.ledger = Ledger(group_id, record)
        self.members: dict[str, StreamsMember] = {}
        self._members_most = 0
        self.topology: Topology | None = None
        self.group_epoch = 1
        self.assignment_epoch = 1
        self.assigned_at_ms: int | None = None
        self.target: dict[str, Tasks] = {}
        self.validated_topology_epoch = 0
        self.configs: tuple[tuple[str, str], ...] = ()
        self._digest = 0

    def _put(self, member: StreamsMember) -> None:
        """Let a member be as it is now."""
        self.members[member.member_id] = member
        self._members_most = max(self._members_most, len(self.members))

    def _walk(self) -> dict[str, StreamsMember]:
        """The members in the order in which Kafka's coordinator has them."""
        order = timeline_walk(self.members, java_hash, most=self._members_most)
        return {member_id: self.members[member_id] for member_id in order}

    def _note_member(self, member: StreamsMember) -> None:
        """Note what a member says of itself, if it is news."""
        says = StreamsMemberFact(
            member.rack_id,
            member.client_id,
            member.client_host,
            member.rebalance_timeout_ms,
            member.topology_epoch,
            member.process_id,
            member.user_endpoint,
            member.client_tags,
        )
        self.ledger.note(FactKind.STREAMS_MEMBER, says, member.member_id)

    def _note_epoch(self) -> None:
        """Note the group's epoch."""
        fact = StreamsEpochFact(self.group_epoch, self._digest, self.validated_topology_epoch, self.configs)
        self.ledger.note(FactKind.STREAMS_EPOCH, fact)

    def _note_target(self) -> None:
        """Note the targets of members that have another one now, and the epoch of all."""
        for member_id in JavaSet(java_hash, self.target):
            self.ledger.note(FactKind.STREAMS_TARGET, StreamsTargetFact(*self.target[member_id]), member_id)
        epoch = TargetEpochFact(self.assignment_epoch, self.assigned_at_ms or 0)
        self.ledger.note(FactKind.STREAMS_TARGET_EPOCH, epoch)

    def _note_current(self, member: StreamsMember) -> None:
        """Note what a member has, if it is news."""
        has = StreamsCurrentFact(
            member.member_epoch, member.previous_member_epoch, int(member.state), member.assigned, member.revoking
        )
        self.ledger.note(FactKind.STREAMS_CURRENT, has, member.member_id)

    def _strike(self, member_id: str) -> None:
        """Note that a member is no more; Kafka strikes all of it out, whether it was there or not."""
        for kind in (FactKind.STREAMS_CURRENT, FactKind.STREAMS_TARGET, FactKind.STREAMS_MEMBER):
            self.ledger.strike(kind, member_id, anyway=True)

    def replay(self, fact: Fact, *, now_ms: int) -> None:
        """Take over a fact from the log; of now_ms, when that is, nothing depends here."""
        self.ledger.replay(fact)
        value = fact.value
        if isinstance(value, StreamsEpochFact):
            self.group_epoch, self._digest, self.validated_topology_epoch, self.configs = value
        elif isinstance(value, TargetEpochFact):
            self.assignment_epoch, self.assigned_at_ms = value.epoch, value.assigned_at_ms or None
        elif isinstance(value, StreamsTargetFact):
            self.target[fact.name] = Tasks(*value)
        elif isinstance(value, Topology):
            self.topology = value
        elif isinstance(value, StreamsMemberFact):
            self._replay_member(fact.name, value)
        elif isinstance(value, StreamsCurrentFact):
            self._replay_current(fact.name, value)
        elif fact.kind is FactKind.STREAMS_MEMBER:
            self.members.pop(fact.name, None)
        elif fact.kind is FactKind.STREAMS_TARGET:
            self.target.pop(fact.name, None)

    def _replay_member(self, member_id: str, says: StreamsMemberFact) -> None:
        member = self.members.get(member_id, StreamsMember(member_id))
        self._put(replace(member, **says._asdict()))

    def _replay_current(self, member_id: str, has: StreamsCurrentFact) -> None:
        self._put(
            replace(
                self.members.get(member_id, StreamsMember(member_id)),
                member_epoch=has.member_epoch,
                previous_member_epoch=has.previous_member_epoch,
                state=MemberState(has.state),
                assigned=Held(*has.assigned),
                revoking=Held(*has.revoking),
            )
        )
