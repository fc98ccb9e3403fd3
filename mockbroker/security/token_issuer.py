"""`TokenIssuer`: signs tokens for tests, and writes the JWKS with the public keys by which brokers verify them."""

from __future__ import annotations

import hmac
import json
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kwire.errors import MissingExtra

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

#: The claims `iss` and `aud` of the tokens, which the brokers expect.
ISSUER = AUDIENCE = "mockbroker"
ALGORITHM = "ES256"
TOKEN_LIFETIME_S = 3_600


class TokenIssuer:
    """An issuer with a key of its own.

    jwks: the file to write. client: the id and secret that the token endpoint requires, None for any.
    Raises: MissingExtra without PyJWT.
    """

    def __init__(self, jwks: Path, *, client: tuple[str, str] | None = None) -> None:
        try:
            import jwt
        except ImportError as error:
            raise MissingExtra("sasl=OAUTHBEARER", "oauth") from error
        self._encode = jwt.encode
        self._to_jwk = jwt.get_algorithm_by_name(ALGORITHM).to_jwk
        self._client = client
        self._public_keys: list[dict[str, Any]] = []
        self.jwks = jwks
        self.lifetime_s = TOKEN_LIFETIME_S
        self.rotate_keys()

    def rotate_keys(self, *, keep_previous: bool = False) -> None:
        """Sign with a new key. keep_previous: whether tokens of the previous keys remain valid."""
        from cryptography.hazmat.primitives.asymmetric import ec

        self._key: EllipticCurvePrivateKey = ec.generate_private_key(ec.SECP256R1())
        self._key_id = secrets.token_hex(8)
        public = json.loads(self._to_jwk(self._key.public_key()))
        public |= {"kid": self._key_id, "use": "sig", "alg": ALGORITHM, "key_ops": ["verify"]}
        self._public_keys = [*(self._public_keys if keep_previous else ()), public]
        self._write_keys()

    def _write_keys(self) -> None:
        """Replace the file in one step: a broker reads it at any time."""
        written = self.jwks.with_suffix(".new")
        written.write_bytes(self.public_keys())
        os.replace(written, self.jwks)

    def public_keys(self) -> bytes:
        """The JWKS, as JSON."""
        return json.dumps({"keys": self._public_keys}).encode()

    def accepts_client(self, client_id: str, secret: str) -> bool:
        """Whether the token endpoint gives this client a token."""
        if self._client is None:
            return True
        given, expected = (text.encode() for text in (f"{client_id}\0{secret}", "\0".join(self._client)))
        return hmac.compare_digest(given, expected)

    def create_token(
        self,
        subject: str,
        *,
        now_ms: int,
        scope: str | None = None,
        expires_in_s: int | None = None,
        claims: Mapping[str, object] | None = None,
    ) -> str:
        """Sign a token.

        expires_in_s: None for the issuer's lifetime; a negative one has passed. claims: more of them, or others; None
        leaves one out.
        """
        now_s = now_ms // 1_000
        expires_s = now_s + (self.lifetime_s if expires_in_s is None else expires_in_s)
        values: dict[str, object] = {"iss": ISSUER, "aud": AUDIENCE, "sub": subject}
        values |= {"iat": min(now_s, expires_s), "exp": expires_s, "jti": secrets.token_hex(8), "scope": scope}
        values |= claims or {}
        given = {name: value for name, value in values.items() if value is not None}
        return self._encode(given, self._key, algorithm=ALGORITHM, headers={"kid": self._key_id})
