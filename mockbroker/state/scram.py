"""The broker's side of SASL/SCRAM: two messages in, two out. Source: RFC 5802, Kafka's ScramSaslServer."""

from __future__ import annotations

import base64
import hmac
import re
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from kwire.scram import ITERATIONS_MIN, ScramMechanism, from_saslname, xor
from mockbroker.state.login import BadCredentials, LoggedIn, Refused

ITERATIONS_MAX = 16_384
"""The most rounds that Kafka takes for a credential of a user."""

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
    """What a broker keeps of a password."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"ScramCredential(iterations={self.iterations}, ***)"


class Known(NamedTuple):
    """Somebody who may log in: by what credential, as whom, and until when (ms of the clock; None: always)."""

    credential: ScramCredential
    user: str
    expires_ms: int | None = None


#: Finds who logs in by a name; the second argument says whether it is the id of a delegation token.
Find = Callable[[str, bool], Known | None]


def credential_of(mechanism: ScramMechanism, salted_password: bytes, salt: bytes, iterations: int) -> ScramCredential:
    """The credential for a password that was salted by the client already."""
    return ScramCredential(
        salt, mechanism.stored_key(salted_password), mechanism.server_key(salted_password), iterations
    )


def credential_for(mechanism: ScramMechanism, password: str, salt: bytes, iterations: int) -> ScramCredential:
    """The credential for a password."""
    return credential_of(mechanism, mechanism.salted_password(password, salt, iterations), salt, iterations)


class ScramLogin:
    """One login by SCRAM.

    find: whom a name stands for. nonce: what the broker adds to the client's.
    """

    def __init__(self, mechanism: ScramMechanism, find: Find, nonce: str) -> None:
        self._mechanism = mechanism
        self._find = find
        self._own_nonce = nonce
        self._first_bare = ""
        self._challenge = ""
        self._nonce = ""
        self._is_token = False
        self._known: Known | None = None

    def step(self, message: bytes) -> tuple[bytes, LoggedIn | None]:
        """Take a message of the client; the answer, and who has logged in with the second.

        Raises: Refused and BadCredentials, after which the login is over.
        """
        text = message.decode(errors="replace")
        return (self._begin(text), None) if self._known is None else self._end(text, self._known)

    def _begin(self, text: str) -> bytes:
        found = _FIRST.fullmatch(text)
        if found is None:
            raise BadCredentials("no first message of SCRAM")
        name = from_saslname(found["user"])
        extensions = dict(part.split("=", 1) for part in found["extensions"].split(",") if part)
        self._is_token = extensions.get("tokenauth", "").lower() == "true"
        known = self._find(name, self._is_token)
        if known is None:
            raise BadCredentials("nobody of this name")
        if found["authzid"] is not None and found["authzid"] != name:
            raise Refused("Authentication failed: the authorization id that was asked for is not the user name")
        if known.credential.iterations < ITERATIONS_MIN:
            raise BadCredentials("a credential of too few iterations")
        self._known, self._nonce = known, found["nonce"] + self._own_nonce
        # Kafka signs what it makes of the message anew: without a reserved attribute.
        self._first_bare = f"n={found['user']},r={found['nonce']}{found['extensions']}"
        salt = base64.b64encode(known.credential.salt).decode()
        self._challenge = f"r={self._nonce},s={salt},i={known.credential.iterations}"
        return self._challenge.encode()

    def _end(self, text: str, known: Known) -> tuple[bytes, LoggedIn]:
        found = _FINAL.fullmatch(text)
        if found is None or found["nonce"] != self._nonce:
            raise BadCredentials("no final message of SCRAM, or that of another login")
        said = f"{self._first_bare},{self._challenge},c={found['channel']},r={self._nonce}".encode()
        credential, proof = known.credential, base64.b64decode(found["proof"])
        signature = self._mechanism.mac(credential.stored_key, said)
        if len(proof) != len(signature) or not hmac.compare_digest(
            self._mechanism.digest(xor(proof, signature)), credential.stored_key
        ):
            raise BadCredentials("a wrong proof")
        answer = base64.b64encode(self._mechanism.mac(credential.server_key, said)).decode()
        return f"v={answer}".encode(), LoggedIn(f"User:{known.user}", known.expires_ms, self._is_token)
