"""From a frame to a handler, and from an outcome back to a frame: the one place that knows both."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, cast

import msgspec

from kwire import headers
from kwire.codec import decode_lenient
from kwire.error_codes import ErrorCode
from kwire.errors import WireError
from kwire.registry import response_class
from mockbroker.kafka_error import KafkaError

if TYPE_CHECKING:
    from mockbroker.routes import Route

API_VERSIONS_KEY = 18
_FIXED = struct.Struct(">hhi")


class Undispatchable(Exception):
    """A frame that Kafka answers by closing the connection; the message is the line for the log.

    What could still be read of the header is kept for the journal, -1 and "?" stand for the rest.
    """

    def __init__(
        self, why: str, *, api_key: int = -1, api_name: str = "?", api_version: int = -1, correlation_id: int = -1
    ) -> None:
        super().__init__(why)
        self.api_key = api_key
        self.api_name = api_name
        self.api_version = api_version
        self.correlation_id = correlation_id


class Incoming(msgspec.Struct):
    """A request that has been found a handler and decoded.

    answer_version: the version of the response, 0 for a too-new ApiVersions, else the request's. request: as it came
    over the wire. asked, handled_version: what the handler takes for it, which differs in other editions of KIP-932.
    """

    route: Route
    api_version: int
    answer_version: int
    correlation_id: int
    client_id: str | None
    request: msgspec.Struct
    asked: msgspec.Struct
    handled_version: int
    oddities: tuple[str, ...]
    refusal: KafkaError | None = None

    @property
    def api_key(self) -> int:
        """The key of the API that was asked for."""
        return self.route.api_key

    @property
    def api_name(self) -> str:
        """Its name."""
        return self.route.name


def read(frame: bytes | memoryview, routes: Mapping[int, Route]) -> Incoming:
    """Decode a frame body as the broker does: leniently, with every oddity noted.

    Raises: Undispatchable for an unknown API key, a version that is not served, or bytes that do not decode.
    """
    if len(frame) < _FIXED.size:
        raise Undispatchable(f"a request of {len(frame)} bytes; a header takes at least {_FIXED.size}")
    api_key, api_version, correlation_id = _FIXED.unpack_from(frame)
    route = routes.get(api_key)

    def undispatchable(why: str) -> Undispatchable:
        name = route.name if route else "?"
        return Undispatchable(
            why, api_key=api_key, api_name=name, api_version=api_version, correlation_id=correlation_id
        )

    if route is None:
        raise undispatchable(f"API key {api_key} is not served (version {api_version})")
    low, high = route.versions
    if not low <= api_version <= high:
        if api_key == API_VERSIONS_KEY:
            return _too_new_api_versions(route, api_version, correlation_id)
        raise undispatchable(f"{route.name} version {api_version} is not served, only {low} to {high}")
    try:
        header, body_at = headers.decode_request_header(frame)
        decoded = decode_lenient(route.request, api_version, memoryview(frame)[body_at:])
    except WireError as damage:
        raise undispatchable(f"{route.name} version {api_version} does not decode: {damage}") from damage
    refusal: KafkaError | None = None
    try:
        asked, handled_version = route.arrived(decoded.message, api_version)
    except KafkaError as error:  # An edition does not take it at all.
        asked, handled_version, refusal = decoded.message, api_version, error
    return Incoming(
        route=route,
        api_version=api_version,
        answer_version=api_version,
        correlation_id=correlation_id,
        client_id=header.client_id,
        request=decoded.message,
        asked=asked,
        handled_version=handled_version,
        oddities=tuple(str(oddity) for oddity in decoded.oddities),
        refusal=refusal,
    )


def _too_new_api_versions(route: Route, api_version: int, correlation_id: int) -> Incoming:
    """KIP-511: a version that the broker does not know is answered in version 0, with its own range, so that the
    client can ask again; the body, of unknown shape, is not read."""
    refusal = KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"ApiVersions version {api_version}")
    unread = route.request()
    return Incoming(route, api_version, 0, correlation_id, None, unread, unread, api_version, (), refusal)


def refuse(incoming: Incoming, error: KafkaError) -> msgspec.Struct:
    """The response that carries this error: in its rows where the API has no code of its own, else at the top."""
    if incoming.route.refuse is not None:
        return incoming.route.refuse(incoming.asked, error)
    response = response_class(incoming.route.api_key)()
    fields = _field_names(type(response))
    assert "error_code" in fields, f"{incoming.route.name} has no error code of its own: give its route a `refuse`"
    made = cast(Any, response)
    made.error_code = int(error.code)
    if "error_message" in fields:
        made.error_message = error.message
    return response


@cache
def _field_names(cls: type[msgspec.Struct]) -> frozenset[str]:
    return frozenset(cls.__struct_fields__)


def write(incoming: Incoming, response: msgspec.Struct) -> bytes:
    """The frame body of a response as its route lets it depart, header included."""
    return headers.encode_response(response, incoming.answer_version, incoming.correlation_id)


Refuser = Callable[[Any, KafkaError], msgspec.Struct]
