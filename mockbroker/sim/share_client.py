"""Client side of a simulated member: connections, share sessions, requests and their responses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random

import msgspec

from kwire.error_codes import ErrorCode
from kwire.messages import share_acknowledge as acknowledge
from kwire.messages import share_fetch as fetch
from kwire.messages.share_group_heartbeat import ShareGroupHeartbeatResponse
from kwire.records import read_batches
from mockbroker.sim.acknowledgement_runs import AcknowledgementRun, Acknowledgements, describe_acknowledgements, to_runs
from mockbroker.sim.delivery_model import RENEW
from mockbroker.sim.partition_checker import PendingAcknowledgement
from mockbroker.sim.simulated_cluster import SimulatedCluster
from mockbroker.sim.wire import OnResponse
from mockbroker.state.metadata.topics import CoordinatorKind, TopicPartitionKey
from mockbroker.state.share_coordinator.share_coordinator import ShareKey

PendingByPartition = dict[TopicPartitionKey, PendingAcknowledgement]
_TYPES = (1, 1, 1, 1, 2, 2, 3, 0)


@dataclass(slots=True)
class NodeSession:
    """A member's connection to one node, a second one for concurrent requests, and its share session there."""

    node_id: int
    connection: int
    second_connection: int | None = None
    epoch: int = 0
    partition_keys: set[TopicPartitionKey] = field(default_factory=set)


class ShareClient:
    """Sends the requests of one member, tracks its sessions, and reports requests and responses to the invariants."""

    def __init__(self, name: str, group_id: str, cluster: SimulatedCluster, rng: Random) -> None:
        self.member_id = cluster.member_id(name)
        self.group_id = group_id
        self.member_epoch: int | None = None
        self.assigned: set[TopicPartitionKey] = set()
        self.sessions: dict[int, NodeSession] = {}
        self.held: dict[TopicPartitionKey, set[int]] = {}
        self.leaders: dict[TopicPartitionKey, int] = {}
        self._cluster = cluster
        self._rng = rng
        self._count = cluster.coverage.count
        self._coordinator: int | None = None

    # Connections.

    def update_leaders(self) -> str:
        """Look up the leaders of all partitions."""
        for topic in self._cluster.topics():
            for partition in topic.partitions:
                self.leaders[topic.topic_id, partition.index] = partition.leader
        return "updates its leaders"

    def _connect(self, node_id: int) -> int | None:
        if not self._cluster.is_up(node_id):
            return None
        return self._cluster.wire.connect(node_id, self.member_id, lambda: self._on_connection_lost(node_id))

    def _on_connection_lost(self, node_id: int) -> None:
        """The node was stopped, or has ended the connection."""
        session = self.sessions.get(node_id)
        if session is not None:
            self._cluster.invariants.record_leaving(self.member_id, node_id, self.group_id)
            self._disconnect(node_id)

    def _disconnect(self, node_id: int) -> None:
        """Disconnect; the node releases the records of the session that was opened on this connection."""
        session = self.sessions.pop(node_id)
        cluster = self._cluster
        for connection in (session.connection, session.second_connection):
            if connection is None or not cluster.wire.is_open(connection):
                continue
            opened = cluster.find_session(node_id, self.group_id, self.member_id)
            ends = opened is not None and opened.connection_id == connection
            keys = [ShareKey(self.group_id, *key) for key in opened.partitions] if opened and ends else []
            cluster.invariants.record_leaving(self.member_id, node_id, self.group_id)
            cluster.wire.disconnect(connection)
            if ends:
                cluster.invariants.check_released(self.member_id, node_id, keys, "released by disconnect")

    def _coordinator_connection(self) -> int | None:
        """A connection to the group's coordinator without a pending response."""
        node_id = self._cluster.coordinator(CoordinatorKind.GROUP, self.group_id)
        wire = self._cluster.wire
        if self._coordinator is not None:
            if not wire.is_open(self._coordinator) or wire.node_id_of(self._coordinator) != node_id:
                self._coordinator = None
            elif wire.is_waiting(self._coordinator):
                return None
        if self._coordinator is None and self._cluster.is_up(node_id):
            self._coordinator = wire.connect(node_id, self.member_id)
        return self._coordinator

    def _session_with_work(self) -> NodeSession | None:
        nodes = sorted({self.leaders.get(partition_key, -1) for partition_key in self.assigned} | set(self.sessions))
        self._rng.shuffle(nodes)
        for node_id in nodes:
            session = self.sessions.get(node_id)
            if session is None and node_id >= 0:
                connection = self._connect(node_id)
                if connection is not None:
                    session = self.sessions[node_id] = NodeSession(node_id, connection)
            if session is not None and not self._is_busy(session):
                return session
        return None

    def _idle_session(self) -> NodeSession | None:
        free = [session for session in self.sessions.values() if session.epoch > 0 and not self._is_busy(session)]
        return self._rng.choice(free) if free else None

    def _is_busy(self, session: NodeSession) -> bool:
        connections = (session.connection, session.second_connection)
        return any(number is not None and self._cluster.wire.is_waiting(number) for number in connections)

    # Requests.

    def _choose_acknowledgements(self, session: NodeSession, types: tuple[int, ...] = _TYPES) -> Acknowledgements:
        """Acknowledgements of some records held from this node, and sometimes of records that are not held."""
        types = self._cluster.client_dialect.supported_types(types)
        acknowledgements: Acknowledgements = {}
        for partition_key in sorted(self.held.keys() & session.partition_keys):
            offsets = sorted(self.held[partition_key])
            if not offsets or self._rng.random() < 0.2:
                continue
            chosen = [run for run in to_runs(offsets) if self._rng.random() < 0.8]
            acknowledgements[partition_key] = [self._make_run(first, last, types) for first, last in chosen]
        if session.partition_keys and self._rng.random() < 0.04:
            partition_key = self._rng.choice(sorted(session.partition_keys))
            first = self._rng.randrange(40)
            last = first + self._rng.randrange(5)
            acknowledgements[partition_key] = [AcknowledgementRun(first, last, (self._rng.choice(types),))]
        return {partition_key: runs for partition_key, runs in acknowledgements.items() if runs}

    def _make_run(self, first: int, last: int, types: tuple[int, ...]) -> AcknowledgementRun:
        if last > first and self._rng.random() < 0.3:  # Only a part of the run.
            first, last = sorted((self._rng.randint(first, last), self._rng.randint(first, last)))
        if last > first and self._rng.random() < 0.3:
            return AcknowledgementRun(first, last, tuple(self._rng.choice(types) for _ in range(first, last + 1)))
        return AcknowledgementRun(first, last, (self._rng.choice(types),))

    def _send_acknowledge(
        self, session: NodeSession, connection: int, acknowledgements: Acknowledgements, *, renews: bool = False
    ) -> str:
        topics: dict[bytes, acknowledge.AcknowledgeTopic] = {}
        for (topic_id, index), batches in acknowledgements.items():
            rows = [acknowledge.AcknowledgementBatch(*batch) for batch in batches]
            partitions = topics.setdefault(topic_id, acknowledge.AcknowledgeTopic(topic_id)).partitions
            partitions.append(acknowledge.AcknowledgePartition(index, rows))
        epoch = session.epoch
        request = acknowledge.ShareAcknowledgeRequest(self.group_id, self.member_id, epoch, is_renew_ack=renews)
        request.topics = list(topics.values())
        pending = self._start_request(session, acknowledgements)

        def on_response(response: acknowledge.ShareAcknowledgeResponse) -> None:
            answered = ((topic.topic_id, row) for topic in response.responses for row in topic.partitions)
            codes = {(topic_id, row.partition_index): row.error_code for topic_id, row in answered}
            self._complete_request(session, epoch, pending, codes, response.error_code)

        self._send(connection, request, pending, on_response)
        return f"acknowledges at {session.node_id} in epoch {epoch}: {describe_acknowledgements(acknowledgements)}"

    def _send_fetch(
        self, session: NodeSession, acknowledgements: Acknowledgements, *, wait_ms: int | None = None
    ) -> str:
        if wait_ms is None:
            wait_ms = self._rng.choice((0, 0, 0, 10, 10, 500, 500, 3_000, 3_000, 45_000))
        epoch = session.epoch
        request = self._fetch_request(session, epoch, acknowledgements, wait_ms)
        requested = {(topic.topic_id, row.partition_index) for topic in request.topics for row in topic.partitions}
        forgotten = {(topic.topic_id, index) for topic in request.forgotten_topics_data for index in topic.partitions}
        session.partition_keys = (requested if epoch == 0 else session.partition_keys | requested) - forgotten
        pending = self._start_request(session, acknowledgements)

        def on_response(response: fetch.ShareFetchResponse) -> None:
            codes = {}
            for topic in response.responses:
                for row in topic.partitions:
                    codes[topic.topic_id, row.partition_index] = row.acknowledge_error_code
                    self._record_partition(topic.topic_id, row, is_strict=request.share_acquire_mode == 1)
            self._count("fetch throttled", int(response.throttle_time_ms > 0))
            self._complete_request(session, epoch, pending, codes, response.error_code)

        self._send(session.connection, request, pending, on_response)
        text = describe_acknowledgements(acknowledgements)
        return f"fetches from {session.node_id} in epoch {epoch}, {request.max_records} at most, {text}"

    def _send(self, connection: int, request: msgspec.Struct, pending: PendingByPartition, done: OnResponse) -> None:
        if self._cluster.wire.send_request(connection, request, 2, done):
            for ask in pending.values():
                ask.mark_late(self._cluster.now_ms)

    def _start_request(self, session: NodeSession, acknowledgements: Acknowledgements) -> PendingByPartition:
        """Advance the session epoch for a request that is about to be sent, and report it to the invariants."""
        invariants = self._cluster.invariants
        node_id = session.node_id
        if session.epoch == -1:
            invariants.record_leaving(self.member_id, node_id, self.group_id)
        else:
            session.epoch += 1
        pending = {}
        for partition_key, runs in acknowledgements.items():
            types = {offset: kind for run in runs for offset, kind in run.types_by_offset().items()}
            key = ShareKey(self.group_id, *partition_key)
            pending[partition_key] = invariants.record_acknowledgement(self.member_id, node_id, key, types)
            done = {offset for offset, kind in types.items() if kind != RENEW}
            self.held[partition_key] = self.held.get(partition_key, set()) - done
        return pending

    def _fetch_request(
        self, session: NodeSession, epoch: int, acknowledgements: Acknowledgements, wait_ms: int
    ) -> fetch.ShareFetchRequest:
        led = {key for key in self.assigned if self.leaders.get(key) == session.node_id}
        requested = set() if epoch == -1 else led if epoch == 0 else led - session.partition_keys
        forgotten = session.partition_keys - led if epoch > 0 and self._rng.random() < 0.5 else set()
        topics: dict[bytes, fetch.FetchTopic] = {}
        for topic_id, index in sorted(requested | set(acknowledgements)):
            batches = [fetch.AcknowledgementBatch(*batch) for batch in acknowledgements.get((topic_id, index), [])]
            row = fetch.FetchPartition(index, acknowledgement_batches=batches)
            topics.setdefault(topic_id, fetch.FetchTopic(topic_id)).partitions.append(row)
        return fetch.ShareFetchRequest(
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
            forgotten_topics_data=[fetch.ForgottenTopic(topic_id, (index,)) for topic_id, index in sorted(forgotten)],
        )

    # Responses.

    def _on_heartbeat(self, response: ShareGroupHeartbeatResponse) -> None:
        if response.error_code:
            self.member_epoch = None
            return
        if self.member_epoch is None:
            self._count("member joined")
            self.update_leaders()
        self.member_epoch = response.member_epoch
        if response.assignment is not None:
            topics = response.assignment.topic_partitions
            self.assigned = {(topic.topic_id, index) for topic in topics for index in topic.partitions}

    def _on_wrong_epoch(self, response: fetch.ShareFetchResponse) -> None:
        assert response.error_code
        self._count("session epoch wrong")

    def _record_partition(self, topic_id: bytes, row: fetch.PartitionData, *, is_strict: bool) -> None:
        partition_key = (topic_id, row.partition_index)
        if row.error_code:
            self.leaders[partition_key] = self._cluster.leader(partition_key)
            self._count("load refused", int(row.error_code in (-1, 15)))
        if not row.acquired_records:
            return
        self._count("delivered in record_limit", int(is_strict))
        runs = [(run.first_offset, run.last_offset, run.delivery_count) for run in row.acquired_records]
        assert row.records is not None
        offsets = self._read_offsets(row.records)
        if offsets is None:
            return  # The end of their locks releases the records.
        self._cluster.invariants.check_delivery(self.member_id, ShareKey(self.group_id, *partition_key), runs, offsets)
        held = self.held.setdefault(partition_key, set())
        for first, last, _ in runs:
            held.update(range(first, last + 1))

    def _read_offsets(self, records: bytes | memoryview) -> list[int] | None:
        """The offsets of received records; None if bits of them may have flipped on the disk."""
        disk = self._cluster.disk
        if disk is not None and disk.has_flipped_bits:
            # A length can have flipped too: then the batch seems to be cut, as the last one of a response may be.
            self._count("damaged records received")
            return None
        batches = read_batches(records, partial_ok=True)
        return [record.offset for batch in batches for record in batch.records()]

    def _complete_request(
        self,
        session: NodeSession,
        epoch: int,
        pending: PendingByPartition,
        codes: Mapping[TopicPartitionKey, int],
        error: int,
    ) -> None:
        invariants = self._cluster.invariants
        for partition_key, ask in pending.items():
            # A response without rows does not show whether acknowledgements took effect: if the session was used on
            # another connection while the fetch waited, the error comes only after they have been written.
            code = error if error == ErrorCode.SHARE_SESSION_NOT_FOUND else codes.get(partition_key)
            if code is not None:
                invariants.record_response(session.node_id, ShareKey(self.group_id, *partition_key), ask, code)
        if epoch == -1:
            session.epoch, partition_keys, session.partition_keys = 0, session.partition_keys, set()
            if not error:
                keys = [ShareKey(self.group_id, *partition_key) for partition_key in partition_keys]
                invariants.check_released(self.member_id, session.node_id, keys, "released by close")
        elif error:
            session.epoch = 0  # The session does not exist, or has another epoch: open a new one.
