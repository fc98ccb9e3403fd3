"""The exchange of SASL/OAUTHBEARER beyond the conversations other-sasl-oauth-*."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mockbroker.state.security.login import InvalidCredentials, LoginAborted, LoginRefused
from mockbroker.state.security.oauthbearer import OAuthBearerLogin, OAuthToken, TokenRejected

TOKEN = "secret.token.value"


def _accept(token: str, now_ms: int) -> OAuthToken:
    return OAuthToken("alice", now_ms + 1_000)


def _reject(token: str, now_ms: int) -> OAuthToken:
    raise TokenRejected("it has expired", scope="[read]" if now_ms else None)


def _message(*, authorization_id: str = "", scheme: str = "Bearer", more: str = "") -> bytes:
    return f"n,{authorization_id},\x01auth={scheme} {TOKEN}{more}\x01\x01".encode()


def test_a_valid_token_is_the_login_of_its_user_until_it_expires() -> None:
    message, principal, refusal = OAuthBearerLogin(_accept).handle_message(_message(), now_ms=5)

    assert (message, refusal) == (b"", None)
    assert principal is not None
    assert (principal.principal, principal.expires_ms) == ("User:alice", 1_005)


def test_a_refused_token_is_answered_with_a_challenge_and_its_acknowledgement_with_the_same_text() -> None:
    login = OAuthBearerLogin(_reject)

    assert login.handle_message(_message(), now_ms=0) == (b'{"status":"invalid_token"}', None, "it has expired")
    with pytest.raises(LoginRefused) as refused:
        login.handle_message(b"\x01", now_ms=0)
    assert str(refused.value) == '{"status":"invalid_token"}'


def test_a_missing_scope_is_named_in_the_challenge() -> None:
    answer = OAuthBearerLogin(_reject).handle_message(_message(), now_ms=1)

    assert answer.message == b'{"status":"insufficient_scope", "scope":"[read]"}'


def test_a_challenge_is_acknowledged_once() -> None:
    login = OAuthBearerLogin(_reject)
    login.handle_message(_message(), now_ms=0)
    with pytest.raises(InvalidCredentials):
        login.handle_message(b"\x02", now_ms=0)

    with pytest.raises(InvalidCredentials):
        login.handle_message(b"\x01", now_ms=0)


@pytest.mark.parametrize(
    ("message", "error"),
    [
        (_message(authorization_id="a=bob"), LoginRefused),
        (_message(scheme="Basic"), LoginAborted),
        (_message(scheme="Bear\xe9r"), InvalidCredentials),
        (_message(more="\x01key"), InvalidCredentials),
        (_message(more="\x01key="), InvalidCredentials),
        (_message(more=" x"), InvalidCredentials),
        (_message() + b"\x01", InvalidCredentials),
        (b"p" + _message()[1:], InvalidCredentials),
    ],
)
def test_errors_do_not_show_the_token(message: bytes, error: type[Exception]) -> None:
    with pytest.raises(error) as raised:
        OAuthBearerLogin(_accept).handle_message(message, now_ms=0)

    assert TOKEN not in str(raised.value)
    assert "token.value" not in str(raised.value)


@given(st.lists(st.binary(max_size=40) | st.sampled_from([b"\x01", _message(), b"n,,\x01auth="]), max_size=5))
def test_any_bytes_are_answered_or_refused(messages: list[bytes]) -> None:
    login = OAuthBearerLogin(_reject)
    for message in messages:
        try:
            answer = login.handle_message(message, now_ms=0)
        except (InvalidCredentials, LoginAborted, LoginRefused):
            continue
        assert answer.principal is None


def test_a_long_message_is_parsed_in_one_pass() -> None:
    extensions = "".join(f"\x01key={'x' * 10}" for _ in range(30_000))

    answer = OAuthBearerLogin(_accept).handle_message(_message(more=extensions), now_ms=0)

    assert answer.principal is not None
    with pytest.raises(InvalidCredentials):
        OAuthBearerLogin(_accept).handle_message(_message(more=extensions)[:-1] + b"\xff", now_ms=0)
