"""`share_timeline` from a capture of the mock is the mock's own history, record by record, whatever its clients did."""

from __future__ import annotations

import random
import time
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from kwire.capture.pipeline import rows
from kwire.capture.rows import Row
from kwire.capture.share_timeline import share_timeline
from kwire.codec import from_json, to_json
from mockbroker import Cluster
from mockbroker.inside import Happening, SharePartitionView, State, Transition
from mockbroker.server import Server
from tests.kwire.capture.share_kit import (
    FETCH_VERSION,
    Member,
    Word,
    begin_group,
    produce,
    runs_of,
    topic_id_of,
)

GROUP, TOPIC, PARTITIONS = "g", "orders", 2
LOCK_MS = 15_000
STEPS = 120
SEEDS = 12
CAUSES = {
    Happening.ACQUIRED: "acquire",
    Happening.RENEWED: "renew",
    Happening.ACCEPTED: "accept",
    Happening.RELEASED: "release",
    Happening.REJECTED: "reject",
    Happening.GAP: "gap",
    Happening.EXPIRED: "lock_timeout",
    Happening.SESSION_CLOSED: "session_close",
    Happening.LOG_START: "log_start",
}
Lives = dict[int, list[tuple[object, ...]]]


class Play:
    """A random workload on a cluster, drawn from a seed."""

    def __init__(self, cluster: Cluster, seed: int, *, partitions: int = PARTITIONS) -> None:
        self.cluster, self.chance = cluster, random.Random(seed)
        self.admin = Member(cluster.bootstrap_servers, 999, GROUP, "", ())
        self.topic_id = topic_id_of(self.admin.client, TOPIC)
        self.partitions = range(partitions)
        self.members = {number: self._member(number) for number in range(3)}
        self.jumps: list[tuple[int, int]] = [(0, 0)]
        begin_group(self.admin.client, GROUP, TOPIC, partitions)

    def _member(self, number: int) -> Member:
        return Member(self.cluster.bootstrap_servers, number, GROUP, self.topic_id, self.partitions)

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
        self.advance(2 * LOCK_MS)
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
        body = member.fetch_body(maxWaitMs=20_000, minBytes=1)
        pending = member.client.submit(from_json("ShareFetchRequest", FETCH_VERSION, body), FETCH_VERSION)
        _until(lambda: any(each.request is not None for each in self.cluster.exchanges("ShareFetch")[-1:]))
        for _ in range(40):
            self.advance(500)  # So that the answer is stamped when it is given, and not after all of the jump.
        member.take(to_json(pending.result(10), FETCH_VERSION))

    def pass_time(self, _: Member) -> None:
        self.advance(self.chance.choice([1_000, 7_000, 14_000, 16_000]))

    def leave(self, member: Member) -> None:
        if member.epoch:
            member.leave(self._words(member))

    def die(self, member: Member) -> None:
        """The connection goes without a word, and the member comes back with another."""
        number = next(number for number, each in self.members.items() if each is member)
        member.client.close()
        _until(lambda: self.cluster.run(lambda server: _session_is_gone(server, member)))
        self.members[number] = self._member(number)

    def advance(self, duration_ms: int) -> None:
        """Move the cluster's clock, and note when: the capture has the wall's."""
        self.jumps.append((time.time_ns(), self.jumps[-1][1] + duration_ms * 1_000_000))
        self.cluster.clock.advance(duration_ms)

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

    def told(self, row: Row) -> Row:
        """A row of the capture, with the times of the cluster's clock."""
        return {name: self._shifted(value) if _is_moment(name) else value for name, value in row.items()}

    def _shifted(self, moment: Any) -> Any:
        if moment is None:
            return None
        return moment + self.jumps[bisect_right(self.jumps, (moment, 0)) - 1][1]


def _is_moment(name: str) -> bool:
    return name.endswith("_ts")


def _session_is_gone(server: Server, member: Member) -> bool:
    (node,) = server.core.state.nodes.values()
    return node.share_sessions.get(GROUP, member.member_id) is None


def _until(holds: Any) -> None:
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline


def lives_of_history(history: Iterable[Transition]) -> Lives:
    """What happened to each record, in the words of the timeline; loads are no news of a record."""
    lives: Lives = defaultdict(list)
    for one in history:
        if one.happening is not Happening.LOADED:
            assert one.last_offset is not None
            for offset in range(one.first_offset, one.last_offset + 1):
                state = one.state.name.capitalize()
                lives[offset].append((CAUSES[one.happening], state, one.delivery_count, one.member_id))
    return dict(lives)


def lives_of_timeline(found: Iterable[Row]) -> Lives:
    """The same from the timeline."""
    lives: Lives = defaultdict(list)
    for row in found:
        if row["cause"] not in ("load", "alter_offsets"):
            for offset in range(_int(row["first_offset"]), _int(row["last_offset"]) + 1):
                lives[offset].append((row["cause"], row["state"], row["delivery_count"], row["member_id"]))
    return dict(lives)


def _int(value: object) -> int:
    assert isinstance(value, int)
    return value


def captured(path: Path, play: Play) -> Mapping[int, list[Row]]:
    """The timeline of each partition of the group."""
    messages = [play.told(row) for row in rows(path, "messages")]
    flows = [play.told(row) for row in rows(path, "flows")]
    by_partition: dict[int, list[Row]] = defaultdict(list)
    for row in share_timeline(messages, flows):
        by_partition[_int(row["partition"])].append(row)
    return by_partition


@pytest.mark.parametrize("seed", range(SEEDS))
def test_the_timeline_is_the_history_of_the_mock_record_by_record(seed: int, tmp_path: Path) -> None:
    path = tmp_path / "share.pcapng"
    properties = {"group.share.record.lock.duration.ms": LOCK_MS}
    cluster = Cluster(topics={TOPIC: PARTITIONS}, properties=properties, seed=seed, capture=path)
    with cluster, Play(cluster, seed) as play:
        play.go(STEPS)
        views = [_view(cluster, partition) for partition in range(PARTITIONS)]
        timeline = captured(path, play)

    for view in views:
        told = timeline[view.partition]
        found, expected = lives_of_timeline(told), lives_of_history(view.history)
        for offset in sorted(expected.keys() | found.keys()):
            assert found.get(offset) == expected.get(offset), f"offset {offset} of {view}"
        assert told[-1]["start_offset"] == view.start_offset
        assert not [row for row in told if row["cause"] == "unseen"]


def test_a_lock_that_runs_out_by_itself_is_told_where_a_later_delivery_shows_it(tmp_path: Path) -> None:
    path = tmp_path / "share.pcapng"
    properties = {"group.share.record.lock.duration.ms": 1_000, "group.share.min.record.lock.duration.ms": 1_000}
    cluster = Cluster(topics={TOPIC: 1}, properties=properties, capture=path)
    with cluster, Play(cluster, 0, partitions=1) as play:
        produce(play.admin.client, play.topic_id, 0, 3)
        _until(lambda: play.members[0].fetch() and play.members[0].held)  # The first one loads the share partition.
        _until(lambda: _view(cluster, 0).state_of(0) is State.AVAILABLE)
        _until(lambda: play.members[1].fetch() and play.members[1].held)
        play.admin.fetch({}, topics=[])  # What was sent before this is in the file.
        acquired, lock_timeout, again = share_timeline(rows(path, "messages"), rows(path, "flows"))[-3:]

    assert [row["cause"] for row in (acquired, lock_timeout, again)] == ["acquire", "lock_timeout", "acquire"]
    assert lock_timeout["is_inferred"]
    assert _int(lock_timeout["ts"]) - _int(acquired["ts"]) <= 1_000_000_000 <= _int(again["ts"]) - _int(acquired["ts"])
    assert (again["member_id"], again["delivery_count"]) == (play.members[1].member_id, 2)


def _view(cluster: Cluster, partition: int) -> SharePartitionView:
    view = cluster.share_partition(GROUP, TOPIC, partition)
    assert view is not None
    return view
