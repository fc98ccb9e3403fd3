"""Unsecured tokens beyond the conversation other-sasl-oauth-unsecured."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mockbroker.state.security.login import LoginAborted
from mockbroker.state.security.oauthbearer import TokenRejected
from mockbroker.state.security.unsecured_tokens import UnsecuredTokens
from tests.support.tokens import NOW_MS, NOW_S, encode_part, unsecured_token

VALID = {"sub": "alice", "iat": NOW_S - 10, "exp": NOW_S + 60}


def test_a_token_expires_when_its_time_has_come_and_a_skew_is_granted() -> None:
    token = unsecured_token(VALID)

    assert UnsecuredTokens().validate(token, NOW_MS + 59_999).expires_ms == NOW_MS + 60_000
    with pytest.raises(TokenRejected, match="expired"):
        UnsecuredTokens().validate(token, NOW_MS + 60_000)
    assert UnsecuredTokens(clock_skew_ms=5_000).validate(token, NOW_MS + 64_999).user == "alice"
    with pytest.raises(TokenRejected, match="expired"):
        UnsecuredTokens(clock_skew_ms=5_000).validate(token, NOW_MS + 65_000)


@pytest.mark.parametrize("issued", [NOW_S + 1, NOW_S + 0.25])
def test_a_token_of_the_future_needs_a_skew(issued: float) -> None:
    token = unsecured_token({**VALID, "iat": issued})

    with pytest.raises(TokenRejected, match="issued in the future"):
        UnsecuredTokens().validate(token, NOW_MS)
    assert UnsecuredTokens(clock_skew_ms=1_000).validate(token, NOW_MS).user == "alice"


@pytest.mark.parametrize(("seconds", "milliseconds"), [(NOW_S + 1.5, NOW_MS + 1_500), (10**30, 2**63 - 1)])
def test_times_are_rounded_as_in_java(seconds: float, milliseconds: int) -> None:
    assert UnsecuredTokens().validate(unsecured_token({**VALID, "exp": seconds}), NOW_MS).expires_ms == milliseconds


@pytest.mark.parametrize(
    ("claims", "scopes"),
    [({"scope": "read"}, ("read",)), ({"scope": [" read ", "write"]}, ("read", "write")), ({"scope": "a b"}, ("a b",))],
)
def test_required_scopes_are_elements_of_the_claim(claims: dict[str, Any], scopes: tuple[str, ...]) -> None:
    assert UnsecuredTokens(required_scope=scopes).validate(unsecured_token({**VALID, **claims}), NOW_MS)
    with pytest.raises(TokenRejected) as rejected:
        UnsecuredTokens(required_scope=(*scopes, "other")).validate(unsecured_token({**VALID, **claims}), NOW_MS)
    assert f"[{', '.join((*scopes, 'other'))}]" in rejected.value.challenge


def test_a_deep_object_is_no_json() -> None:
    deep = encode_part(b"[" * 100_000)

    with pytest.raises(TokenRejected, match="the claims is not JSON"):
        UnsecuredTokens().validate(f"{encode_part({'alg': 'none'})}.{deep}.", NOW_MS)


@given(st.text(alphabet="abAB09-_.=", max_size=60) | st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["exp", "iat", "sub", "scope"]), inner),
    max_leaves=8,
).map(unsecured_token))  # fmt: skip
def test_any_token_is_accepted_or_rejected(token: str) -> None:
    with suppress(TokenRejected, LoginAborted):
        assert UnsecuredTokens().validate(token, NOW_MS).user
