"""`NetworkServer`: listens on sockets, feeds frames and time to the core, sends its output, and sets one timer."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from mockbroker.broker.cluster_state import ControllerEndpoint
from mockbroker.cluster_services.inter_broker import describe_action
from mockbroker.engine.awaited_deadlines import postpone_sessions
from mockbroker.engine.core import Core
from mockbroker.engine.output import Close, HalfClose, Note, Send, SendBytes, Unmute
from mockbroker.log.subjects import REQUESTS, SERVER
from mockbroker.net.certificate_principals import CertificatePrincipals
from mockbroker.net.clock_moves import ClockMoves, TimeSlice
from mockbroker.net.connection import ClientConnection
from mockbroker.net.frame_assembly import ReceiveAllowance
from mockbroker.net.node_listeners import NodeListeners
from mockbroker.net.slow_clients import SlowClients, SlowConnection

if TYPE_CHECKING:
    from collections.abc import Callable

    from mockbroker.broker.node import Node
    from mockbroker.clock import Clock
    from mockbroker.engine.output import Output
    from mockbroker.net.capture_tap import CaptureTap
    from mockbroker.net.listeners import Listener
    from mockbroker.net.node_listeners import FindContext

#: How many frames may wait behind a parked request before reading of the connection is paused.
_BACKLOG_MAX = 1
#: What is decrypted at once: as much as the transports of asyncio and uvloop hold encrypted.
_TLS_BUFFER_SIZE = 256 << 10
#: How soon deadlines are tried again after an internal error in finding them, milliseconds.
_FAILED_RETRY_MS = 1_000


class NetworkServer:
    """The sockets of a cluster in one event loop; every method runs in that loop's thread.

    frame_bytes_max: `socket.request.max.bytes`. tap: records all traffic, for `--capture`; or None. watchers: called
    after each event, once its output was sent, and at the end.
    """

    def __init__(self, core: Core, clock: Clock, *, frame_bytes_max: int, tap: CaptureTap | None = None) -> None:
        self.core = core
        self._prepare_core()
        self.clock = clock
        self.frame_bytes_max = frame_bytes_max
        self.principals = CertificatePrincipals(core.state.config)
        self.receive_allowance = ReceiveAllowance()
        self.slow_clients = SlowClients(core.state.configs.limits.queued_bytes, self._handle_frame)
        # Of all connections: it is filled and emptied in one step.
        self.tls_buffer = memoryview(bytearray(_TLS_BUFFER_SIZE))
        self.tap = tap
        self.watchers: set[Callable[[], None]] = set()
        self.is_stopped = False
        self._connections: dict[int, ClientConnection] = {}
        self._listeners: NodeListeners | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due_ms: int | None = None
        self._timer_moved_ms = 0
        self._settle_timer: asyncio.TimerHandle | None = None
        self._last_traffic_s = 0.0
        self._time: Callable[[], float] = time.monotonic
        self._logs_requests = False
        self._slice = TimeSlice()
        self.clock_moves = ClockMoves(self)

    def _prepare_core(self) -> None:
        self.core.requests.time_ns = time.perf_counter_ns
        self.core.internal_errors.is_contained = True

    async def start(self, listeners: list[Listener], tls: FindContext) -> None:
        """Bind every listener of every node, set the nodes' endpoints, then accept. tls: finds contexts.

        Raises: OSError if an address is in use; then nothing listens.
        """
        self._time = asyncio.get_running_loop().time
        self._listeners = NodeListeners(listeners, tls, self._make_connection)
        nodes = self.core.state.nodes
        bound = self._listeners.bind({node_id: index for index, node_id in enumerate(nodes)})
        for node_id, pairs in bound.items():
            for entry, _ in pairs:
                if entry.listener.is_controller:
                    self.core.state.controller_endpoint = ControllerEndpoint(entry.listener.name, *entry.advertised)
                else:
                    nodes[node_id].add_endpoint(entry.listener.name, *entry.advertised)
        for node_id, pairs in bound.items():
            self._listeners.accept(node_id, pairs)

    def _make_connection(self, node_id: int, listener: Listener) -> ClientConnection:
        return ClientConnection(self, node_id, listener.name, encrypted=listener.is_encrypted)

    def add_node(self) -> Node:
        """Add a node to the cluster, at the ports after those of the last one, or at free ones.

        Raises: OSError if an address is in use, ConfigError for a port above 65535; then nothing is changed.
        """
        listeners = self.require_listeners()
        node_id = self.core.next_node_id
        bound = listeners.bind({node_id: node_id - min(listeners.node_ids)})[node_id]
        node = self.core.add_node(self.clock.now_ms())
        for entry, _ in bound:
            node.add_endpoint(entry.listener.name, *entry.advertised)
        listeners.accept(node.node_id, bound)
        self.run_due()
        return node

    def require_listeners(self) -> NodeListeners:
        """The listening sockets; `start` must have been called."""
        assert self._listeners is not None
        return self._listeners

    def stop_node(self, node_id: int) -> None:
        """Stop a node cleanly: its leaderships move, its responses are sent, its listeners and connections close."""
        self.core.stop_node(node_id, self.clock.now_ms())
        self.close_listeners(node_id)
        self.run_due()

    def kill_node(self, node_id: int) -> None:
        """Kill a node; output that was not sent yet is lost."""
        self.core.kill_node(node_id, self.clock.now_ms())
        self.close_listeners(node_id)
        self.run_due()

    def pause_node(self, node_id: int) -> None:
        """Let a node stand still: its connections stay open, and nothing is read or sent."""
        self.core.pause_node(node_id, self.clock.now_ms())
        self.update_paused(node_id)
        self.run_due()

    def resume_node(self, node_id: int) -> None:
        """Let a paused node go on."""
        self.core.resume_node(node_id, self.clock.now_ms())
        self.update_paused(node_id)
        self.run_due()

    def update_paused(self, node_id: int) -> None:
        """Read nothing and accept no connection while a node is paused, or do so again."""
        self.require_listeners().set_paused(node_id, is_paused=node_id in self.core.paused)
        for connection in list(self._connections.values()):
            if connection.node_id == node_id:
                self.update_reading(connection)

    def close_listeners(self, node_id: int) -> None:
        """Refuse new connections to a node; those that are open stay."""
        self.require_listeners().close(node_id)

    def open_listeners(self, node_id: int) -> None:
        """Listen again at the previous addresses of a node. Raises: OSError if one is in use by now."""
        self.require_listeners().open(node_id)

    def start_node(self, node_id: int) -> None:
        """Start a node that was stopped or killed, at its previous addresses.

        Raises: OSError if an address is in use by now; KafkaError if the node is running or unknown.
        """
        self.core.start_node(node_id, self.clock.now_ms())
        try:
            self.open_listeners(node_id)
        except OSError:
            self.kill_node(node_id)
            raise
        self.run_due()

    def replace_core(self, core: Core, clock: Clock) -> None:
        """Serve another cluster at the same addresses: connections close abruptly, nodes that are down listen again.

        The addresses of nodes that the other cluster does not have are released.
        Raises: OSError if an address of a node that was down is in use.
        """
        for connection in list(self._connections.values()):
            connection.close(is_abrupt=True)
        self._connections.clear()
        self.slow_clients.close()
        self.core, self.clock = core, clock
        self._prepare_core()
        self._logs_requests = False
        listeners = self.require_listeners()
        for node_id in listeners.node_ids:
            if node_id not in core.state.nodes:
                listeners.forget(node_id)
                continue
            listeners.open(node_id)
            listeners.set_paused(node_id, is_paused=False)
        self.run_due()

    def announce_stop(self) -> None:
        """End what waits for the cluster; clients are served until `stop`."""
        if not self.is_stopped:
            self.is_stopped = True
            self._notify_watchers()

    async def stop(self, *, grace_s: float) -> None:
        """Stop accepting, release the addresses, and close every connection: see `end_connections`."""
        self.announce_stop()
        self.slow_clients.close()
        for timer in (self._timer, self._settle_timer):
            if timer is not None:
                timer.cancel()
        if self._listeners is not None:
            await self._listeners.stop()
        from mockbroker.net.connection_ends import end_connections

        aborted = await end_connections(self._connections, grace_s=grace_s)
        if aborted:
            template = "%(aborted)d connections were aborted: their clients did not end them within %(grace).1f s"
            SERVER.info(template, aborted=aborted, grace=grace_s)
        self._connections.clear()
        if self.tap is not None:
            self.tap.close()

    def add_connection(
        self, connection: ClientConnection, node_id: int, host: str, port: int, *, listener: str, principal: str
    ) -> int:
        """Register a connection with the core. Returns: its number."""
        if REQUESTS.has_debug is not self._logs_requests:
            self._set_request_log()
        self.run_due()  # Connections are counted by the time.
        number = self.core.connect(node_id, host, port, listener=listener, principal=principal)
        self._connections[number] = connection
        # If the node ended while the connection was set up, the core closes it at once; a listener may accept it later.
        self.run_due()
        self.update_reading(connection)
        return number

    def _set_request_log(self) -> None:
        """Log the requests of all connections from now on, or no more: what the logger says when a client connects."""
        from mockbroker.log import request_log

        self._logs_requests = not self._logs_requests
        (request_log.attach if self._logs_requests else request_log.detach)(self.core.journal)

    def remove_connection(self, connection: ClientConnection) -> None:
        """Remove a connection that has ended."""
        self._connections.pop(connection.id, None)
        self.core.disconnect(connection.id, self.clock.now_ms())
        self.run_due()

    def close_connection(self, connection_id: int, reason: str) -> None:
        """Close a connection, if it is open, for a reason that is logged."""
        connection = self._connections.get(connection_id)
        if connection is not None:
            connection.reject(reason)

    def submit(self, connection: ClientConnection, frame: bytes, arrived_ns: int) -> None:
        """Submit a complete frame to the core, and send its output.

        A request whose response may be large waits while clients do not read many others.
        """
        if self.slow_clients.hold(connection, frame, arrived_ns):
            self.update_reading(connection)
        else:
            self._handle_frame(connection, frame, arrived_ns)

    def _handle_frame(self, connection: SlowConnection, frame: bytes, arrived_ns: int) -> None:
        assert isinstance(connection, ClientConnection)
        self._last_traffic_s = self._time()
        backlog = self.core.submit(connection.id, frame, self.clock.now_ms(), arrived_ns=arrived_ns)
        self.run_due()
        if backlog:
            self.update_reading(connection)

    def update_reading(self, connection: ClientConnection) -> None:
        """Resume reading a connection that has no frames waiting, or pause it."""
        core = self.core
        is_paused = bool(core.paused) and connection.node_id in core.paused
        is_paused = is_paused or self.slow_clients.is_holding(connection)
        connection.set_reading(enabled=not is_paused and core.backlog(connection.id) <= _BACKLOG_MAX)

    def run_due(self, *, is_complete: bool = False) -> None:
        """Advance the core to the current time, send its output, and set the timer for the next deadline.

        Responses are sent before the clock moves: a call of a handler to another node is delivered after its response.
        After a slice of time the rest is left to the timer: a process that stood still may have very many deadlines.
        is_complete: all at once, for a caller that needs what it has scheduled.
        Raises: nothing; its callers have other connections than the one that an error would be about.
        """
        try:
            self._run_due(None if is_complete else self._slice.is_over)
        except Exception as error:
            self.report_error("what follows an event", error)

    def _run_due(self, is_late: Callable[[], bool] | None) -> None:
        self._flush_output()
        now_ms = self.clock.now_ms()
        self._slice.restart()
        try:
            due_ms = self.core.advance(now_ms, is_late=is_late)
        except Exception as error:
            self.report_error("the deadlines of the cluster", error)
            due_ms = now_ms + _FAILED_RETRY_MS
        if self.core.requests.output:
            self._flush_output()
        timer_ms = self._timer_due_ms
        # A timer that is too early runs nothing, and sets the next one: deadlines move with nearly every request.
        if due_ms is not None and (
            timer_ms is None or due_ms < timer_ms or self.clock.moved_ms != self._timer_moved_ms
        ):
            self._set_timer(due_ms, now_ms)
        if self.clock.auto_settle_ms is not None:
            self._set_settle_timer()
        if self.watchers:
            self._notify_watchers()

    def report_error(self, what: str, error: Exception) -> None:
        """Log an internal error: `InternalErrors`."""
        self.core.internal_errors.report(what, error)

    def _notify_watchers(self) -> None:
        for watcher in tuple(self.watchers):
            try:
                watcher()
            except Exception as error:
                self.watchers.discard(watcher)
                self.report_error(f"{describe_action(watcher)} after an event, which is not called again", error)

    def _flush_output(self) -> None:
        for output in self.core.take_output():
            connection = self._connections.get(output.connection_id)
            if connection is None:
                continue
            try:
                if type(output) is Send:  # Nearly always; a pattern costs more.
                    self._last_traffic_s = self._time()
                    connection.send(output)
                    if not connection.is_reading:
                        self.update_reading(connection)
                else:
                    self._apply_output(connection, output)
            except Exception as error:
                self.report_error(f"the output of connection {output.connection_id}", error)
                connection.close(is_abrupt=True)
        if self.tap is not None:
            self.tap.flush()

    def _apply_output(self, connection: ClientConnection, output: Output) -> None:
        """Do what the core orders for a connection besides an answer."""
        match output:
            case Close():
                connection.close(is_abrupt=output.is_abrupt, is_reset=output.is_reset)
            case SendBytes():
                connection.send_bytes(output)
            case HalfClose():
                connection.half_close()
            case Unmute():
                self.update_reading(connection)
            case Note():
                connection.add_note(output.text)

    def _set_timer(self, due_ms: int, now_ms: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = self._timer_due_ms = None
        if not self.clock.is_frozen or due_ms <= now_ms:
            self._timer_due_ms, self._timer_moved_ms = due_ms, self.clock.moved_ms
            # One millisecond late rather than early: the deadline must have come when the timer fires.
            delay_s = (due_ms - now_ms) / 1000 + 0.001
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._timer_due_ms = None
        self.run_due()

    def _set_settle_timer(self) -> None:
        """While the clock is in the mode `auto`: look after the settling time whether all clients wait."""
        settle_ms = self.clock.auto_settle_ms
        if settle_ms is not None and self._settle_timer is None:
            loop = asyncio.get_running_loop()
            self._settle_timer = loop.call_at(self._last_traffic_s + settle_ms / 1000, self._on_settled)

    def _on_settled(self) -> None:
        """Jump to the next deadline if there was no traffic meanwhile and a client waits; else wait for an event."""
        self._settle_timer = None
        settle_ms = self.clock.auto_settle_ms
        if settle_ms is None or self.is_stopped:
            return
        if self._last_traffic_s + settle_ms / 1000 > asyncio.get_running_loop().time():
            self._set_settle_timer()
            return
        try:
            self._jump()
        except Exception as error:
            self.report_error("a jump of the clock", error)

    def _jump(self) -> None:
        due_ms = self.core.next_deadline_ms()
        if self.core.next_awaited_ms() is not None and due_ms is not None:
            step_ms = max(due_ms - self.clock.now_ms(), 0)
            postpone_sessions(self.core.state, step_ms)
            self.clock.advance(step_ms)
            self._last_traffic_s = asyncio.get_running_loop().time()
            self.run_due()
