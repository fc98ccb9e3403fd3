"""What SASL tells of the user, from the client's own bytes. No password leaves this room."""

from __future__ import annotations

# Mechanisms put the name in their first message: PLAIN as authzid NUL user NUL password (RFC 4616), SCRAM as
# gs2-header n=user,r=nonce (RFC 5802), in which "," and "=" are written =2C and =3D.


def principal_of(mechanism: str | None, token: bytes) -> str | None:
    """The user that a client's token names, or None."""
    if mechanism == "PLAIN":
        parts = token.split(b"\0")
        return _text(parts[1]) if len(parts) == 3 else None
    if mechanism is not None and mechanism.startswith("SCRAM-"):
        for part in token.split(b","):
            if part.startswith(b"n=") and b",r=" in token:
                name = _text(part[2:])
                return None if name is None else name.replace("=2C", ",").replace("=3D", "=")
    return None


def _text(value: bytes) -> str | None:
    return value.decode("utf-8", "replace") or None
