"""Decodes frames: the header, then the body as Kafka reads it, with an issue for everything that is not standard."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from kwire import registry, schema_codec
from kwire.capture.kafka.unknown_tags import find_unknown_tags
from kwire.capture.model import Frame, RowIssue
from kwire.codec import decode_lenient
from kwire.error_codes import ErrorCode
from kwire.errors import WireError
from kwire.headers import decode_request_header_lenient, decode_response_header

if TYPE_CHECKING:
    from collections.abc import Iterable

    import msgspec

    from kwire.codec import DecodeWarning

_REQUEST_FIXED = struct.Struct(">hhi")
_INT32 = struct.Struct(">i")
API_VERSIONS = 18

# Kind and description of the issue for each kind of frame damage.
_DAMAGE = {
    "gap": ("gap", "bytes of this frame were not captured"),
    "snaplen": ("snaplen", "packets of this frame were captured only in part"),
    "end": ("end", "the connection or the capture ends inside this frame"),
    "frame_limit": ("frame_limit", "incomplete frames exceed the memory limit: the rest of this one was skipped"),
}


@dataclass(slots=True)
class Message:
    """One side of an exchange. `body` is None if it was not decoded or could not be decoded; `issues` has the reason.

    `version` is the version with which the body was decoded. It may differ from the version that the request names:
    `is_newer` when that one is newer than the schemas.
    """

    frame: Frame
    name: str = ""
    version: int = -1
    header_version: int | None = None
    body: msgspec.Struct | None = None
    issues: list[RowIssue] = field(default_factory=list)
    is_undecodable: bool = False
    is_newer: bool = False

    @property
    def side(self) -> str:
        """`request` or `response`."""
        return "request" if self.frame.is_request else "response"

    def add_issue(self, kind: str, detail: str, path: str = "", at: int | None = None) -> None:
        """Add an issue about this side."""
        self.issues.append(RowIssue(kind, self.side, path, at, detail))

    def add_warnings(self, warnings: Iterable[DecodeWarning]) -> None:
        """Add an issue for each deviation that Kafka accepts and a strict decoder rejects."""
        for warning in warnings:
            self.add_issue("protocol_violation", warning.what, warning.path, warning.at)

    def add_unknown_tags(self, struct: msgspec.Struct, path: str) -> None:
        """Add an issue for each tagged field that is not in the schema."""
        for field_path, tag, size in find_unknown_tags(struct, path):
            self.add_issue("unknown_tag", f"tagged field {tag} of {size} bytes is not known", field_path)

    def mark_undecodable(self, kind: str, detail: str, path: str = "", at: int | None = None) -> None:
        """Mark this side as undecodable, with an issue."""
        self.is_undecodable = True
        self.add_issue(kind, detail, path, at)


@dataclass(slots=True)
class Request(Message):
    """A request with the fields of its header. `number` counts the requests of the connection from 0."""

    api_key: int | None = None
    api_name: str | None = None
    api_version: int | None = None
    correlation_id: int | None = None
    client_id: str | None = None
    number: int = 0
    in_flight: int = 0
    expects_response: bool = True
    is_token: bool = False


@dataclass(slots=True)
class Response(Message):
    """A response. `order_ok` is None if its request was not captured."""

    correlation_id: int | None = None
    order_ok: bool | None = None


class MessageDecoder(NamedTuple):
    """Decodes requests and responses of one edition, and of the versions that Kafka 4.0 removed."""

    edition: str
    names: frozenset[str] | None = None
    """Messages whose bodies are decoded; None for all."""

    def api_keys(self) -> list[int]:
        """The keys of the APIs of which at least one body is decoded."""
        if self.names is None:
            return list(registry.known_api_keys(self.edition))
        keys = registry.known_api_keys(self.edition)
        return [key for key in keys if not self.names.isdisjoint(_message_names(registry.api_name(key)))]

    def decode_request(self, frame: Frame) -> Request:
        """Decode a request. Parts that cannot be decoded become issues."""
        request = Request(frame)
        _add_damage_issue(request)
        if len(frame.data) < _REQUEST_FIXED.size:
            if frame.damage is None:
                request.mark_undecodable("header", f"{len(frame.data)} bytes are too few for a request header", at=0)
            return request
        api_key, version, correlation_id = _REQUEST_FIXED.unpack_from(frame.data)
        request.api_key, request.api_version, request.correlation_id = api_key, version, correlation_id
        if api_key not in registry.known_api_keys(self.edition):
            request.mark_undecodable("unknown_api", f"API key {api_key} is not known", at=0)
            return request
        request.api_name = registry.api_name(api_key, self.edition)
        request.name, request.version = f"{request.api_name}Request", self._choose_version(request, version)
        try:
            request.header_version = registry.header_versions(api_key, version, self.edition)[0]
            header, offset, warnings = decode_request_header_lenient(frame.data)
        except WireError as error:
            if frame.damage is None:
                request.mark_undecodable("header", error.what, error.path, error.at)
            return request
        request.client_id = header.client_id
        request.add_warnings(warnings)
        request.add_unknown_tags(header, "RequestHeader")
        self._decode_body(request, offset)
        return request

    def decode_response(self, frame: Frame, request: Request | None) -> Response:
        """Decode the response to a request. Without the request only the correlation id can be decoded."""
        response = Response(frame)
        _add_damage_issue(response)
        if len(frame.data) < 4:
            if frame.damage is None:
                response.mark_undecodable("header", f"{len(frame.data)} bytes are too few for a response header", at=0)
            return response
        response.correlation_id = _INT32.unpack_from(frame.data)[0]
        if request is None or request.api_name is None or request.api_key is None:
            return response
        response.name, response.version = f"{request.api_name}Response", request.version
        response.is_newer = request.is_newer
        try:
            _, offset = decode_response_header(frame.data, request.api_key, request.version, edition=self.edition)
        except WireError as error:
            if frame.damage is None:
                response.mark_undecodable("header", error.what, error.path, error.at)
            return response
        if request.api_key == API_VERSIONS and _is_fallback(frame.data, offset):
            # A broker answers an ApiVersions request of an unknown version with a response of version 0 (KIP-511).
            response.version, response.is_newer = 0, False
            response.add_issue("version_fallback", "the broker does not know this version, and answers as version 0")
        self._decode_body(response, offset)
        return response

    def _choose_version(self, request: Request, version: int) -> int:
        """The version to decode the exchange with: the newest known one for a version newer than the schemas."""
        newest = max(registry.codec_of_version(f"{request.api_name}Request", version, self.edition).readers)
        if version <= newest:
            return version
        request.is_newer = True
        request.add_issue("newer_version", f"version {version} is newer than the schemas; read as version {newest}")
        return newest

    def _decode_body(self, message: Message, offset: int) -> None:
        if message.frame.damage is not None or (self.names is not None and message.name not in self.names):
            return
        data = message.frame.data
        if message.is_newer:
            codec = registry.codec_of_version(message.name, message.version, self.edition)
            newer = schema_codec.read_newer_message(codec, message.version, data, offset)
            message.body = newer.message
            for warning in newer.warnings:
                message.add_issue("newer_version", warning.what, warning.path, warning.at)
            return
        try:
            decoded = decode_lenient(message.name, message.version, data, edition=self.edition, at=offset)
        except WireError as error:
            message.mark_undecodable("body", error.what, error.path, error.at)
            return
        message.body = decoded.message
        message.add_warnings(decoded.warnings)
        message.add_unknown_tags(decoded.message, message.name)


@cache
def message_names(edition: str) -> frozenset[str]:
    """The names of all requests and responses of an edition, with those that Kafka 4.0 removed."""
    api_names = [registry.api_name(key, edition) for key in registry.known_api_keys(edition)]
    return frozenset(name for api_name in api_names for name in _message_names(api_name))


def _message_names(api_name: str) -> tuple[str, str]:
    return f"{api_name}Request", f"{api_name}Response"


def _add_damage_issue(message: Message) -> None:
    damage = message.frame.damage
    if damage is not None:
        have = len(message.frame.data)
        kind, detail = damage_detail(damage, have, message.frame.size)
        message.add_issue(kind, detail, at=have)


def damage_detail(damage: str, have: int, size: int) -> tuple[str, str]:
    """Kind and detail of the issue of an incomplete frame. Args: have: the bytes before the first missing one."""
    kind, detail = _DAMAGE[damage]
    return kind, f"{detail}: {have} of {size} bytes precede it"


def _is_fallback(data: bytes, offset: int) -> bool:
    # The error code is the first field of ApiVersions responses in every version.
    return int.from_bytes(data[offset : offset + 2], "big") == ErrorCode.UNSUPPORTED_VERSION
