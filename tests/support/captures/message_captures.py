"""Captures of chosen messages: each exchange is given by its messages or their bytes."""

from __future__ import annotations

import msgspec

from kwire import registry
from kwire.codec import encode
from tests.support.captures.capture_files import CapturedConnection

Body = msgspec.Struct | bytes


def add_exchange(
    connection: CapturedConnection, api: tuple[str, int], number: int, request: Body, response: Body | None
) -> None:
    """Add an exchange. Args: api: name and version. number: the correlation id. response: None if there is none."""
    name, version = api
    (api_key,) = (key for key in registry.API_KEYS if registry.api_name(key) == name)
    request_header, response_header = registry.header_versions(api_key, version)
    head = _header("RequestHeader", request_header, api_key, version, number, "me")
    connection.send_requests(head + _bytes(request, version))
    if response is not None:
        connection.send_responses(_header("ResponseHeader", response_header, number) + _bytes(response, version))


def _header(name: str, version: int, *fields: object) -> bytes:
    codec = registry.codec_of_name(name)
    return b"".join(codec.writers[version](codec.message(*fields)))


def _bytes(body: Body, version: int) -> bytes:
    return body if isinstance(body, bytes) else encode(body, version)
