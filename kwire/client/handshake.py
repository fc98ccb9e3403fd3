"""Version negotiation and SASL authentication on a new connection."""

from __future__ import annotations

from collections.abc import Callable

from kwire.client.errors import AuthenticationFailed, ProtocolViolation
from kwire.client.scram import ScramClient
from kwire.codec import decode, encode
from kwire.error_codes import ErrorCode, name_of
from kwire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kwire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kwire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kwire.package_version import package_version
from kwire.scram import ScramMechanism

Exchange = Callable[[int, int, bytes], bytes]
"""Sends a body by API key and version, and returns the body of the response."""

Versions = dict[int, tuple[int, int]]

PLAIN = "PLAIN"
"""The mechanism that sends the password itself."""
MECHANISMS = (PLAIN, *(mechanism.mechanism_name for mechanism in ScramMechanism))
"""All mechanisms that the client supports."""

#: The version of the first request. Version 5 (KIP-1242) only adds the ids of the cluster and the node that a client
#: expects, which this client does not know; brokers before 4.4 do not have it.
API_VERSIONS_VERSION = 4


def negotiate_versions(exchange: Exchange) -> Versions:
    """The lowest and highest version of each API of the broker, by API key.

    A broker that does not support the version of this request responds in version 0 with its own versions (KIP-511).
    Raises: ProtocolViolation when there is no common version; all errors of the exchange.
    """
    low, high = ApiVersionsRequest.VERSIONS[0], API_VERSIONS_VERSION
    body = _request_api_versions(exchange, high)
    if _read_error_code(body) == ErrorCode.UNSUPPORTED_VERSION:
        offered = _version_ranges(decode(ApiVersionsResponse, 0, body, strict=False))
        high = min(high, offered.get(ApiVersionsRequest.API_KEY, (0, 0))[1])
        body = _request_api_versions(exchange, max(low, high))
    code = _read_error_code(body)
    if code:
        raise ProtocolViolation(f"the broker answers ApiVersions with {name_of(code)}")
    return _version_ranges(decode(ApiVersionsResponse, high, body, strict=False))


def authenticate_by_sasl(exchange: Exchange, user: str, password: str, *, mechanism: str = PLAIN) -> None:
    """Authenticate by SASL: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512.

    Raises: AuthenticationFailed with the broker's reason; all errors of the exchange.
    Source: RFC 4616 and 5802; KIP-43 and KIP-152 for the two requests, KIP-84 for SCRAM.
    """
    scram = None if mechanism == PLAIN else ScramClient(mechanism, user, password)
    handshake = encode(SaslHandshakeRequest(mechanism=mechanism), 1)
    offer = decode(SaslHandshakeResponse, 1, exchange(SaslHandshakeRequest.API_KEY, 1, handshake))
    if offer.error_code:
        known = ", ".join(offer.mechanisms) or "none"
        raise AuthenticationFailed(f"the broker answers {mechanism} with {name_of(offer.error_code)}; it has {known}")
    if scram is None:
        _send_token(exchange, f"\0{user}\0{password}".encode())
    else:
        scram.verify(_send_token(exchange, scram.final_message(_send_token(exchange, scram.first_message()))))


def _send_token(exchange: Exchange, token: bytes) -> bytes:
    """Send one token of a mechanism; returns the token of the broker."""
    body = exchange(SaslAuthenticateRequest.API_KEY, 2, encode(SaslAuthenticateRequest(auth_bytes=token), 2))
    answer = decode(SaslAuthenticateResponse, 2, body)
    if answer.error_code:
        raise AuthenticationFailed(f"{name_of(answer.error_code)}: {answer.error_message or 'no reason given'}")
    return bytes(answer.auth_bytes)


def _request_api_versions(exchange: Exchange, with_version: int) -> bytes:
    request = ApiVersionsRequest(client_software_name="kwire", client_software_version=package_version())
    return exchange(request.API_KEY, with_version, encode(request, with_version))


def _read_error_code(body: bytes) -> int:
    """The error code, which is the first field in every version."""
    return int.from_bytes(body[:2], "big", signed=True) if len(body) >= 2 else 0


def _version_ranges(response: ApiVersionsResponse) -> Versions:
    return {row.api_key: (row.min_version, row.max_version) for row in response.api_keys}
