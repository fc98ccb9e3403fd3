"""The client's side of SASL/SCRAM: two messages out, and the broker's proof checked."""

from __future__ import annotations

import base64
import binascii
import secrets

from kwire.client.errors import AuthenticationFailed
from kwire.scram import ITERATIONS_MIN, mechanism_of, to_saslname, xor

#: "n,,": no channel binding, no other identity.
_GS2_HEADER = "n,,"


class ScramClient:
    """One login. `first` goes out, then `final` with what came back, then `verify` with what came back to that.

    extensions: attributes behind the nonce, as Kafka's "tokenauth=true" for delegation tokens.
    Raises: AuthenticationFailed for an unknown mechanism, and from its methods for what a broker must not say.
    """

    def __init__(
        self, mechanism: str, user: str, password: str, *, nonce: str | None = None, extensions: str = ""
    ) -> None:
        found = mechanism_of(mechanism)
        if found is None:
            raise AuthenticationFailed(f"{mechanism} is no mechanism of SCRAM that Kafka has")
        self._mechanism = found
        self._password = password
        self._nonce = nonce if nonce is not None else secrets.token_urlsafe(24)
        behind = f",{extensions}" if extensions else ""
        self._first_bare = f"n={to_saslname(user)},r={self._nonce}{behind}"
        self._server_signature = b""

    def first(self) -> bytes:
        """Who wants in."""
        return f"{_GS2_HEADER}{self._first_bare}".encode()

    def final(self, challenge: bytes) -> bytes:
        """The proof, for the broker's challenge."""
        fields = _fields(challenge)
        nonce, iterations = fields.get("r", ""), fields.get("i", "")
        if not nonce.startswith(self._nonce) or not iterations.isdigit():
            raise AuthenticationFailed("the broker's challenge does not belong to this login")
        if int(iterations) < ITERATIONS_MIN:
            raise AuthenticationFailed(f"the broker asks for {iterations} rounds; {ITERATIONS_MIN} is the least")
        salted = self._mechanism.salted_password(self._password, _bytes(fields.get("s", "")), int(iterations))
        bare = f"c={base64.b64encode(_GS2_HEADER.encode()).decode()},r={nonce}"
        said = f"{self._first_bare},{challenge.decode(errors='replace')},{bare}".encode()
        signature = self._mechanism.mac(self._mechanism.stored_key(salted), said)
        self._server_signature = self._mechanism.mac(self._mechanism.server_key(salted), said)
        proof = base64.b64encode(xor(self._mechanism.client_key(salted), signature)).decode()
        return f"{bare},p={proof}".encode()

    def verify(self, answer: bytes) -> None:
        """Whether the broker knows the password too."""
        if not self._server_signature or _bytes(_fields(answer).get("v", "")) != self._server_signature:
            raise AuthenticationFailed("the broker does not prove that it knows the password")


def _fields(message: bytes) -> dict[str, str]:
    pairs = (part.partition("=") for part in message.decode(errors="replace").split(","))
    return {name: value for name, _, value in pairs}


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise AuthenticationFailed("the broker's message is not SCRAM") from None
