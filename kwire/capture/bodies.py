"""From a frame to a decoded message: header first, then the body as Kafka would read it, every oddity noted."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from kwire import registry
from kwire.capture.unknown_tags import unknown_tags
from kwire.capture.values import Frame, Issue
from kwire.codec import decode_lenient
from kwire.error_codes import ErrorCode
from kwire.errors import WireError
from kwire.headers import decode_request_header_lenient, decode_response_header

if TYPE_CHECKING:
    from collections.abc import Iterable

    import msgspec

    from kwire.codec import Oddity

_REQUEST_FIXED = struct.Struct(">hhi")
_INT32 = struct.Struct(">i")
API_VERSIONS = 18

# What each damage of a frame means for its reader.
_DAMAGE = {
    "gap": ("gap", "bytes of this frame were not captured"),
    "snaplen": ("snaplen", "packets of this frame were captured only in part"),
    "end": ("end", "the connection or the capture ends inside this frame"),
    "much": ("much", "frames that are not whole yet take so much memory that the rest of this one was passed over"),
}


@dataclass(slots=True)
class Message:
    """One side of an exchange. `body` is None where it was not or could not be decoded; `issues` then say why.

    `version` is the one the body was read with, which need not be the one that the request names.
    """

    frame: Frame
    name: str = ""
    version: int = -1
    header_version: int | None = None
    body: msgspec.Struct | None = None
    issues: list[Issue] = field(default_factory=list)
    is_undecodable: bool = False

    @property
    def side(self) -> str:
        """`request` or `response`."""
        return "request" if self.frame.is_request else "response"

    def note(self, kind: str, detail: str, path: str = "", at: int | None = None) -> None:
        """Add an issue about this side."""
        self.issues.append(Issue(kind, self.side, path, at, detail))

    def note_oddities(self, oddities: Iterable[Oddity]) -> None:
        """Add what Kafka reads and a strict decoder refuses."""
        for oddity in oddities:
            self.note("oddity", oddity.what, oddity.path, oddity.at)

    def note_tags(self, read: msgspec.Struct, path: str) -> None:
        """Add the tagged fields in it that no schema knows."""
        for where, tag, size in unknown_tags(read, path):
            self.note("unknown_tag", f"tagged field {tag} of {size} bytes is not known", where)

    def refuse(self, kind: str, detail: str, path: str = "", at: int | None = None) -> None:
        """Add the issue that makes this side undecodable."""
        self.is_undecodable = True
        self.note(kind, detail, path, at)


@dataclass(slots=True)
class Request(Message):
    """A request and what its header says; `number` counts the requests of the connection."""

    api_key: int | None = None
    api_name: str | None = None
    api_version: int | None = None
    correlation_id: int | None = None
    client_id: str | None = None
    number: int = 0
    in_flight: int = 0
    wants_answer: bool = True
    is_token: bool = False


@dataclass(slots=True)
class Response(Message):
    """A response; `order_ok` is None where there is no request to compare with."""

    correlation_id: int | None = None
    order_ok: bool | None = None


class Decoder(NamedTuple):
    """Decodes both sides in one edition."""

    edition: str
    names: frozenset[str] | None = None
    """Messages whose bodies are of use; None for all."""

    def api_keys(self) -> list[int]:
        """The keys of the APIs of which one body at least is of use."""
        if self.names is None:
            return list(registry.API_KEYS)
        return [key for key in registry.API_KEYS if not self.names.isdisjoint(_sides(registry.api_name(key)))]

    def request(self, frame: Frame) -> Request:
        """A request; whatever of it cannot be read is an issue."""
        request = Request(frame)
        _note_damage(request)
        if len(frame.data) < _REQUEST_FIXED.size:
            if frame.damage is None:
                request.refuse("header", f"{len(frame.data)} bytes are too few for a request header", at=0)
            return request
        api_key, version, correlation_id = _REQUEST_FIXED.unpack_from(frame.data)
        request.api_key, request.api_version, request.correlation_id = api_key, version, correlation_id
        if api_key not in registry.API_KEYS:
            request.refuse("unknown_api", f"API key {api_key} is not known", at=0)
            return request
        request.api_name = registry.api_name(api_key, self.edition)
        request.name, request.version = f"{request.api_name}Request", self._readable(request, version)
        try:
            request.header_version = registry.header_versions(api_key, version, self.edition)[0]
            header, offset, oddities = decode_request_header_lenient(frame.data)
        except WireError as error:
            if frame.damage is None:
                request.refuse("header", error.what, error.path, error.at)
            return request
        request.client_id = header.client_id
        request.note_oddities(oddities)
        request.note_tags(header, "RequestHeader")
        self._body(request, offset)
        return request

    def response(self, frame: Frame, request: Request | None) -> Response:
        """The response to a request; without one only its correlation id can be read."""
        response = Response(frame)
        _note_damage(response)
        if len(frame.data) < 4:
            if frame.damage is None:
                response.refuse("header", f"{len(frame.data)} bytes are too few for a response header", at=0)
            return response
        response.correlation_id = _INT32.unpack_from(frame.data)[0]
        if request is None or request.api_name is None or request.api_key is None:
            return response
        response.name, response.version = f"{request.api_name}Response", request.version
        try:
            _, offset = decode_response_header(frame.data, request.api_key, request.version, edition=self.edition)
        except WireError as error:
            if frame.damage is None:
                response.refuse("header", error.what, error.path, error.at)
            return response
        if request.api_key == API_VERSIONS and _is_fallback(frame.data, offset):
            # A broker answers a version that it does not know with the oldest response (KIP-511).
            response.version = 0
            response.note("version_fallback", "the broker does not know this version, and answers as version 0")
        self._body(response, offset)
        return response

    def _readable(self, request: Request, version: int) -> int:
        """The version to read the request with: an ApiVersions newer than the schemas is read as the newest known.

        It is the one message that clients send in a version nobody may know, and it only grows tagged fields.
        """
        newest = max(registry.codec_of_name(f"{request.api_name}Request", self.edition).readers)
        if request.api_key != API_VERSIONS or version <= newest:
            return version
        request.note("newer_version", f"version {version} is newer than the schemas; read as version {newest}")
        return newest

    def _body(self, message: Message, offset: int) -> None:
        if message.frame.damage is not None or (self.names is not None and message.name not in self.names):
            return
        try:
            lenient = decode_lenient(message.name, message.version, message.frame.data, edition=self.edition, at=offset)
        except WireError as error:
            message.refuse("body", error.what, error.path, error.at)
            return
        message.body = lenient.message
        message.note_oddities(lenient.oddities)
        message.note_tags(lenient.message, message.name)


@cache
def every_message(edition: str) -> frozenset[str]:
    """The names of all requests and responses."""
    return frozenset(name for key in registry.API_KEYS for name in _sides(registry.api_name(key, edition)))


def _sides(api_name: str) -> tuple[str, str]:
    return f"{api_name}Request", f"{api_name}Response"


def _note_damage(message: Message) -> None:
    damage = message.frame.damage
    if damage is not None:
        kind, detail = _DAMAGE[damage]
        have = len(message.frame.data)
        message.note(kind, f"{detail}: {have} of {message.frame.size} bytes precede it", at=have)


def _is_fallback(data: bytes, offset: int) -> bool:
    # The error code is the first field of ApiVersions responses in every version.
    return int.from_bytes(data[offset : offset + 2], "big") == ErrorCode.UNSUPPORTED_VERSION
