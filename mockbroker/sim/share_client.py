"""What a member has with the nodes: connections, share sessions, requests and their answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING

from kwire.error_codes import ErrorCode
from kwire.messages.share_acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
)
from kwire.messages.share_fetch import AcknowledgementBatch as FetchBatch
from kwire.messages.share_fetch import (
    FetchPartition,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ShareFetchRequest,
    ShareFetchResponse,
)
from kwire.messages.share_group_heartbeat import ShareGroupHeartbeatResponse
from kwire.records import read_batches
from mockbroker.sim.ledger import RENEW
from mockbroker.sim.said import Place, Said, runs_of, text_of
from mockbroker.state.share_coordinator import ShareKey
from mockbroker.state.topics import CoordinatorKind

if TYPE_CHECKING:
    from mockbroker.sim.watch import Ask
    from mockbroker.sim.world import World


@dataclass(slots=True)
class Link:
    """What a member has with one node: a connection, a second one for haste, and a session with its epoch."""

    node_id: int
    connection: int
    hasty: int | None = None
    epoch: int = 0
    places: set[Place] = field(default_factory=set)


class ShareClient:
    """Speaks for one member: keeps its sessions in step, and tells the checks what it asks and hears."""

    def __init__(self, member_id: str, group_id: str, topics: tuple[str, ...], world: World, rng: Random) -> None:
        self.member_id = member_id
        self.group_id = group_id
        self.topics = topics
        self.member_epoch: int | None = None
        self.assigned: set[Place] = set()
        self.links: dict[int, Link] = {}
        self.held: dict[Place, set[int]] = {}
        self.leaders: dict[Place, int] = {}
        self._world = world
        self._rng = rng
        self._coordinator: int | None = None

    # Connections.

    def learn_leaders(self) -> str:
        """Look up who leads what."""
        for topic in self._world.topics():
            for partition in topic.partitions:
                self.leaders[topic.topic_id, partition.index] = partition.leader
        return "learns the leaders"

    def _connect(self, node_id: int) -> int | None:
        if not self._world.is_up(node_id):
            return None
        return self._world.wire.connect(node_id, self.member_id, lambda: self._lost(node_id))

    def _lost(self, node_id: int) -> None:
        """The node is gone, or has ended the connection."""
        link = self.links.get(node_id)
        if link is not None:
            self._world.checks.leaving(self.member_id, node_id, self.group_id)
            self._drop(node_id)

    def _drop(self, node_id: int) -> None:
        """Hang up; the node releases what the session made by this connection was about."""
        link = self.links.pop(node_id)
        world = self._world
        for connection in (link.connection, link.hasty):
            if connection is None or not world.wire.is_open(connection):
                continue
            session = world.session(node_id, self.group_id, self.member_id)
            ends = session is not None and session.connection_id == connection
            keys = [ShareKey(self.group_id, *place) for place in session.partitions] if session and ends else []
            world.checks.leaving(self.member_id, node_id, self.group_id)
            world.wire.hang_up(connection)
            if ends:
                world.checks.has_left(self.member_id, node_id, keys, "released by disconnect")

    def _to_coordinator(self) -> int | None:
        """A connection to the group's coordinator on which no answer is awaited."""
        node_id = self._world.coordinator(CoordinatorKind.GROUP, self.group_id)
        wire = self._world.wire
        if self._coordinator is not None:
            if not wire.is_open(self._coordinator) or wire.node_of(self._coordinator) != node_id:
                self._coordinator = None
            elif wire.busy(self._coordinator):
                return None
        if self._coordinator is None and self._world.is_up(node_id):
            self._coordinator = wire.connect(node_id, self.member_id)
        return self._coordinator

    def _link_with_work(self) -> Link | None:
        nodes = sorted({self.leaders.get(place, -1) for place in self.assigned} | set(self.links))
        self._rng.shuffle(nodes)
        for node_id in nodes:
            link = self.links.get(node_id)
            if link is None and node_id >= 0:
                connection = self._connect(node_id)
                if connection is not None:
                    link = self.links[node_id] = Link(node_id, connection)
            if link is not None and not self._is_busy(link):
                return link
        return None

    def _free_link(self, *, with_session: bool) -> Link | None:
        free = [link for link in self.links.values() if not self._is_busy(link) and (link.epoch > 0) == with_session]
        return self._rng.choice(free) if free else None

    def _is_busy(self, link: Link) -> bool:
        wire = self._world.wire
        return wire.busy(link.connection) or (link.hasty is not None and wire.busy(link.hasty))

    # Requests.

    def _choose_said(self, link: Link, types: tuple[int, ...] = (1, 1, 1, 1, 2, 2, 3, 0)) -> dict[Place, list[Said]]:
        """Something to say of some of what is held from this node, and now and then of what is not."""
        types = self._world.speech.sayable(types)
        said: dict[Place, list[Said]] = {}
        for place in sorted(place for place in self.held if place in link.places):
            offsets = sorted(self.held[place])
            if not offsets or self._rng.random() < 0.2:
                continue
            runs = runs_of(offsets)
            chosen = [run for run in runs if self._rng.random() < 0.8]
            said[place] = [self._say(first, last, types) for first, last in chosen]
        if link.places and self._rng.random() < 0.04:
            place = self._rng.choice(sorted(link.places))
            first = self._rng.randrange(40)
            said[place] = [Said(first, first + self._rng.randrange(5), (self._rng.choice(types),))]
        return {place: batches for place, batches in said.items() if batches}

    def _say(self, first: int, last: int, types: tuple[int, ...]) -> Said:
        if last > first and self._rng.random() < 0.3:  # Only a part of the run.
            first, last = sorted((self._rng.randint(first, last), self._rng.randint(first, last)))
        if last > first and self._rng.random() < 0.3:
            return Said(first, last, tuple(self._rng.choice(types) for _ in range(first, last + 1)))
        return Said(first, last, (self._rng.choice(types),))

    def _let_go(self, said: dict[Place, list[Said]], node_id: int) -> dict[Place, Ask]:
        """Tell the checks, and hold no more what is acknowledged."""
        asks = {}
        for place, batches in said.items():
            each: dict[int, int] = {}
            for batch in batches:
                each.update(batch.each())
            key = ShareKey(self.group_id, *place)
            asks[place] = self._world.checks.asked(self.member_id, node_id, key, each)
            done = {offset for offset, kind in each.items() if kind != RENEW}
            self.held[place] = self.held.get(place, set()) - done
        return asks

    def _send_acknowledge(
        self, link: Link, connection: int, said: dict[Place, list[Said]], *, renews: bool = False
    ) -> str:
        topics: dict[bytes, AcknowledgeTopic] = {}
        for (topic_id, index), batches in said.items():
            rows = [AcknowledgementBatch(*batch) for batch in batches]
            topic = topics.setdefault(topic_id, AcknowledgeTopic(topic_id))
            topic.partitions.append(AcknowledgePartition(index, rows))
        request = ShareAcknowledgeRequest(
            self.group_id, self.member_id, link.epoch, is_renew_ack=renews, topics=list(topics.values())
        )
        epoch, asks = link.epoch, self._begin(link, said)

        def answered(response: ShareAcknowledgeResponse) -> None:
            codes = {
                (topic.topic_id, row.partition_index): row.error_code
                for topic in response.responses
                for row in topic.partitions
            }
            self._settle(link, epoch, asks, codes, response.error_code)

        self._world.wire.ask(connection, request, 2, answered)
        return f"acknowledges at {link.node_id} in epoch {epoch}: {text_of(said)}"

    def _send_fetch(self, link: Link, said: dict[Place, list[Said]], *, wait_ms: int | None = None) -> str:
        if wait_ms is None:
            wait_ms = self._rng.choice((0, 0, 0, 10, 10, 500, 500, 3_000, 3_000, 45_000))
        request = self._fetch_request(link, link.epoch, said, wait_ms)
        epoch = link.epoch
        wanted = {(topic.topic_id, row.partition_index) for topic in request.topics for row in topic.partitions}
        gone = {(topic.topic_id, index) for topic in request.forgotten_topics_data for index in topic.partitions}
        link.places = (wanted if epoch == 0 else link.places | wanted) - gone
        asks = self._begin(link, said)
        strict = request.share_acquire_mode == 1
        self._world.wire.ask(
            link.connection, request, 2, lambda answer: self._fetched(link, epoch, asks, answer, strict=strict)
        )
        return f"fetches from {link.node_id} in epoch {epoch}, {request.max_records} at most, {text_of(said)}"

    def _begin(self, link: Link, said: dict[Place, list[Said]]) -> dict[Place, Ask]:
        """A request of a session is about to go out."""
        if link.epoch == -1:
            self._world.checks.leaving(self.member_id, link.node_id, self.group_id)
        else:
            link.epoch += 1
        return self._let_go(said, link.node_id)

    def _fetch_request(self, link: Link, epoch: int, said: dict[Place, list[Said]], wait_ms: int) -> ShareFetchRequest:
        mine = {place for place in self.assigned if self.leaders.get(place) == link.node_id}
        wanted = set() if epoch == -1 else mine if epoch == 0 else mine - link.places
        gone = link.places - mine if epoch > 0 and self._rng.random() < 0.5 else set()
        topics: dict[bytes, FetchTopic] = {}
        for topic_id, index in sorted(wanted | set(said)):
            batches = [FetchBatch(*batch) for batch in said.get((topic_id, index), [])]
            row = FetchPartition(index, acknowledgement_batches=batches)
            topics.setdefault(topic_id, FetchTopic(topic_id)).partitions.append(row)
        return ShareFetchRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            share_session_epoch=epoch,
            max_wait_ms=wait_ms,
            min_bytes=self._rng.choice((0, 1, 1)),
            max_bytes=self._rng.choice((300, 5_000, 1_000_000)),
            max_records=self._rng.choice((1, 2, 5, 20, 500)),
            batch_size=self._rng.choice((1, 5, 500)),
            share_acquire_mode=self._rng.choice((0, 0, 1)),
            topics=list(topics.values()),
            forgotten_topics_data=[ForgottenTopic(topic_id, (index,)) for topic_id, index in sorted(gone)],
        )

    # Answers.

    def _heard(self, response: ShareGroupHeartbeatResponse) -> None:
        if response.error_code:
            self.member_epoch = None
            return
        if self.member_epoch is None:
            self._world.coverage.count("member joined")
            self.learn_leaders()
        self.member_epoch = response.member_epoch
        if response.assignment is not None:
            self.assigned = {
                (topic.topic_id, index) for topic in response.assignment.topic_partitions for index in topic.partitions
            }

    def _note_wrong_epoch(self, response: ShareFetchResponse) -> None:
        assert response.error_code
        self._world.coverage.count("session epoch wrong")

    def _fetched(
        self, link: Link, epoch: int, asks: dict[Place, Ask], response: ShareFetchResponse, *, strict: bool
    ) -> None:
        codes = {}
        for topic in response.responses:
            for row in topic.partitions:
                place = (topic.topic_id, row.partition_index)
                codes[place] = row.acknowledge_error_code
                self._take(place, row, strict=strict)
        self._settle(link, epoch, asks, codes, response.error_code)

    def _take(self, place: Place, row: PartitionData, *, strict: bool) -> None:
        if row.error_code:
            self.leaders[place] = self._world.leader(place)
            if row.error_code in (-1, 15):
                self._world.coverage.count("load refused")
        if not row.acquired_records:
            return
        if strict:
            self._world.coverage.count("delivered in record_limit")
        runs = [(run.first_offset, run.last_offset, run.delivery_count) for run in row.acquired_records]
        assert row.records is not None
        offsets = [record.offset for batch in read_batches(row.records, partial_ok=True) for record in batch.records()]
        self._world.checks.delivered(self.member_id, ShareKey(self.group_id, *place), runs, offsets)
        held = self.held.setdefault(place, set())
        for first, last, _ in runs:
            held.update(range(first, last + 1))

    def _settle(self, link: Link, epoch: int, asks: dict[Place, Ask], codes: dict[Place, int], error: int) -> None:
        world = self._world
        for place, ask in asks.items():
            # An answer without rows leaves open whether something was done: a session that was used elsewhere while
            # the fetch waited says so only after the acknowledgements have been written.
            code = ErrorCode.SHARE_SESSION_NOT_FOUND if error == ErrorCode.SHARE_SESSION_NOT_FOUND else codes.get(place)
            if code is not None:
                world.checks.answered(link.node_id, ShareKey(self.group_id, *place), ask, code)
        if epoch == -1:
            link.epoch, places, link.places = 0, link.places, set()
            if not error:
                keys = [ShareKey(self.group_id, *place) for place in places]
                world.checks.has_left(self.member_id, link.node_id, keys, "released by close")
        elif error:
            link.epoch = 0  # The session is gone, or not what it was thought to be: open another.
