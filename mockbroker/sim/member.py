"""Simulated member of a share group: random actions of correct clients, and of faulty ones."""

from __future__ import annotations

from collections.abc import Callable

from kwire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from mockbroker.sim.acknowledgement_runs import AcknowledgementRun, Acknowledgements, to_runs
from mockbroker.sim.delivery_model import RENEW
from mockbroker.sim.random_choice import perform_action
from mockbroker.sim.share_client import NodeSession, ShareClient
from mockbroker.sim.simulated_topics import TOPIC_NAMES
from mockbroker.sim.wire import ignore_response

#: After this number of heartbeats without a complete assignment the member joins again.
_MAX_ATTEMPTS = 8


class Member(ShareClient):
    """Joins, fetches, acknowledges, crashes and rejoins; `act` performs one action."""

    _attempts_without_assignment = 0

    # Actions.

    def act(self) -> str:
        """Perform one action that is possible now. Returns: its description."""
        actions: list[tuple[int, Callable[[], str]]] = [(4, self.heartbeat)]
        if self.member_epoch is not None:
            actions += [(30, self.fetch), (14, self.acknowledge), (3, self.renew), (2, self.update_leaders)]
            actions += [(2, self.forget_records), (2, self.close_session), (1, self.leave), (2, self.crash)]
            actions += [(1, self.reopen), (1, self.send_wrong_epoch), (2, self.acknowledge_concurrently)]
        return f"{self.member_id} {perform_action(self._rng, actions)}"

    def heartbeat(self) -> str:
        """Join or stay."""
        connection = self._coordinator_connection()
        if connection is None:
            return "finds no coordinator"
        joins = self.member_epoch is None
        topics, epoch = (TOPIC_NAMES, 0) if joins else (None, self.member_epoch or 0)
        request = ShareGroupHeartbeatRequest(self.group_id, self.member_id, epoch, subscribed_topic_names=topics)
        self._cluster.wire.send_request(connection, request, 1, self._on_heartbeat)
        return "joins" if joins else "sends a heartbeat"

    def leave(self) -> str:
        """Leave the group without closing sessions or releasing records."""
        connection = self._coordinator_connection()
        if connection is None or self.member_epoch is None:
            return "cannot leave"
        request = ShareGroupHeartbeatRequest(self.group_id, self.member_id, -1)
        self._cluster.wire.send_request(connection, request, 1, ignore_response)
        self.member_epoch, self.assigned = None, set()
        self._count("member left")
        return "leaves"

    def fetch(self) -> str:
        """Fetch the assigned partitions from a node, perhaps with acknowledgements."""
        session = self._session_with_work()
        if session is None:
            return "has nothing to fetch"
        acknowledges = session.epoch > 0 and self._rng.random() < 0.5
        return self._send_fetch(session, self._choose_acknowledgements(session) if acknowledges else {})

    def acknowledge(self) -> str:
        """Acknowledge some records held from one node, without a fetch."""
        session = self._idle_session()
        if session is None:
            return "has no session"
        return self._send_acknowledge(session, session.connection, self._choose_acknowledgements(session))

    def acknowledge_concurrently(self) -> str:
        """Acknowledge on a second connection while a fetch waits on the first; real clients do not do this."""
        wire = self._cluster.wire
        for session in self.sessions.values():
            if session.epoch > 0 and wire.is_waiting(session.connection):
                if session.second_connection is None:
                    session.second_connection = self._connect(session.node_id)
                second = session.second_connection
                if second is not None and not wire.is_waiting(second):
                    self._count("used elsewhere while parked")
                    sent = self._send_acknowledge(session, second, self._choose_acknowledgements(session))
                    return f"on a second connection {sent}"
        return "has no waiting fetch"

    def renew(self) -> str:
        """Renew locks."""
        if not self._cluster.client_dialect.is_released:
            return "cannot renew locks"
        session = self._idle_session()
        acknowledgements = self._choose_acknowledgements(session, (RENEW, RENEW, 1)) if session is not None else {}
        if session is None or not acknowledgements:
            return "has nothing to renew"
        return self._send_acknowledge(session, session.connection, acknowledgements, renews=True)

    def forget_records(self) -> str:
        """Drop all held records: only the end of their locks releases them."""
        self.held.clear()
        return "drops its records"

    def close_session(self) -> str:
        """Close a session by a last acknowledgement or a last fetch."""
        session = self._idle_session()
        if session is None:
            return "has no session to close"
        acknowledgements = self._choose_acknowledgements(session) if self._rng.random() < 0.5 else {}
        session.epoch = -1
        if self._rng.random() < 0.5:
            return "closes: " + self._send_acknowledge(session, session.connection, acknowledgements)
        return "closes: " + self._send_fetch(session, acknowledgements)

    def reopen(self) -> str:
        """Open a session that replaces the existing one: no held record is released."""
        session = self._idle_session()
        if session is None:
            return "has no session to replace"
        session.epoch = 0
        self._count("session replaced")
        return "reopens: " + self._send_fetch(session, {})

    def send_wrong_epoch(self) -> str:
        """Send a fetch with a wrong session epoch."""
        session = self._idle_session()
        if session is None:
            return "has no session"
        request = self._fetch_request(session, session.epoch + self._rng.choice((-1, 1, 7)) or 3, {}, 0)
        self._cluster.wire.send_request(session.connection, request, 2, self._on_wrong_epoch)
        return "sends a wrong epoch"

    def crash(self) -> str:
        """Lose all connections without closing sessions, and all held records."""
        for node_id in list(self.sessions):
            self._disconnect(node_id)
        if self._coordinator is not None:
            self._cluster.wire.disconnect(self._coordinator)
            self._coordinator = None
        self.held.clear()
        self.member_epoch = None if self._rng.random() < 0.5 else self.member_epoch
        self._count("client crashed")
        return "crashes"

    def drain_records(self) -> bool:
        """Fetch and accept once from every leader. Returns: whether there was something to do."""
        if self.member_epoch is None or self.assigned != set(self._cluster.partition_keys()):
            self._attempts_without_assignment += 1
            if self._attempts_without_assignment % _MAX_ATTEMPTS == 0 and self.member_epoch is not None:
                # The state of an earlier group of this name has a higher epoch, and fences the initialization: each
                # member that joins and leaves raises the group's epoch toward it.
                self.leave()
                self._count("initialization fenced")
            self.heartbeat()
            self._cluster.advance(2_000)
            return True
        self.update_leaders()
        has_records = False
        for partition_key in sorted(self.assigned):
            node_id = self.leaders[partition_key]
            if node_id not in self.sessions:
                connection = self._connect(node_id)
                assert connection is not None
                self.sessions[node_id] = NodeSession(node_id, connection)
            session = self.sessions[node_id]
            if session.epoch > 0 and any(self.held.get(partition_key) for partition_key in session.partition_keys):
                self._send_acknowledge(session, session.connection, self._accept_all(session))
                self._cluster.advance(0)
            self._send_fetch(session, {}, wait_ms=5)
            self._cluster.advance(5)
            has_records = has_records or any(self.held.get(partition_key) for partition_key in session.partition_keys)
        return has_records

    @property
    def holds_records(self) -> bool:
        """Whether it has received records that it has not acknowledged."""
        return any(self.held.values())

    def _accept_all(self, session: NodeSession) -> Acknowledgements:
        runs_by_key = {
            key: to_runs(sorted(self.held[key])) for key in sorted(session.partition_keys) if self.held.get(key)
        }
        return {key: [AcknowledgementRun(*run, (1,)) for run in runs] for key, runs in runs_by_key.items()}
