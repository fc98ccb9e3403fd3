"""Reads the user name from SASL tokens of a client. Passwords are not returned."""

from __future__ import annotations

# The user name is in the first message of a mechanism. PLAIN: authzid NUL user NUL password (RFC 4616).
# SCRAM: gs2-header n=user,r=nonce (RFC 5802), in which "," and "=" are encoded as =2C and =3D.


def find_principal(mechanism: str | None, token: bytes) -> str | None:
    """The user name in a client's token, or None."""
    if mechanism == "PLAIN":
        parts = token.split(b"\0")
        return _decode_name(parts[1]) if len(parts) == 3 else None
    if mechanism is not None and mechanism.startswith("SCRAM-"):
        for part in token.split(b","):
            if part.startswith(b"n=") and b",r=" in token:
                name = _decode_name(part[2:])
                return None if name is None else name.replace("=2C", ",").replace("=3D", "=")
    return None


def _decode_name(value: bytes) -> str | None:
    return value.decode("utf-8", "replace") or None
