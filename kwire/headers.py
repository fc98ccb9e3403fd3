"""Headers: what stands between a frame's length and the body.

Which header version goes with which API version is in `kwire.registry.header_versions`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from kwire import careful, codec, registry
from kwire.errors import Truncated
from kwire.messages.header import RequestHeader, ResponseHeader
from kwire.primitives import FAILURES, Part

if TYPE_CHECKING:
    from kwire.oddities import Oddity

_REQUEST = registry.codec_of_class(RequestHeader)
_RESPONSE = registry.codec_of_class(ResponseHeader)


def decode_request_header(frame: bytes | bytearray | memoryview) -> tuple[RequestHeader, int]:
    """The header at the start of a request's frame, and the offset of the body.

    Raises: UnsupportedVersion when no API has the key, else WireError.
    """
    raw = _bytes(frame)
    version = _request_header_version(raw)
    try:
        header, body_offset = _REQUEST.readers[version](raw, 0)
        if body_offset <= len(raw):
            return header, body_offset
    except FAILURES:
        pass
    header, body_offset, _ = careful.read_head(_REQUEST, version, raw, lenient=False)
    return header, body_offset


def decode_request_header_lenient(
    frame: bytes | bytearray | memoryview,
) -> tuple[RequestHeader, int, tuple[Oddity, ...]]:
    """The header as Kafka reads it, the offset of the body, and what was odd.

    Raises: UnsupportedVersion when no API has the key; WireError where Kafka fails too.
    """
    raw = _bytes(frame)
    version = _request_header_version(raw)
    try:
        header, body_offset = _REQUEST.readers[version](raw, 0)
        if body_offset <= len(raw):
            return header, body_offset, ()
    except FAILURES:
        pass
    return careful.read_head(_REQUEST, version, raw, lenient=True)


def decode_response_header(
    frame: bytes | bytearray | memoryview, api_key: int, version: int
) -> tuple[ResponseHeader, int]:
    """The header at the start of a response's frame, and the offset of the body.

    Args: api_key, version: those of the request; the response does not repeat them.
    Raises: UnsupportedVersion when no API has the key, else WireError.
    """
    raw = _bytes(frame)
    header_version = registry.header_versions(api_key, version)[1]
    try:
        header, body_offset = _RESPONSE.readers[header_version](raw, 0)
        if body_offset <= len(raw):
            return header, body_offset
    except FAILURES:
        pass
    header, body_offset, _ = careful.read_head(_RESPONSE, header_version, raw, lenient=False)
    return header, body_offset


def encode_request(request: msgspec.Struct, version: int, correlation_id: int, client_id: str | None) -> bytes:
    """Header and body of a request, without the length of the frame.

    Raises: as `kwire.encode`.
    """
    return b"".join(request_parts(request, version, correlation_id, client_id))


def encode_response(response: msgspec.Struct, version: int, correlation_id: int) -> bytes:
    """Header and body of a response, without the length of the frame.

    Raises: as `kwire.encode`.
    """
    return b"".join(response_parts(response, version, correlation_id))


def request_parts(request: msgspec.Struct, version: int, correlation_id: int, client_id: str | None) -> list[Part]:
    """As `encode_request`, but not joined yet: `frame` joins header, body and record batches in one copy."""
    api_key = registry.codec_of_class(type(request)).api_key
    header_version = registry.header_versions(api_key, version)[0]
    header = RequestHeader(api_key, version, correlation_id, client_id)
    return codec.encode_parts(header, header_version) + codec.encode_parts(request, version)


def response_parts(response: msgspec.Struct, version: int, correlation_id: int) -> list[Part]:
    """As `encode_response`, but not joined yet."""
    api_key = registry.codec_of_class(type(response)).api_key
    header_version = registry.header_versions(api_key, version)[1]
    return codec.encode_parts(ResponseHeader(correlation_id), header_version) + codec.encode_parts(response, version)


def _bytes(frame: bytes | bytearray | memoryview) -> bytes:
    return frame if type(frame) is bytes else bytes(frame)


def _request_header_version(raw: bytes) -> int:
    """The key and version come first in every header version, so that they can say which one it is."""
    if len(raw) < 4:
        field = "request_api_key" if len(raw) < 2 else "request_api_version"
        raise Truncated(f"RequestHeader.{field}", len(raw) & 2, 2, len(raw) & 1)
    api_key = int.from_bytes(raw[:2], "big", signed=True)
    return registry.header_versions(api_key, int.from_bytes(raw[2:4], "big", signed=True))[0]
