"""A seeded world: a cluster, members, a producer, an administrator, bad weather, and time that passes."""

from __future__ import annotations

import base64
import random
from collections.abc import Callable

from mockbroker.build import build_core
from mockbroker.config import BrokerConfig
from mockbroker.config_keys import Scope
from mockbroker.editions.configs import dialect_of
from mockbroker.features import finalize
from mockbroker.kafka_error import KafkaError
from mockbroker.sim.admin import Admin
from mockbroker.sim.chance import do_one
from mockbroker.sim.checks import Checks
from mockbroker.sim.coverage import Coverage
from mockbroker.sim.faults import Faults
from mockbroker.sim.member import Member
from mockbroker.sim.operator import Operator
from mockbroker.sim.producer import Producer
from mockbroker.sim.said import Place
from mockbroker.sim.speech import speech_of
from mockbroker.sim.violation import SeedFailed
from mockbroker.sim.wire import Wire
from mockbroker.state.log import PartitionLog
from mockbroker.state.share_coordinator import ShareKey
from mockbroker.state.share_rules import RELEASED_EDITION
from mockbroker.state.share_session import ShareSession
from mockbroker.state.topics import CoordinatorKind, Topic

#: Smaller than Kafka's defaults, so that a short run meets every bound, and small internal topics, made quickly.
_CONFIG = {
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.record.lock.duration.ms": "5000",
    "share.coordinator.state.topic.num.partitions": "3",
    "share.coordinator.snapshot.update.records.per.snapshot": "7",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "default.replication.factor": "3",
    "log.initial.task.delay.ms": "10000",
    "log.retention.check.interval.ms": "20000",
    "transaction.state.log.min.isr": "1",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "5000",
}
_TOPICS = {"a": 2, "b": 1}
#: Made at the start, and compacted; deleted now and then, and made anew.
_COMPACTED, _DELETED = "c", "b"
_NAMES = (*_TOPICS, _COMPACTED)
_GROUPS = ("g", "h")
_NODES = 3
_STARTS_MS = 1_000_000
#: More records than that are not produced to a partition.
_RECORDS_MAX = 260
_KEYS = (b"k1", b"k2", b"k3", b"k4", b"k5", b"k6", b"k7", b"k8")
#: How long everybody waits at the end, so that locks, sessions and retries are over.
_REST_MS = 120_000
_DRAIN_MAX = 400
_LOCK_MAX_MS = 45_000
#: After so many rounds without a record there are none.
_EMPTY_ENOUGH = 3


class World:
    """One seed's cluster and everybody in it; the clock, and the only way to move it."""

    def __init__(self, seed: int, edition: str = RELEASED_EDITION, persister: str = "default") -> None:
        self.rng = random.Random(seed)
        self.edition = edition
        self._dialect = dialect_of(edition)
        self.core = build_core(
            config=BrokerConfig(
                {self.config_name(Scope.BROKER, name): text for name, text in _CONFIG.items()}, dialect=self._dialect
            ),
            node_count=_NODES,
            features=finalize(()),
            topics=_TOPICS,
            rng=self._some_rng(),
            now_ms=_STARTS_MS,
            share_edition=edition,
            share_persister=persister,
        )
        rules = self.core.state.rules
        self.speech = speech_of(edition, self.core.state.routes)
        self.coverage = Coverage(rules, self.speech)
        for node in self.core.state.nodes.values():
            node.listen("PLAINTEXT", "127.0.0.1", 9092 + node.node_id)
        self.wire = Wire(self.core, self.speech)
        self.checks = Checks(self.core, self.coverage)
        self.follow()
        self.faults = Faults(self, self._some_rng())
        self.admin = Admin(self, self._some_rng(), _GROUPS)
        self.operator = Operator(self, self._some_rng(), _GROUPS, deleted=_DELETED, compacted=_COMPACTED)
        self.producers = [Producer(name, self, self._some_rng()) for name in (None, "x", "y")]
        names = [("m1", "g"), ("m2", "g"), ("m3", "g"), ("n1", "h"), ("n2", "h")]
        self.members = [Member(self.member_id(name), group, _NAMES, self, self._some_rng()) for name, group in names]

    def member_id(self, name: str) -> str:
        """What a member is called: a UUID, where the edition wants one."""
        if self.speech.is_released:
            return name
        return base64.urlsafe_b64encode(name.encode().ljust(16, b"-")).decode().rstrip("=")

    def config_name(self, scope: Scope, name: str) -> str:
        """How the edition calls a configuration."""
        return name if self._dialect is None else self._dialect.to_draft(scope, name)

    def _some_rng(self) -> random.Random:
        return random.Random(self.rng.getrandbits(64))

    # What everybody may know.

    @property
    def compacted(self) -> str:
        """The topic that is compacted."""
        return _COMPACTED

    @property
    def now_ms(self) -> int:
        """The time."""
        return self.core.now_ms

    def topics(self) -> list[Topic]:
        """The topics that records go to."""
        return [topic for topic in self.core.state.metadata.topics() if not topic.internal]

    def places(self) -> list[Place]:
        """Their partitions."""
        return [(topic.topic_id, partition.index) for topic in self.topics() for partition in topic.partitions]

    def topic_of(self, place: Place) -> Topic | None:
        """The topic of a partition, None when it is gone."""
        return self.core.state.metadata.topic_by_id(place[0])

    def some_place(self, rng: random.Random) -> Place | None:
        """A partition that is led, and not too full for a short simulation."""
        place = rng.choice(self.places())
        log = self.log(place)
        return None if log is None or log.end_offset > _RECORDS_MAX else place

    def some_key(self, rng: random.Random) -> bytes:
        """One of a few keys."""
        return rng.choice(_KEYS)

    def is_up(self, node_id: int) -> bool:
        """Whether a node runs."""
        return node_id in self.core.state.calls.nodes

    def leader(self, place: Place) -> int:
        """Who leads a partition, -1 for nobody."""
        partition = self.core.state.metadata.leader(*place)
        return -1 if partition is None else partition.leader

    def coordinator(self, kind: CoordinatorKind, key: str) -> int:
        """Who coordinates a group."""
        return self.core.state.metadata.coordinator_for(kind, key)

    def log(self, place: Place) -> PartitionLog | None:
        """The log of a partition, if it has a leader that runs."""
        node = self.core.state.calls.nodes.get(self.leader(place))
        try:
            return None if node is None else node.logs.get(*place)
        except KafkaError:
            return None

    def session(self, node_id: int, group_id: str, member_id: str) -> ShareSession | None:
        """A member's share session, as the node has it."""
        node = self.core.state.calls.nodes.get(node_id)
        has_sessions = node is not None and node.entered("share_sessions")
        return node.share_sessions.get(group_id, member_id) if node and has_sessions else None

    def follow(self) -> None:
        """Topics have come, grown or gone."""
        self.checks.follow(ShareKey(group_id, *place) for group_id in _GROUPS for place in self.places())

    # What happens.

    def step(self) -> str:
        """One deed of somebody by chance; what it was."""
        deeds: list[tuple[int, Callable[[], str]]] = [
            (56, lambda: self.rng.choice(self.members).act()),
            (10, self.admin.produce),
            (8, lambda: self.rng.choice(self.producers).act()),
            (22, self._let_time_pass),
            (4, self.admin.act),
            (2, self.operator.act),
            (6, self.faults.act),
        ]
        what = do_one(self.rng, deeds)
        self.advance(0)
        return what

    def look(self) -> None:
        """Check everything, then hand out answers: what a client asked for is judged before it is told."""
        self.checks.look()
        self.wire.deliver()

    def advance(self, duration_ms: int) -> None:
        """Let time pass, from one deadline to the next, with a look at each."""
        self.look()  # At what requests have done, before the clock moves.
        target_ms = self.now_ms + duration_ms
        while True:
            due_ms = self.core.next_deadline_ms()
            if due_ms is None or due_ms > target_ms:
                break
            self.core.advance(max(due_ms, self.now_ms))
            self.look()
        self.core.advance(target_ms)
        self.look()

    def _let_time_pass(self) -> str:
        due_ms = self.core.next_deadline_ms()
        to_due_ms = 0 if due_ms is None else max(0, min(due_ms - self.now_ms, 10_000))
        duration_ms = self.rng.choice((1, 20, to_due_ms, to_due_ms, max(0, to_due_ms - 1), 900, 4_000, 15_000, 35_000))
        self.advance(duration_ms)
        return f"{duration_ms} ms pass"

    def end(self) -> None:
        """Good weather, all nodes up, everybody gone; then one member of each group takes what is left."""
        self.faults.repair()
        self.operator.repair()
        for member in self.members:
            member.crash()
        self.advance(0)
        self.advance(_REST_MS)
        for group_id in _GROUPS:
            self._drain(Member(self.member_id(f"last-{group_id}"), group_id, _NAMES, self, self.rng))
            self.checks.drained(group_id)
        self.checks.end()

    def _drain(self, member: Member) -> None:
        empty = 0
        for _ in range(_DRAIN_MAX):
            # A fetch that gets only aborted records answers nothing, and moves on all the same.
            standing = self.checks.standing()
            if member.take_everything() or self.checks.standing() != standing:
                empty = 0
                continue
            empty += 1
            if empty == _EMPTY_ENOUGH:
                return
            # What was acquired below the log start blocks the window until its lock ends: no acknowledgement reaches
            # it.
            self.advance(_LOCK_MAX_MS)
        raise AssertionError(f"{member.member_id} never comes to an end")


def run(
    seed: int,
    *,
    steps: int = 200,
    told: list[str] | None = None,
    edition: str = RELEASED_EDITION,
    persister: str = "default",
) -> World:
    """Play one seed to its end; `told` gets every step. Raises: SeedFailed with what led there."""
    world = World(seed, edition, persister)
    told = [] if told is None else told
    try:
        with world.coverage.of_transitions():
            world.operator.prepare()
            world.admin.prepare()
            for _ in range(steps):
                now_ms = world.now_ms
                told.append(f"{now_ms}: ...")
                told[-1] = f"{now_ms}: {world.step()}"
            told.append("the end")
            world.end()
    except Exception as cause:
        raise SeedFailed(seed, told, cause) from cause
    return world
