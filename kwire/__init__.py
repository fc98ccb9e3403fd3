"""The Kafka wire protocol in Python: messages, record batches, a client, captures."""

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
    from kwire.codec import DecodeWarning, LenientResult, decode, decode_lenient, encode, from_json, to_json
    from kwire.error_codes import ErrorCode
    from kwire.errors import (
        CorruptRecords,
        InvalidBoolean,
        InvalidLength,
        InvalidTag,
        InvalidUtf8,
        InvalidValue,
        InvalidVarint,
        LimitExceeded,
        MissingExtra,
        SchemaError,
        TrailingBytes,
        Truncated,
        UnexpectedNull,
        UnsupportedCodec,
        UnsupportedVersion,
        WireError,
    )
    from kwire.frames import FrameReader, encode_frame
    from kwire.headers import decode_request_header, decode_response_header, encode_request, encode_response
    from kwire.registry import header_versions

    __version__: str

__all__ = [
    "AuthenticationFailed",
    "Client",
    "ClientError",
    "ConnectFailed",
    "ConnectionClosed",
    "CorruptRecords",
    "DecodeWarning",
    "ErrorCode",
    "FrameReader",
    "InvalidBoolean",
    "InvalidLength",
    "InvalidTag",
    "InvalidUtf8",
    "InvalidValue",
    "InvalidVarint",
    "LenientResult",
    "LimitExceeded",
    "MissingExtra",
    "ProtocolViolation",
    "RequestTimedOut",
    "SchemaError",
    "TrailingBytes",
    "Truncated",
    "UnexpectedNull",
    "UnsupportedCodec",
    "UnsupportedVersion",
    "WireError",
    "decode",
    "decode_lenient",
    "decode_request_header",
    "decode_response_header",
    "encode",
    "encode_frame",
    "encode_request",
    "encode_response",
    "from_json",
    "header_versions",
    "read_capture",
    "to_json",
]

#: The modules of the public names; the other names are exceptions in kwire.errors.
_MODULES = {
    "capture": "read_capture",
    "client": "AuthenticationFailed Client ClientError ConnectFailed ConnectionClosed ProtocolViolation "
    "RequestTimedOut",
    "codec": "DecodeWarning LenientResult decode decode_lenient encode from_json to_json",
    "error_codes": "ErrorCode",
    "frames": "FrameReader encode_frame",
    "headers": "decode_request_header decode_response_header encode_request encode_response",
    "registry": "header_versions",
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    """Import a public name on first use: a command that only lists schemas starts in half the time."""
    if name == "__version__":
        from kwire.package_version import package_version

        return package_version()
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(importlib.import_module(f"kwire.{_MODULE_OF.get(name, 'errors')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})
