"""The issuer of tokens for tests."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import jwt
import pytest

from kwire.errors import MissingExtra
from mockbroker.security.token_issuer import TokenIssuer
from tests.support.tokens import NOW_MS, NOW_S


def _claims(token: str) -> dict[str, object]:
    claims: dict[str, object] = jwt.decode(token, options={"verify_signature": False})
    return claims


@pytest.fixture
def issuer(tmp_path: Path) -> TokenIssuer:
    return TokenIssuer(tmp_path / "jwks.json")


def test_a_token_has_the_claims_that_brokers_expect(issuer: TokenIssuer) -> None:
    claims = _claims(issuer.create_token("alice", now_ms=NOW_MS, scope="read", expires_in_s=5))

    assert claims.pop("jti")
    assert claims == {
        "iss": "mockbroker",
        "aud": "mockbroker",
        "sub": "alice",
        "iat": NOW_S,
        "exp": NOW_S + 5,
        "scope": "read",
    }


def test_claims_can_be_changed_and_left_out(issuer: TokenIssuer) -> None:
    claims = _claims(issuer.create_token("alice", now_ms=NOW_MS, claims={"aud": "other", "iat": None, "x": [1]}))

    assert claims["aud"] == "other"
    assert claims["x"] == [1]
    assert not {"iat", "scope"} & set(claims)


def test_a_token_that_has_expired_was_issued_before(issuer: TokenIssuer) -> None:
    claims = _claims(issuer.create_token("alice", now_ms=NOW_MS, expires_in_s=-60))

    assert claims["iat"] == claims["exp"] == NOW_S - 60


def test_the_file_has_public_keys_only(issuer: TokenIssuer) -> None:
    first = json.loads(issuer.jwks.read_bytes())["keys"]
    issuer.rotate_keys(keep_previous=True)
    both = json.loads(issuer.jwks.read_bytes())["keys"]
    issuer.rotate_keys()

    assert both[:1] == first
    assert len(both) == 2
    assert len(json.loads(issuer.jwks.read_bytes())["keys"]) == 1
    assert all("d" not in key for key in both)


def test_a_client_is_checked_if_one_was_named(tmp_path: Path) -> None:
    issuer = TokenIssuer(tmp_path / "jwks.json", client=("alice", "secret"))

    assert issuer.accepts_client("alice", "secret")
    assert not issuer.accepts_client("alice", "other")
    assert not issuer.accepts_client("bob", "secret")
    assert TokenIssuer(tmp_path / "jwks.json").accepts_client("bob", "")


def test_without_the_library_the_error_names_the_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "jwt", None)

    with pytest.raises(MissingExtra, match=r"pip install .*\[oauth\]"):
        TokenIssuer(tmp_path / "jwks.json")
