"""What happens on a new connection before the first request: versions are agreed, and the user is named."""

from __future__ import annotations

import struct
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version

from kwire.client.errors import AuthenticationFailed, ProtocolViolation
from kwire.client.scram import ScramClient
from kwire.codec import decode, encode
from kwire.error_codes import ErrorCode, name_of
from kwire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kwire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kwire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kwire.scram import ScramMechanism

Exchange = Callable[[int, int, bytes], bytes]
"""Sends a body by API key and version, and returns that of the response."""

Versions = dict[int, tuple[int, int]]

_ERROR_CODE = struct.Struct(">h")
PLAIN = "PLAIN"
"""The mechanism that says the password itself."""
MECHANISMS = (PLAIN, *(one.mechanism_name for one in ScramMechanism))
"""All mechanisms that the client has."""


def negotiate(exchange: Exchange) -> Versions:
    """Ask which versions of which API the broker offers: from the lowest to the highest, by API key.

    A broker that does not know our version of this very request says so in version 0 and names its own (KIP-511).
    Raises: ProtocolViolation when it has none that we know; whatever the exchange raises.
    """
    low, high = ApiVersionsRequest.VERSIONS
    body = _ask(exchange, high)
    if _error_code(body) == ErrorCode.UNSUPPORTED_VERSION:
        offered = _ranges(decode(ApiVersionsResponse, 0, body, strict=False))
        high = min(high, offered.get(ApiVersionsRequest.API_KEY, (0, 0))[1])
        body = _ask(exchange, max(low, high))
    code = _error_code(body)
    if code:
        raise ProtocolViolation(f"the broker answers ApiVersions with {name_of(code)}")
    return _ranges(decode(ApiVersionsResponse, high, body, strict=False))


def authenticate(exchange: Exchange, user: str, password: str, *, mechanism: str = PLAIN) -> None:
    """Name the user by SASL: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512.

    Raises: AuthenticationFailed with the broker's reason; whatever the exchange raises.
    Source: RFC 4616 and 5802; KIP-43 and KIP-152 for the two requests, KIP-84 for SCRAM.
    """
    scram = None if mechanism == PLAIN else ScramClient(mechanism, user, password)
    hello = encode(SaslHandshakeRequest(mechanism=mechanism), 1)
    offer = decode(SaslHandshakeResponse, 1, exchange(SaslHandshakeRequest.API_KEY, 1, hello))
    if offer.error_code:
        known = ", ".join(offer.mechanisms) or "none"
        raise AuthenticationFailed(f"the broker answers {mechanism} with {name_of(offer.error_code)}; it has {known}")
    if scram is None:
        _say(exchange, f"\0{user}\0{password}".encode())
    else:
        scram.verify(_say(exchange, scram.final(_say(exchange, scram.first()))))


def _say(exchange: Exchange, token: bytes) -> bytes:
    """One message of a mechanism, and the broker's."""
    body = exchange(SaslAuthenticateRequest.API_KEY, 2, encode(SaslAuthenticateRequest(auth_bytes=token), 2))
    answer = decode(SaslAuthenticateResponse, 2, body)
    if answer.error_code:
        raise AuthenticationFailed(f"{name_of(answer.error_code)}: {answer.error_message or 'no reason given'}")
    return bytes(answer.auth_bytes)


def _ask(exchange: Exchange, with_version: int) -> bytes:
    request = ApiVersionsRequest(client_software_name="kwire", client_software_version=_own_version())
    return exchange(request.API_KEY, with_version, encode(request, with_version))


def _error_code(body: bytes) -> int:
    """Every version has the error code first."""
    return int(_ERROR_CODE.unpack_from(body)[0]) if len(body) >= 2 else 0


def _ranges(response: ApiVersionsResponse) -> Versions:
    return {row.api_key: (row.min_version, row.max_version) for row in response.api_keys}


def _own_version() -> str:
    try:
        return version("kwire")
    except PackageNotFoundError:
        return "0"  # A checkout that is not installed; the broker wants some name of letters, digits, dots and dashes.
