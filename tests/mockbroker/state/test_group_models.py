"""Groups under arbitrary histories: what must hold at every step, and what must come about in the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import ClassVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError
from mockbroker.state.classic_group import ClassicGroup, Join
from mockbroker.state.classic_members import JoinAnswer, Promise, SyncAnswer
from mockbroker.state.classic_rebalance import ClassicState
from mockbroker.state.consumer_group import ConsumerGroup, ConsumerJoin
from mockbroker.state.group_facts import Fact
from mockbroker.state.group_kinds import Group
from mockbroker.state.group_timers import Timers
from mockbroker.state.groups import Groups
from mockbroker.state.share_group import ShareGroup, ShareJoin
from mockbroker.state.share_rules import RELEASED, ShareRules
from tests.mockbroker.state.group_kit import T, Topics, U

MEMBERS = st.sampled_from([f"m{index}" for index in range(5)])
NAMES = {"T": T, "U": U}


class Written:
    """What groups have written, and the group that another coordinator would make of it."""

    def __init__(self) -> None:
        self.facts: list[Fact] = []

    def record(self, group_id: str, facts: Sequence[Fact], now_ms: int) -> None:
        assert facts
        self.facts += facts

    def group(self, topics: Topics, rules: ShareRules = RELEASED) -> Group | None:
        groups = Groups(topics, lambda _key: None)
        groups.share_rules = rules
        for fact in self.facts:
            groups.replay(fact, now_ms=0)
        return groups.find("g")


class ConsumerGroups(RuleBasedStateMachine):
    """Honest members: each has what it was last told, and says so."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 0
        self.topics = Topics()
        self.timers = Timers()
        self.written = Written()
        self.group = ConsumerGroup("g", self.topics, self.timers, self.written.record)
        self.owned: dict[str, set[tuple[bytes, int]]] = {}
        self.epochs: dict[str, int] = {}
        self.topics.add("T", T, 3)
        self.topics.add("U", U, 2)

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
        except KafkaError as refusal:
            # It was put out meanwhile: a real client gives everything up.
            if refusal.code not in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH):
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

    @rule(member_id=MEMBERS, topics=st.sampled_from([("T",), ("U",), ("T", "U")]))
    def join(self, member_id: str, topics: tuple[str, ...]) -> None:
        self.beat(member_id, 0, topics)

    @rule(member_id=MEMBERS, topics=st.sampled_from([None, ("T",), ("T", "U"), ()]))
    def heartbeat(self, member_id: str, topics: tuple[str, ...] | None) -> None:
        if member_id in self.epochs:
            self.beat(member_id, self.epochs[member_id], topics)

    @rule(member_id=MEMBERS)
    def leave(self, member_id: str) -> None:
        if member_id in self.group.members:
            self.group.leave(member_id, None, -1, now_ms=self.now_ms)
        self.forget(member_id)

    @rule(name=st.sampled_from(["T", "U"]), count=st.integers(1, 6))
    def grow(self, name: str, count: int) -> None:
        topic = self.topics.by_name[name]
        self.topics.add(name, NAMES[name], max(count, len(topic.partitions)))

    @rule(duration_ms=st.sampled_from([100, 6_000, 20_000]))
    def wait(self, duration_ms: int) -> None:
        self.now_ms += duration_ms
        self.timers.expire(now_ms=self.now_ms)
        for member_id in self.epochs.keys() - self.group.members.keys():
            self.forget(member_id)

    @invariant()
    def no_partition_has_two_owners(self) -> None:
        held = Counter(entry for m in self.group.members.values() for entry in (*m.assigned, *m.revoking))
        assert all(count == 1 for count in held.values())
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
        wanted = {name for member in self.group.members.values() for name in member.subscribed_topic_names}
        expected = {(NAMES[name], index) for name in wanted for index in self.topics.by_name[name].partitions}
        assert set().union(*self.owned.values()) == expected


class ShareGroups(RuleBasedStateMachine):
    """Members of a share group whose initialisations succeed, fail or are late. share_rules: what it plays by."""

    share_rules: ClassVar[ShareRules] = RELEASED

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 0
        self.topics = Topics()
        self.written = Written()
        self.groups = Groups(self.topics, lambda _key: None, self.written.record)
        self.groups.share_rules = self.share_rules
        self.epochs: dict[str, int] = {}
        self.started: list[dict[bytes, frozenset[int]]] = []

    @initialize()
    def begin(self) -> None:
        self.topics.add("T", T, 3)
        self.topics.add("U", U, 2)

    def beat(self, member_id: str, epoch: int, topics: tuple[str, ...] | None) -> None:
        group = self.groups.share("g", create=epoch == 0)
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
        if answer.initialise is not None:
            self.started.append(answer.initialise.partitions)

    @rule(member_id=MEMBERS, topics=st.sampled_from([("T",), ("U",), ("T", "U")]))
    def join(self, member_id: str, topics: tuple[str, ...]) -> None:
        if member_id not in self.epochs or self.share_rules.rejoins_freely:
            self.beat(member_id, 0, topics)

    @rule(member_id=MEMBERS, topics=st.sampled_from([None, ("T",), ()]))
    def heartbeat(self, member_id: str, topics: tuple[str, ...] | None) -> None:
        if member_id in self.epochs:
            self.beat(member_id, self.epochs[member_id], topics)

    @rule(member_id=MEMBERS)
    def leave(self, member_id: str) -> None:
        if self.epochs.pop(member_id, None) is not None:
            self.groups.share("g").leave(member_id, now_ms=self.now_ms)

    @rule(works=st.booleans())
    def end_initialisation(self, works: bool) -> None:
        if self.started:
            group = self.groups.share("g")
            (group.states.succeed if works else group.states.fail)(self.started.pop(0))
            group.write(self.now_ms)

    @rule(duration_ms=st.sampled_from([100, 31_000]))
    def wait(self, duration_ms: int) -> None:
        self.now_ms += duration_ms
        self.groups.expire(now_ms=self.now_ms)
        members = self.groups.share("g").members if self.groups.find("g") else {}
        for member_id in self.epochs.keys() - members.keys():
            del self.epochs[member_id]

    @rule(count=st.integers(3, 6))
    def grow(self, count: int) -> None:
        self.topics.add("T", T, max(count, len(self.topics.by_name["T"].partitions)))

    @invariant()
    def the_log_has_all_of_it(self) -> None:
        group, again = self.groups.find("g"), self.written.group(self.topics, self.share_rules)
        if not isinstance(group, ShareGroup):
            return
        assert isinstance(again, ShareGroup)
        rules = self.share_rules
        assert again.members.keys() == group.members.keys()
        if rules.keeps_assignments:
            assert again.members == group.members
            assert again.target == group.target
            assert again.assignment_epoch == group.assignment_epoch
        # What is written once, to reserve the name, does not tell the epoch of now.
        assert again.group_epoch == group.group_epoch or not rules.writes_each_epoch
        assert again.group_epoch <= group.group_epoch
        assert (again.states.initialized, again.states.deleting) == (group.states.initialized, group.states.deleting)
        if not rules.notes_initialising:
            return
        on_the_way = [{key: one.partitions for key, one in each.states.initializing.items()} for each in (again, group)]
        assert on_the_way[0] == on_the_way[1]

    @invariant()
    def only_initialised_partitions_of_wanted_topics_are_assigned(self) -> None:
        if self.groups.find("g") is None:
            return
        group = self.groups.share("g")
        assert group.assignment_epoch <= group.group_epoch
        for member in group.members.values():
            for topic_id, indexes in member.assigned.items():
                assert not self.share_rules.state_first or indexes <= group.states.initialized[topic_id]
                assert topic_id in {NAMES[name] for name in member.subscribed_topic_names}

    def teardown(self) -> None:
        for _ in range(6):
            self.now_ms += 31_000
            for member_id in list(self.epochs):
                self.beat(member_id, self.epochs[member_id], None)
            while self.started:
                self.groups.share("g").states.succeed(self.started.pop(0))
        if not self.epochs:
            return
        group = self.groups.share("g")
        wanted = {name for member in group.members.values() for name in member.subscribed_topic_names}
        for name in wanted:
            held = [member.assigned.get(NAMES[name], frozenset()) for member in group.members.values()]
            assert frozenset().union(*held) == frozenset(self.topics.by_name[name].partitions)


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
        self.joins: list[Promise[JoinAnswer]] = []
        self.syncs: list[Promise[SyncAnswer]] = []
        self.generation = 0

    @rule(who=MEMBERS, static=st.booleans(), known=st.booleans(), size=st.sampled_from([b"a", b"b"]))
    def join(self, who: str, static: bool, known: bool, size: bytes) -> None:
        self.made += 1
        new_id = f"{who}-{self.made}"
        member_id = self.ids.get(who, "") if known else ""
        static = static and member_id not in self.group.members.pending
        join = Join(
            member_id, "" if member_id else new_id, who if static else None, "c", "/h", 10_000, 15_000,
            "consumer", (("range", size),), must_know_id=not known,
        )  # fmt: skip
        promise = self.group.join(
            join, broker={"group.initial.rebalance.delay.ms": 3_000, "group.max.size": 4}, now_ms=self.now_ms
        )
        self.joins.append(promise)
        self.ids[who] = member_id or new_id

    @rule(who=MEMBERS)
    def sync(self, who: str) -> None:
        try:
            promise = self.group.sync(
                self.ids.get(who, "?"), None, self.group.generation_id,
                protocol_type="consumer", protocol_name="range", assignments={}, now_ms=self.now_ms,
            )  # fmt: skip
        except KafkaError:
            return
        self.syncs.append(promise)

    @rule(who=MEMBERS)
    def heartbeat(self, who: str) -> None:
        try:
            self.group.heartbeat(self.ids.get(who, "?"), None, self.group.generation_id, now_ms=self.now_ms)
        except KafkaError:
            return

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
            assert not any(member.syncing or member.joining for member in group.members.all())

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
        assert list(again.members.by_id) == [member.member_id for member in self.group.members.all()]

    def teardown(self) -> None:
        # Everybody falls silent: in the end nobody waits for an answer, and nobody is left.
        while (deadline_ms := self.timers.next_deadline_ms()) is not None:
            self.timers.expire(now_ms=deadline_ms)
        assert self.group.state is ClassicState.EMPTY
        assert not self.group.members.pending
        assert not any(member.joining for member in self.group.members.all())


TestConsumerGroups = ConsumerGroups.TestCase
TestShareGroups = ShareGroups.TestCase
TestClassicGroups = ClassicGroups.TestCase
_SETTINGS = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestConsumerGroups.settings = TestShareGroups.settings = TestClassicGroups.settings = _SETTINGS
