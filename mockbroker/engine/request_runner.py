"""`RequestRunner`: runs the handlers of requests and turns their outcomes into answers, closed connections or waits."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import msgspec

from kwire.errors import WireError
from mockbroker.engine.active_request import ActiveRequest, Connection
from mockbroker.engine.context import Context
from mockbroker.engine.dispatch import build_error_response, encode_response
from mockbroker.engine.internal_errors import InternalErrors
from mockbroker.engine.muted_channels import MutedChannels
from mockbroker.engine.outcome import CloseConnection, NoReply, Outcome, Park, RawSaslToken, Reply, ReplyAndClose
from mockbroker.engine.output import Close, Output, Send
from mockbroker.engine.purgatory import DelayedRequest, Purgatory
from mockbroker.kafka_error import KafkaError
from mockbroker.log.closed_connections import log_close

if TYPE_CHECKING:
    from kwire.primitives import Part
    from mockbroker.broker.cluster_state import ClusterState
    from mockbroker.engine.connection_admission import ConnectionAdmission
    from mockbroker.engine.request_quotas import RequestQuotas
    from mockbroker.journal import Journal
    from mockbroker.metadata_log.recorder import MetadataRecorder


class RequestRunner:
    """The requests in progress of a cluster, and what is sent for them.

    output: what its driver sends, in order. ready: connections whose next request can start. purgatory: the requests
    that wait. muted: the connections that are throttled. quotas: counts requests while clients have quotas. time_ns:
    the clock by which handlers are measured for them; without one they take no time. recorder: writes the metadata
    that a request has changed, if it is stored. errors: the internal ones. now_ms: milliseconds of the cluster's clock,
    which `Core` moves.
    """

    def __init__(self, state: ClusterState, journal: Journal, *, now_ms: int) -> None:
        self.now_ms = now_ms
        self.output: list[Output] = []
        self.ready: deque[Connection] = deque()
        self.purgatory: Purgatory[ActiveRequest] = Purgatory(state.earliest_deadline)
        self.muted = MutedChannels(state.inter_broker, emit=self._emit, finish=self.finish)
        self.quotas: RequestQuotas | None = None
        self.time_ns: Callable[[], int] = lambda: 0
        self._request_quotas: RequestQuotas | None = None
        self._admission: ConnectionAdmission | None = None
        state.broker_storage.quota_listeners.append(self._update_quotas)
        self.recorder: MetadataRecorder | None = None
        self.errors = InternalErrors()
        self._state = state
        self._running = state.inter_broker.nodes
        self._journal = journal

    def admit(self, connection: Connection, connections: Mapping[int, Connection]) -> None:
        """Accept a new connection, at once or later. connections: the open ones of the cluster, by number."""
        if self._admission is None:
            from mockbroker.engine.connection_admission import ConnectionAdmission

            self._admission = ConnectionAdmission(self._state, connections, emit=self._emit, finish=self.finish)
        self._admission.admit(connection, now_ms=self.now_ms)

    def _update_quotas(self) -> None:
        """Count requests from now on, or no more; what has been counted stays."""
        if self._request_quotas is None:
            from mockbroker.engine.request_quotas import RequestQuotas

            self._request_quotas = RequestQuotas(self._state, self._read_time_ns)
        self.quotas = self._request_quotas if self._state.broker_storage.quotas.limits_clients else None

    def _read_time_ns(self) -> int:
        return self.time_ns()

    def _emit(self, item: Output) -> None:
        self.output.append(item)

    def write_metadata(self) -> None:
        """Write the changes that a caller outside a request has made. Raises: KAFKA_STORAGE_ERROR: they are undone."""
        if self.recorder is not None:
            self.recorder.write_changes()

    def take_output(self) -> list[Output]:
        """Take the pending output, in order. What it acknowledges is in the metadata log, if there is one."""
        if self.recorder is not None:
            self.recorder.write_pending()
        output, self.output = self.output, []
        return output

    def run(self, request: ActiveRequest) -> None:
        """Handle a request; a fault may have delayed it."""
        try:
            self._run(request)
        except Exception as error:
            self._fail(request, error)

    def _run(self, request: ActiveRequest) -> None:
        if self.quotas is not None:
            request.throttle = self.quotas.start_request(request)
        incoming = request.incoming
        if incoming.refusal is not None and request.connection.authenticator is None:
            self._apply_outcome(request, Reply(build_error_response(incoming, incoming.refusal)), None)
        else:
            self._step(request, None)

    def resume(self, delayed: DelayedRequest[ActiveRequest]) -> None:
        """Continue a request that waited, at its deadline or because a key of it was woken."""
        self.purgatory.remove(delayed)
        delayed.request.connection.parked = None
        try:
            self._step(delayed.request, delayed)
        except Exception as error:
            self._fail(delayed.request, error)

    def _fail(self, request: ActiveRequest, error: Exception) -> None:
        """End a request, and with it its connection, after an internal error. Raises: the error, unless contained."""
        connection, incoming = request.connection, request.incoming
        self.fail_connection(connection, f"{incoming.api_name} v{incoming.api_version}", error)
        request.exchange.closed = "internal error"
        self._journal.complete(request.exchange)

    def fail_connection(self, connection: Connection, what: str, error: Exception) -> None:
        """Close a connection after an internal error in what was done for it. Raises: the error, unless contained."""
        info = connection.info
        self.errors.report(f"{what} of connection {info.id} ({info.host}:{info.port}) at node {info.node_id}", error)
        connection.is_busy = True  # Frames that arrive now are ignored.
        connection.waiting.clear()
        self.output.append(Close(info.id, "internal error", is_abrupt=True))

    def _step(self, request: ActiveRequest, resumed: DelayedRequest[ActiveRequest] | None) -> None:
        """Run the handler of a request, or what continues it, and apply the outcome."""
        connection, incoming = request.connection, request.incoming
        info = connection.info
        node = self._running[info.node_id]
        ctx = Context(self.now_ms, incoming.handler_version, incoming.client_id, info, node, self._state)
        if request.faults is not None:
            ctx.partition_errors = request.faults.partition_errors
        if request.throttle is not None:
            ctx.throttle = request.throttle
        channel = self._state.inter_broker
        channel.acting_node = info.node_id
        try:
            if resumed is not None:
                outcome = resumed.park.resume(ctx)
            elif connection.authenticator is None:
                outcome = incoming.route.handler(incoming.handler_request, ctx)
            else:
                outcome = connection.authenticator.handle_request(incoming, ctx)
            if self.recorder is not None:
                self.recorder.write_changes()
        except KafkaError as error:
            outcome = Reply(build_error_response(incoming, error))
            if request.throttle is not None:
                request.throttle.refuse(error.code)
        finally:
            channel.acting_node = None
        self._apply_outcome(request, outcome, resumed)

    def _apply_outcome(
        self, request: ActiveRequest, outcome: Outcome, resumed: DelayedRequest[ActiveRequest] | None
    ) -> None:
        """Answer, wait or close; a response that cannot be encoded closes the connection. Kafka never answers then."""
        try:
            self._do_outcome(request, outcome, resumed)
        except WireError as error:
            self.end_with_close(request, f"a response cannot be encoded: {error}")

    def _do_outcome(
        self, request: ActiveRequest, outcome: Outcome, resumed: DelayedRequest[ActiveRequest] | None
    ) -> None:
        throttle = request.throttle
        if type(outcome) is Reply:  # Nearly always; a pattern costs more.
            response = outcome.response
            if throttle is not None:
                response = throttle.record_answer(response, now_ms=self.now_ms)
            if request.faults is None:
                self._send(request, self.complete_response(request, response))
            else:
                request.faults.answer(response)
            return
        connection = request.connection
        match outcome:
            case Park():
                if throttle is not None:
                    throttle.stop_time()
                parks_at_deadline = resumed is not None and outcome.deadline_ms <= self.now_ms
                assert not parks_at_deadline, f"{request.incoming.route.name} parks again at its deadline"
                number = resumed.number if resumed is not None else None
                connection.parked = self.purgatory.add(request, outcome, number=number)
            case NoReply():
                self._journal.leave_unanswered(request.exchange)
                if throttle is not None:
                    throttle.record_produced(now_ms=self.now_ms)
                self.finish_request(request)
            case CloseConnection(reason):
                if throttle is not None:
                    throttle.record_produced(now_ms=self.now_ms)
                self.end_with_close(request, reason)
            case ReplyAndClose(response, reason):
                request.exchange.closed = reason
                connection.waiting.clear()
                self._answer(request, response)
                connection.is_busy = True  # Frames that arrive now are ignored.
                self.close(connection, reason)
            case RawSaslToken(data):
                self._send(request, (data,))

    def _answer(self, request: ActiveRequest, response: msgspec.Struct) -> None:
        if request.faults is None:
            self._send(request, self.complete_response(request, response))
        else:
            request.faults.answer(response)

    def complete_response(self, request: ActiveRequest, response: msgspec.Struct) -> tuple[Part, ...]:
        """Convert a handler's response to the frame body that is sent, in parts, and record it in the exchange."""
        incoming = request.incoming
        if incoming.route.is_translated:
            response = incoming.route.to_wire(response, incoming.request)
        parts = encode_response(incoming, response)
        request.exchange.response = response
        return parts

    def _send(self, request: ActiveRequest, parts: tuple[Part, ...]) -> None:
        self.record_answer(request, parts)
        exchange = request.exchange
        self.output.append(Send(exchange.connection_id, parts, exchange))
        if request.throttle is None:
            self.finish(request.connection)
        else:
            self.finish_request(request)

    def record_answer(self, request: ActiveRequest, parts: tuple[Part, ...]) -> None:
        """Record in the journal that a response is sent now."""
        exchange = request.exchange
        exchange.response_bytes = len(parts[0]) if len(parts) == 1 else sum(map(len, parts))
        if exchange.request_frame is not None:
            exchange.response_parts = parts
        exchange.answered_ms = self.now_ms
        self._journal.complete(exchange)

    def finish_request(self, request: ActiveRequest, *, at_least_ms: int = 0) -> None:
        """Continue with the next request of the connection, after the throttle time of this one.

        at_least_ms: of a fault.
        """
        throttle_ms = at_least_ms if request.throttle is None else max(request.throttle.throttle_ms, at_least_ms)
        if throttle_ms:
            self.muted.mute(request.connection, throttle_ms, now_ms=self.now_ms)
        else:
            self.finish(request.connection)

    def finish(self, connection: Connection) -> None:
        """Continue with the next request of a connection."""
        connection.is_busy = False
        if connection.active_ms is not None:
            connection.active_ms = self.now_ms
        if connection.waiting:
            self.ready.append(connection)

    def end_with_close(self, request: ActiveRequest, reason: str, *, is_reset: bool = False) -> None:
        """Close the connection of a request instead of an answer, or after it."""
        request.exchange.closed = reason
        self._journal.complete(request.exchange)
        self.close(request.connection, reason, is_reset=is_reset)

    def close(self, connection: Connection, reason: str, *, is_reset: bool = False) -> None:
        """Close a connection, and log why."""
        info = connection.info
        log_close(info.node_id, info.host, info.port, reason)
        connection.waiting.clear()
        connection.is_ending = True
        self.output.append(Close(info.id, reason, is_reset=is_reset))
