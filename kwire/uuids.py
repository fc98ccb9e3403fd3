"""Kafka's UUIDs: 16 raw bytes on the wire and in messages, 22 characters of base64url in text."""

from __future__ import annotations

from base64 import b64decode, urlsafe_b64encode

from kwire.errors import InvalidValue

__all__ = ["ZERO", "from_text", "to_text"]

#: The UUID that means "none", as for an unknown topic id.
ZERO = bytes(16)


def to_text(value: bytes) -> str:
    """The 22 characters that Kafka's tools print for a UUID. Raises: InvalidValue unless the value has 16 bytes."""
    if len(value) != 16:
        raise InvalidValue("", None, f"a UUID has 16 bytes, not {len(value)}")
    return urlsafe_b64encode(value).rstrip(b"=").decode("ascii")


def from_text(text: str) -> bytes:
    """The 16 bytes of a UUID as Kafka's tools print it; trailing `=` are allowed.

    Raises: InvalidValue when the text is anything else.
    """
    # Without validate Python's decoder skips unknown characters; it also accepts those of plain base64.
    try:
        value = b64decode(text.rstrip("=") + "==", altchars=b"-_", validate=True)
    except ValueError:
        value = b""
    if len(value) != 16 or "+" in text or "/" in text:
        raise InvalidValue("", None, f"{text!r} is not a UUID: 22 characters of base64url")
    return value
