"""Dispatch: decoding a frame into the request of a route, and encoding the response."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, cast

import msgspec

from kwire import headers
from kwire.errors import WireError
from kwire.registry import response_class
from mockbroker.kafka_error import KafkaError, UnservedVersion

if TYPE_CHECKING:
    from kwire.primitives import Part
    from mockbroker.engine.routes import Route

API_VERSIONS_KEY = 18
_FIXED = struct.Struct(">hhi")
#: The parts of a response without record batches: header and body.
_PARTS_MIN = 2


class Undispatchable(Exception):
    """A frame to which Kafka reacts by closing the connection; the message is the log line.

    The header fields that could be read are for the journal; -1 and "?" stand for the others.
    """

    def __init__(
        self, reason: str, *, api_key: int = -1, api_name: str = "?", api_version: int = -1, correlation_id: int = -1
    ) -> None:
        super().__init__(reason)
        self.api_key = api_key
        self.api_name = api_name
        self.api_version = api_version
        self.correlation_id = correlation_id


class IncomingRequest(msgspec.Struct):
    """A decoded request and its route.

    response_version: the version of the response, 0 for a too-new ApiVersions, else the request's. request: as
    received. handler_request, handler_version: as the handler receives it, which differs in other editions of KIP-932.
    """

    route: Route
    api_version: int
    response_version: int
    correlation_id: int
    client_id: str | None
    request: msgspec.Struct
    handler_request: msgspec.Struct
    handler_version: int
    decode_warnings: tuple[str, ...]
    refusal: KafkaError | None = None

    @property
    def api_key(self) -> int:
        """The key of the requested API."""
        return self.route.api_key

    @property
    def api_name(self) -> str:
        """The name of the requested API."""
        return self.route.name


#: Of the APIs of Kafka 2.1, the last of which is this one, Kafka 4 does not serve older versions.
_LAST_OF_2_1 = 43
_REMOVED = "; Kafka 4 has removed what clients older than Kafka 2.1 need (KIP-896)"


def decode_request(frame: bytes | memoryview, routes: Mapping[int, Route]) -> IncomingRequest:
    """Decode a frame body as the broker does: leniently, with a warning for each invalid part that Kafka accepts.

    Raises: Undispatchable for an unknown API key, a version that is not served, or bytes that do not decode.
    """
    if len(frame) < _FIXED.size:
        raise Undispatchable(f"a request of {len(frame)} bytes; a header takes at least {_FIXED.size}")
    fixed: tuple[int, int, int] = _FIXED.unpack_from(frame)
    api_key, api_version, correlation_id = fixed
    route = routes.get(api_key)
    if route is None:
        raise _undispatchable(f"API key {api_key} is not served (version {api_version})", None, fixed)
    low, high = route.versions
    if not low <= api_version <= high:
        if api_key == API_VERSIONS_KEY:
            return refuse_api_versions(route, api_version, correlation_id)
        hint = _REMOVED if api_version < low and api_key <= _LAST_OF_2_1 else ""
        text = f"{route.name} version {api_version} is not served, only {low} to {high}{hint}"
        raise _undispatchable(text, route, fixed)
    try:
        header, request, found = headers.decode_request_leniently(route.request, api_version, frame)
    except WireError as error:
        reason = f"{route.name} version {api_version} does not decode: {error}"
        raise _undispatchable(reason, route, fixed) from error
    handler_request, handler_version, refusal = request, api_version, None
    if route.is_translated:
        try:
            handler_request, handler_version = route.to_handler(request, api_version)
        except KafkaError as error:  # The edition does not serve this request.
            refusal = error
    warnings = tuple(f"{warning.path}: {warning.what}" for warning in found) if found else ()
    return IncomingRequest(
        route,
        api_version,
        api_version,
        correlation_id,
        header.client_id,
        request,
        handler_request,
        handler_version,
        warnings,
        refusal,
    )


def _undispatchable(reason: str, route: Route | None, fixed: tuple[int, int, int]) -> Undispatchable:
    api_key, api_version, correlation_id = fixed
    name = route.name if route else "?"
    return Undispatchable(
        reason, api_key=api_key, api_name=name, api_version=api_version, correlation_id=correlation_id
    )


def refuse_api_versions(route: Route, api_version: int, correlation_id: int) -> IncomingRequest:
    """An ApiVersions request of a version that is not served, by the range of its route.

    KIP-511: it is answered in version 0 with the served range, so that the client can retry; the body, of unknown
    layout, is not read.
    """
    refusal = UnservedVersion(route.name, api_version, route.listed)
    unread = route.request()
    return IncomingRequest(route, api_version, 0, correlation_id, None, unread, unread, api_version, (), refusal)


def build_error_response(incoming: IncomingRequest, error: KafkaError) -> msgspec.Struct:
    """The response with this error: in its rows if the API has no top-level error code, else at the top."""
    if incoming.route.refuse is not None:
        return incoming.route.refuse(incoming.handler_request, error)
    response = response_class(incoming.route.api_key)()
    fields = _field_names(type(response))
    assert "error_code" in fields, (
        f"{incoming.route.name} has no top-level error code: its handler module needs a `refuse_` function"
    )
    fields_of_response = cast(Any, response)
    fields_of_response.error_code = int(error.code)
    if "error_message" in fields:
        fields_of_response.error_message = error.message
    return response


@cache
def _field_names(cls: type[msgspec.Struct]) -> frozenset[str]:
    return frozenset(cls.__struct_fields__)


def encode_response(incoming: IncomingRequest, response: msgspec.Struct) -> tuple[Part, ...]:
    """The frame body of a response, header included: record batches as they are, and what is between them joined.

    Raises: WireError for a value that cannot be encoded; an error message that is too long is shortened instead.
    """
    try:
        parts = headers.response_parts(response, incoming.response_version, incoming.correlation_id)
    except WireError:
        from mockbroker.engine.message_limit import shorten_messages

        if not shorten_messages(response):
            raise
        parts = headers.response_parts(response, incoming.response_version, incoming.correlation_id)
    if len(parts) == _PARTS_MIN and type(parts[1]) is bytes:
        return (b"".join(parts),)
    joined: list[Part] = []
    small: list[Part] = []
    for part in parts:
        if type(part) is bytes:
            small.append(part)
            continue
        if small:
            joined.append(b"".join(small))
            small = []
        joined.append(part)
    if small:
        joined.append(b"".join(small))
    return tuple(joined)
