"""The Kafka wire protocol in Python: messages, record batches, captures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.capture import read_capture
from kwire.codec import Lenient, Oddity, decode, decode_lenient, encode, from_json, to_json
from kwire.errors import SchemaError, UnsupportedVersion, WireError

if TYPE_CHECKING:
    from kwire.client import (
        AuthenticationFailed,
        Client,
        ClientError,
        ConnectFailed,
        ConnectionClosed,
        ProtocolViolation,
        RequestTimedOut,
    )

__all__ = [
    "decode",
    "encode",
    "to_json",
    "from_json",
    "decode_lenient",
    "read_capture",
    "Lenient",
    "Oddity",
    "WireError",
    "UnsupportedVersion",
    "SchemaError",
    "Client",
    "ClientError",
    "ConnectFailed",
    "ConnectionClosed",
    "RequestTimedOut",
    "AuthenticationFailed",
    "ProtocolViolation",
]


def __getattr__(name: str) -> object:
    """The client and its errors are loaded when they are first asked for: most users never open a connection."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from kwire import client  # noqa: PLC0415

    return getattr(client, name)
