"""The configurations of OAUTHBEARER, by Kafka's names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from mockbroker.config.broker_config import BrokerConfig, ConfigError
from mockbroker.security.sasl_config import SaslListener, sasl_listener
from mockbroker.security.signed_tokens import SignedTokens
from mockbroker.state.security.unsecured_tokens import UnsecuredTokens
from tests.support.tokens import key_set

PACKAGE = "org.apache.kafka.common.security.oauthbearer"
MODULE = f"{PACKAGE}.OAuthBearerLoginModule"
JAAS = "listener.name.in.oauthbearer.sasl.jaas.config"
HANDLER = "listener.name.in.oauthbearer.sasl.server.callback.handler.class"
URL = "sasl.oauthbearer.jwks.endpoint.url"
UNSECURED = {"listener.name.in.sasl.enabled.mechanisms": "OAUTHBEARER", JAAS: f"{MODULE} required;"}
SIGNED = {
    **UNSECURED,
    HANDLER: f"{PACKAGE}.OAuthBearerValidatorCallbackHandler",
    URL: "http://127.0.0.1:9/jwks",
    "sasl.oauthbearer.expected.audience": "kafka",
    "sasl.oauthbearer.expected.issuer": "issuer",
}


def _listener(given: Mapping[str, str | None], release: str = "4.4") -> SaslListener:
    return sasl_listener(BrokerConfig({k: v for k, v in given.items() if v is not None}, release=release), "IN")


def test_tokens_are_unsecured_without_a_callback_handler() -> None:
    options = (
        'unsecuredValidatorPrincipalClaimName="user" unsecuredValidatorScopeClaimName="roles" '
        'unsecuredValidatorRequiredScope="read  write" unsecuredValidatorAllowableClockSkewMs="5" '
        'unsecuredLoginStringClaim_sub="ignored"'
    )

    assert _listener(UNSECURED).tokens == UnsecuredTokens()
    assert _listener({**UNSECURED, JAAS: f"{MODULE} required {options};"}).tokens == UnsecuredTokens(
        "user", "roles", ("read", "write"), 5
    )


def test_a_listener_and_its_mechanism_override_the_configurations_of_all() -> None:
    prefix = "listener.name.in.oauthbearer.sasl.oauthbearer."
    keys = _listener({**SIGNED, f"{prefix}jwks.endpoint.url": "http://localhost:8/own"}).fetched_keys

    assert keys is not None
    assert keys.url == "http://localhost:8/own"


def test_keys_come_from_a_file_or_a_url_of_this_machine(tmp_path: Path) -> None:
    file = tmp_path / "a b.json"
    file.write_bytes(key_set(("ES256", ec.generate_private_key(ec.SECP256R1()).public_key(), {})))
    from_file = _listener({**SIGNED, URL: file.as_uri()})

    assert isinstance(from_file.tokens, SignedTokens)
    assert from_file.fetched_keys is None
    assert _listener({**SIGNED, URL: "http://[::1]:1/"}).fetched_keys is not None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({JAAS: "org.apache.kafka.common.security.plain.PlainLoginModule required;"}, f"PlainLoginModule.*{MODULE}"),
        ({HANDLER: "com.example.Handler"}, f"{HANDLER}: 'com.example.Handler' is not supported"),
        ({"sasl.oauthbearer.jwt.validator.class": "com.example.V"}, r"com\.example\.V' is not supported"),
        ({URL: None}, f"{URL}: missing; the listener IN verifies signed tokens"),
        ({URL: "https://127.0.0.1/jwks"}, "is not supported; file: URLs and http: URLs of this machine are"),
        ({URL: "http://192.0.2.1/jwks"}, "is not supported"),
        ({URL: "http://localhost.example/jwks"}, "is not supported"),
        ({URL: "http://user:password@127.0.0.1/jwks"}, "is not supported"),
        ({URL: "file:///nowhere/jwks.json"}, "/nowhere/jwks.json cannot be used"),
        ({"sasl.oauthbearer.jwks.endpoint.refresh.ms": "0"}, "must be at least 1"),
        ({"sasl.oauthbearer.sub.claim.name": " "}, "sub.claim.name: empty"),
        ({"sasl.oauthbearer.expected.audience": None}, "expected.audience: missing; set it, or sasl.oauthbearer.allow"),
        ({"sasl.oauthbearer.expected.issuer": None}, "expected.issuer: missing; set it, or sasl.oauthbearer.allow"),
        (
            {HANDLER: None, JAAS: f'{MODULE} required unsecuredValidatorAllowableClockSkewMs="-1";'},
            "ClockSkewMs is not",
        ),
        ({HANDLER: None, JAAS: f'{MODULE} required unsecuredValidatorRequiredScope="a\\"b";'}, "invalid scope"),
    ],
)
def test_a_wrong_configuration_is_refused_by_its_name(changes: dict[str, str | None], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        _listener({**SIGNED, **changes})


def test_audience_and_issuer_are_optional_where_4_4_allows_it_and_in_4_3() -> None:
    """Seen: 4.4.0 does not start without them; BrokerJwtValidator of 4.3.0 has no such check."""
    missing = {"sasl.oauthbearer.expected.audience": None, "sasl.oauthbearer.expected.issuer": None}
    allowed = {f"sasl.oauthbearer.allow.unverified.{name}": "true" for name in ("audience", "issuer")}

    assert isinstance(_listener({**SIGNED, **missing, **allowed}).tokens, SignedTokens)
    assert isinstance(_listener({**SIGNED, **missing}, "4.3").tokens, SignedTokens)


def test_names_of_oauthbearer_have_an_effect() -> None:
    assert BrokerConfig(SIGNED).ignored == []
