"""Groups under arbitrary histories: what must hold at every step, and what must come about in the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import ClassVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError
from mockbroker.state.group.classic_group import ClassicGroup, JoinRequest
from mockbroker.state.group.classic_rebalance import ClassicState
from mockbroker.state.group.consumer_group import ConsumerGroup
from mockbroker.state.group.consumer_members import ConsumerJoin
from mockbroker.state.group.coordinator_records import CoordinatorRecord
from mockbroker.state.group.group import Group
from mockbroker.state.groups import Groups
from mockbroker.state.share.share_group import ShareGroup, ShareJoin
from mockbroker.state.share.share_rules import RELEASED, ShareRules
from mockbroker.state.timers import Timers
from tests.support.brokers.group_topics import T, Topics, U

pytestmark = pytest.mark.slow

MEMBERS = st.sampled_from([f"m{index}" for index in range(5)])
NAMES = {"T": T, "U": U}


class Written:
    """What groups have written, and the group that another coordinator would make of it."""

    def __init__(self) -> None:
        self.facts: list[CoordinatorRecord] = []

    def record(self, group_id: str, facts: Sequence[CoordinatorRecord], now_ms: int) -> None:
        assert facts
        self.facts += facts

    def group(self, topics: Topics, rules: ShareRules = RELEASED) -> Group | None:
        groups = Groups(topics, lambda _key: None)
        groups.share_rules = rules
        for fact in self.facts:
            groups.replay(fact, now_ms=0)
        return groups.find_group("g")


class EpochGroups(RuleBasedStateMachine):
    """Members of a group of the newer protocols, over the topics T and U, which grow."""

    share_rules: ClassVar[ShareRules] = RELEASED

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 0
        self.topics = Topics()
        self.written = Written()
        self.epochs: dict[str, int] = {}
        self.topics.add("T", T, 3)
        self.topics.add("U", U, 2)

    def beat(self, member_id: str, epoch: int, topics: tuple[str, ...] | None = None) -> None:
        raise NotImplementedError

    @rule(member_id=MEMBERS, topics=st.sampled_from([("T",), ("U",), ("T", "U")]))
    def join(self, member_id: str, topics: tuple[str, ...]) -> None:
        if member_id not in self.epochs or self.share_rules.groups.accepts_rejoin_at_epoch_zero:
            self.beat(member_id, 0, topics)

    @rule(member_id=MEMBERS, topics=st.sampled_from([None, ("T",), ("T", "U"), ()]))
    def heartbeat(self, member_id: str, topics: tuple[str, ...] | None) -> None:
        if member_id in self.epochs:
            self.beat(member_id, self.epochs[member_id], topics)

    @rule(name=st.sampled_from(["T", "U"]), count=st.integers(1, 6))
    def grow(self, name: str, count: int) -> None:
        topic = self.topics.by_name[name]
        self.topics.add(name, NAMES[name], max(count, len(topic.partitions)))


class ConsumerGroups(EpochGroups):
    """Members that report exactly the partitions that they were assigned."""

    def __init__(self) -> None:
        super().__init__()
        self.timers = Timers()
        self.group = ConsumerGroup("g", self.topics, self.timers, self.written.record)
        self.owned: dict[str, set[tuple[bytes, int]]] = {}

    def beat(self, member_id: str, epoch: int, topics: tuple[str, ...] | None = None) -> None:
        owned = frozenset(() if epoch == 0 else self.owned[member_id])
        timeout_ms = 10_000 if epoch == 0 else -1
        join = ConsumerJoin(member_id, epoch, None, None, "c", "/h", timeout_ms, topics, None, None, owned)
        try:
            answer = self.group.heartbeat(
                join,
                settings={"consumer.session.timeout.ms": 45_000, "consumer.assignment.interval.ms": 0},
                broker={"group.consumer.max.size": 10, "group.consumer.regex.refresh.interval.ms": 600_000},
                default_assignor="uniform",
                now_ms=self.now_ms,
            )
        except KafkaError as error:
            # It was put out meanwhile: a real client gives everything up.
            if error.code not in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH):
                raise
            self.forget(member_id)
            return
        if epoch == 0:
            self.owned[member_id] = set()
        self.epochs[member_id] = answer.member.member_epoch
        if answer.assigned is not None:
            self.owned[member_id] = set(answer.assigned)

    def forget(self, member_id: str) -> None:
        self.owned.pop(member_id, None)
        self.epochs.pop(member_id, None)

    @rule(member_id=MEMBERS)
    def leave(self, member_id: str) -> None:
        if member_id in self.group.members:
            self.group.leave(member_id, None, -1, now_ms=self.now_ms)
        self.forget(member_id)

    @rule(duration_ms=st.sampled_from([100, 6_000, 20_000]))
    def wait(self, duration_ms: int) -> None:
        self.now_ms += duration_ms
        self.timers.expire(now_ms=self.now_ms)
        for member_id in self.epochs.keys() - self.group.members.keys():
            self.forget(member_id)

    @invariant()
    def no_partition_has_two_owners(self) -> None:
        partitions = Counter(entry for m in self.group.members.values() for entry in (*m.assigned, *m.revoking))
        assert all(count == 1 for count in partitions.values())
        claimed = Counter(entry for owned in self.owned.values() for entry in owned)
        assert all(count == 1 for count in claimed.values())

    @invariant()
    def the_log_has_all_of_it(self) -> None:
        group, again = self.group, self.written.group(self.topics)
        if again is None:
            assert not group.members
            return
        assert isinstance(again, ConsumerGroup)
        assert again.members == group.members
        assert again.target == group.target
        assert (again.group_epoch, again.assignment_epoch) == (group.group_epoch, group.assignment_epoch)
        assert again.assigned_at_ms == group.assigned_at_ms

    def teardown(self) -> None:
        for _ in range(6):
            for member_id in list(self.epochs):
                self.beat(member_id, self.epochs[member_id])
        if not self.epochs:
            return
        assert self.group.state_name == "Stable"
        subscribed = {name for member in self.group.members.values() for name in member.subscribed_topic_names}
        expected = {(NAMES[name], index) for name in subscribed for index in self.topics.by_name[name].partitions}
        assert set().union(*self.owned.values()) == expected


class ShareGroups(EpochGroups):
    """Members of a share group whose initializations succeed, fail or are delayed. share_rules: the edition's rules."""

    def __init__(self) -> None:
        super().__init__()
        self.groups = Groups(self.topics, lambda _key: None, self.written.record)
        self.groups.share_rules = self.share_rules
        self.started: list[dict[bytes, frozenset[int]]] = []

    def beat(self, member_id: str, epoch: int, topics: tuple[str, ...] | None = None) -> None:
        group = self.groups.get_share_group("g", create=epoch == 0)
        answer = group.heartbeat(
            ShareJoin(member_id, epoch, None, "c", "/h", topics),
            settings={"share.session.timeout.ms": 45_000, "share.assignment.interval.ms": 0},
            broker={
                "group.share.max.size": 10,
                "group.share.initialize.retry.interval.ms": 30_000,
                "offsets.commit.timeout.ms": 5_000,
            },
            now_ms=self.now_ms,
        )
        before = self.epochs.get(member_id, 0)
        self.epochs[member_id] = answer.member.member_epoch
        assert answer.member.member_epoch >= before
        if answer.initialization is not None:
            self.started.append(answer.initialization.partitions)

    @rule(member_id=MEMBERS)
    def leave(self, member_id: str) -> None:
        if self.epochs.pop(member_id, None) is not None:
            self.groups.get_share_group("g").leave(member_id, now_ms=self.now_ms)

    @rule(works=st.booleans())
    def end_initialisation(self, works: bool) -> None:
        if self.started:
            group, partitions = self.groups.get_share_group("g"), self.started.pop(0)
            if works:
                group.partition_states.complete_initializing(partitions)
            else:
                group.partition_states.fail_initializing(partitions)
            group.write_records(self.now_ms)

    @rule(duration_ms=st.sampled_from([100, 31_000]))
    def wait(self, duration_ms: int) -> None:
        self.now_ms += duration_ms
        self.groups.expire(now_ms=self.now_ms)
        members = self.groups.get_share_group("g").members if self.groups.find_group("g") else {}
        for member_id in self.epochs.keys() - members.keys():
            del self.epochs[member_id]

    @invariant()
    def the_log_has_all_of_it(self) -> None:
        group, again = self.groups.find_group("g"), self.written.group(self.topics, self.share_rules)
        if not isinstance(group, ShareGroup):
            return
        assert isinstance(again, ShareGroup)
        rules = self.share_rules
        assert again.members.keys() == group.members.keys()
        if rules.group_records.persists_assignments:
            assert again.members == group.members
            assert again.target == group.target
            assert again.assignment_epoch == group.assignment_epoch
        # The record that reserves the name does not have the present epoch.
        assert again.group_epoch == group.group_epoch or not rules.group_records.writes_every_epoch
        assert again.group_epoch <= group.group_epoch
        states, present = again.partition_states, group.partition_states
        assert (states.initialized, states.deleting) == (present.initialized, present.deleting)
        if rules.group_records.lists_initializing_partitions:
            begun = [{key: row.partitions for key, row in each.initializing.items()} for each in (states, present)]
            assert begun[0] == begun[1]

    @invariant()
    def only_initialised_partitions_of_wanted_topics_are_assigned(self) -> None:
        if self.groups.find_group("g") is None:
            return
        group = self.groups.get_share_group("g")
        assert group.assignment_epoch <= group.group_epoch
        for member in group.members.values():
            for topic_id, indexes in member.assigned.items():
                assert (
                    not self.share_rules.state.initialized_before_assignment
                    or indexes <= group.partition_states.initialized[topic_id]
                )
                assert topic_id in {NAMES[name] for name in member.subscribed_topic_names}

    def teardown(self) -> None:
        for _ in range(6):
            self.now_ms += 31_000
            for member_id in list(self.epochs):
                self.beat(member_id, self.epochs[member_id], None)
            while self.started:
                self.groups.get_share_group("g").partition_states.complete_initializing(self.started.pop(0))
        if not self.epochs:
            return
        group = self.groups.get_share_group("g")
        subscribed = {name for member in group.members.values() for name in member.subscribed_topic_names}
        for name in subscribed:
            assigned = [member.assigned.get(NAMES[name], frozenset()) for member in group.members.values()]
            assert frozenset().union(*assigned) == frozenset(self.topics.by_name[name].partitions)


class ClassicGroups(RuleBasedStateMachine):
    """Members of a classic group that join, sync, stay, leave and fall silent as they like."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 0
        self.made = 0
        self.timers = Timers()
        self.written = Written()
        self.group = ClassicGroup("g", self.timers, lambda: None, self.written.record)
        self.ids: dict[str, str] = {}
        self.generation = 0

    @rule(who=MEMBERS, static=st.booleans(), known=st.booleans(), size=st.sampled_from([b"a", b"b"]))
    def join(self, who: str, static: bool, known: bool, size: bytes) -> None:
        self.made += 1
        new_id = f"{who}-{self.made}"
        member_id = self.ids.get(who, "") if known else ""
        static = static and member_id not in self.group.members.pending_ids
        join = JoinRequest(
            member_id, "" if member_id else new_id, who if static else None, "c", "/h", 10_000, 15_000,
            "consumer", (("range", size),), must_know_id=not known,
        )  # fmt: skip
        broker = {"group.initial.rebalance.delay.ms": 3_000, "group.max.size": 4}
        self.group.join(join, broker=broker, now_ms=self.now_ms)
        self.ids[who] = member_id or new_id

    @rule(who=MEMBERS)
    def sync(self, who: str) -> None:
        member = (self.ids.get(who, "?"), None, self.group.generation_id)
        with suppress(KafkaError):
            self.group.sync(
                *member, protocol_type="consumer", protocol_name="range", assignments={}, now_ms=self.now_ms
            )

    @rule(who=MEMBERS)
    def heartbeat(self, who: str) -> None:
        with suppress(KafkaError):
            self.group.heartbeat(self.ids.get(who, "?"), None, self.group.generation_id, now_ms=self.now_ms)

    @rule(who=MEMBERS, by_instance=st.booleans())
    def leave(self, who: str, by_instance: bool) -> None:
        leaver = ("", who) if by_instance else (self.ids.get(who, "?"), None)
        self.group.leave([leaver], now_ms=self.now_ms)

    @rule(duration_ms=st.sampled_from([500, 3_000, 9_999, 15_000]))
    def wait(self, duration_ms: int) -> None:
        self.now_ms += duration_ms
        self.timers.expire(now_ms=self.now_ms)

    @invariant()
    def state_and_members_agree(self) -> None:
        group = self.group
        assert (group.state is ClassicState.EMPTY) <= (len(group.members) == 0)
        assert self.generation <= group.generation_id
        self.generation = group.generation_id
        if len(group.members):
            assert group.members.leader_id in group.members
        if group.state is ClassicState.STABLE:
            assert not any(member.pending_sync or member.pending_join for member in group.members.in_map_order())

    @invariant()
    def the_log_has_the_last_complete_generation(self) -> None:
        again = self.written.group(Topics())
        if again is None or self.group.state not in (ClassicState.EMPTY, ClassicState.STABLE):
            return
        assert isinstance(again, ClassicGroup)
        assert again.state is self.group.state
        assert again.generation_id == self.group.generation_id
        assert again.members.by_instance == self.group.members.by_instance
        assert again.members.leader_id == self.group.members.leader_id
        assert list(again.members.by_id) == [member.member_id for member in self.group.members.in_map_order()]

    def teardown(self) -> None:
        # No member sends requests: in the end no request is waiting, and no member is left.
        while (deadline_ms := self.timers.next_deadline_ms()) is not None:
            self.timers.expire(now_ms=deadline_ms)
        assert self.group.state is ClassicState.EMPTY
        assert not self.group.members.pending_ids
        assert not any(member.pending_join for member in self.group.members.in_map_order())


TestConsumerGroups = ConsumerGroups.TestCase
TestShareGroups = ShareGroups.TestCase
TestClassicGroups = ClassicGroups.TestCase
_SETTINGS = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestConsumerGroups.settings = TestShareGroups.settings = TestClassicGroups.settings = _SETTINGS
