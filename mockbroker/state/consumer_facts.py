"""What a consumer group consists of, noted in its coordinator's log as it changes, and made again from the notes."""

from __future__ import annotations

from mockbroker.state.consumer_members import ConsumerMember, MemberState
from mockbroker.state.group_facts import (
    ConsumerCurrentFact,
    EpochFact,
    Fact,
    FactKind,
    Ledger,
    MemberFact,
    Record,
    RegexFact,
    TargetEpochFact,
    TargetFact,
    keep_no_record,
)
from mockbroker.state.group_kinds import Assignment

#: The states by the numbers that records have for them.
_STATES = tuple(MemberState)


class ConsumerFacts:
    """Members, epochs, target and resolved expressions of one group."""

    def __init__(self, group_id: str, record: Record = keep_no_record) -> None:
        self.group_id = group_id
        self.ledger = Ledger(group_id, record)
        self.members: dict[str, ConsumerMember] = {}
        self.static: dict[str, str] = {}
        self.group_epoch = 1
        self.assignment_epoch = 1
        self.assigned_at_ms: int | None = None
        self.target: dict[str, Assignment] = {}
        self.resolved: dict[str, frozenset[str]] = {}
        self._resolved_at_ms: int | None = None
        self._resolved_version = -1
        self._digest = 0
        self.ledger.presume(FactKind.CONSUMER_EPOCH, EpochFact(self.group_epoch, self._digest))

    def take_in(self, member: ConsumerMember, target: Assignment) -> None:
        """Add a member that has been in the group under another protocol, with what it should have."""
        self.members[member.member_id] = member
        self.target[member.member_id] = target
        if member.instance_id is not None:
            self.static[member.instance_id] = member.member_id

    def begin_at(self, epoch: int, former: Ledger) -> None:
        """Go on from the last generation of a classic group, whose end is noted with all that this one begins with."""
        self.ledger.succeed(former, FactKind.CLASSIC_GROUP)
        self.group_epoch = self.assignment_epoch = epoch
        self.assigned_at_ms = 0
        self._digest = self._seen_now()
        for member in self.members.values():
            self._note_member(member)
        self._note_epoch()
        for member_id in self.target:
            self._note_target(member_id)
        self.ledger.note(FactKind.CONSUMER_TARGET_EPOCH, TargetEpochFact(epoch, 0))
        for member in self.members.values():
            self._note_current(member)

    def _seen_now(self) -> int:
        """What the subscriptions see of the metadata."""
        return self._digest

    def _note(self, member: ConsumerMember, *, assigned: bool) -> None:
        """Note what a heartbeat may have changed, in Kafka's order. assigned: the assignor has run."""
        self._note_member(member)
        self._note_epoch()
        if assigned:
            for member_id in self.target:
                self._note_target(member_id)
            at_ms = self.assigned_at_ms or 0
            self.ledger.note(FactKind.CONSUMER_TARGET_EPOCH, TargetEpochFact(self.assignment_epoch, at_ms))
        self._note_current(member)

    def _note_replacement(self, old_id: str, member: ConsumerMember) -> None:
        """Note that a static member has a new id; what a heartbeat makes of it is noted after that."""
        self._strike(old_id)
        self._note_member(member)
        self._note_target(member.member_id)
        self._note_current(member)

    def _note_member(self, member: ConsumerMember) -> None:
        says = MemberFact(
            member.rack_id,
            member.client_id,
            member.client_host,
            member.subscribed_topic_names,
            member.instance_id,
            member.subscribed_topic_regex,
            member.rebalance_timeout_ms,
            member.server_assignor,
            member.classic,
        )
        self.ledger.note(FactKind.CONSUMER_MEMBER, says, member.member_id)

    def _note_target(self, member_id: str) -> None:
        self.ledger.note(FactKind.CONSUMER_TARGET, TargetFact(self.target[member_id]), member_id)

    def _note_epoch(self) -> None:
        self.ledger.note(FactKind.CONSUMER_EPOCH, EpochFact(self.group_epoch, self._digest))

    def _note_current(self, member: ConsumerMember) -> None:
        has = ConsumerCurrentFact(
            member.member_epoch,
            member.previous_member_epoch,
            _STATES.index(member.state),
            member.assigned,
            member.revoking,
        )
        self.ledger.note(FactKind.CONSUMER_CURRENT, has, member.member_id)

    def _note_resolved(self, now_ms: int) -> None:
        for regex, names in self.resolved.items():
            self.ledger.put(FactKind.CONSUMER_REGEX, RegexFact(names, self._resolved_version, now_ms), regex)

    def _strike(self, member_id: str) -> None:
        """Note that a member is no more."""
        for kind in (FactKind.CONSUMER_CURRENT, FactKind.CONSUMER_TARGET, FactKind.CONSUMER_MEMBER):
            self.ledger.strike(kind, member_id)

    def _keep_resolved(self, regexes: set[str]) -> None:
        """Forget what expressions mean that nobody subscribes to any more."""
        for regex in self.resolved.keys() - regexes:
            del self.resolved[regex]
            self.ledger.strike(FactKind.CONSUMER_REGEX, regex)

    def replay(self, fact: Fact, *, now_ms: int) -> None:
        """Take over a fact from the log; of now_ms, when that is, nothing depends here."""
        self.ledger.replay(fact)
        value = fact.value
        if isinstance(value, EpochFact):
            self.group_epoch, self._digest = value
        elif isinstance(value, TargetEpochFact):
            self.assignment_epoch, self.assigned_at_ms = value
        elif isinstance(value, TargetFact):
            self.target[fact.name] = dict(value.partitions)
        elif isinstance(value, RegexFact):
            self.resolved[fact.name], self._resolved_version, self._resolved_at_ms = value
        elif isinstance(value, MemberFact):
            self._replay_member(fact.name, value)
        elif isinstance(value, ConsumerCurrentFact):
            member = self.members.setdefault(fact.name, ConsumerMember(fact.name))
            member.member_epoch, member.previous_member_epoch = value[:2]
            member.state = _STATES[value.state]
            member.assigned, member.revoking = dict(value.assigned), dict(value.revoking)
        else:
            self._replay_end(fact)

    def _replay_member(self, member_id: str, says: MemberFact) -> None:
        member = self.members.setdefault(member_id, ConsumerMember(member_id))
        member.rack_id, member.client_id, member.client_host, member.subscribed_topic_names = says[:4]
        member.instance_id, member.subscribed_topic_regex = says.instance_id, says.subscribed_topic_regex
        member.rebalance_timeout_ms, member.server_assignor = says.rebalance_timeout_ms, says.server_assignor
        member.classic = says.classic
        if member.instance_id is not None:
            self.static[member.instance_id] = member_id

    def _replay_end(self, fact: Fact) -> None:
        if fact.kind is FactKind.CONSUMER_MEMBER:
            member = self.members.pop(fact.name, None)
            if member is not None and member.instance_id is not None and self.static[member.instance_id] == fact.name:
                del self.static[member.instance_id]
        elif fact.kind is FactKind.CONSUMER_TARGET:
            self.target.pop(fact.name, None)
        elif fact.kind is FactKind.CONSUMER_REGEX:
            self.resolved.pop(fact.name, None)
