"""The server side of SASL/SCRAM: two messages in, two out. Source: RFC 5802, Kafka's ScramSaslServer."""

from __future__ import annotations

import base64
import hmac
import re
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from kwire.scram import ITERATIONS_MIN, ScramMechanism, from_saslname, xor_bytes
from mockbroker.state.security.login import (
    AuthenticatedPrincipal,
    DefectiveClient,
    InvalidCredentials,
    LoginAnswer,
    LoginRefused,
)
from mockbroker.state.security.scram_defects import find_defect

ITERATIONS_MAX = 16_384
"""The largest iteration count that Kafka accepts for a user's credential."""

_VALUE = r"[\x01-\x2b\x2d-\x7f]+"
_PRINTABLE = r"[\x21-\x2b\x2d-\x7e]+"
_SASLNAME = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_BASE64 = r"(?:[a-zA-Z0-9/+]{4})*(?:[a-zA-Z0-9/+]{3}=|[a-zA-Z0-9/+]{2}==)?"
_EXTENSIONS = rf"(?:,[A-Za-z]+={_VALUE})*"
_FIRST = re.compile(
    rf"n,(?:a=(?P<authzid>{_SASLNAME}))?,(?P<bare>(?:m={_VALUE},)?n=(?P<user>{_SASLNAME}),r=(?P<nonce>{_PRINTABLE})"
    rf"(?P<extensions>{_EXTENSIONS}))"
)
_FINAL = re.compile(
    rf"c=(?P<channel>{_BASE64}),r=(?P<nonce>{_PRINTABLE})(?P<extensions>{_EXTENSIONS}),p=(?P<proof>{_BASE64})"
)


class ScramCredential(msgspec.Struct, frozen=True):
    """The stored form of a password."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"ScramCredential(iterations={self.iterations}, ***)"


class ScramUser(NamedTuple):
    """A user that can authenticate: credential, user name, and expiry (ms of the clock; None: never)."""

    credential: ScramCredential
    user: str
    expires_ms: int | None = None


#: Finds the user of a name; the second argument is true for the id of a delegation token.
FindScramUser = Callable[[str, bool], ScramUser | None]


def credential_from_salted(mechanism: ScramMechanism, salted: bytes, salt: bytes, iterations: int) -> ScramCredential:
    """The credential for a password that the client has salted."""
    return ScramCredential(salt, mechanism.stored_key(salted), mechanism.server_key(salted), iterations)


def credential_from_password(mechanism: ScramMechanism, password: str, salt: bytes, iterations: int) -> ScramCredential:
    """The credential for a password."""
    return credential_from_salted(mechanism, mechanism.salted_password(password, salt, iterations), salt, iterations)


class ScramLogin:
    """One SCRAM authentication.

    find: returns the user of a name. nonce: the server's part of the nonce.
    """

    def __init__(self, mechanism: ScramMechanism, find: FindScramUser, nonce: str) -> None:
        self._mechanism = mechanism
        self._find = find
        self._server_nonce = nonce
        self._first_bare = ""
        self._challenge = ""
        self._nonce = ""
        self._is_token = False
        self._user: ScramUser | None = None

    def handle_message(self, message: bytes, *, now_ms: int) -> LoginAnswer:
        """Handle a message of the client; returns the response, and the principal after the second message.

        Raises: LoginRefused and InvalidCredentials, after which the exchange is over.
        """
        text = message.decode(errors="replace")
        return self._handle_final(text, self._user) if self._user is not None else LoginAnswer(self._handle_first(text))

    def _handle_first(self, text: str) -> bytes:
        match = _FIRST.fullmatch(text)
        if match is None:
            raise InvalidCredentials("an invalid first message of SCRAM")
        name = from_saslname(match["user"])
        extensions = dict(part.split("=", 1) for part in match["extensions"].split(",") if part)
        self._is_token = extensions.get("tokenauth", "").lower() == "true"
        user = self._find(name, self._is_token)
        if user is None:
            raise InvalidCredentials("an unknown user")
        if match["authzid"] is not None and match["authzid"] != name:
            raise LoginRefused("Authentication failed: the authorization id that was requested is not the user name")
        if user.credential.iterations < ITERATIONS_MIN:
            raise InvalidCredentials("a credential with too few iterations")
        self._user, self._nonce = user, match["nonce"] + self._server_nonce
        # Kafka signs the message as it serializes it: without a reserved attribute.
        self._first_bare = f"n={match['user']},r={match['nonce']}{match['extensions']}"
        salt = base64.b64encode(user.credential.salt).decode()
        self._challenge = f"r={self._nonce},s={salt},i={user.credential.iterations}"
        return self._challenge.encode()

    def _explain_nonce(self, nonce: str, user: ScramUser) -> InvalidCredentials:
        """Why the nonce of a final message is another one than that of the challenge."""
        client = self._nonce.removesuffix(self._server_nonce)
        salt = base64.b64encode(user.credential.salt).decode()
        defect = find_defect(nonce, client=client, server=self._server_nonce, salt=salt)
        if defect is not None:
            return DefectiveClient(f"an invalid final message of SCRAM: {defect}")
        return InvalidCredentials("a final message of SCRAM with the nonce of another exchange")

    def _handle_final(self, text: str, user: ScramUser) -> LoginAnswer:
        match = _FINAL.fullmatch(text)
        if match is None:
            raise InvalidCredentials("an invalid final message of SCRAM")
        if match["nonce"] != self._nonce:
            raise self._explain_nonce(match["nonce"], user)
        auth_message = f"{self._first_bare},{self._challenge},c={match['channel']},r={self._nonce}".encode()
        credential, proof = user.credential, base64.b64decode(match["proof"])
        signature = self._mechanism.mac(credential.stored_key, auth_message)
        if len(proof) != len(signature) or not hmac.compare_digest(
            self._mechanism.digest(xor_bytes(proof, signature)), credential.stored_key
        ):
            raise InvalidCredentials("a wrong proof")
        answer = base64.b64encode(self._mechanism.mac(credential.server_key, auth_message)).decode()
        principal = AuthenticatedPrincipal(f"User:{user.user}", user.expires_ms, self._is_token)
        return LoginAnswer(f"v={answer}".encode(), principal)
