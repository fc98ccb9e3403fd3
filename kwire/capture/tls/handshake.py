"""Parsers of the first TLS handshake messages. Source: RFC 8446 section 4.1, RFC 5246 section 7.4.1."""

from __future__ import annotations

import struct
from typing import NamedTuple

CLIENT_HELLO, SERVER_HELLO, FINISHED, KEY_UPDATE = 1, 2, 20, 24
TLS_12, TLS_13 = 0x0303, 0x0304
VERSION_NAMES = {0x0300: "SSL 3.0", 0x0301: "TLS 1.0", 0x0302: "TLS 1.1", TLS_12: "TLS 1.2", TLS_13: "TLS 1.3"}

_ENCRYPT_THEN_MAC, _SUPPORTED_VERSIONS = 22, 43
_RANDOM = slice(2, 34)

# The alerts that end a handshake, with their names of RFC 8446 section 6.
ALERT_NAMES = {
    0: "close_notify",
    10: "unexpected_message",
    20: "bad_record_mac",
    40: "handshake_failure",
    42: "bad_certificate",
    43: "unsupported_certificate",
    44: "certificate_revoked",
    45: "certificate_expired",
    46: "certificate_unknown",
    47: "illegal_parameter",
    48: "unknown_ca",
    49: "access_denied",
    50: "decode_error",
    51: "decrypt_error",
    70: "protocol_version",
    71: "insufficient_security",
    80: "internal_error",
    90: "user_canceled",
    109: "missing_extension",
    112: "unrecognized_name",
    116: "certificate_required",
    120: "no_application_protocol",
}


class ServerHello(NamedTuple):
    """The parameters that the server selected."""

    random: bytes
    version: int
    suite: int
    encrypt_then_mac: bool


def parse_client_random(body: bytes) -> bytes | None:
    """Return the random bytes of a ClientHello."""
    return body[_RANDOM] if len(body) >= 34 else None


def parse_server_hello(body: bytes) -> ServerHello | None:
    """Parse a ServerHello; None if it cannot be decoded. A HelloRetryRequest has the same form and the same content."""
    try:
        (version,) = struct.unpack_from(">H", body)
        at = 35 + body[34]
        (suite,) = struct.unpack_from(">H", body, at)
        extensions = _extensions(body, at + 3)
    except (struct.error, IndexError):
        return None
    selected = extensions.get(_SUPPORTED_VERSIONS, b"")
    if len(selected) == 2:
        version = int.from_bytes(selected, "big")
    return ServerHello(body[_RANDOM], version, suite, _ENCRYPT_THEN_MAC in extensions)


def _extensions(body: bytes, at: int) -> dict[int, bytes]:
    extensions: dict[int, bytes] = {}
    if at + 2 > len(body):
        return extensions
    end = at + 2 + struct.unpack_from(">H", body, at)[0]
    at += 2
    while at + 4 <= end:
        kind, size = struct.unpack_from(">HH", body, at)
        extensions[kind] = body[at + 4 : at + 4 + size]
        at += 4 + size
    return extensions
