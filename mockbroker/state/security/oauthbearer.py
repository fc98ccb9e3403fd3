"""The server side of SASL/OAUTHBEARER. Source: RFC 7628, KIP-255, Kafka's OAuthBearerSaslServer.

Pinned by the conversations other-sasl-oauth-*. Tokens are secrets: no message here contains one.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from mockbroker.state.security.login import (
    AuthenticatedPrincipal,
    InvalidCredentials,
    LoginAborted,
    LoginAnswer,
    LoginRefused,
)

MECHANISM = "OAUTHBEARER"
_ACKNOWLEDGED = b"\x01"
_SASLNAME = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_FIRST = re.compile(
    rf"n,(?:a=(?P<authzid>{_SASLNAME}))?,\x01(?P<pairs>(?:[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01)*)\x01", re.ASCII
)
_AUTH = re.compile(r"(?P<scheme>\w+) +(?P<token>[-_~+/.a-zA-Z0-9]+=*)", re.ASCII)


class OAuthToken(NamedTuple):
    """What a valid token says: the name of the user, and when it expires, ms since 1970."""

    user: str
    expires_ms: int


class TokenRejected(Exception):
    """A token that is not valid; the text is the reason, for the log. scope: the required scopes, if it lacks one."""

    def __init__(self, reason: str, *, scope: str | None = None) -> None:
        super().__init__(reason)
        self.scope = scope

    @property
    def challenge(self) -> str:
        """The JSON text for the client, as Kafka formats it."""
        if self.scope is None:
            return '{"status":"invalid_token"}'
        return f'{{"status":"insufficient_scope", "scope":"{self.scope}"}}'


#: Checks a token at a time of the cluster's clock, ms. Raises: TokenRejected; LoginAborted where Kafka fails itself.
TokenValidator = Callable[[str, int], OAuthToken]


class _FirstMessage(NamedTuple):
    token: str
    authorization_id: str

    def __repr__(self) -> str:
        return "_FirstMessage(***)"


class OAuthBearerLogin:
    """One OAUTHBEARER authentication: a token, and after a refusal the client's 0x01, or a further token."""

    def __init__(self, validate: TokenValidator) -> None:
        self._validate = validate
        self._challenge: str | None = None

    def handle_message(self, message: bytes, *, now_ms: int) -> LoginAnswer:
        """Handle a message; the answer to a token that is refused is a challenge, and the client ends the exchange.

        Raises: LoginRefused, InvalidCredentials, LoginAborted.
        """
        if message == _ACKNOWLEDGED and self._challenge is not None:
            raise LoginRefused(self._challenge)
        self._challenge = None
        first = _parse_first_message(message)
        try:
            token = self._validate(first.token, now_ms)
        except TokenRejected as error:
            self._challenge = error.challenge
            return LoginAnswer(self._challenge.encode(), refusal=str(error))
        if first.authorization_id and first.authorization_id != token.user:
            raise LoginRefused("Authentication failed: the authorization id that was requested is not the token's user")
        return LoginAnswer(b"", AuthenticatedPrincipal(f"User:{token.user}", token.expires_ms))


def _parse_first_message(message: bytes) -> _FirstMessage:
    """Parse a message with a token. Extensions are allowed, and have no effect, as with Kafka's own handlers."""
    match = _FIRST.fullmatch(message.decode(errors="replace"))
    if match is None:
        raise InvalidCredentials("an invalid first message of OAUTHBEARER")
    pairs = dict(pair.split("=", 1) for pair in match["pairs"].split("\x01") if pair)
    if "auth" not in pairs:
        raise InvalidCredentials("a first message of OAUTHBEARER without a token")
    auth = _AUTH.fullmatch(pairs["auth"])
    if auth is None:
        raise InvalidCredentials("a first message of OAUTHBEARER whose token has an invalid form")
    if auth["scheme"].lower() != "bearer":
        # Kafka fails while it formats the error.
        raise LoginAborted("a first message of OAUTHBEARER whose scheme is not Bearer")
    return _FirstMessage(auth["token"], match["authzid"] or "")
