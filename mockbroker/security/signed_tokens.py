"""Validation of signed tokens: signature, issuer, audience, times, scopes and subject.

Source: KIP-768, KIP-1139, Kafka's BrokerJwtValidator with jose4j; pinned by other-sasl-oauth-signed.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from kwire.errors import MissingExtra
from mockbroker.security.verification_keys import VerificationKey, VerificationKeys
from mockbroker.state.security.login import LoginAborted
from mockbroker.state.security.oauthbearer import OAuthToken, TokenRejected
from mockbroker.state.security.token_parts import decode_base64url, is_number, parse_json

#: The characters that Java's `trim` removes.
_TRIMMED = "".join(map(chr, range(0x21)))


class ClaimRules(NamedTuple):
    """What the claims of a token must be.

    audiences: one of them is expected; None: any, empty: none. issuer: None for any.
    """

    audiences: tuple[str, ...] | None
    issuer: str | None
    subject_claim: str
    scope_claim: str
    clock_skew_s: int


class SignedTokens:
    """Validates tokens by keys and rules. Raises: MissingExtra without PyJWT."""

    def __init__(self, keys: VerificationKeys, rules: ClaimRules) -> None:
        try:
            import jwt
        except ImportError as error:
            raise MissingExtra("OAUTHBEARER with signed tokens", "oauth") from error
        self._signatures = jwt.PyJWS()
        self._invalid_token = jwt.InvalidTokenError
        self.keys = keys
        self._rules = rules

    def validate(self, token: str, now_ms: int) -> OAuthToken:
        """Check a token. Raises: TokenRejected; LoginAborted for a list of scopes that are not texts."""
        parts = token.split(".")
        if len(parts) != 3 or not all(parts):
            raise TokenRejected("it does not have three parts")
        header = parse_json(decode_base64url(parts[0], "header"), "header", unique_names=True)
        if not isinstance(header, dict):
            raise TokenRejected("its header is not an object")
        algorithm, key_id = header.get("alg"), header.get("kid")
        if not isinstance(algorithm, str) or algorithm.lower() == "none":
            raise TokenRejected("it is not signed")
        if "crit" in header or "b64" in header:
            raise TokenRejected("its header has critical parameters")
        if not isinstance(key_id, str | None):
            raise TokenRejected("its key id is not a text")
        key = self.keys.find_key(key_id, algorithm, now_ms=now_ms)
        claims = parse_json(self._verify(token, key, algorithm), "claims", unique_names=True)
        if not isinstance(claims, dict):
            raise TokenRejected("its claims are not an object")
        return _check_claims(claims, self._rules, now_ms)

    def _verify(self, token: str, key: VerificationKey, algorithm: str) -> bytes:
        try:
            # The algorithm is that of the token, and `find_key` returns only keys of its type.
            payload: bytes = self._signatures.decode(token, key.key, algorithms=[algorithm])
        except (self._invalid_token, ValueError, TypeError) as error:
            raise TokenRejected(f"its signature is not verified by {key!r}") from error
        return payload


def _check_claims(claims: dict[str, Any], rules: ClaimRules, now_ms: int) -> OAuthToken:
    expires_s, issued_s = _read_time(claims, "exp"), _read_time(claims, "iat")
    if expires_s is None or issued_s is None or issued_s < 0:
        raise TokenRejected("it needs the claims exp and iat, which are no times before 1970")
    _check_times(expires_s, issued_s, _read_time(claims, "nbf"), rules.clock_skew_s, now_ms // 1_000)
    issuer = claims.get("iss")
    if (issuer is not None and not isinstance(issuer, str)) or rules.issuer not in (None, issuer):
        raise TokenRejected("its issuer, the claim iss, is not the expected one")
    _check_audience(claims.get("aud"), rules.audiences)
    subject = claims.get(rules.subject_claim)
    if not isinstance(subject, str):
        raise TokenRejected(f"its claim {rules.subject_claim} is not a text")
    _check_scopes(claims.get(rules.scope_claim), rules.scope_claim)
    user = subject.strip(_TRIMMED)
    if not user:
        raise TokenRejected(f"its claim {rules.subject_claim} is empty")
    return OAuthToken(user, expires_s * 1_000)


def _read_time(claims: dict[str, Any], name: str) -> int | None:
    value = claims.get(name)
    if value is None:
        return None
    # Java would limit larger numbers to those of a long.
    if not is_number(value) or not -(2**53) < value < 2**53:
        raise TokenRejected(f"its claim {name} is not a time in seconds")
    return int(value)


def _check_times(expires_s: int, issued_s: int, not_before_s: int | None, skew_s: int, now_s: int) -> None:
    if now_s - skew_s >= expires_s:
        raise TokenRejected("it has expired, by its claim exp")
    if expires_s < issued_s or (not_before_s is not None and expires_s < not_before_s):
        raise TokenRejected("it expires before it begins, by its claims exp, iat and nbf")
    if not_before_s is not None and now_s + skew_s < not_before_s:
        raise TokenRejected("it is not valid yet, by its claim nbf")


def _check_audience(audience: object, expected: tuple[str, ...] | None) -> None:
    given = audience if isinstance(audience, list) else [] if audience is None else [audience]
    if not all(isinstance(name, str) for name in given):
        raise TokenRejected("its claim aud is neither a text nor a list of texts")
    if expected is None or (not expected and audience is None):
        return
    if not set(given) & set(expected):
        raise TokenRejected("its audience, the claim aud, is not the expected one")


def _check_scopes(scope: object, name: str) -> None:
    scopes = [scope] if isinstance(scope, str) else scope if isinstance(scope, list) else []
    if not all(isinstance(one, str) for one in scopes):
        # Kafka fails on the value's type.
        raise LoginAborted(f"a token whose claim {name} has elements that are not texts")
    trimmed = [one.strip(_TRIMMED) for one in scopes]
    if not all(trimmed) or len(set(trimmed)) < len(trimmed):
        raise TokenRejected(f"its claim {name} has empty or repeated scopes")
