"""`PlannedFaults`: the faults that matched one request, applied before its work, to its answer, and to its bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from kwire.error_codes import ErrorCode
from kwire.errors import WireError
from mockbroker.config.kafka_versions import parse_versions
from mockbroker.engine.dispatch import API_VERSIONS_KEY, refuse_api_versions
from mockbroker.engine.output import HalfClose, Note
from mockbroker.engine.routes import limit_routes
from mockbroker.faults.api_fields import api_fields
from mockbroker.faults.request_facts import RequestFacts
from mockbroker.faults.responses import carried_errors, error_rows, response_fields, wire_changes
from mockbroker.faults.responses.answer_sender import AnswerSender
from mockbroker.faults.responses.error_rows import RowCondition
from mockbroker.faults.responses.own_response import build_own_response
from mockbroker.faults.responses.response_arrays import change_arrays, only_changes_arrays
from mockbroker.journal.named_topics import NamedTopic
from mockbroker.kafka_error import KafkaError

if TYPE_CHECKING:
    from mockbroker.engine.active_request import ActiveRequest
    from mockbroker.engine.core import Core
    from mockbroker.engine.dispatch import IncomingRequest
    from mockbroker.faults.active_fault import ActiveFault
    from mockbroker.faults.model import Fault


class PlannedFaults:
    """The faults of one request, in the order in which they were added.

    The first one that ends the request, by a drop, without an answer, or with an error for the whole of it, is the
    last one that acts. An error that the answer has no place for, as in an old version, is not counted as a hit.
    partition_errors: as in `Context`.
    """

    def __init__(self, core: Core, facts: RequestFacts, faults: list[ActiveFault], sender: AnswerSender) -> None:
        self.partition_errors: Mapping[tuple[bytes, int], KafkaError] | None = None
        self._core = core
        self._request: ActiveRequest = facts.active
        self._facts = facts
        self._faults = faults
        self._sender = sender
        self._error_rows: list[msgspec.Struct] = []
        self._revoked: list[ActiveFault] = []
        self._is_refused = False
        self._passed: set[int] = set()
        self._request.exchange.faults += tuple(active.name for active in faults)

    def start(self) -> bool:
        """Apply what comes before the work. Returns: whether the handler runs now."""
        delay_ms = self._delay_ms(after=False)
        if not delay_ms:
            return not self._is_held(self._start_later, after=False) and self._begin()
        self._core.state.inter_broker.schedule(delay_ms, self._start_later, now_ms=self._core.now_ms)
        return False

    def _start_later(self, _now_ms: int) -> None:
        is_connected = self._core.is_connected(self._request.connection.info.id)
        if is_connected and not self._is_held(self._start_later, after=False) and self._begin():
            self._core.requests.run(self._request)

    def _is_held(self, resume: Callable[[int], None], *, after: bool) -> bool:
        """Whether a fault holds the request from now on; resume: goes on when it is released."""
        for active in self._faults:
            if active.held.is_on and active.fault.then.after == after and active.number not in self._passed:
                self._passed.add(active.number)
                active.held.add(self._request.connection.info.id, resume)
                return True
        return False

    def _begin(self) -> bool:
        for active in self._faults:
            then = active.fault.then
            if then.max_versions is not None and not self._limit_versions(then.max_versions):
                return False
            if then.after:
                continue
            self._change_state(active)
            if then.drop is not None or then.answer == "never":
                self._end_without_answer(active)
                return False
            if then.error is not None and not self._apply_error(active, _kafka_error(active.fault)):
                return False
            response = self._build_response(active)
            if response is not None:
                self._is_refused = True
                self.answer(response)
                return False
        return True

    def _change_state(self, active: ActiveFault) -> None:
        """Let the state change that a fault names happen to what the request names; else it is no hit."""
        fault, facts = active.fault, self._facts
        if fault.then.state is None:
            return
        from mockbroker.faults.state_changes import StateTarget, change_state

        when = fault.when
        topics = facts.topic_names if when.topic is None else (when.topic,)
        target = StateTarget(
            when.group or _first_text(facts.selector("group")),
            when.member or _first_text(facts.selector("member")),
            when.transactional_id or _first_text(facts.selector("transactional_id")),
            [name for name in topics if name is not None] or None,
            when.partition,
        )
        try:
            change_state(fault.then.state, self._core.state, target, active.rng, now_ms=self._core.now_ms)
        except KafkaError as error:
            self._revoke(active, f"{fault.then.state}: {error}")

    def _build_response(self, active: ActiveFault) -> msgspec.Struct | None:
        """The whole response of a fault; None without one, and where the version of the request lacks a field of it."""
        if active.fault.then.response is None or active in self._revoked:
            return None
        try:
            return build_own_response(self._request.incoming, active.fault.then.response)
        except WireError as error:
            self._revoke(active, f"an answer of version {self._request.incoming.response_version}: {error}")
            return None

    def _limit_versions(self, max_versions: Mapping[str, int]) -> bool:
        """Serve the connection of an ApiVersions request these versions only, from this request on.

        Returns: whether the request is answered; one of an API that is not served closes the connection.
        """
        connection, incoming = self._request.connection, self._request.incoming
        routes = limit_routes(connection.routes or self._core.routes, parse_versions(max_versions))
        connection.routes, route = routes, routes.get(incoming.api_key)
        if route is None:
            self._core.requests.end_with_close(
                self._request, f"API key {incoming.api_key} is not served (version {incoming.api_version})"
            )
            return False
        if incoming.api_version > route.versions[1]:
            self._set_incoming(refuse_api_versions(route, incoming.api_version, incoming.correlation_id))
        return True

    def _set_incoming(self, incoming: IncomingRequest) -> None:
        """Let the request be another one, as one of a version that is not served."""
        self._request.incoming = msgspec.structs.replace(incoming, client_id=self._request.incoming.client_id)
        self._request.exchange.response_version = incoming.response_version

    def _apply_error(self, active: ActiveFault, error: KafkaError) -> bool:
        """Apply an error before the work. Returns: whether the handler runs, for the other rows."""
        fault, incoming = active.fault, self._request.incoming
        place = self._error_place(fault)
        if place == "top" or place is None or _expects_no_answer(incoming.request):
            return self._refuse(active, error, at_top=place == "top")
        condition = self._condition(fault)
        fields = api_fields(incoming.api_name)
        if fields.has_session:
            self.partition_errors = {**(self.partition_errors or {}), **self._session_errors(condition, error)}
            return True
        if self._facts.names_all_topics or (place == "partition" and fields.has_response_partitions):
            return True  # The request has no such rows: the answer's are changed.
        matching = error_rows.select_rows(incoming.handler_request, condition, matching=True)
        rest = error_rows.select_rows(incoming.handler_request, condition, matching=False)
        self._error_rows.append(error_rows.build_error_rows(incoming, matching, error))
        self._request.incoming = msgspec.structs.replace(incoming, handler_request=rest)
        return True

    def _refuse(self, active: ActiveFault, error: KafkaError, *, at_top: bool) -> bool:
        """Answer with an error for the whole request. Returns: whether the handler runs, as no answer can have it."""
        incoming = self._request.incoming
        if _expects_no_answer(incoming.request):
            # As Kafka does, since there is no response that could carry the error.
            self._core.requests.end_with_close(self._request, f"{error.code.name} for a request without a response")
            return False
        if incoming.api_key == API_VERSIONS_KEY and error.code is ErrorCode.UNSUPPORTED_VERSION:
            # In the form of version 0, as by a broker that does not know the version of the request.
            incoming = refuse_api_versions(incoming.route, incoming.api_version, incoming.correlation_id)
            self._set_incoming(incoming)
        response = carried_errors.build_refusal(incoming, error, at_top=at_top)
        if response is None:
            self._revoke_error(active)
            return True
        self._is_refused = True
        self.answer(response)
        return False

    def _revoke_error(self, active: ActiveFault) -> None:
        """Do not count a fault whose error is not in the answer."""
        incoming = self._request.incoming
        place = f" at the {active.fault.then.error_at}" if active.fault.then.error_at else ""
        what = f"an answer of {incoming.api_name} {incoming.response_version} to it has no place{place} for the error"
        self._revoke(active, what)

    def _revoke(self, active: ActiveFault, reason: str) -> None:
        """Do not count a fault that could not act."""
        active.revoke_hit(self._facts, reason)
        exchange = self._request.exchange
        exchange.faults = tuple(name for name in exchange.faults if name != active.name)
        self._revoked.append(active)

    def _revoke_lost_errors(self) -> None:
        """Do not count the faults whose errors the encoded answer lacks."""
        exchange, incoming = self._request.exchange, self._request.incoming
        given = [active for active in self._faults if active.fault.then.error is not None]
        given = [active for active in given if active not in self._revoked]
        if given and exchange.response is not None:
            carried = carried_errors.carried_codes(exchange.response, incoming.response_version)
            for active in given:
                if _kafka_error(active.fault).code not in carried:
                    self._revoke_error(active)

    def answer(self, response: msgspec.Struct) -> None:
        """Send the answer of the handler, changed, later or never."""
        for rows in self._error_rows:
            error_rows.merge_rows(response, rows)
        for active in self._faults:
            then = active.fault.then
            if then.after:
                self._change_state(active)
            if then.after and (then.drop is not None or then.answer == "never"):
                self._end_without_answer(active)
                return
            response = self._change_response(response, active)
        try:
            body = self._change_body(b"".join(self._core.requests.complete_response(self._request, response)))
        except WireError as error:  # As a field that the version of the request lacks.
            self._core.requests.end_with_close(
                self._request, f"a fault that no answer of this version can carry: {error}"
            )
            return
        self._revoke_lost_errors()
        delay_ms = self._delay_ms(after=True)
        if not delay_ms:
            self._send_later(body)
            return
        self._core.state.inter_broker.schedule(
            delay_ms, lambda _now_ms: self._send_later(body), now_ms=self._core.now_ms
        )

    def _send_later(self, body: bytes) -> None:
        is_held = self._is_held(lambda _now_ms: self._send_later(body), after=True)
        if not is_held and self._core.is_connected(self._request.connection.info.id):
            self._sender.send(self._request, body, [active.fault.then for active in self._faults])

    def _change_response(self, response: msgspec.Struct, active: ActiveFault) -> msgspec.Struct:
        fault, then = active.fault, active.fault.then
        if then.after:
            response = self._build_response(active) or response
        if then.error is not None and not self._is_refused:
            response = self._put_error(response, fault, _kafka_error(fault))
        condition = self._condition(fault)
        if then.throttle_ms is not None:
            response_fields.set_response_fields(response, {"throttle_time_ms": then.throttle_ms}, condition)
        if then.stale:
            response_fields.set_leaders(response, active.leaders, condition)
        if then.max_versions is not None:
            assert self._request.connection.routes is not None
            response_fields.list_routes(response, self._request.connection.routes)
        if then.set_fields is not None:
            response_fields.set_response_fields(response, then.set_fields, condition)
        if not change_arrays(response, then, condition) and only_changes_arrays(then):
            self._revoke(active, f"its {self._request.incoming.api_name} response has no such rows")
        if then.unknown_tags:
            response_fields.add_unknown_tags(response)
        if then.corrupt_records:
            wire_changes.corrupt_rows(error_rows.partition_rows(response, condition))
        return response

    def _put_error(self, response: msgspec.Struct, fault: Fault, error: KafkaError) -> msgspec.Struct:
        """Put an error into the answer of the handler, if it is to be there after the work."""
        place, incoming = self._error_place(fault), self._request.incoming
        fields, condition = api_fields(incoming.api_name), self._condition(fault)
        if place == "partition" and fields.has_response_partitions:
            for row in error_rows.partition_rows(response, condition):
                error_rows.set_error(row, error)
        elif place == "topic" and self._facts.names_all_topics:
            error_rows.set_topic_errors(response, condition, error)
        elif not fault.then.after:
            return response
        elif place is None or place == "top":
            return carried_errors.build_refusal(incoming, error, at_top=place == "top") or response
        elif fields.has_session:
            rows = error_rows.build_topic_rows(incoming, self._named_topics(condition), error)
            error_rows.merge_rows(response, rows)
        else:
            matching = error_rows.select_rows(incoming.handler_request, condition, matching=True)
            error_rows.merge_rows(response, error_rows.build_error_rows(incoming, matching, error))
        return response

    def _change_body(self, body: bytes) -> bytes:
        for active in self._faults:
            then = active.fault.then
            if then.wrong_correlation_id:
                body = wire_changes.change_correlation_id(body)
            if then.flip_bits:
                body = wire_changes.flip_bits(body, then.flip_bits, active.rng)
        return body

    def _end_without_answer(self, active: ActiveFault) -> None:
        """End the request: its connection is closed, or stays open and is never answered."""
        then, core, info = active.fault.then, self._core, self._request.connection.info
        core.requests.output.append(Note(info.id, f"fault: {active.name}"))
        if then.drop in ("close", "reset"):
            core.requests.end_with_close(self._request, f"fault: {active.name}", is_reset=then.drop == "reset")
            return
        self._request.exchange.closed = f"fault: {active.name}"
        core.journal.complete(self._request.exchange)
        if then.drop == "half-close":
            core.requests.output.append(HalfClose(info.id))

    def _delay_ms(self, *, after: bool) -> int:
        return sum(
            active.fault.then.delay_ms + active.rng.randint(0, active.fault.then.jitter_ms)
            for active in self._faults
            if active.fault.then.after == after
        )

    def _error_place(self, fault: Fault) -> str | None:
        """Where the error of a fault is; None: where the API's own errors are."""
        when, then = fault.when, fault.then
        if then.error_at is not None:
            return then.error_at
        if when.topic is None and when.partition is None:
            return None
        fields = api_fields(self._request.incoming.api_name)
        is_topic = fields.has_response_partitions and when.partition is None
        for place in ("topic",) if is_topic else ("partition", "topic"):
            if place in fields.selectors and place in fields.error_places:
                return place
        return None

    def _condition(self, fault: Fault) -> RowCondition:
        topic = fault.when.topic
        found = next((named for named in self._facts.topics if topic is not None and named.name == topic), None)
        return RowCondition(topic, None if found is None else found.topic_id, fault.when.partition)

    def _session_errors(self, condition: RowCondition, error: KafkaError) -> dict[tuple[bytes, int], KafkaError]:
        return {
            (topic.topic_id, index): error
            for topic in self._named_topics(condition)
            for index in topic.partitions
            if topic.topic_id is not None
        }

    def _named_topics(self, condition: RowCondition) -> list[NamedTopic]:
        """The topics of the request and its session, with the partitions that are included."""
        return [
            topic._replace(partitions=tuple(filter(condition.includes_partition, topic.partitions)))
            for topic in self._facts.topics
            if condition.includes_topic(topic.name, topic.topic_id)
        ]


def _expects_no_answer(request: msgspec.Struct) -> bool:
    """Whether this is a Produce request with acks=0, for which Kafka closes the connection after an error."""
    return getattr(request, "acks", None) == 0


def _first_text(values: Sequence[object]) -> str | None:
    return next((value for value in values if isinstance(value, str) and value), None)


def _kafka_error(fault: Fault) -> KafkaError:
    assert fault.then.error is not None
    return KafkaError(ErrorCode[fault.then.error], fault.then.error_message)
