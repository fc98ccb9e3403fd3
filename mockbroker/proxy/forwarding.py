"""`Forwarder`: handles each request by sending it to the cluster behind the proxy, and rewrites the response."""

from __future__ import annotations

import copy
from asyncio import Future
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import msgspec

from kwire.codec import decode_lenient
from kwire.errors import WireError
from kwire.headers import decode_response_header, encode_request
from kwire.messages.api_versions import ApiVersionsRequest
from kwire.registry import response_class
from mockbroker.engine.outcome import CloseConnection, NoReply, Outcome, Park, Reply
from mockbroker.faults.responses.error_rows import RowCondition, partition_rows, set_error
from mockbroker.proxy.addresses import Localize, rewrite_addresses
from mockbroker.proxy.upstream import Endpoint, ForwardedRequest, UpstreamConnection, wait_closed

if TYPE_CHECKING:
    from mockbroker.cluster_services.cluster_services import WakeKey
    from mockbroker.engine.context import Context
    from mockbroker.engine.routes import Route
    from mockbroker.proxy.learned_topics import LearnedTopics


_PRODUCE, _METADATA, _SASL_HANDSHAKE, _API_VERSIONS = 0, 3, 17, 18
#: The first version of ApiVersions that has the client's software.
_WITH_SOFTWARE = 3
#: The first version of SaslHandshake that is followed by requests with headers.
_WITH_HEADERS = 1
#: A JoinGroup may wait for a rebalance as long as `max.poll.interval.ms`, five minutes by default.
_ANSWER_TIMEOUT_MS = 600_000


class Forwarder:
    """The connections to the cluster behind the proxy, by the id of the client's connection.

    find_endpoint: of a node. localize: as for `rewrite_addresses`. wake: resumes the requests that wait for a key.
    disconnect: closes the connection of a client. api_versions_max: the version that the cluster serves.
    """

    def __init__(
        self,
        find_endpoint: Callable[[int], Endpoint],
        localize: Localize,
        topics: LearnedTopics,
        *,
        wake: Callable[[WakeKey], None],
        disconnect: Callable[[int, str], None],
        record_topic: Callable[[bytes, str], None],
    ) -> None:
        self.api_versions_max = 0
        self._find_endpoint = find_endpoint
        self._localize = localize
        self._topics = topics
        self._wake = wake
        self._disconnect = disconnect
        self._record_topic = record_topic
        self._connections: dict[int, UpstreamConnection] = {}
        #: Those above, and those that are being closed.
        self._open: set[UpstreamConnection] = set()
        self._correlation_id = 0
        self._routes: dict[int, Route] = {}

    def routes(self, served: Mapping[int, Route]) -> dict[int, Route]:
        """The routes of these APIs with handlers that forward."""
        self._routes = {key: self._forwarding_route(route) for key, route in served.items()}
        return self._routes

    def _forwarding_route(self, route: Route) -> Route:
        forwarding = copy.copy(route)
        if route.api_key == _SASL_HANDSHAKE:
            forwarding.versions = forwarding.listed = (_WITH_HEADERS, route.versions[1])
        # A cached property, which needs no module of the broker then.
        forwarding.__dict__["handler"] = partial(self.forward, route.api_key)
        return forwarding

    def end(self, connection_id: int) -> None:
        """The connection of a client has ended: so does its connection to the cluster."""
        connection = self._connections.pop(connection_id, None)
        if connection is not None:
            connection.close()

    async def end_all(self, *, grace_s: float) -> None:
        """End every connection, those that are open after the grace without their output."""
        for connection_id in list(self._connections):
            self.end(connection_id)
        await wait_closed(list(self._open), grace_s=grace_s)

    def forward(self, api_key: int, request: msgspec.Struct, ctx: Context) -> Outcome:
        """Send a request, and wait for its response."""
        connection = self._connection(ctx)
        if connection.failure is not None:
            return CloseConnection(connection.failure)
        version = ctx.api_version
        if api_key == _API_VERSIONS and version > self.api_versions_max:
            # The response is converted to the version of the request, which the cluster does not know.
            version = self.api_versions_max
            request = request if version >= _WITH_SOFTWARE else ApiVersionsRequest()
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        try:
            frame = encode_request(request, version, self._correlation_id, ctx.client_id)
        except WireError as error:
            return CloseConnection(f"a request that cannot be forwarded: {error}")
        key = ctx.new_wake_key()
        deadline_ms = ctx.now_ms + _ANSWER_TIMEOUT_MS
        if api_key == _PRODUCE and cast("Any", request).acks == 0:
            connection.send(frame, None)
            if not connection.is_full:
                return NoReply()
            connection.notify_drained(lambda: self._wake(key))
            return Park(deadline_ms, (key,), lambda _: NoReply())
        forwarded = ForwardedRequest(self._correlation_id, lambda: self._wake(key))
        connection.send(frame, forwarded)

        def resume(ctx: Context) -> Outcome:
            """Answer with the response, if it has come."""
            if forwarded.response is not None:
                return self._reply(api_key, version, forwarded.response, ctx)
            if connection.failure is not None:
                return CloseConnection(connection.failure)
            if ctx.now_ms >= deadline_ms:
                return CloseConnection(f"{connection.endpoint} did not answer within {_ANSWER_TIMEOUT_MS // 1000} s")
            return Park(deadline_ms, (key,), resume)

        return Park(deadline_ms, (key,), resume)

    def _connection(self, ctx: Context) -> UpstreamConnection:
        number = ctx.connection.id
        connection = self._connections.get(number)
        if connection is None:
            endpoint = self._find_endpoint(ctx.connection.node_id)
            connection = UpstreamConnection(endpoint, lambda: self._end_client(number))
            self._connections[number] = connection
            self._open.add(connection)
            connection.ended.add_done_callback(partial(self._forget, connection))
        return connection

    def _forget(self, connection: UpstreamConnection, ended: Future[None]) -> None:
        self._open.discard(connection)

    def _end_client(self, number: int) -> None:
        connection = self._connections.pop(number, None)
        if connection is not None:
            self._disconnect(number, connection.failure or "")

    def _reply(self, api_key: int, version: int, frame: bytes, ctx: Context) -> Outcome:
        try:
            _, at = decode_response_header(frame, api_key, version)
            response = decode_lenient(response_class(api_key), version, frame, at=at).message
        except WireError as error:
            return CloseConnection(
                f"a response to {self._routes[api_key].name} v{version} that cannot be read: {error}"
            )
        if api_key == _METADATA:
            for topic in self._topics.learn(response):
                self._record_topic(topic.topic_id, topic.name)
        elif api_key == _API_VERSIONS:
            self._limit_versions(response)
        try:
            rewrite_addresses(api_key, response, self._localize)
        except OSError as error:
            return CloseConnection(f"no listener for a node of the cluster: {error}")
        for (topic_id, index), fault_error in (ctx.partition_errors or {}).items():
            for row in partition_rows(response, RowCondition("", topic_id, index)):
                set_error(row, fault_error)
                for field, empty in (("records", b""), ("acquired_records", [])):
                    if hasattr(row, field):
                        setattr(row, field, empty)
        return Reply(response)

    def _limit_versions(self, response: msgspec.Struct) -> None:
        """List the versions that both sides know."""
        fields, rows = cast("Any", response), []
        for row in fields.api_keys:
            route = self._routes.get(row.api_key)
            if route is not None:
                row.min_version = max(row.min_version, route.listed[0])
                row.max_version = min(row.max_version, route.versions[1])
                if row.min_version <= row.max_version:
                    rows.append(row)
        fields.api_keys = rows
