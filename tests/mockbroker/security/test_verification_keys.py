"""Keys of a JWKS: what is usable, what is refused, and when keys of a URL are fetched again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from mockbroker.config.keys import ConfigError
from mockbroker.security.verification_keys import JWKS_BYTES_MAX, FetchedKeys, JwksFile, parse_keys
from mockbroker.state.security.oauthbearer import TokenRejected
from tests.support.tokens import key_set

KEY = ec.generate_private_key(ec.SECP256R1())


def _keys(key_id: str = "a") -> bytes:
    return key_set(("ES256", KEY.public_key(), {"kid": key_id}))


@pytest.mark.parametrize(
    "changes",
    [
        {"use": "enc"},
        {"key_ops": ["sign"]},
        {"key_ops": "verify"},
        {"kty": "X"},
        {"kty": None},
        {"crv": "P-1"},
        {"x": "A"},
    ],
)
def test_keys_that_verify_no_signature_are_left_out(changes: dict[str, object]) -> None:
    public = KEY.public_key()
    [key] = parse_keys(key_set(("ES256", public, changes), ("ES256", public, {"kid": "b"})))

    assert key.key_id == "b"
    assert repr(key) == "VerificationKey('b', 'EC')"


def test_a_private_key_in_the_set_verifies_as_its_public_one() -> None:
    [key] = parse_keys(key_set(("ES256", KEY, {})))

    assert key.key.public_numbers() == KEY.public_key().public_numbers()


@pytest.mark.parametrize(
    "data",
    [b"", b"[]", b"{}", b'{"keys": {}}', b"\xff", b"[" * 100_000, json.dumps({"keys": [0] * 1_001}).encode()],
    ids=["empty", "list", "no keys", "keys in an object", "no text", "deep", "too many"],
)
def test_what_is_no_set_of_keys_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="not a JWKS"):
        parse_keys(data)


def test_a_set_is_limited_in_size(tmp_path: Path) -> None:
    path = tmp_path / "jwks.json"
    path.write_bytes(b" " * (JWKS_BYTES_MAX + 1))

    with pytest.raises(ConfigError, match=r"url: .*jwks\.json cannot be used: a JWKS may have 1048576 bytes"):
        JwksFile("url", path)


@pytest.mark.parametrize("content", [None, b"{}"])
def test_a_file_must_be_usable_at_the_start(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "jwks.json"
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(ConfigError, match=r"url: .*jwks\.json cannot be used"):
        JwksFile("url", path)


@pytest.fixture
def fetched() -> FetchedKeys:
    keys = FetchedKeys("http://127.0.0.1/jwks", refresh_ms=3_600_000, backoff_ms=100, backoff_max_ms=1_000)
    keys.set_keys(_keys(), now_ms=0)
    return keys


def _find(keys: FetchedKeys, key_id: str, now_ms: int) -> bool:
    try:
        return keys.find_key(key_id, "ES256", now_ms=now_ms).key_id == key_id
    except TokenRejected:
        return False


def test_keys_that_were_never_fetched_verify_nothing() -> None:
    keys = FetchedKeys("http://127.0.0.1/jwks", refresh_ms=1, backoff_ms=1, backoff_max_ms=1)

    with pytest.raises(TokenRejected, match="has not been fetched"):
        keys.find_key("a", "ES256", now_ms=0)
    assert keys.due_ms is None


def test_keys_are_due_at_their_interval(fetched: FetchedKeys) -> None:
    assert fetched.due_ms == 3_600_000
    fetched.set_keys(_keys(), now_ms=5)

    assert fetched.due_ms == 3_600_005


def test_an_unknown_id_makes_a_refresh_due_once_a_minute(fetched: FetchedKeys) -> None:
    assert _find(fetched, "a", 10)
    assert fetched.due_ms == 3_600_000
    assert not _find(fetched, "b", 10)
    assert fetched.due_ms == 10
    fetched.set_keys(_keys(), now_ms=20)

    for now_ms, due_ms in ((60_009, 3_600_020), (60_010, 60_010)):
        assert not _find(fetched, "b", now_ms)
        assert fetched.due_ms == due_ms


def test_random_ids_make_a_limited_number_of_refreshes_due(fetched: FetchedKeys) -> None:
    refreshes = 0
    for number in range(1_000):
        assert not _find(fetched, f"{number}", 10)
        if fetched.due_ms == 10:
            refreshes += 1
            fetched.postpone(now_ms=20)

    assert refreshes == 16


def test_an_id_that_is_very_long_is_not_asked_for(fetched: FetchedKeys) -> None:
    with pytest.raises(TokenRejected) as rejected:
        fetched.find_key("k" * 100_000, "ES256", now_ms=10)

    assert len(str(rejected.value)) < 200
    assert fetched.due_ms == 3_600_000


def test_damaged_keys_leave_the_previous_ones(fetched: FetchedKeys) -> None:
    with pytest.raises(ValueError, match="not a JWKS"):
        fetched.set_keys(b"<html>", now_ms=0)

    assert _find(fetched, "a", 0)


def test_a_curve_belongs_to_its_algorithm(fetched: FetchedKeys) -> None:
    with pytest.raises(TokenRejected, match="no key with the id 'a' for ES384"):
        fetched.find_key("a", "ES384", now_ms=0)
