"""Signed tokens beyond the conversation other-sasl-oauth-signed: keys, algorithms, rules and the clock."""

from __future__ import annotations

import hashlib
import hmac
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st

from kwire.errors import MissingExtra
from mockbroker.security.signed_tokens import ClaimRules, SignedTokens
from mockbroker.security.verification_keys import JwksFile
from mockbroker.state.security.login import LoginAborted
from mockbroker.state.security.oauthbearer import TokenRejected
from tests.support.tokens import NOW_MS, NOW_S, encode_part, key_set, unsecured_token

RULES = ClaimRules(("kafka",), "issuer", "sub", "scope", 30)
VALID = {"iss": "issuer", "aud": "kafka", "sub": "alice", "iat": NOW_S - 10, "exp": NOW_S + 60}
RSA = rsa.generate_private_key(65_537, 2_048)
SECRET = b"s" * 32
KEYS: dict[str, Any] = {
    "RS256": RSA,
    "PS384": RSA,
    "ES256": ec.generate_private_key(ec.SECP256R1()),
    "ES384": ec.generate_private_key(ec.SECP384R1()),
    "EdDSA": ed25519.Ed25519PrivateKey.generate(),
    "HS256": SECRET,
}


def _public(key: Any) -> Any:
    return key if isinstance(key, bytes) else key.public_key()


@pytest.fixture
def tokens(tmp_path: Path) -> SignedTokens:
    """A validator with a key of each algorithm, whose id is its name."""
    return _tokens(tmp_path, *((name, _public(key), {"kid": name, "alg": None}) for name, key in KEYS.items()))


def _tokens(folder: Path, *keys: tuple[str, Any, Mapping[str, object]], rules: ClaimRules = RULES) -> SignedTokens:
    path = folder / "jwks.json"
    path.write_bytes(key_set(*keys))
    return SignedTokens(JwksFile("url", path), rules)


def _sign(algorithm: str, key: Any = None, *, claims: dict[str, Any] = VALID, key_id: str | None = "") -> str:
    header = {} if key_id is None else {"kid": key_id or algorithm}
    return jwt.encode(claims, KEYS[algorithm] if key is None else key, algorithm=algorithm, headers=header)


@pytest.mark.parametrize("algorithm", KEYS)
def test_a_signature_of_each_algorithm_is_verified(tokens: SignedTokens, algorithm: str) -> None:
    assert tokens.validate(_sign(algorithm), NOW_MS) == ("alice", NOW_MS + 60_000)


@pytest.mark.parametrize("algorithm", KEYS)
def test_a_key_of_another_type_is_never_used(tokens: SignedTokens, algorithm: str) -> None:
    """Algorithm confusion: the header chooses an algorithm, but only among the keys of its type."""
    head = encode_part({"alg": "HS256", "kid": algorithm}) + "." + encode_part(VALID)
    public = KEYS[algorithm]
    if not isinstance(public, bytes):
        public = public.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        forged = f"{head}.{encode_part(hmac.new(public, head.encode(), hashlib.sha256).digest())}"
        with pytest.raises(TokenRejected, match="no key with the id"):
            tokens.validate(forged, NOW_MS)
    others = [name for name in KEYS if name[:2] not in (algorithm[:2], {"RS": "PS", "PS": "RS"}.get(algorithm[:2]))]
    for name in others:
        with pytest.raises(TokenRejected, match=r"no key|not verified"):
            tokens.validate(_sign(name, key_id=algorithm), NOW_MS)


@pytest.mark.parametrize("algorithm", ["none", "None", "nOnE", "", None, 7, "RSA-OAEP", "ES256K", "x" * 10_000])
def test_a_token_without_an_algorithm_for_signatures_is_rejected(tokens: SignedTokens, algorithm: object) -> None:
    with pytest.raises(TokenRejected) as rejected:
        tokens.validate(unsecured_token(VALID, {"alg": algorithm, "kid": "RS256"}, "AAAA"), NOW_MS)
    assert len(str(rejected.value)) < 200


def test_a_signature_without_an_id_of_its_key_is_verified_by_the_first_key_of_the_type(tmp_path: Path) -> None:
    second = rsa.generate_private_key(65_537, 2_048)
    tokens = _tokens(tmp_path, ("RS256", RSA.public_key(), {}), ("RS256", second.public_key(), {}))

    assert tokens.validate(_sign("RS256", key_id=None), NOW_MS).user == "alice"
    with pytest.raises(TokenRejected, match="not verified"):
        tokens.validate(_sign("RS256", second, key_id=None), NOW_MS)


@pytest.mark.parametrize(
    ("algorithm", "key", "bits"),
    [("RS256", rsa.generate_private_key(65_537, 1_024), 1_024), ("HS256", b"short", 40)],
)
@pytest.mark.filterwarnings("ignore::jwt.InsecureKeyLengthWarning")
def test_a_short_key_verifies_nothing(tmp_path: Path, algorithm: str, key: Any, bits: int) -> None:
    tokens = _tokens(tmp_path, (algorithm, _public(key), {"kid": algorithm}))

    with pytest.raises(TokenRejected, match=f"has {bits} bits"):
        tokens.validate(_sign(algorithm, key), NOW_MS)


@pytest.mark.parametrize(
    ("changes", "now_s", "reason"),
    [
        ({}, NOW_S + 90, "expired"),
        ({"nbf": NOW_S + 31}, NOW_S, "not valid yet"),
        ({"exp": NOW_S - 20}, NOW_S - 11, "expires before it begins"),
        ({"exp": 10**400}, NOW_S, "claim exp is not a time"),
        ({"exp": True}, NOW_S, "claim exp is not a time"),
    ],
)
def test_times_are_compared_with_the_clock_and_its_skew(
    tokens: SignedTokens, changes: dict[str, Any], now_s: int, reason: str
) -> None:
    token = jwt.PyJWS().encode(_json({**VALID, **changes}), RSA, algorithm="RS256", headers={"kid": "RS256"})

    with pytest.raises(TokenRejected, match=reason):
        tokens.validate(token, now_s * 1_000)


def _json(value: object) -> bytes:
    return json.dumps(value).encode()


def test_a_token_is_valid_within_the_skew(tokens: SignedTokens) -> None:
    token = _sign("RS256", claims={**VALID, "nbf": NOW_S + 30})

    assert tokens.validate(token, NOW_MS)
    assert tokens.validate(token, NOW_MS + 89_999)


@pytest.mark.parametrize(
    ("audiences", "given", "is_valid"),
    [
        (("kafka",), "kafka", True),
        (("kafka",), ["x", "kafka"], True),
        (("kafka",), None, False),
        # Kafka 4.3 without an expected audience: jose4j accepts no token for an audience.
        ((), "kafka", False),
        ((), None, True),
        # sasl.oauthbearer.allow.unverified.audience of Kafka 4.4.
        (None, "kafka", True),
        (None, [7], False),
    ],
)
def test_the_audience_is_one_of_the_expected(
    tmp_path: Path, audiences: tuple[str, ...] | None, given: object, is_valid: bool
) -> None:
    tokens = _tokens(tmp_path, ("RS256", RSA.public_key(), {}), rules=RULES._replace(audiences=audiences))
    claims = {**VALID, "aud": given} if given is not None else {k: v for k, v in VALID.items() if k != "aud"}
    token = jwt.PyJWS().encode(_json(claims), RSA, algorithm="RS256")

    if is_valid:
        assert tokens.validate(token, NOW_MS)
    else:
        with pytest.raises(TokenRejected, match="aud"):
            tokens.validate(token, NOW_MS)


def test_the_names_of_claims_can_be_chosen(tmp_path: Path) -> None:
    rules = RULES._replace(subject_claim="user", scope_claim="roles", issuer=None)
    tokens = _tokens(tmp_path, ("RS256", RSA.public_key(), {}), rules=rules)

    assert (
        tokens.validate(_sign("RS256", claims={**VALID, "user": "bob", "iss": "any"}, key_id=None), NOW_MS).user
        == "bob"
    )
    with pytest.raises(TokenRejected, match="roles has empty or repeated scopes"):
        tokens.validate(_sign("RS256", claims={**VALID, "user": "bob", "roles": ["a", "a"]}, key_id=None), NOW_MS)


def test_another_key_in_the_file_is_used_at_once(tmp_path: Path) -> None:
    other = rsa.generate_private_key(65_537, 2_048)
    tokens = _tokens(tmp_path, ("RS256", RSA.public_key(), {"kid": "a"}))
    (tmp_path / "jwks.json").write_bytes(key_set(("RS256", other.public_key(), {"kid": "another"})))

    assert tokens.validate(_sign("RS256", other, key_id="another"), NOW_MS)
    with pytest.raises(TokenRejected, match="no key with the id 'a'"):
        tokens.validate(_sign("RS256", key_id="a"), NOW_MS)


def test_a_file_that_is_gone_rejects_tokens(tmp_path: Path) -> None:
    tokens = _tokens(tmp_path, ("RS256", RSA.public_key(), {}))
    (tmp_path / "jwks.json").unlink()

    with pytest.raises(TokenRejected, match="cannot be used"):
        tokens.validate(_sign("RS256", key_id=None), NOW_MS)


#: One for all examples, since a signature of ES256 has random characters.
SIGNED = _sign("ES256")


@given(data=st.data())
def test_a_changed_token_is_rejected_and_not_shown(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    tokens = _tokens(tmp_path_factory.mktemp("jwks"), ("ES256", KEYS["ES256"].public_key(), {"kid": "ES256"}))
    token = SIGNED
    at = data.draw(st.integers(0, len(token) - 3))  # The last characters hold unused bits.
    change = data.draw(st.sampled_from("aB.=-_9").filter(lambda character: character != token[at]))

    with pytest.raises((TokenRejected, LoginAborted)) as rejected:
        tokens.validate(token[:at] + change + token[at + 1 :], NOW_MS)
    assert token[20:40] not in str(rejected.value)


def test_without_the_library_the_error_names_the_command(monkeypatch: pytest.MonkeyPatch, tokens: SignedTokens) -> None:
    monkeypatch.setitem(sys.modules, "jwt", None)

    with pytest.raises(MissingExtra, match=r"OAUTHBEARER with signed tokens.*pip install .*\[oauth\]"):
        SignedTokens(tokens.keys, RULES)
