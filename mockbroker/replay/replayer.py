"""`replay`: sends the requests of a conversation in the order of the capture, and compares the responses."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from kwire.client import Client, ClientError
from kwire.codec import from_json, to_json
from kwire.errors import WireError
from kwire.messages.metadata import MetadataRequest
from mockbroker.replay.captured import CapturedExchange, Conversation, Endpoint, ReplayError
from mockbroker.replay.compare import compare_responses, response_tree
from mockbroker.replay.producer_ids import map_producer_ids
from mockbroker.replay.response_trees import Difference
from mockbroker.replay.value_map import Scope, ValueMap

if TYPE_CHECKING:
    import msgspec

    from kwire.client.pending import PendingResponse

_PRODUCE, _METADATA, _DESCRIBE_CLUSTER = 0, 3, 60
_REQUEST, _RESPONSE, _END = range(3)


class ReplayOptions(NamedTuple):
    """bootstrap: HOST:PORT of the broker. speed: 1 is as captured, None as fast as possible. timeout_s: per answer."""

    bootstrap: str
    speed: float | None = None
    timeout_s: float = 30.0


class ReplayedExchange(NamedTuple):
    """A request that was sent, and how its response differs from the captured one."""

    captured: CapturedExchange
    differences: list[Difference]


def replay(
    conversation: Conversation, options: ReplayOptions, *, sleep: Callable[[float], None] = time.sleep
) -> Iterator[ReplayedExchange]:
    """Send every request, when all answers that were captured before it have come, on as many connections.

    Raises: ReplayError if the broker's cluster is too small; ConnectFailed if there is none.
    """
    with ExitStack() as stack:
        replayer = _Replayer(conversation, options, stack)
        start_ns, began = None, time.monotonic()
        for at_ns, kind, subject in _events(conversation):
            start_ns = at_ns if start_ns is None else start_ns
            if options.speed is not None and kind == _REQUEST:
                sleep(max((at_ns - start_ns) / 1e9 / options.speed - (time.monotonic() - began), 0))
            if kind == _END:
                replayer.end(cast("str", subject))
            elif kind == _REQUEST:
                yield from replayer.send(cast("CapturedExchange", subject))
            else:
                yield replayer.receive(cast("CapturedExchange", subject))


def _events(conversation: Conversation) -> list[tuple[int, int, CapturedExchange | str]]:
    """Requests, responses and ends in the order of time. A request does not wait for a response of the same time."""
    events: list[tuple[int, int, CapturedExchange | str]] = []
    for exchange in conversation.exchanges:
        events.append((exchange.sent_ns, _REQUEST, exchange))
        if exchange.answered_ns is not None and exchange.response is not None:
            events.append((max(exchange.answered_ns, exchange.sent_ns), _RESPONSE, exchange))
    events += [(at_ns, _END, key) for key, at_ns in conversation.ends]
    return sorted(events, key=lambda event: event[:2])


class _Replayer:
    """The connections of a replay, and the values that it has learned."""

    def __init__(self, conversation: Conversation, options: ReplayOptions, stack: ExitStack) -> None:
        self._options = options
        self._stack = stack
        self._values = ValueMap()
        self._clients: dict[str, Client] = {}
        self._pending: dict[int, PendingResponse | Exception] = {}
        self._addresses = self._map_brokers(conversation)

    def _map_brokers(self, conversation: Conversation) -> dict[Endpoint, str]:
        """The address for each captured broker: nodes in the order of their ids."""
        captured = _captured_nodes(conversation)
        with self._connect(self._options.bootstrap) as client:
            brokers = client.send(MetadataRequest(topics=[])).brokers
        nodes = sorted((broker.node_id, f"{broker.host}:{broker.port}") for broker in brokers)
        used = {exchange.broker for exchange in conversation.exchanges}
        if len(used) > len(nodes):
            counts = f"{len(used)} brokers answer, the cluster at {self._options.bootstrap} has {len(nodes)}"
            raise ReplayError(f"the capture needs a larger cluster: in it {counts}")
        for (captured_id, _), (new_id, _) in zip(captured, nodes, strict=False):
            self._values.add_node(captured_id, new_id)
        addresses = {
            endpoint: address for (_, endpoint), (_, address) in zip(captured, nodes, strict=False) if endpoint in used
        }
        free = iter([address for _, address in nodes if address not in addresses.values()])
        if len(used) == 1:
            return {endpoint: addresses.get(endpoint, self._options.bootstrap) for endpoint in used}
        return {endpoint: addresses.get(endpoint) or next(free) for endpoint in sorted(used)}

    def _connect(self, address: str) -> Client:
        return self._stack.enter_context(Client(address, timeout_s=self._options.timeout_s, negotiated=False))

    def end(self, connection: str) -> None:
        """Close a connection."""
        client = self._clients.pop(connection, None)
        if client is not None:
            client.close()

    def send(self, exchange: CapturedExchange) -> Iterator[ReplayedExchange]:
        """Send a request; a failure is reported at once if no response was captured."""
        try:
            request = self._translate(exchange)
            client = self._clients.get(exchange.connection)
            if client is None:
                client = self._clients[exchange.connection] = self._connect(self._addresses[exchange.broker])
            client.client_id = exchange.client_id
            self._pending[id(exchange)] = client.submit(request, exchange.version)
        except (ClientError, WireError, OSError) as error:
            self._pending[id(exchange)] = error
            if exchange.response is None:
                yield _failed(exchange, error)

    def receive(self, exchange: CapturedExchange) -> ReplayedExchange:
        """Wait for the response of a request, and compare it."""
        pending = self._pending.pop(id(exchange))
        assert exchange.response is not None
        if isinstance(pending, Exception):
            return _failed(exchange, pending)
        try:
            response = pending.result(self._options.timeout_s)
        except (ClientError, WireError, OSError) as error:
            return _failed(exchange, error)
        captured = response_tree(exchange.api_name, exchange.response, exchange.response_version)
        new = response_tree(exchange.api_name, response, exchange.response_version)
        group = getattr(exchange.request, "group_id", None)
        return ReplayedExchange(exchange, compare_responses(captured, new, self._values, Scope(group=group)))

    def _translate(self, exchange: CapturedExchange) -> msgspec.Struct:
        """The request with the values of the new broker."""
        kind = type(exchange.request)
        tree = self._values.translate(to_json(exchange.request, exchange.version))
        request = from_json(kind, exchange.version, tree)
        if exchange.api_key == _PRODUCE:
            map_producer_ids(request, self._values.producer)
        return request


def _failed(exchange: CapturedExchange, error: Exception) -> ReplayedExchange:
    expected = "a response" if exchange.response is not None else "no response"
    return ReplayedExchange(exchange, [Difference("", expected, f"{type(error).__name__}: {error}")])


def _captured_nodes(conversation: Conversation) -> list[tuple[int, Endpoint]]:
    """The nodes that the captured responses name, in the order of their ids."""
    nodes: dict[int, Endpoint] = {}
    for exchange in conversation.exchanges:
        response = cast("Any", exchange.response)
        if response is not None and exchange.api_key in (_METADATA, _DESCRIBE_CLUSTER):
            for broker in response.brokers:
                node_id = broker.node_id if exchange.api_key == _METADATA else broker.broker_id
                nodes[node_id] = (broker.host, broker.port)
    return sorted(nodes.items())
