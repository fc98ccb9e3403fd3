"""A random workload of share-group members, at the mock or at a real broker."""

from __future__ import annotations

import random
import time
from bisect import bisect_right
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from kwire.capture.rows import Row
from kwire.codec import from_json, to_json
from mockbroker import Cluster
from mockbroker.server import Server
from tests.conversations.sockets import let_pass
from tests.kwire.capture.share_kit import FETCH_VERSION, Member, Word, begin_group, produce, runs_of, topic_id_of

GROUP, TOPIC, PARTITIONS = "g", "orders", 2
LOCK_MS = 15_000


class Stage(Protocol):
    """Where it is played."""

    bootstrap_servers: str

    def advance(self, duration_ms: int) -> None:
        """Let time pass."""

    def until_taken(self, member: Member) -> None:
        """Return when the broker has the ShareFetch that a member has sent last."""

    def until_gone(self, member: Member) -> None:
        """Return when the broker knows that a member's connection has ended."""


class MockStage:
    """A cluster of ours: its clock is moved, and asked whether all has come in."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.bootstrap_servers = cluster, cluster.bootstrap_servers
        self.jumps: list[tuple[int, int]] = [(0, 0)]

    def advance(self, duration_ms: int) -> None:
        """Move the cluster's clock, and note when: a capture has the wall's."""
        # In small steps, so that what is answered on the way is stamped then, and not after all of the jump.
        while duration_ms > 0:
            step_ms = min(duration_ms, 500)
            self.jumps.append((time.time_ns(), self.jumps[-1][1] + step_ms * 1_000_000))
            self.cluster.clock.advance(step_ms)
            duration_ms -= step_ms

    def until_taken(self, member: Member) -> None:
        """The journal has it."""
        asked = (member.member_id, member.epoch - 1)

        def is_last() -> bool:
            request: Any = self.cluster.exchanges("ShareFetch")[-1].request
            return (request.member_id, request.share_session_epoch) == asked

        until(is_last)

    def until_gone(self, member: Member) -> None:
        """The session goes with the connection."""
        until(lambda: self.cluster.run(lambda server: _session_is_gone(server, member)))

    def told(self, row: Row) -> Row:
        """A row of the capture, with the times of the cluster's clock."""
        return {name: self._shifted(value) if name.endswith("_ts") else value for name, value in row.items()}

    def _shifted(self, moment: Any) -> Any:
        if moment is None:
            return None
        return moment + self.jumps[bisect_right(self.jumps, (moment, 0)) - 1][1]


class RealStage:
    """A real broker, which nobody can look into: what is awaited is given real time."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.bootstrap_servers = bootstrap_servers

    def advance(self, duration_ms: int) -> None:
        """Wait."""
        let_pass(duration_ms / 1000)

    def until_taken(self, member: Member) -> None:
        """A moment is enough for what was sent already."""
        let_pass(0.1)

    def until_gone(self, member: Member) -> None:
        """A moment is enough for the broker to read the end of a connection, and to write what it releases."""
        let_pass(0.3)


def _session_is_gone(server: Server, member: Member) -> bool:
    (node,) = server.core.state.nodes.values()
    return node.share_sessions.get(GROUP, member.member_id) is None


def until(holds: Callable[[], Any]) -> None:
    """Look again until it holds."""
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline


class Play:
    """Drawn from a seed: acknowledgements alone and with fetches, renewals, errors, ends of sessions, deaths, time."""

    def __init__(self, stage: Stage, seed: int, *, partitions: int = PARTITIONS, lock_ms: int = LOCK_MS) -> None:
        self.stage, self.chance, self.lock_ms = stage, random.Random(seed), lock_ms
        self.admin = Member(stage.bootstrap_servers, 999, GROUP, "", ())
        self.topic_id = topic_id_of(self.admin.client, TOPIC)
        self.partitions = range(partitions)
        self.members = {number: self._member(number) for number in range(3)}
        begin_group(self.admin.client, GROUP, TOPIC, partitions)

    def _member(self, number: int) -> Member:
        return Member(self.stage.bootstrap_servers, number, GROUP, self.topic_id, self.partitions)

    def __enter__(self) -> Play:
        return self

    def __exit__(self, *_: object) -> None:
        for member in (self.admin, *self.members.values()):
            member.client.close()

    def go(self, steps: int) -> None:
        """So many things, one after the other; at the end all that came back is given out, and the clock runs on."""
        for partition in range(PARTITIONS):
            produce(self.admin.client, self.topic_id, partition, 5)
        deeds = [self.write] * 2 + [self.fetch] * 5 + [self.settle] * 5 + [self.pass_time] * 2
        deeds += [self.renew, self.renew, self.err, self.park, self.leave, self.die]
        for _ in range(steps):
            self.chance.choice(deeds)(self.chance.choice(list(self.members.values())))
        for member in self.members.values():
            member.fetch()
        self.stage.advance(2 * self.lock_ms)
        for _ in range(20):
            self.members[0].fetch()
        self.admin.fetch({}, topics=[])  # The capture does not end before the last lock that it shows to have run out.

    def write(self, _: Member) -> None:
        produce(self.admin.client, self.topic_id, self.chance.randrange(PARTITIONS), self.chance.randint(1, 8))

    def fetch(self, member: Member) -> None:
        words = self._words(member) if member.epoch and self.chance.random() < 0.5 else {}
        mode = int(member.member_id == self.members[0].member_id and self.chance.random() < 0.3)
        most = self.chance.choice([1, 3, 10, 500])
        member.fetch(words, maxRecords=most, batchSize=self.chance.choice([1, 4, 500]), shareAcquireMode=mode)

    def settle(self, member: Member) -> None:
        if member.epoch:
            member.acknowledge(self._words(member))

    def renew(self, member: Member) -> None:
        if member.epoch:
            member.acknowledge(self._words(member, kinds=(4, 4, 4, 1, 2)), renews=True)

    def err(self, member: Member) -> None:
        """Speak of records that others hold, that nobody has, or that never were."""
        if member.epoch:
            first = self.chance.randrange(30)
            word = (first, first + self.chance.choice([0, 1, 400]), [self.chance.choice([1, 2, 3])])
            member.acknowledge({self.chance.randrange(PARTITIONS): [word]})

    def park(self, member: Member) -> None:
        """A fetch that waits until a lock runs out, or its time is over; what it is given counts from then on."""
        body = member.fetch_body(maxWaitMs=self.lock_ms * 4 // 3, minBytes=1)
        pending = member.client.submit(from_json("ShareFetchRequest", FETCH_VERSION, body), FETCH_VERSION)
        self.stage.until_taken(member)
        self.stage.advance(self.lock_ms * 4 // 3)
        member.take(to_json(pending.result(10), FETCH_VERSION))

    def pass_time(self, _: Member) -> None:
        self.stage.advance(int(self.lock_ms * self.chance.choice([0.07, 0.47, 0.93, 1.07])))

    def leave(self, member: Member) -> None:
        if member.epoch:
            member.leave(self._words(member))

    def die(self, member: Member) -> None:
        """The connection goes without a word, and the member comes back with another."""
        number = next(number for number, each in self.members.items() if each is member)
        member.client.close()
        self.stage.until_gone(member)
        self.members[number] = self._member(number)

    def _words(self, member: Member, kinds: Iterable[int] = (1, 1, 1, 2, 2, 3, 0)) -> dict[int, list[Word]]:
        """Something about some of what the member believes to hold: runs with one word, or one for each offset."""
        words: dict[int, list[Word]] = {}
        for partition in range(PARTITIONS):
            held = sorted(offset for number, offset in member.held if number == partition)
            chosen = [offset for offset in held if self.chance.random() < 0.6]
            for first, last in runs_of(chosen):
                size = last - first + 1 if self.chance.random() < 0.5 else 1
                types = [self.chance.choice(list(kinds)) for _ in range(size)]
                words.setdefault(partition, []).append((first, last, types))
            if 4 not in kinds:
                member.held -= {(partition, offset) for offset in chosen}
        return words
