"""The exceptions of the client. Invalid bytes are WireErrors, as everywhere."""

from __future__ import annotations


class ClientError(ConnectionError):
    """A request could not be sent, or its response could not be received."""

    __module__ = "kwire"


class ConnectFailed(ClientError):
    """No address of the bootstrap list accepted the connection; the message has the reason for each."""

    __module__ = "kwire"


class ConnectionClosed(ClientError):
    """The connection has ended: the broker closed it, it broke, or `close` was called."""

    __module__ = "kwire"


class RequestTimedOut(ClientError, TimeoutError):
    """The timeout of a request or of the connection has expired. The broker may have processed the request."""

    __module__ = "kwire"


class AuthenticationFailed(ClientError):
    """The broker rejects the mechanism, the user or the password."""

    __module__ = "kwire"


class ProtocolViolation(ClientError):
    """The broker sent an invalid response: a wrong correlation id, an impossible length, unexpected bytes."""

    __module__ = "kwire"
