"""The synchronous cluster: frames and time in, frames out. Socket server, fixture and simulator all drive this.

Nothing here waits. `submit` runs a handler; `advance` moves the clock and fires, each at its own time, messages between
nodes, the deadlines of the rooms, and parked requests whose time is up. What has to leave is fetched by `take_output`.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from mockbroker.context import ANONYMOUS, ClusterState, ConnectionInfo, Context
from mockbroker.controller import Controller
from mockbroker.dispatch import Incoming, Undispatchable, read, refuse, write
from mockbroker.journal import Exchange, Journal
from mockbroker.kafka_error import KafkaError
from mockbroker.noting import note, note_undispatchable
from mockbroker.outcome import Farewell, Hangup, Key, Outcome, Park, Reply, Silence, Token
from mockbroker.parked import Parked, Waiting

if TYPE_CHECKING:
    from mockbroker.node import Node
    from mockbroker.security.sasl import Gate

log = logging.getLogger(__name__)

#: A parked request that wakes another that wakes it again is a mistake of ours; this many rounds tell it from work.
_ROUNDS_MAX = 10_000


class Send(msgspec.Struct, frozen=True):
    """A frame body that has to leave by this connection."""

    connection_id: int
    body: bytes
    exchange: Exchange


class Close(msgspec.Struct, frozen=True):
    """A connection that the broker ends, and why; is_abrupt: without what has not left yet, as the broker died."""

    connection_id: int
    reason: str
    is_abrupt: bool = False


Output = Send | Close


class _Connection(msgspec.Struct):
    info: ConnectionInfo
    gate: Gate | None = None
    waiting: deque[tuple[bytes | memoryview, int]] = msgspec.field(default_factory=deque)
    busy: bool = False
    parked: Waiting[_Request] | None = None


class _Request(msgspec.Struct):
    connection: _Connection
    incoming: Incoming
    exchange: Exchange


class Core:
    """A cluster without sockets.

    state: what all nodes know, and the nodes themselves. All times are milliseconds of the cluster's clock, and never
    go back: an earlier `now_ms` than one already seen counts as that one.
    """

    def __init__(
        self,
        state: ClusterState,
        make_node: Callable[[int], Node],
        *,
        now_ms: int,
        journal: Journal | None = None,
    ) -> None:
        self.state = state
        assert state.store is not None
        self._controller = Controller(state, state.store, make_node, clock=lambda: self.now_ms)
        state.controller = self._controller
        self._running = state.calls.nodes
        self._down: dict[int, Node] = {}
        self.journal = journal if journal is not None else Journal()
        self.now_ms = now_ms
        self._connections: dict[int, _Connection] = {}
        self._connected = 0
        self._parked: Parked[_Request] = Parked()
        self._woken: dict[Key, None] = {}
        self._ready: deque[_Connection] = deque()
        self._output: list[Output] = []

    def connect(
        self, node_id: int, host: str, port: int, *, listener: str = "PLAINTEXT", principal: str = ANONYMOUS
    ) -> int:
        """A client has connected to a node; its number names it from now on.

        principal: who it is by its TLS certificate. At a SASL listener it says so itself, before anything else.
        """
        self._connected += 1
        info = ConnectionInfo(self._connected, node_id, host, port, listener, principal)
        info.protocol = self.state.security.protocol(listener)
        if node_id in self._running:
            self._connections[info.id] = _Connection(info, self._gate(info))
        else:
            self._output.append(Close(info.id, f"node {node_id} is not running", is_abrupt=True))
        return info.id

    def _gate(self, info: ConnectionInfo) -> Gate | None:
        if not info.protocol.startswith("SASL_"):
            return None
        from mockbroker.security.sasl import Gate

        return Gate(self.state.security, info.listener)

    def submit(self, connection_id: int, frame: bytes | memoryview, now_ms: int, *, arrived_ns: int = 0) -> None:
        """A whole frame has come in, without its four bytes of length.

        While an earlier request of the connection is parked it waits its turn (law 4). A frame for a connection that
        is closed already is dropped, as the operating system would drop it.
        """
        self._move_clock(now_ms)
        connection = self._connections.get(connection_id)
        if connection is None:
            return
        connection.waiting.append((frame, arrived_ns))
        self._ready.append(connection)
        self._work()

    def is_connected(self, connection_id: int) -> bool:
        """Whether the connection of this number is open; they are numbered from 1 in the order of their coming."""
        return connection_id in self._connections

    def takes(self, connection_id: int, size: int) -> bool:
        """Whether the connection may send a frame of so many bytes; before it has authenticated that is not much."""
        connection = self._connections.get(connection_id)
        return connection is None or connection.gate is None or connection.gate.takes(size)

    def backlog(self, connection_id: int) -> int:
        """How many frames wait behind the one in progress; the shell stops reading while there are any."""
        connection = self._connections.get(connection_id)
        return len(connection.waiting) if connection else 0

    def disconnect(self, connection_id: int, now_ms: int) -> None:
        """The connection is gone, whoever ended it. Its parked request is forgotten, its share session closed."""
        self._move_clock(now_ms)
        connection = self._connections.pop(connection_id, None)
        if connection is None:
            return
        if connection.parked is not None:
            self._parked.remove(connection.parked)
        connection.waiting.clear()
        node = self._running[connection.info.node_id]
        if node.entered("share_sessions"):
            from mockbroker.handlers.share_fetch import on_disconnect

            on_disconnect(node, connection_id, Context(self.now_ms, 0, None, connection.info, node, self.state))
        if node.entered("telemetry"):
            node.telemetry.disconnect(connection_id)
        self._work()

    def advance(self, now_ms: int) -> None:
        """Move the clock, firing every deadline on the way at its own time and in order.

        At one time: messages between nodes first, then the cleaning of logs, then the rooms of the nodes in order of
        their ids, then parked requests. A message sent with no latency is delivered before the clock moves on.
        """
        while True:
            due_ms = self.next_deadline_ms()
            if due_ms is None or due_ms > now_ms:
                break
            self._move_clock(due_ms)
            self._fire()
        self._move_clock(now_ms)

    def create_topic(self, name: str, partition_count: int = 1) -> None:
        """Make a topic with `default.replication.factor` replicas; raises KafkaError where a request is refused."""
        self.state.metadata.check_name(name)
        self.state.metadata.create_topic(name, partition_count=partition_count)
        self._work()

    def stop_node(self, node_id: int, now_ms: int) -> None:
        """End a broker cleanly: what it leads goes to others first, and those who wait there are told.

        Raises: BROKER_NOT_AVAILABLE when it does not run.
        """
        self._move_clock(now_ms)
        self._controller.shut_down(node_id, now_ms=self.now_ms)
        self._work()
        self._power_off(node_id, is_abrupt=False)

    def kill_node(self, node_id: int, now_ms: int) -> None:
        """End a broker at once; the others take over when its session ends (`broker.session.timeout.ms`).

        Raises: BROKER_NOT_AVAILABLE when it does not run.
        """
        self._move_clock(now_ms)
        self._power_off(node_id, is_abrupt=True)

    def start_node(self, node_id: int, now_ms: int) -> None:
        """Have a broker that was stopped or killed start again, at its old addresses and with empty rooms.

        Raises: BROKER_ID_NOT_REGISTERED, DUPLICATE_BROKER_REGISTRATION.
        """
        self._move_clock(now_ms)
        node = self._controller.power_on(node_id, now_ms=self.now_ms)
        node.listen_as(self._down.pop(node_id))
        self._work()

    def move_leader(self, topic: str, partition_index: int, now_ms: int, *, to: int) -> None:
        """Have another in-sync replica lead a partition, as an election would.

        Raises: UNKNOWN_TOPIC_OR_PARTITION, ELIGIBLE_LEADERS_NOT_AVAILABLE, ELECTION_NOT_NEEDED.
        """
        self._move_clock(now_ms)
        self._controller.move_leader(topic, partition_index, to=to, now_ms=self.now_ms)
        self._work()

    def _power_off(self, node_id: int, *, is_abrupt: bool) -> None:
        self._down[node_id] = self._controller.node(node_id)
        self._controller.power_off(node_id, now_ms=self.now_ms)
        reason = f"node {node_id} was {'killed' if is_abrupt else 'stopped'}"
        for connection in [one for one in self._connections.values() if one.info.node_id == node_id]:
            del self._connections[connection.info.id]
            connection.waiting.clear()
            if connection.parked is not None:
                self._parked.remove(connection.parked)
                connection.parked.request.exchange.closed = reason
                self.journal.answered(connection.parked.request.exchange)
            self._output.append(Close(connection.info.id, reason, is_abrupt=is_abrupt))
        self._work()

    def next_deadline_ms(self) -> int | None:
        """When `advance` has something to do next, or None."""
        deadlines = [
            self.state.calls.next_deadline_ms(),
            self._parked.next_deadline_ms(),
            self.state.store.next_deadline_ms(now_ms=self.now_ms) if self.state.store is not None else None,
            *(node.next_deadline_ms() for node in self._running.values()),
        ]
        return min((due for due in deadlines if due is not None), default=None)

    def take_output(self) -> list[Output]:
        """What has to leave, in order; the caller sends it."""
        output, self._output = self._output, []
        return output

    def wake(self, key: Key) -> None:
        """Have whoever waits for this key look again, before the call in progress returns to the shell."""
        self._woken[key] = None

    @property
    def parked_count(self) -> int:
        """How many requests wait for something."""
        return self._parked.count

    def wake_all(self) -> None:
        """Have every parked request look again; `resume` must bear it. For tests of law 5."""
        for key in self._parked.all_keys():
            self.wake(key)
        self._work()

    def _move_clock(self, now_ms: int) -> None:
        self.now_ms = max(self.now_ms, now_ms)

    def _fire(self) -> None:
        self.state.calls.expire(now_ms=self.now_ms, after_each=self._work)
        if self.state.store is not None:
            self.state.store.expire(now_ms=self.now_ms)
            self._work()
        for node in list(self._running.values()):
            node.expire(now_ms=self.now_ms)
            self._work()
        for waiting in self._parked.due(now_ms=self.now_ms):
            if waiting.alive:
                self._resume(waiting)
        self._work()

    def _work(self) -> None:
        """Run what became ready or was woken, until nothing is left."""
        rounds = 0
        while self._ready or self._woken:
            rounds += 1
            assert rounds < _ROUNDS_MAX, f"parked requests keep waking each other: {list(self._woken)[:5]}"
            while self._ready:
                self._begin_next(self._ready.popleft())
            keys, self._woken = self._woken, {}
            for key in keys:
                for waiting in self._parked.woken_by(key):
                    if waiting.alive:
                        self._resume(waiting)

    def _begin_next(self, connection: _Connection) -> None:
        if connection.busy or not connection.waiting or connection.info.id not in self._connections:
            return
        frame, arrived_ns = connection.waiting.popleft()
        connection.busy = True
        gate, arrival = connection.gate, (self.now_ms, arrived_ns, len(frame))
        try:
            incoming = read(frame, self.state.routes) if gate is None else gate.read(frame, self.state.routes)
        except Undispatchable as why:
            note_undispatchable(self.journal, connection.info, why, arrival)
            self._close(connection, str(why))
            return
        exchange = note(self.journal, connection.info, incoming, arrival)
        request = _Request(connection, incoming, exchange)
        if gate is not None:
            if isinstance(incoming.request, Token):
                exchange.request = None  # Bare bytes, and a secret.
            self._run(request, lambda ctx: gate.handle(incoming, ctx), None)
        elif incoming.refusal is not None:
            self._settle(request, Reply(refuse(incoming, incoming.refusal)), None)
        else:
            self._run(request, lambda ctx: incoming.route.handler(incoming.asked, ctx), None)

    def _resume(self, waiting: Waiting[_Request]) -> None:
        self._parked.remove(waiting)
        request = waiting.request
        request.connection.parked = None
        self._run(request, waiting.park.resume, waiting)

    def _run(self, request: _Request, step: Callable[[Context], Outcome], was: Waiting[_Request] | None) -> None:
        info = request.connection.info
        incoming = request.incoming
        node = self._running[info.node_id]
        ctx = Context(self.now_ms, incoming.handled_version, incoming.client_id, info, node, self.state)
        try:
            outcome = step(ctx)
        except KafkaError as error:
            outcome = Reply(refuse(incoming, error))
        self._settle(request, outcome, was)

    def _settle(self, request: _Request, outcome: Outcome, was: Waiting[_Request] | None) -> None:
        connection = request.connection
        match outcome:
            case Reply(response):
                self._answer(request, response)
            case Park():
                late = was is not None and outcome.deadline_ms <= self.now_ms
                assert not late, f"{request.incoming.route.name} parks again at its deadline"
                number = was.number if was is not None else None
                connection.parked = self._parked.add(request, outcome, number=number)
            case Silence():
                self._free(connection)
            case Hangup(reason):
                request.exchange.closed = reason
                self.journal.answered(request.exchange)
                self._close(connection, reason)
            case Farewell(response, reason):
                request.exchange.closed = reason
                connection.waiting.clear()
                self._answer(request, response)
                connection.busy = True  # Nothing that comes now is heard.
                self._close(connection, reason)
            case Token(data):
                self._send(request, data)

    def _answer(self, request: _Request, response: msgspec.Struct) -> None:
        response = request.incoming.route.departing(response, request.incoming.request)
        body = write(request.incoming, response)
        request.exchange.response = response
        self._send(request, body)

    def _send(self, request: _Request, body: bytes) -> None:
        exchange = request.exchange
        exchange.response_bytes = len(body)
        exchange.answered_ms = self.now_ms
        self.journal.answered(exchange)
        self._output.append(Send(request.connection.info.id, body, exchange))
        self._free(request.connection)

    def _free(self, connection: _Connection) -> None:
        connection.busy = False
        if connection.waiting:
            self._ready.append(connection)

    def _close(self, connection: _Connection, reason: str) -> None:
        info = connection.info
        log.warning("node %d closes %s:%d: %s", info.node_id, info.host, info.port, reason)
        connection.waiting.clear()
        self._output.append(Close(info.id, reason))
