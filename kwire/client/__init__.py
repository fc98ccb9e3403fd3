"""A raw client: connect, send any message of any edition, get its response. Blocking, bounded in time and size."""

from kwire.client.client import MAX_RESPONSE_BYTES, Client
from kwire.client.errors import (
    AuthenticationFailed,
    ClientError,
    ConnectFailed,
    ConnectionClosed,
    ProtocolViolation,
    RequestTimedOut,
)
from kwire.client.pending import Pending

__all__ = [
    "AuthenticationFailed",
    "Client",
    "ClientError",
    "ConnectFailed",
    "ConnectionClosed",
    "MAX_RESPONSE_BYTES",
    "Pending",
    "ProtocolViolation",
    "RequestTimedOut",
]
