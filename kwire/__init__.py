"""The Kafka wire protocol in Python: messages, record batches, captures."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kwire.capture import read_capture
    from kwire.client import (
        AuthenticationFailed,
        Client,
        ClientError,
        ConnectFailed,
        ConnectionClosed,
        ProtocolViolation,
        RequestTimedOut,
    )
    from kwire.codec import Lenient, Oddity, decode, decode_lenient, encode, from_json, to_json
    from kwire.errors import SchemaError, UnsupportedVersion, WireError

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


_HOMES = {
    "kwire.capture": ("read_capture",),
    "kwire.client": (
        "AuthenticationFailed",
        "Client",
        "ClientError",
        "ConnectFailed",
        "ConnectionClosed",
        "ProtocolViolation",
        "RequestTimedOut",
    ),
    "kwire.codec": ("Lenient", "Oddity", "decode", "decode_lenient", "encode", "from_json", "to_json"),
    "kwire.errors": ("SchemaError", "UnsupportedVersion", "WireError"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    """Each part is loaded when it is first asked for: a command that only lists schemas starts in half the time."""
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
