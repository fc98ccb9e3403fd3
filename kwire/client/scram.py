"""The client side of SASL/SCRAM: two messages, and verification of the broker's signature."""

from __future__ import annotations

import base64
import binascii
import secrets

from kwire.client.errors import AuthenticationFailed
from kwire.scram import ITERATIONS_MIN, find_mechanism, to_saslname, xor_bytes

#: "n,,": no channel binding, no other identity.
_GS2_HEADER = "n,,"


class ScramClient:
    """One authentication: send `first_message()`, then `final_message(challenge)`, then call `verify(response)`.

    extensions: attributes after the nonce, as Kafka's "tokenauth=true" for delegation tokens.
    Raises: AuthenticationFailed for an unknown mechanism, and in its methods for invalid messages of the broker.
    """

    def __init__(
        self, mechanism: str, user: str, password: str, *, nonce: str | None = None, extensions: str = ""
    ) -> None:
        scram_mechanism = find_mechanism(mechanism)
        if scram_mechanism is None:
            raise AuthenticationFailed(f"{mechanism} is not a SCRAM mechanism of Kafka")
        self._mechanism = scram_mechanism
        self._password = password
        self._nonce = nonce if nonce is not None else secrets.token_urlsafe(24)
        suffix = f",{extensions}" if extensions else ""
        self._first_bare = f"n={to_saslname(user)},r={self._nonce}{suffix}"
        self._server_signature = b""

    def first_message(self) -> bytes:
        """The client-first-message: user and nonce."""
        return f"{_GS2_HEADER}{self._first_bare}".encode()

    def final_message(self, challenge: bytes) -> bytes:
        """The client-final-message: the proof for the broker's challenge."""
        fields = _parse_fields(challenge)
        nonce, iterations = fields.get("r", ""), fields.get("i", "")
        if not nonce.startswith(self._nonce) or not iterations.isdigit():
            raise AuthenticationFailed("the broker's challenge does not belong to this login")
        if int(iterations) < ITERATIONS_MIN:
            raise AuthenticationFailed(f"the broker requests {iterations} iterations; {ITERATIONS_MIN} is the minimum")
        salted = self._mechanism.salted_password(self._password, _decode_base64(fields.get("s", "")), int(iterations))
        bare = f"c={base64.b64encode(_GS2_HEADER.encode()).decode()},r={nonce}"
        auth_message = f"{self._first_bare},{challenge.decode(errors='replace')},{bare}".encode()
        signature = self._mechanism.mac(self._mechanism.stored_key(salted), auth_message)
        self._server_signature = self._mechanism.mac(self._mechanism.server_key(salted), auth_message)
        proof = base64.b64encode(xor_bytes(self._mechanism.client_key(salted), signature)).decode()
        return f"{bare},p={proof}".encode()

    def verify(self, answer: bytes) -> None:
        """Check that the broker has the keys of the password too.

        Raises: AuthenticationFailed when its signature is wrong.
        """
        if not self._server_signature or _decode_base64(_parse_fields(answer).get("v", "")) != self._server_signature:
            raise AuthenticationFailed("the broker does not prove that it has the password")


def _parse_fields(message: bytes) -> dict[str, str]:
    pairs = (part.partition("=") for part in message.decode(errors="replace").split(","))
    return {name: value for name, _, value in pairs}


def _decode_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise AuthenticationFailed("the broker's message is not SCRAM") from None
