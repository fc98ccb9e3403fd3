"""SASL authentication: results, and the PLAIN mechanism. Source: Kafka's PlainSaslServer; RFC 4616."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import NamedTuple, Protocol


class LoginRefused(Exception):
    """An authentication failure with a message for the client."""


class InvalidCredentials(Exception):
    """An authentication failure without details for the client; the message is for the log and holds no secret."""


class DefectiveClient(InvalidCredentials):
    """A failure by a known defect of a client, which the log names beside the client's software."""


class LoginAborted(Exception):
    """A message at which Kafka closes the connection without an answer; the text is for the log."""


class AuthenticatedPrincipal(NamedTuple):
    """An authenticated principal, the end of its session (ms of the cluster's clock; None: no end), and whether it used
    a token.
    """

    principal: str
    expires_ms: int | None = None
    is_token: bool = False


class LoginAnswer(NamedTuple):
    """The answer to a message, the principal after the last message, and why the message was refused, for the log."""

    message: bytes
    principal: AuthenticatedPrincipal | None = None
    refusal: str | None = None


class Login(Protocol):
    """The server side of one SASL exchange."""

    def handle_message(self, message: bytes, *, now_ms: int) -> LoginAnswer:
        """Handle a message of the client at a time of the cluster's clock.

        Raises: LoginRefused, InvalidCredentials, LoginAborted.
        """


class PlainLogin:
    """One PLAIN authentication. passwords: by user."""

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._passwords = passwords

    def handle_message(self, message: bytes, *, now_ms: int) -> LoginAnswer:
        """Handle the only message. Raises: LoginRefused."""
        # Java splits off at most four parts.
        parts = message.decode(errors="replace").split("\0")[:4]
        if len(parts) != 3:
            raise LoginRefused(f"A message of SASL/PLAIN must have 3 parts, this one has {len(parts)}")
        authorization_id, user, password = parts
        if not user:
            raise LoginRefused("Authentication failed: no user name")
        if not password:
            raise LoginRefused("Authentication failed: no password")
        expected = self._passwords.get(user)
        if expected is None or not hmac.compare_digest(expected.encode(), password.encode()):
            raise LoginRefused("Authentication failed: wrong user name or password")
        if authorization_id and authorization_id != user:
            raise LoginRefused("Authentication failed: the authorization id that was requested is not the user name")
        return LoginAnswer(b"", AuthenticatedPrincipal(f"User:{user}"))
