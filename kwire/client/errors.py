"""What can go wrong between a client and its broker. Wrong bytes are WireErrors as everywhere."""

from __future__ import annotations


class ClientError(ConnectionError):
    """A request could not be sent, or its answer could not be had."""


class ConnectFailed(ClientError):
    """No address of the bootstrap list let us in; the message has the reason for each."""


class ConnectionClosed(ClientError):
    """The connection has ended: the broker closed it, it broke, or `close` was called."""


class RequestTimedOut(ClientError, TimeoutError):
    """The time for a request or for the connection is over. The broker may have done what was asked."""


class AuthenticationFailed(ClientError):
    """The broker knows neither the mechanism nor the user with this password."""


class ProtocolViolation(ClientError):
    """What the broker sent is no answer: a wrong correlation id, an impossible length, bytes that nobody asked for."""
