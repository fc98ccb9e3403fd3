"""Logins by SASL: what comes of them, and PLAIN. Source: Kafka's PlainSaslServer; RFC 4616."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import NamedTuple, Protocol


class Refused(Exception):
    """A login that failed, with words for the client."""


class BadCredentials(Exception):
    """A login that failed in a way of which the client learns nothing; the message is for us and holds no secret."""


class LoggedIn(NamedTuple):
    """Who has logged in, until when (ms of the cluster's clock; None: no end), and whether by a delegation token."""

    principal: str
    expires_ms: int | None = None
    is_token: bool = False


class Login(Protocol):
    """One conversation of a mechanism."""

    def step(self, message: bytes) -> tuple[bytes, LoggedIn | None]:
        """Take a message of the client; the answer, and who has logged in when that was the last.

        Raises: Refused, BadCredentials.
        """


class PlainLogin:
    """One login by PLAIN. passwords: by user."""

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._passwords = passwords

    def step(self, message: bytes) -> tuple[bytes, LoggedIn | None]:
        """The one message there is. Raises: Refused."""
        # Java stops looking after a fourth part.
        parts = message.decode(errors="replace").split("\0")[:4]
        if len(parts) != 3:
            raise Refused(f"A message of SASL/PLAIN has 3 parts, this one {len(parts)}")
        authorization_id, user, password = parts
        if not user:
            raise Refused("Authentication failed: no user name")
        if not password:
            raise Refused("Authentication failed: no password")
        expected = self._passwords.get(user)
        if expected is None or not hmac.compare_digest(expected.encode(), password.encode()):
            raise Refused("Authentication failed: wrong user name or password")
        if authorization_id and authorization_id != user:
            raise Refused("Authentication failed: the authorization id that was asked for is not the user name")
        return b"", LoggedIn(f"User:{user}")
