"""The exceptions of the client. Invalid bytes are WireErrors, as everywhere."""

from __future__ import annotations


class ClientError(ConnectionError):
    """A request could not be sent, or its response could not be received."""


class ConnectFailed(ClientError):
    """No address of the bootstrap list accepted the connection; the message has the reason for each."""


class ConnectionClosed(ClientError):
    """The connection has ended: the broker closed it, it broke, or `close` was called."""


class RequestTimedOut(ClientError, TimeoutError):
    """The timeout of a request or of the connection has expired. The broker may have processed the request."""


class AuthenticationFailed(ClientError):
    """The broker rejects the mechanism, the user or the password."""


class ProtocolViolation(ClientError):
    """The broker sent an invalid response: a wrong correlation id, an impossible length, unexpected bytes."""
