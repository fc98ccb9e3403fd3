"""Headers: what stands between a frame's length and the body.

Which header version goes with which API version is in `kwire.registry.header_versions`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import msgspec

from kwire import careful, codec, registry
from kwire.errors import Truncated
from kwire.messages.header import RequestHeader, ResponseHeader
from kwire.primitives import FAILURES, Part

if TYPE_CHECKING:
    from kwire.codec_table import Codec
    from kwire.oddities import Oddity

_REQUEST = registry.codec_of_class(RequestHeader)
_RESPONSE = registry.codec_of_class(ResponseHeader)


def decode_request_header(frame: bytes | bytearray | memoryview) -> tuple[RequestHeader, int]:
    """The header at the start of a request's frame, and the offset of the body.

    Raises: UnsupportedVersion when no API has the key, else WireError.
    """
    raw = _bytes(frame)
    header, body_offset, _ = _read(_REQUEST, _request_header_version(raw), raw, lenient=False)
    return cast(RequestHeader, header), body_offset


def decode_request_header_lenient(
    frame: bytes | bytearray | memoryview,
) -> tuple[RequestHeader, int, tuple[Oddity, ...]]:
    """The header as Kafka reads it, the offset of the body, and what was odd.

    Raises: UnsupportedVersion when no API has the key; WireError where Kafka fails too.
    """
    raw = _bytes(frame)
    header, body_offset, oddities = _read(_REQUEST, _request_header_version(raw), raw, lenient=True)
    return cast(RequestHeader, header), body_offset, oddities


def decode_response_header(
    frame: bytes | bytearray | memoryview, api_key: int, version: int, *, edition: str = registry.DEFAULT_EDITION
) -> tuple[ResponseHeader, int]:
    """The header at the start of a response's frame, and the offset of the body.

    Args: api_key, version: those of the request; the response does not repeat them.
    Raises: UnsupportedVersion when no API has the key, else WireError.
    """
    header_version = registry.header_versions(api_key, version, edition)[1]
    header, body_offset, _ = _read(_RESPONSE, header_version, _bytes(frame), lenient=False)
    return cast(ResponseHeader, header), body_offset


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
    own = registry.codec_of_class(type(request))
    header_version = registry.header_versions(own.api_key, version, own.edition)[0]
    header = RequestHeader(own.api_key, version, correlation_id, client_id)
    return codec.encode_parts(header, header_version) + codec.encode_parts(request, version)


def response_parts(response: msgspec.Struct, version: int, correlation_id: int) -> list[Part]:
    """As `encode_response`, but not joined yet."""
    own = registry.codec_of_class(type(response))
    header_version = registry.header_versions(own.api_key, version, own.edition)[1]
    return codec.encode_parts(ResponseHeader(correlation_id), header_version) + codec.encode_parts(response, version)


def _read(codec: Codec, version: int, raw: bytes, *, lenient: bool) -> tuple[msgspec.Struct, int, tuple[Oddity, ...]]:
    """Fast where nothing is wrong, else by the careful pass, which says what is."""
    try:
        header, body_offset = codec.readers[version](raw, 0)
        if body_offset <= len(raw):
            return header, body_offset, ()
    except FAILURES:
        pass
    return careful.read_head(codec, version, raw, lenient=lenient)


def _bytes(frame: bytes | bytearray | memoryview) -> bytes:
    return frame if type(frame) is bytes else bytes(frame)


def _request_header_version(raw: bytes) -> int:
    """The key and version come first in every header version, so that they can say which one it is."""
    if len(raw) < 4:
        field = "request_api_key" if len(raw) < 2 else "request_api_version"
        raise Truncated(f"RequestHeader.{field}", len(raw) & 2, 2, len(raw) & 1)
    api_key = int.from_bytes(raw[:2], "big", signed=True)
    return registry.header_versions(api_key, int.from_bytes(raw[2:4], "big", signed=True))[0]
