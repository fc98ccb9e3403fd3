"""Delegation tokens: their ends, on a clock that the test moves."""

from __future__ import annotations

import pytest

from kwire.error_codes import ErrorCode
from kwire.scram import ScramMechanism
from mockbroker.state.security.delegation_tokens import DelegationToken, DelegationTokens
from tests.support.raises_code import raises_code

ALICE, BOB = "User:alice", "User:bob"
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


@pytest.fixture
def tokens() -> DelegationTokens:
    return DelegationTokens("mysterious", lifetime_max_ms=7 * DAY_MS, renewal_ms=DAY_MS, sweep_ms=HOUR_MS)


def _create_token(
    tokens: DelegationTokens, token_id: str = "one", *, lifetime_ms: int = -1, now_ms: int = 0
) -> DelegationToken:
    return tokens.create_token(
        token_id, owner=ALICE, requester=ALICE, renewers=(BOB,), lifetime_ms=lifetime_ms, now_ms=now_ms
    )


def _token_ids(tokens: DelegationTokens, now_ms: int) -> list[str]:
    return [token.token_id for token in tokens.describe_tokens(lambda token: True, now_ms=now_ms)]


def test_a_token_expires_after_a_day_unless_it_is_renewed_and_after_a_week_in_any_case(
    tokens: DelegationTokens,
) -> None:
    token = _create_token(tokens)

    assert (token.expires_ms, token.latest_ms) == (DAY_MS, 7 * DAY_MS)
    assert tokens.renew_token(token.hmac, BOB, period_ms=-1, now_ms=DAY_MS) == 2 * DAY_MS
    assert tokens.renew_token(token.hmac, ALICE, period_ms=1_000, now_ms=DAY_MS) == DAY_MS + 1_000


def test_the_longest_life_is_never_exceeded(tokens: DelegationTokens) -> None:
    token = _create_token(tokens, lifetime_ms=10_000)

    assert (token.expires_ms, token.latest_ms) == (10_000, 10_000)
    assert tokens.renew_token(token.hmac, ALICE, period_ms=DAY_MS, now_ms=10_000) == 10_000
    assert _create_token(tokens, "two", lifetime_ms=8 * DAY_MS).latest_ms == 7 * DAY_MS


def test_an_expired_token_returns_expired_until_it_is_removed(tokens: DelegationTokens) -> None:
    token = _create_token(tokens, lifetime_ms=10_000)

    assert _token_ids(tokens, HOUR_MS - 1) == ["one"]
    with raises_code(ErrorCode.DELEGATION_TOKEN_EXPIRED):
        tokens.renew_token(token.hmac, ALICE, period_ms=-1, now_ms=10_001)
    assert _token_ids(tokens, HOUR_MS) == []
    with raises_code(ErrorCode.DELEGATION_TOKEN_NOT_FOUND):
        tokens.renew_token(token.hmac, ALICE, period_ms=-1, now_ms=HOUR_MS)


def test_a_periodic_removal_takes_tokens_that_had_expired_at_its_time(tokens: DelegationTokens) -> None:
    _create_token(tokens, lifetime_ms=HOUR_MS + 1)

    assert _token_ids(tokens, 2 * HOUR_MS - 1) == ["one"]
    assert _token_ids(tokens, 2 * HOUR_MS) == []


def test_a_token_authenticates_as_its_owner_until_its_expiry(tokens: DelegationTokens) -> None:
    _create_token(tokens)

    user = tokens.find_scram_user("one", ScramMechanism.SHA_512, now_ms=0)

    assert user is not None
    assert (user.user, user.expires_ms) == ("alice", DAY_MS)
    assert tokens.find_scram_user("two", ScramMechanism.SHA_512, now_ms=0) is None


def test_without_a_secret_key_all_operations_fail() -> None:
    disabled = DelegationTokens("", lifetime_max_ms=1, renewal_ms=1, sweep_ms=1)

    with raises_code(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED):
        _create_token(disabled)


def test_secrets_of_tokens_are_not_shown(tokens: DelegationTokens) -> None:
    token = _create_token(tokens)

    assert str(token.hmac) not in repr(token)
    assert "mysterious" not in repr(tokens)
