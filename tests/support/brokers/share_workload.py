"""A random workload of share-group members, on the mock or on Apache Kafka."""

from __future__ import annotations

import random
import time
from bisect import bisect_right
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from kwire.capture.model import Row
from kwire.codec import from_json, to_json
from mockbroker import Cluster
from mockbroker.server import Server
from tests.support.brokers.captured_share_members import (
    FETCH_VERSION,
    Acknowledgements,
    Member,
    consecutive_runs,
    initialize_group,
    produce,
    topic_id_of,
)
from tools.oracle.conversations.socket_brokers import wait_real_time

GROUP, TOPIC, PARTITIONS = "g", "orders", 2
LOCK_MS = 15_000
#: Acknowledge types to choose from, without and with renewals.
ACKNOWLEDGE_TYPES = (1, 1, 1, 2, 2, 3, 0)
RENEWING_TYPES = (4, 4, 4, 1, 2)


class WorkloadTarget(Protocol):
    """The broker of a workload."""

    bootstrap_servers: str

    def advance(self, duration_ms: int) -> None:
        """Advance the clock, or wait."""

    def wait_for_request(self, member: Member) -> None:
        """Return when the broker has received the latest ShareFetch of a member."""

    def wait_for_disconnect(self, member: Member) -> None:
        """Return when the broker has processed the end of a member's connection."""


class MockTarget:
    """A mock cluster: its clock is advanced, and its state is polled."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.bootstrap_servers = cluster, cluster.bootstrap_servers
        self.jumps: list[tuple[int, int]] = [(0, 0)]

    def advance(self, duration_ms: int) -> None:
        """Advance the cluster's clock, and record the wall time: a capture has wall times."""
        # In small steps, so that responses in between have their own times.
        while duration_ms > 0:
            step_ms = min(duration_ms, 500)
            self.jumps.append((time.time_ns(), self.jumps[-1][1] + step_ms * 1_000_000))
            self.cluster.clock.advance(step_ms)
            duration_ms -= step_ms

    def wait_for_request(self, member: Member) -> None:
        """Poll the journal."""
        expected = (member.member_id, member.epoch - 1)

        def is_last() -> bool:
            request: Any = self.cluster.exchanges("ShareFetch")[-1].request
            return (request.member_id, request.share_session_epoch) == expected

        wait_until(is_last)

    def wait_for_disconnect(self, member: Member) -> None:
        """Poll the share session, which is closed with the connection."""
        wait_until(lambda: self.cluster.run(lambda server: _is_session_closed(server, member)))

    def with_cluster_time(self, row: Row) -> Row:
        """A row of the capture with the times of the cluster's clock."""
        return {name: self._to_cluster_time(value) if name.endswith("_ts") else value for name, value in row.items()}

    def _to_cluster_time(self, wall_ns: Any) -> Any:
        if wall_ns is None:
            return None
        return wall_ns + self.jumps[bisect_right(self.jumps, (wall_ns, 0)) - 1][1]


class KafkaTarget:
    """Apache Kafka, whose state cannot be polled: the methods wait in real time."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.bootstrap_servers = bootstrap_servers

    def advance(self, duration_ms: int) -> None:
        """Wait in real time."""
        wait_real_time(duration_ms / 1000)

    def wait_for_request(self, member: Member) -> None:
        """Wait until the broker has received the request."""
        wait_real_time(0.1)

    def wait_for_disconnect(self, member: Member) -> None:
        """Wait until the broker has read the end of the connection, and written the released records."""
        wait_real_time(0.3)


def _is_session_closed(server: Server, member: Member) -> bool:
    (node,) = server.core.state.nodes.values()
    return node.share_sessions.get(GROUP, member.member_id) is None


def wait_until(condition: Callable[[], Any]) -> None:
    """Poll the condition until it is true."""
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline


class ShareWorkload:
    """Random actions of a seed: fetches, acknowledgements, renewals, errors, closed sessions and connections, time."""

    def __init__(
        self, target: WorkloadTarget, seed: int, *, partitions: int = PARTITIONS, lock_ms: int = LOCK_MS
    ) -> None:
        self.target, self.random, self.lock_ms = target, random.Random(seed), lock_ms
        self.admin = Member(target.bootstrap_servers, 999, GROUP, "", ())
        self.topic_id = topic_id_of(self.admin.client, TOPIC)
        self.partitions = range(partitions)
        self.members = {number: self._member(number) for number in range(3)}
        initialize_group(self.admin.client, GROUP, TOPIC, partitions)

    def _member(self, number: int) -> Member:
        return Member(self.target.bootstrap_servers, number, GROUP, self.topic_id, self.partitions)

    def __enter__(self) -> ShareWorkload:
        return self

    def __exit__(self, *_: object) -> None:
        for member in (self.admin, *self.members.values()):
            member.client.close()

    def run(self, steps: int) -> None:
        """Run a number of actions; at the end deliver all available records, and advance the clock."""
        for partition in range(PARTITIONS):
            produce(self.admin.client, self.topic_id, partition, 5)
        actions = [self.produce] * 2 + [self.fetch] * 5 + [self.acknowledge] * 5 + [self.pass_time] * 2
        actions += [self.renew] * 2
        actions += [self.acknowledge_wrongly, self.wait_in_fetch, self.close_session, self.disconnect]
        for _ in range(steps):
            self.random.choice(actions)(self.random.choice(list(self.members.values())))
        for member in self.members.values():
            member.fetch()
        self.target.advance(2 * self.lock_ms)
        for _ in range(20):
            self.members[0].fetch()
        self.admin.fetch({}, topics=[])  # The capture must not end before the last expired lock that it shows.

    def produce(self, _: Member) -> None:
        produce(self.admin.client, self.topic_id, self.random.randrange(PARTITIONS), self.random.randint(1, 8))

    def fetch(self, member: Member) -> None:
        is_acknowledging = member.epoch and self.random.random() < 0.5
        acknowledgements = random_acknowledgements(self.random, member) if is_acknowledging else {}
        mode = int(member.member_id == self.members[0].member_id and self.random.random() < 0.3)
        most, size = self.random.choice([1, 3, 10, 500]), self.random.choice([1, 4, 500])
        member.fetch(acknowledgements, maxRecords=most, batchSize=size, shareAcquireMode=mode)

    def acknowledge(self, member: Member) -> None:
        if member.epoch:
            member.acknowledge(random_acknowledgements(self.random, member))

    def renew(self, member: Member) -> None:
        if member.epoch:
            member.acknowledge(random_acknowledgements(self.random, member, RENEWING_TYPES), renews=True)

    def acknowledge_wrongly(self, member: Member) -> None:
        """Acknowledge records that others acquired, that nobody acquired, or that do not exist."""
        if member.epoch:
            first = self.random.randrange(30)
            acknowledgement = (first, first + self.random.choice([0, 1, 400]), [self.random.choice([1, 2, 3])])
            member.acknowledge({self.random.randrange(PARTITIONS): [acknowledgement]})

    def wait_in_fetch(self, member: Member) -> None:
        """A fetch that waits until a lock or its own wait time expires."""
        body = member.fetch_body(maxWaitMs=self.lock_ms * 4 // 3, minBytes=1)
        pending = member.client.submit(from_json("ShareFetchRequest", FETCH_VERSION, body), FETCH_VERSION)
        self.target.wait_for_request(member)
        self.target.advance(self.lock_ms * 4 // 3)
        member.store_acquired(to_json(pending.result(10), FETCH_VERSION))

    def pass_time(self, _: Member) -> None:
        self.target.advance(int(self.lock_ms * self.random.choice([0.07, 0.47, 0.93, 1.07])))

    def close_session(self, member: Member) -> None:
        if member.epoch:
            member.close_session(random_acknowledgements(self.random, member))

    def disconnect(self, member: Member) -> None:
        """The connection is closed without closing the session, and the member connects again."""
        number = next(number for number, other in self.members.items() if other is member)
        member.client.close()
        self.target.wait_for_disconnect(member)
        self.members[number] = self._member(number)


def random_acknowledgements(
    generator: random.Random, member: Member, types: Iterable[int] = ACKNOWLEDGE_TYPES
) -> Acknowledgements:
    """Acknowledgements of some acquired offsets: runs with one type, or one type for each offset."""
    acknowledgements: Acknowledgements = {}
    for partition in range(PARTITIONS):
        acquired = sorted(offset for index, offset in member.acquired if index == partition)
        selected = [offset for offset in acquired if generator.random() < 0.6]
        for first, last in consecutive_runs(selected):
            size = last - first + 1 if generator.random() < 0.5 else 1
            run_types = [generator.choice(list(types)) for _ in range(size)]
            acknowledgements.setdefault(partition, []).append((first, last, run_types))
        if 4 not in types:
            member.acquired -= {(partition, offset) for offset in selected}
    return acknowledgements
