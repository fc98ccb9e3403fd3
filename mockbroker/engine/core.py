"""The synchronous cluster: frames and time in, frames out. The network server and the simulator drive it.

Nothing here waits. `submit` runs a handler; `advance` moves the clock and runs every deadline at its own time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from mockbroker.broker.controller import Controller
from mockbroker.engine.active_request import Connection
from mockbroker.engine.awaited_deadlines import next_awaited_ms
from mockbroker.engine.context import ANONYMOUS, ConnectionInfo, Context
from mockbroker.engine.deadlines import Deadlines
from mockbroker.engine.dispatch import Undispatchable
from mockbroker.engine.output import Close, Output
from mockbroker.engine.paused_nodes import PausedNodes
from mockbroker.engine.request_runner import RequestRunner
from mockbroker.engine.waiting_frames import read_next, record_last
from mockbroker.journal import Journal

if TYPE_CHECKING:
    from mockbroker.broker.cluster_state import ClusterState
    from mockbroker.broker.node import Node
    from mockbroker.cluster_services.cluster_services import WakeKey
    from mockbroker.engine.active_request import ActiveRequest, RequestFaults
    from mockbroker.engine.routes import Route
    from mockbroker.engine.sasl_authenticator import SaslAuthenticator

#: More rounds than this mean that parked requests wake each other forever, which is a bug in a handler.
_ROUNDS_MAX = 10_000


class Core:
    """A cluster without sockets.

    state: the shared state of the cluster, with its nodes. routes: the served APIs, by key; node_routes: those of nodes
    of another release, for new connections. close_share_session: is called with the id of a connection that ended, if
    its node has share sessions. controller_routes: returns the APIs at the listener of the controller. All times are
    milliseconds of the cluster's clock, and never go back: an earlier `now_ms` than a previous one counts as that one.
    """

    def __init__(
        self,
        state: ClusterState,
        routes: Mapping[int, Route],
        make_node: Callable[[int], Node],
        *,
        close_share_session: Callable[[int, Context], None],
        controller_routes: Callable[[], Mapping[int, Route]],
        now_ms: int,
    ) -> None:
        self.state = state
        self.routes = routes
        self.node_routes: dict[int, Mapping[int, Route]] = {}
        self._close_share_session = close_share_session
        self._controller_routes = controller_routes
        assert state.log_store is not None
        self._controller = Controller(state, state.nodes, state.log_store, make_node, clock=lambda: self.now_ms)
        state.controller = self._controller
        self._running = state.inter_broker.nodes
        self._down: dict[int, Node] = {}
        self.journal = Journal()
        self._connections: dict[int, Connection] = {}
        self.connection_count = 0
        self.requests = RequestRunner(state, self.journal, now_ms=now_ms)
        self._purgatory = self.requests.purgatory
        self._woken = state.woken
        self._ready = self.requests.ready
        self.paused = PausedNodes(self.requests, self._connections)
        self._channel = state.inter_broker
        self._deadlines = Deadlines(state, self.requests, self.paused, process_ready=self._process_ready)
        self.faults: RequestFaults | None = None
        self.internal_errors = self.requests.errors
        self._channel.report_error = self.internal_errors.report

    @property
    def now_ms(self) -> int:
        """The time of the cluster's clock, to which the last call has moved it."""
        return self.requests.now_ms

    def connect(
        self, node_id: int, host: str, port: int, *, listener: str = "PLAINTEXT", principal: str = ANONYMOUS
    ) -> int:
        """Register a client that has connected to a node. Returns: the number of the connection.

        principal: from the client's TLS certificate. At a SASL listener the client authenticates itself first.
        """
        self.connection_count += 1
        info = ConnectionInfo(self.connection_count, node_id, host, port, listener, principal)
        info.protocol = self.state.security.security_protocol(listener)
        if node_id in self._running:
            connection = Connection(info, self._create_authenticator(info))
            connection.routes = self.node_routes.get(node_id)
            if self.state.controller_endpoint is not None and self.state.controller_endpoint.listener == listener:
                connection.routes = self._controller_routes()
            self._connections[info.id] = connection
            try:
                self.requests.admit(connection, self._connections)
            except Exception as error:
                self.requests.fail_connection(connection, "the admission", error)
        else:
            self.requests.output.append(Close(info.id, f"node {node_id} is not running", is_abrupt=True))
        if self.faults is not None and (end := self.faults.match_connection(info)) is not None:
            self.requests.output.append(end)
        return info.id

    def _create_authenticator(self, info: ConnectionInfo) -> SaslAuthenticator | None:
        if not info.protocol.startswith("SASL_"):
            return None
        from mockbroker.engine.sasl_authenticator import SaslAuthenticator

        return SaslAuthenticator(self.state.security, info.listener)

    def submit(self, connection_id: int, frame: bytes | memoryview, now_ms: int, *, arrived_ns: int = 0) -> int:
        """Handle a complete frame, without its four bytes of length.

        While an earlier request of the connection is parked, the frame waits: the requests of a connection are handled
        in order. A frame for a closed connection is dropped. Returns: the backlog of the connection.
        """
        self._move_clock(now_ms)
        connection = self._connections.get(connection_id)
        if connection is None:
            return 0
        connection.waiting.append((frame, arrived_ns, None))
        if connection.active_ms is not None:
            connection.active_ms = self.now_ms
        self._ready.append(connection)
        self._process_ready()
        if connection.waiting:
            record_last(self.journal, connection, self.routes, self.now_ms)
        return len(connection.waiting)

    def is_connected(self, connection_id: int) -> bool:
        """Whether the connection with this number is open; they are numbered from 1 in the order of connecting."""
        return connection_id in self._connections

    def accepts_frame_size(self, connection_id: int, size: int) -> bool:
        """Whether the connection may send a frame of this size in bytes, which is limited before authentication."""
        connection = self._connections.get(connection_id)
        authenticator = connection.authenticator if connection is not None else None
        return authenticator is None or authenticator.accepts_frame_size(size)

    def backlog(self, connection_id: int) -> int:
        """How many frames wait behind the one in progress; the network server stops reading while there are any."""
        connection = self._connections.get(connection_id)
        return len(connection.waiting) if connection else 0

    def disconnect(self, connection_id: int, now_ms: int) -> None:
        """Remove a connection that either side has closed: drop its parked request, close its share session."""
        self._move_clock(now_ms)
        connection = self._connections.pop(connection_id, None)
        if connection is None:
            return
        self.requests.muted.forget(connection_id)
        if connection.parked is not None:
            self._purgatory.remove(connection.parked)
        connection.waiting.clear()
        if connection.info.node_id in self.paused:
            self.paused.add_ended(connection.info)
            return
        self._end_sessions(connection.info)
        self._process_ready()

    def _end_sessions(self, info: ConnectionInfo) -> None:
        """End what a node has of a connection that is no more."""
        node = self._running[info.node_id]
        try:
            if node.is_loaded("share_sessions"):
                context = Context(self.now_ms, 0, None, info, node, self.state)
                with self.state.inter_broker.act_as(node.node_id):
                    self._close_share_session(info.id, context)
            if node.is_loaded("telemetry"):
                node.telemetry.remove_connection(info.id)
        except Exception as error:
            self.internal_errors.report(f"the end of connection {info.id} at node {info.node_id}", error)

    def advance(self, now_ms: int, *, is_late: Callable[[], bool] | None = None) -> int | None:
        """Move the clock, and run every deadline up to the new time, in order, each at its own time.

        At one time: in the order of `Deadlines`. A call sent with no latency is delivered before the clock moves on.
        is_late: asked before each due time; if it is, the clock stays at the time before, and another call goes on.
        Returns: a time until which there is no other deadline, or None for ever; the next deadline may be later.
        """
        requests = self.requests
        while True:
            call_ms = self._channel.next_deadline_ms()
            due_ms = requests.now_ms
            if call_ms is None or call_ms > due_ms or call_ms > now_ms:
                next_ms = self._deadlines.next_until(now_ms, call_ms, now_ms=due_ms)
                if next_ms is None or next_ms > now_ms:
                    break
                due_ms = next_ms
            # Otherwise a call is due at the present time: nothing is due earlier than that.
            if is_late is not None and is_late():
                return requests.now_ms
            self._move_clock(due_ms)
            self._deadlines.run_due(now_ms=requests.now_ms)
        self._move_clock(now_ms)
        return next_ms

    def create_topic(self, name: str, partition_count: int = 1) -> None:
        """Create a topic with `default.replication.factor` replicas; raises the KafkaError of a refused request."""
        self.state.metadata.check_topic_name(name)
        self.state.metadata.create_topic(name, partition_count=partition_count)
        self._process_ready()

    def stop_node(self, node_id: int, now_ms: int) -> None:
        """Stop a broker cleanly: others become leaders first. Raises: BROKER_NOT_AVAILABLE when it does not run."""
        self._move_clock(now_ms)
        self._controller.start_controlled_shutdown(node_id, now_ms=self.now_ms)
        self._process_ready()
        self._end_node(node_id, is_abrupt=False)

    def kill_node(self, node_id: int, now_ms: int) -> None:
        """Kill a broker, also a paused one; the others become leaders when its session expires.

        Raises: BROKER_NOT_AVAILABLE when it does not run.
        """
        self._move_clock(now_ms)
        self._end_node(node_id, is_abrupt=True)

    def start_node(self, node_id: int, now_ms: int) -> None:
        """Restart a broker that was stopped or killed, at its old addresses and without any loaded state.

        Raises: BROKER_ID_NOT_REGISTERED, DUPLICATE_BROKER_REGISTRATION; INVALID_CONFIG for unusable key stores.
        """
        self._move_clock(now_ms)
        if node_id in self._down and self.state.key_stores is not None:
            self.state.key_stores.restart_node(node_id)
        node = self._controller.start_broker(node_id, now_ms=self.now_ms)
        node.copy_endpoints(self._down.pop(node_id))
        self._process_ready()

    def stopped_node(self, node_id: int) -> Node | None:
        """A node that is down, as it was when it ended; None for one that runs."""
        return self._down.get(node_id)

    def pause_node(self, node_id: int, now_ms: int) -> None:
        """Let a broker stand still, as by SIGSTOP: its connections stay, and nothing is handled, sent or timed.

        The others become leaders when its session expires (`broker.session.timeout.ms`).
        Raises: BROKER_NOT_AVAILABLE when it does not run, or is paused.
        """
        self._move_clock(now_ms)
        self._controller.pause_broker(node_id, now_ms=self.now_ms)
        self.paused.add(node_id)
        self._process_ready()

    def resume_node(self, node_id: int, now_ms: int) -> None:
        """Let a paused broker go on. The deadlines that have passed come first, then requests in their order.

        Raises: BROKER_NOT_AVAILABLE when it is not paused.
        """
        self._move_clock(now_ms)
        self._controller.resume_broker(node_id, now_ms=self.now_ms)
        self._deadlines.run_due_of_node(self._running[node_id], now_ms=self.now_ms)
        ended = self.paused.resume(node_id)
        self._process_ready()
        for info in ended:
            self._end_sessions(info)
        self._process_ready()

    def has_node(self, node_id: int) -> bool:
        """Whether the cluster has a node with this id, which may be down."""
        return node_id in self.state.nodes or node_id in self._down

    @property
    def next_node_id(self) -> int:
        """The id of the node that `add_node` starts."""
        return self._controller.next_node_id

    def add_node(self, now_ms: int) -> Node:
        """Start a broker that the cluster never had, with the next free id. Its caller sets its endpoints."""
        self._move_clock(now_ms)
        node = self._controller.add_broker(now_ms=self.now_ms)
        self._process_ready()
        return node

    def expire_sessions(self, principal: str | None, now_ms: int) -> int:
        """End the SASL sessions of a principal, or of all, as at the end of their lifetime. Returns: how many.

        The next request ends the connection, unless the client logs in again on it.
        """
        self._move_clock(now_ms)
        return sum(
            connection.authenticator.expire_session(self.now_ms)
            for connection in self._connections.values()
            if connection.authenticator is not None and principal in (None, connection.info.principal)
        )

    def move_leader(self, topic: str, partition_index: int, now_ms: int, *, to: int | None) -> None:
        """Make another in-sync replica the leader of a partition, as an election would; with None the first other one.

        Raises: UNKNOWN_TOPIC_OR_PARTITION, ELIGIBLE_LEADERS_NOT_AVAILABLE, ELECTION_NOT_NEEDED.
        """
        self._move_clock(now_ms)
        self._controller.move_leader(topic, partition_index, to=to, now_ms=self.now_ms)
        self._process_ready()

    def _end_node(self, node_id: int, *, is_abrupt: bool) -> None:
        self._down[node_id] = self._controller.started_node(node_id)
        self.paused.remove(node_id)
        self._controller.stop_broker(node_id, now_ms=self.now_ms)
        reason = f"node {node_id} was {'killed' if is_abrupt else 'stopped'}"
        for connection in [c for c in self._connections.values() if c.info.node_id == node_id]:
            del self._connections[connection.info.id]
            connection.waiting.clear()
            if connection.parked is not None:
                self._purgatory.remove(connection.parked)
                connection.parked.request.exchange.closed = reason
                self.journal.complete(connection.parked.request.exchange)
            self.requests.output.append(Close(connection.info.id, reason, is_abrupt=is_abrupt))
        self._process_ready()

    def next_deadline_ms(self, *, until_ms: int | None = None) -> int | None:
        """The time of the next deadline that `advance` runs, or None. until_ms: as of `Deadlines.next_ms`."""
        return self._deadlines.next_ms(now_ms=self.now_ms, until_ms=until_ms)

    def next_awaited_ms(self) -> int | None:
        """The next deadline that clients wait for, or None: see `Clock.start_auto`."""
        return next_awaited_ms(self.state, self.requests, self._connections, is_busy=self.paused.has_connections)

    def take_output(self) -> list[Output]:
        """Take the pending output, in order; the caller sends it. What it acknowledges is in the metadata log."""
        output = self.requests.take_output()
        return self.paused.hold_output(output) if self.paused else output

    def wake(self, key: WakeKey) -> None:
        """Resume the requests that wait for this key, before the call in progress returns."""
        self._woken[key] = None

    @property
    def parked_count(self) -> int:
        """How many requests are parked."""
        return self._purgatory.count

    def wake_all(self) -> None:
        """Resume every parked request. `resume` must be safe to repeat; tests check that by this method."""
        for key in self._purgatory.all_keys():
            self.wake(key)
        self._process_ready()

    def _move_clock(self, now_ms: int) -> None:
        if now_ms > self.requests.now_ms:  # noqa: PLR1730 (max() would be a call for each request)
            self.requests.now_ms = now_ms

    def _process_ready(self) -> None:
        """Run ready connections and woken requests until none is left."""
        rounds = 0
        while self._ready or self._woken:
            rounds += 1
            if rounds >= _ROUNDS_MAX:
                error = AssertionError(f"parked requests keep waking each other: {list(self._woken)[:5]}")
                self._woken.clear()
                self.internal_errors.report("requests that wait", error)
            while self._ready:
                connection = self._ready.popleft()
                try:
                    self._start_next(connection)
                except Exception as error:
                    self.requests.fail_connection(connection, "a request", error)
            if self._woken:
                self._resume_woken()

    def _resume_woken(self) -> None:
        """Resume the requests that wait for the keys that were woken."""
        keys = list(self._woken)
        self._woken.clear()
        if not self._purgatory.count:
            return
        for key in keys:
            for delayed in self._purgatory.requests_waiting_for(key):
                if delayed.is_waiting:
                    self.requests.resume(delayed)

    def _start_next(self, connection: Connection) -> None:
        info = connection.info
        if (
            connection.is_busy
            or not connection.waiting
            or info.id not in self._connections
            or info.node_id in self.paused
        ):
            return
        connection.is_busy = True
        try:
            request = read_next(self.journal, connection, self.routes, self.requests.now_ms)
        except Undispatchable as error:
            self.requests.close(connection, str(error))
            return
        if self.faults is None or self._passes_faults(self.faults, request):
            self.requests.run(request)

    @staticmethod
    def _passes_faults(faults: RequestFaults, request: ActiveRequest) -> bool:
        """Apply the faults that match a request. Returns: whether it is handled now, neither delayed nor answered."""
        request.faults = faults.match_request(request)
        return request.faults is None or request.faults.start()
