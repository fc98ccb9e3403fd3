"""What the rules have in common: the state of connections, and what a client has certainly seen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple, Protocol

from kwire.conformance.limited_dict import LimitedDict
from kwire.conformance.model import (
    ConnectionEnd,
    ConnectionGap,
    ConnectionGapEnd,
    ConnectionKey,
    Note,
    ObservedExchange,
)
from kwire.conformance.rules import RULES

#: How many connections, members or producers are observed; of more the oldest are forgotten.
TRACKED_MAX = 20_000
#: A client that has several requests in flight may have sent one before it read the response that the broker sent
#: before. After this time it has read it.
_PIPELINE_GRACE_NS = 100_000_000
#: The same for a response on another connection of the same client, which another thread may read.
_OTHER_CONNECTION_GRACE_NS = 1_000_000_000


class Connection:
    """The state of a connection. pipelines: it had two requests in flight."""

    def __init__(self, key: ConnectionKey, owner: tuple[str, str | None], node: str) -> None:
        self.key = key
        self.owner = owner
        self.node = node
        self.pipelines = False
        self.in_flight: LimitedDict[int, ObservedExchange] = LimitedDict(1000)
        self.end: ConnectionEnd | None = None


class _Gaps(NamedTuple):
    """What is missing of a connection. open_count: gaps without an end. latest_ns: when one began or ended last."""

    open_count: int
    latest_ns: int


class Seen(NamedTuple):
    """A response: the exchange, and the time when it was sent. Smaller than the exchange with its messages."""

    number: int
    packet: int | None
    connection: ConnectionKey
    answered_ns: int

    @classmethod
    def of(cls, exchange: ObservedExchange) -> Seen:
        """The response of an exchange that has one."""
        assert exchange.answered_ns is not None
        return cls(exchange.number, exchange.packet, exchange.connection, exchange.answered_ns)


class Traffic:
    """All connections."""

    def __init__(self) -> None:
        self._connections: LimitedDict[ConnectionKey, Connection] = LimitedDict(TRACKED_MAX)
        self._gaps: LimitedDict[ConnectionKey, _Gaps] = LimitedDict(TRACKED_MAX)

    def connection(self, exchange: ObservedExchange) -> Connection:
        """The connection of an exchange."""
        connection = self._connections.get(exchange.connection)
        if connection is None:
            host = exchange.client.rpartition(":")[0]
            connection = Connection(exchange.connection, (host, exchange.client_id), exchange.node)
            self._connections[exchange.connection] = connection
        elif exchange.client_id is not None and connection.owner[1] is None:
            connection.owner = (connection.owner[0], exchange.client_id)
        return connection

    def record_end(self, end: ConnectionEnd) -> None:
        """Record the end of a connection; one without any request is ignored."""
        connection = self._connections.get(end.connection)
        if connection is not None:
            connection.end = end

    def record_gap(self, gap: ConnectionGap | ConnectionGapEnd) -> None:
        """Record that a part of a connection is missing, also before its first request, or until when."""
        before = self._gaps.get(gap.connection, _Gaps(0, gap.at_ns))
        change = -1 if isinstance(gap, ConnectionGapEnd) else int(gap.is_open)
        self._gaps[gap.connection] = _Gaps(before.open_count + change, max(before.latest_ns, gap.at_ns))

    def has_gap(self, key: ConnectionKey) -> bool:
        """Whether a part of the connection is missing, as far as it is known by now."""
        return key in self._gaps

    def is_complete_since(self, key: ConnectionKey, since_ns: int) -> bool:
        """Whether nothing of a connection is missing from a time until now."""
        gaps = self._gaps.get(key)
        return gaps is None or (not gaps.open_count and gaps.latest_ns < since_ns)

    def has_seen(self, response: Seen, request: ObservedExchange) -> bool:
        """Whether the client had certainly read a response when it sent a request."""
        delay_ns = request.sent_ns - response.answered_ns
        if response.connection != request.connection:
            return delay_ns > _OTHER_CONNECTION_GRACE_NS
        return delay_ns > (_PIPELINE_GRACE_NS if self.connection(request).pipelines else 0)

    def cleanly_ended(self) -> set[ConnectionKey]:
        """The connections of clients that have ended cleanly: all their connections are closed, this one by the client.

        A client is known by its host and client id. Where a second one has the same, both must have ended. Nothing of
        their connections may be missing: it may be the last request.
        """
        connections = self._connections.values()
        others = {each.owner for each in connections if each.end is None or self.has_gap(each.key)}
        ended = (each for each in connections if each.end is not None and each.end.is_clean)
        return {each.key for each in ended if each.owner not in others}


class RuleChecker(Protocol):
    """Some rules, with their state. Each method is called in the order of time."""

    def take_request(self, exchange: ObservedExchange) -> Iterable[Note]:
        """A request arrives. Its response is in the exchange already, but is not known to the client yet."""

    def take_response(self, exchange: ObservedExchange) -> Iterable[Note]:
        """A response is sent."""

    def take_gap(self, connection: ConnectionKey) -> None:
        """A part of a connection is missing."""

    def finish(self) -> Iterable[Note]:
        """All is known."""


class SilentChecker:
    """The methods of `RuleChecker`, which do nothing."""

    def take_request(self, exchange: ObservedExchange) -> Iterator[Note]:
        """A request arrives."""
        return iter(())

    def take_response(self, exchange: ObservedExchange) -> Iterator[Note]:
        """A response is sent."""
        return iter(())

    def take_gap(self, connection: ConnectionKey) -> None:
        """A part of a connection is missing."""

    def finish(self) -> Iterator[Note]:
        """All is known."""
        return iter(())


def make_note(
    rule_id: str, text: str, exchange: ObservedExchange, before: Iterable[Seen | ObservedExchange] = (), at_ns: int = 0
) -> Note:
    """A note about an exchange. before: earlier exchanges that it rests on. at_ns: if not the time of the request."""
    rule = RULES[rule_id]
    basis = [*before, exchange]
    return Note(
        rule=rule.id,
        level=rule.level,
        text=text,
        source=rule.source,
        exchanges=tuple(each.number for each in basis),
        packets=tuple(each.packet for each in basis if each.packet is not None),
        client_id=exchange.client_id,
        client=exchange.client,
        connection=exchange.connection,
        node=exchange.node,
        at_ns=at_ns or exchange.sent_ns,
    )
