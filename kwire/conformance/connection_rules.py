"""Rules about any request of a connection: versions, correlation ids, throttling, encoding."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kwire.conformance.limited_dict import LimitedDict
from kwire.conformance.model import ConnectionKey, Note, ObservedExchange
from kwire.conformance.traffic import TRACKED_MAX, Seen, SilentChecker, Traffic, make_note

_API_VERSIONS = 18
_MS = 1_000_000
#: The first version of an API whose clients wait for throttle_time_ms; before it the broker delays the response
#: (KIP-219; `shouldClientThrottle` of Kafka's responses). In all other APIs clients wait in every version.
_CLIENT_THROTTLES_FROM = {
    **dict.fromkeys((21, 22, 24, 25, 26, 28, 29, 30, 31, 33, 34, 35, 37, 38, 39, 40, 41, 42), 1),
    **dict.fromkeys((10, 12, 13, 14, 15, 16, 18, 20, 32), 2),
    **dict.fromkeys((2, 11, 19), 3),
    **dict.fromkeys((8, 9), 4),
    **dict.fromkeys((0, 3), 6),
    **dict.fromkeys((1,), 8),
}
#: A response is under way for some time, and clients round their timers.
_THROTTLE_START_NS, _THROTTLE_END_NS = 20 * _MS, 20 * _MS


class VersionChecker(SilentChecker):
    """Versions against the ApiVersions responses of the connection, else against all those of the node."""

    def __init__(self, traffic: Traffic) -> None:
        self._traffic = traffic
        self._by_connection: LimitedDict[ConnectionKey, _Offer] = LimitedDict(TRACKED_MAX)
        self._by_node: LimitedDict[str, _Offer] = LimitedDict(TRACKED_MAX)

    def take_request(self, exchange: ObservedExchange) -> Iterator[Note]:
        """A request arrives."""
        # A client sends ApiVersions before it knows any versions, and falls back when the broker refuses (KIP-511).
        if exchange.api_key == _API_VERSIONS:
            return
        offer = self._by_connection.get(exchange.connection)
        # What is missing of the connection may be its own response, of a broker that was replaced.
        if offer is None and not self._traffic.has_gap(exchange.connection):
            offer = self._by_node.get(exchange.node)
        if offer is None:
            return
        versions = offer.versions.get(exchange.api_key)
        if versions is None:
            text = f"sent {exchange.api_name} v{exchange.api_version}, an API that the broker does not offer"
        elif not versions[0] <= exchange.api_version <= versions[1]:
            offered = f"{versions[0]} to {versions[1]}"
            text = f"sent {exchange.api_name} v{exchange.api_version}; the broker offers versions {offered}"
        else:
            return
        yield make_note("api-version-not-offered", text, exchange, [offer.seen])

    def take_response(self, exchange: ObservedExchange) -> Iterator[Note]:
        """A response is sent."""
        # A response with UNSUPPORTED_VERSION lists ApiVersions only.
        if exchange.api_key == _API_VERSIONS and not getattr(exchange.response, "error_code", 1):
            keys = getattr(exchange.response, "api_keys", ())
            versions = {each.api_key: (each.min_version, each.max_version) for each in keys}
            offer = _Offer(Seen.of(exchange), versions)
            self._by_connection[exchange.connection] = offer
            known = self._by_node.get(exchange.node)
            self._by_node[exchange.node] = offer if known is None else _Offer(offer.seen, _union(known, offer))
        return iter(())


class _Offer(NamedTuple):
    """The versions by API key in an ApiVersions response."""

    seen: Seen
    versions: dict[int, tuple[int, int]]


def _union(first: _Offer, second: _Offer) -> dict[int, tuple[int, int]]:
    merged = dict(first.versions)
    for key, (low, high) in second.versions.items():
        known = merged.get(key, (low, high))
        merged[key] = min(low, known[0]), max(high, known[1])
    return merged


class CorrelationChecker(SilentChecker):
    """Correlation ids that are still in flight, and requests that are not encoded as they should be."""

    def __init__(self, traffic: Traffic) -> None:
        self._traffic = traffic

    def take_request(self, exchange: ObservedExchange) -> Iterator[Note]:
        """A request arrives."""
        if exchange.decode_warnings:
            request = f"{exchange.api_name} v{exchange.api_version}"
            text = f"sent {request}, which is not as its schema says: {'; '.join(exchange.decode_warnings)}"
            yield make_note("malformed-request", text, exchange)
        connection = self._traffic.connection(exchange)
        first = connection.in_flight.get(exchange.correlation_id)
        # A response may be in what is missing.
        is_certain = first is not None and self._traffic.is_complete_since(exchange.connection, first.sent_ns)
        if first is not None and is_certain and exchange.expects_response:
            text = (
                f"sent {exchange.api_name} with correlation id {exchange.correlation_id} while {first.api_name} with "
                "the same id had no response"
            )
            yield make_note("correlation-id-in-flight", text, exchange, [first])
        if exchange.expects_response:
            connection.pipelines = connection.pipelines or bool(connection.in_flight)
            connection.in_flight[exchange.correlation_id] = exchange

    def take_response(self, exchange: ObservedExchange) -> Iterator[Note]:
        """A response is sent."""
        in_flight = self._traffic.connection(exchange).in_flight
        if in_flight.get(exchange.correlation_id) is exchange:
            del in_flight[exchange.correlation_id]
        return iter(())


class ThrottleChecker(SilentChecker):
    """Requests that are sent before the throttle time of an earlier response is over."""

    def __init__(self) -> None:
        self._muted: LimitedDict[ConnectionKey, tuple[Seen, int, str]] = LimitedDict(TRACKED_MAX)

    def take_request(self, exchange: ObservedExchange) -> Iterator[Note]:
        """A request arrives."""
        muted = self._muted.get(exchange.connection)
        if muted is None:
            return
        seen, throttle_ms, api_name = muted
        delay_ns = exchange.sent_ns - seen.answered_ns
        if delay_ns >= throttle_ms * _MS - _THROTTLE_END_NS:
            del self._muted[exchange.connection]
        elif delay_ns > _THROTTLE_START_NS:
            text = (
                f"sent {exchange.api_name} {delay_ns // _MS} ms after a response to {api_name} with "
                f"throttle_time_ms={throttle_ms}"
            )
            yield make_note("throttle-ignored", text, exchange, [seen])

    def take_response(self, exchange: ObservedExchange) -> Iterator[Note]:
        """A response is sent."""
        throttle_ms: int = getattr(exchange.response, "throttle_time_ms", 0)
        if throttle_ms > 0 and exchange.api_version >= _CLIENT_THROTTLES_FROM.get(exchange.api_key, 0):
            self._muted[exchange.connection] = (Seen.of(exchange), throttle_ms, exchange.api_name)
        return iter(())
