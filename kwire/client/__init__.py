"""A blocking client that sends any message of any edition and returns the response, with limits of time and size."""

from kwire.client.client import MAX_RESPONSE_BYTES, Client
from kwire.client.errors import (
    AuthenticationFailed,
    ClientError,
    ConnectFailed,
    ConnectionClosed,
    ProtocolViolation,
    RequestTimedOut,
)
from kwire.client.pending import PendingResponse

__all__ = [
    "AuthenticationFailed",
    "Client",
    "ClientError",
    "ConnectFailed",
    "ConnectionClosed",
    "MAX_RESPONSE_BYTES",
    "PendingResponse",
    "ProtocolViolation",
    "RequestTimedOut",
]
