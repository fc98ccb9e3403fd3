"""Validation of unsecured tokens, `"alg":"none"`, which anyone can make: for tests only, as in Kafka.

Source: KIP-255, Kafka's OAuthBearerUnsecuredValidatorCallbackHandler; pinned by other-sasl-oauth-unsecured.
"""

from __future__ import annotations

import json
import math
from typing import Any, NamedTuple

from mockbroker.state.security.login import LoginAborted
from mockbroker.state.security.oauthbearer import OAuthToken, TokenRejected
from mockbroker.state.security.token_parts import decode_base64url, is_number, parse_json

_LONG_MAX = 2**63 - 1


class UnsecuredTokens(NamedTuple):
    """Validates unsecured tokens by the options of the login module.

    principal_claim, scope_claim: names of claims. required_scope: scopes that a token must have. clock_skew_ms: by
    which times of a token may be off.
    """

    principal_claim: str = "sub"
    scope_claim: str = "scope"
    required_scope: tuple[str, ...] = ()
    clock_skew_ms: int = 0

    def validate(self, token: str, now_ms: int) -> OAuthToken:
        """Check a token. Raises: TokenRejected; LoginAborted for a header without an algorithm."""
        claims = _read_claims(token)
        scopes = _scopes(claims, self.scope_claim)
        expires_s, issued_s = _time_claim(claims, "exp"), _time_claim(claims, "iat")
        if expires_s is None:
            raise TokenRejected("it has no claim exp")
        user = claims.get(self.principal_claim)
        if not isinstance(user, str) or not user.strip():
            raise TokenRejected(f"its claim {self.principal_claim} names no user")
        if issued_s is not None and 1_000 * issued_s > now_ms + self.clock_skew_ms:
            raise TokenRejected("it was issued in the future, by its claim iat")
        if now_ms - self.clock_skew_ms >= 1_000 * expires_s:
            raise TokenRejected("it has expired, by its claim exp")
        if issued_s is not None and expires_s <= issued_s:
            raise TokenRejected("it expires before it was issued, by its claims exp and iat")
        lacking = [scope for scope in self.required_scope if scope not in scopes]
        if lacking:
            raise TokenRejected(
                f"it lacks the scope {lacking[0]} of {self.scope_claim}", scope=f"[{', '.join(self.required_scope)}]"
            )
        return OAuthToken(user, _java_round(expires_s))


def _read_claims(token: str) -> dict[str, Any]:
    parts = token.split(".")
    if ".." in token or len(parts) != 3:
        raise TokenRejected("it does not have three parts")
    header, claims = _read_part(parts[0], "header"), _read_part(parts[1], "claims")
    if "alg" not in header:
        # Kafka fails on the missing value.
        raise LoginAborted("an unsecured token without an algorithm in its header")
    if header["alg"] != "none":
        raise TokenRejected("its algorithm is not none, and the listener takes unsecured tokens only")
    if parts[2]:
        raise TokenRejected("it has a signature, and the listener takes unsecured tokens only")
    return claims


def _read_part(part: str, name: str) -> dict[str, Any]:
    """The values of an object, as Kafka converts them: texts, numbers and lists of texts."""
    data = decode_base64url(part, name)
    value = parse_json(data, name, unique_names=False) if data.strip() else {}
    return {key: _convert(item) for key, item in value.items()} if isinstance(value, dict) else {}


def _convert(value: object) -> object:
    if isinstance(value, list):
        return [_as_text(item) for item in value]
    return value if is_number(value) else _as_text(value)


def _as_text(value: object) -> str:
    """Jackson's `asText`."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict | list):
        return ""
    return json.dumps(value)


def _time_claim(claims: dict[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    if not is_number(value):
        raise TokenRejected(f"its claim {name} is not a number")
    try:
        return float(value)
    except OverflowError:
        return math.copysign(math.inf, value)


def _scopes(claims: dict[str, Any], name: str) -> set[str]:
    """The scopes: the elements of a list, or a text as a whole, which Kafka does not split."""
    value = claims.get(name, [])
    if not isinstance(value, str | list):
        raise TokenRejected(f"its claim {name} is neither a text nor a list")
    return {scope.strip() for scope in ([value] if isinstance(value, str) else value) if scope.strip()}


def _java_round(seconds: float) -> int:
    """Milliseconds, as Java rounds and limits them."""
    milliseconds = seconds * 1_000
    return _LONG_MAX if milliseconds >= _LONG_MAX else math.floor(milliseconds + 0.5)
