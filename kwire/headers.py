"""Request and response headers, between the length of a frame and the body.

`kwire.registry.header_versions` returns the header versions of an API version.
"""

from __future__ import annotations

import struct
from struct import Struct
from typing import TYPE_CHECKING, Any

import msgspec

from kwire import codec, registry, schema_codec
from kwire.errors import Truncated
from kwire.messages.header import RequestHeader, ResponseHeader
from kwire.primitives import FAILURES, Part

if TYPE_CHECKING:
    from collections.abc import Callable

    from kwire.codec import Buffer
    from kwire.codec_table import Codec, Reader, Writer
    from kwire.decode_warnings import DecodeWarning
    from kwire.schema_codec.reading import MessagePrefix

_REQUEST_HEADER = registry.codec_of_class(RequestHeader)
_RESPONSE_HEADER = registry.codec_of_class(ResponseHeader)
_WRITE_FAILURES = (*FAILURES, struct.error)
#: Correlation id, and from version 1 on no tagged fields.
_RESPONSE_HEADER_PARTS = Struct(">i").pack, Struct(">ix").pack
_KEY_AND_VERSION = Struct(">hh")
_KEY_AND_VERSION_SIZE = _KEY_AND_VERSION.size

#: The readers of request headers that were asked for, by the first bytes of a frame: API key and version. Only served
#: versions have one, so that there are no more than those.
_REQUEST_READERS: dict[bytes, Reader] = {}
#: The readers of header and body of requests that were received, by class and version of the request.
_MESSAGE_READERS: dict[tuple[type[msgspec.Struct], int], tuple[Reader, Reader]] = {}
#: What writes a response's body and its header, by class and version of the response.
_RESPONSE_WRITERS: dict[tuple[type[msgspec.Struct], int], tuple[Writer, Callable[[int], bytes]]] = {}


def decode_request_header(frame: Buffer) -> tuple[RequestHeader, int]:
    """The header at the start of a request's frame, and the offset of the body.

    Raises: UnsupportedVersion when no API has the key, else WireError.
    """
    raw = frame if type(frame) is bytes else bytes(frame)
    read = _REQUEST_READERS.get(raw[:_KEY_AND_VERSION_SIZE])
    if read is not None:
        try:
            header, body_offset = read(raw, 0)
            if body_offset <= len(raw):
                return header, body_offset
        except FAILURES:
            pass  # Read again below, for the error.
    header_version = _request_header_version(raw)
    result = _read_request_header(header_version, raw, lenient=False)[:2]
    if read is None:
        api_key, version = _KEY_AND_VERSION.unpack_from(raw)
        low, high = registry.api_versions(api_key)
        if low <= version <= high and header_version:
            _REQUEST_READERS[raw[:_KEY_AND_VERSION_SIZE]] = _REQUEST_HEADER.readers[header_version]
    return result


def decode_request_header_lenient(frame: Buffer) -> tuple[RequestHeader, int, tuple[DecodeWarning, ...]]:
    """The header as Kafka reads it, the offset of the body, and the warnings.

    Raises: UnsupportedVersion when no API has the key; WireError where Kafka fails too.
    """
    raw = _to_bytes(frame)
    return _read_request_header(_request_header_version(raw), raw, lenient=True)


def decode_request_leniently(
    request: type[msgspec.Struct], version: int, frame: Buffer
) -> tuple[RequestHeader, msgspec.Struct, tuple[DecodeWarning, ...]]:
    """Header and body of a request's frame; the body as Kafka reads it, with its warnings: see `decode_lenient`.

    Args: request, version: those of the header, whose API key and version are read by the caller.
    Raises: UnsupportedVersion without such a version of the request, else WireError where Kafka fails too.
    """
    raw = frame if type(frame) is bytes else bytes(frame)
    readers = _MESSAGE_READERS.get((request, version))
    if readers is not None:
        try:
            header, body_offset = readers[0](raw, 0)
            message, end = readers[1](raw, body_offset)
            if end == len(raw):
                return header, message, ()
        except FAILURES:
            pass  # Read again below, for the warnings or the error.
    header, body_offset = decode_request_header(raw)
    decoded = codec.decode_lenient(request, version, raw, at=body_offset)
    if readers is None:
        header_reader = _REQUEST_HEADER.readers[_request_header_version(raw)]
        _MESSAGE_READERS[request, version] = header_reader, registry.codec_of_class(request).readers[version]
    return header, decoded.message, decoded.warnings


def decode_response_header(
    frame: Buffer, api_key: int, version: int, *, edition: str = registry.DEFAULT_EDITION
) -> tuple[ResponseHeader, int]:
    """The header at the start of a response's frame, and the offset of the body.

    Args: api_key, version: those of the request; the response does not repeat them.
    Raises: UnsupportedVersion when no API has the key, else WireError.
    """
    header_version = registry.header_versions(api_key, version, edition)[1]
    return _read_header(_RESPONSE_HEADER, header_version, _to_bytes(frame), lenient=False)[:2]


def encode_request(request: msgspec.Struct, version: int, correlation_id: int, client_id: str | None) -> bytes:
    """Header and body of a request, without the length of the frame. Raises: as `kwire.encode`."""
    return b"".join(request_parts(request, version, correlation_id, client_id))


def encode_response(response: msgspec.Struct, version: int, correlation_id: int) -> bytes:
    """Header and body of a response, without the length of the frame. Raises: as `kwire.encode`."""
    return b"".join(response_parts(response, version, correlation_id))


def request_parts(request: msgspec.Struct, version: int, correlation_id: int, client_id: str | None) -> list[Part]:
    """As `encode_request`, but as parts: `encode_frame` joins header, body and record batches in one copy."""
    message_codec = registry.codec_of_class(type(request))
    header_version = registry.header_versions(message_codec.api_key, version, message_codec.edition)[0]
    header: msgspec.Struct = RequestHeader(message_codec.api_key, version, correlation_id, client_id)
    if not header_version:
        header = _find_header_without_client_id().message(message_codec.api_key, version, correlation_id)
    return codec.encode_parts(header, header_version) + codec.encode_parts(request, version)


def response_parts(response: msgspec.Struct, version: int, correlation_id: int) -> list[Part]:
    """As `encode_response`, but as parts to join."""
    writers = _RESPONSE_WRITERS.get((type(response), version))
    if writers is not None and type(version) is int:  # 2.0 equals 2, but is no version.
        try:
            return [writers[1](correlation_id), *writers[0](response)]
        except _WRITE_FAILURES:
            pass  # Written again below, for the error.
    return _write_response(response, version, correlation_id)


def _write_response(response: msgspec.Struct, version: int, correlation_id: int) -> list[Part]:
    message_codec = registry.codec_of_class(type(response))
    header_version = registry.header_versions(message_codec.api_key, version, message_codec.edition)[1]
    parts = codec.encode_parts(response, version)
    # The writers of a header of two fields cost more than the fields: tests compare both.
    write_header = _RESPONSE_HEADER_PARTS[header_version]
    _RESPONSE_WRITERS[type(response), version] = message_codec.writers[version], write_header
    try:
        return [write_header(correlation_id), *parts]
    except struct.error:
        return codec.encode_parts(ResponseHeader(correlation_id), header_version) + parts


def _read_request_header(version: int, raw: bytes, *, lenient: bool) -> MessagePrefix:
    if version:
        return _read_header(_REQUEST_HEADER, version, raw, lenient=lenient)
    header, body_offset, warnings = _read_header(_find_header_without_client_id(), 0, raw, lenient=lenient)
    fixed: Any = header
    api_key, api_version = fixed.request_api_key, fixed.request_api_version
    return RequestHeader(api_key, api_version, fixed.correlation_id, None), body_offset, warnings


def _find_header_without_client_id() -> Codec:
    """The codec of version 0 of the header, which only one removed version of an API has."""
    return registry.codec_of_name("RequestHeader", registry.REMOVED_EDITION)


def _read_header(codec: Codec, version: int, raw: bytes, *, lenient: bool) -> MessagePrefix:
    """Read by the generated code; where it fails, by the schema-driven codec, which reports the error."""
    try:
        header, body_offset = codec.readers[version](raw, 0)
        if body_offset <= len(raw):
            return header, body_offset, ()
    except FAILURES:
        pass
    return schema_codec.read_message_prefix(codec, version, raw, lenient=lenient)


def _to_bytes(frame: Buffer) -> bytes:
    return frame if type(frame) is bytes else bytes(frame)


def _request_header_version(raw: bytes) -> int:
    """The version of a request's header, by the API key and version, which every header version begins with."""
    if len(raw) < 4:
        field = "request_api_key" if len(raw) < 2 else "request_api_version"
        raise Truncated(f"RequestHeader.{field}", len(raw) & 2, 2, len(raw) & 1)
    api_key, version = _KEY_AND_VERSION.unpack_from(raw)
    return registry.header_versions(api_key, version)[0]
