"""Delegation tokens: their ends, on a clock that the test moves."""

from __future__ import annotations

import pytest

from kwire.error_codes import ErrorCode
from kwire.scram import ScramMechanism
from mockbroker.kafka_error import KafkaError
from mockbroker.state.tokens import Token, Tokens

ALICE, BOB = "User:alice", "User:bob"
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


@pytest.fixture
def tokens() -> Tokens:
    return Tokens("mysterious", lifetime_max_ms=7 * DAY_MS, renewal_ms=DAY_MS, sweep_ms=HOUR_MS)


def _make(tokens: Tokens, token_id: str = "one", *, lifetime_ms: int = -1, now_ms: int = 0) -> Token:
    return tokens.create(
        token_id, owner=ALICE, requester=ALICE, renewers=(BOB,), lifetime_ms=lifetime_ms, now_ms=now_ms
    )


def _ids(tokens: Tokens, now_ms: int) -> list[str]:
    return [token.token_id for token in tokens.described(lambda token: True, now_ms=now_ms)]


def test_a_token_ends_after_a_day_unless_it_is_renewed_and_after_a_week_in_any_case(tokens: Tokens) -> None:
    token = _make(tokens)

    assert (token.expires_ms, token.latest_ms) == (DAY_MS, 7 * DAY_MS)
    assert tokens.renew(token.hmac, BOB, period_ms=-1, now_ms=DAY_MS) == 2 * DAY_MS
    assert tokens.renew(token.hmac, ALICE, period_ms=1_000, now_ms=DAY_MS) == DAY_MS + 1_000


def test_the_longest_life_is_never_exceeded(tokens: Tokens) -> None:
    token = _make(tokens, lifetime_ms=10_000)

    assert (token.expires_ms, token.latest_ms) == (10_000, 10_000)
    assert tokens.renew(token.hmac, ALICE, period_ms=DAY_MS, now_ms=10_000) == 10_000
    assert _make(tokens, "two", lifetime_ms=8 * DAY_MS).latest_ms == 7 * DAY_MS


def test_a_token_that_is_over_is_told_so_until_it_is_swept_away(tokens: Tokens) -> None:
    token = _make(tokens, lifetime_ms=10_000)

    assert _ids(tokens, HOUR_MS - 1) == ["one"]
    with pytest.raises(KafkaError) as over:
        tokens.renew(token.hmac, ALICE, period_ms=-1, now_ms=10_001)
    assert over.value.code == ErrorCode.DELEGATION_TOKEN_EXPIRED
    assert _ids(tokens, HOUR_MS) == []
    with pytest.raises(KafkaError) as gone:
        tokens.renew(token.hmac, ALICE, period_ms=-1, now_ms=HOUR_MS)
    assert gone.value.code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND


def test_a_sweep_takes_what_was_over_at_its_own_time(tokens: Tokens) -> None:
    _make(tokens, lifetime_ms=HOUR_MS + 1)

    assert _ids(tokens, 2 * HOUR_MS - 1) == ["one"]
    assert _ids(tokens, 2 * HOUR_MS) == []


def test_a_token_logs_in_as_its_owner_until_its_end(tokens: Tokens) -> None:
    _make(tokens)

    known = tokens.known("one", ScramMechanism.SHA_512, now_ms=0)

    assert known is not None
    assert (known.user, known.expires_ms) == ("alice", DAY_MS)
    assert tokens.known("two", ScramMechanism.SHA_512, now_ms=0) is None


def test_without_a_secret_key_nothing_can_be_done() -> None:
    disabled = Tokens("", lifetime_max_ms=1, renewal_ms=1, sweep_ms=1)

    with pytest.raises(KafkaError) as refused:
        _make(disabled)
    assert refused.value.code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED


def test_secrets_of_tokens_are_not_shown(tokens: Tokens) -> None:
    token = _make(tokens)

    assert str(token.hmac) not in repr(token)
    assert "mysterious" not in repr(tokens)
