"""OAUTHBEARER of a listener: unsecured tokens by the options of the login module, or signed ones by a JWKS.

Source: KIP-255, KIP-768, KIP-1139; Kafka's names of configurations.
"""

from __future__ import annotations

import ipaddress
import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

from mockbroker.config.broker_config import BrokerConfig, ConfigError
from mockbroker.security.jaas import LoginModule
from mockbroker.security.signed_tokens import ClaimRules, SignedTokens
from mockbroker.security.verification_keys import FetchedKeys, JwksFile, VerificationKeys
from mockbroker.state.security.unsecured_tokens import UnsecuredTokens

_PACKAGE = "org.apache.kafka.common.security.oauthbearer"
OAUTH_MODULE = f"{_PACKAGE}.OAuthBearerLoginModule"
SIGNED_HANDLER = f"{_PACKAGE}.OAuthBearerValidatorCallbackHandler"
_UNSECURED_HANDLER = f"{_PACKAGE}.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"

_HANDLER_KEY = "sasl.server.callback.handler.class"
_JWKS_URL = "sasl.oauthbearer.jwks.endpoint.url"
_AUDIENCE, _ISSUER = "sasl.oauthbearer.expected.audience", "sasl.oauthbearer.expected.issuer"
_ANY_AUDIENCE = "sasl.oauthbearer.allow.unverified.audience"
_ANY_ISSUER = "sasl.oauthbearer.allow.unverified.issuer"
_OPTION = "unsecuredValidator"
_SCOPE = re.compile(r"[!\x23-\x5b\x5d-\x7e]+")


def oauth_tokens(config: BrokerConfig, listener: str, module: LoginModule) -> UnsecuredTokens | SignedTokens:
    """The validator of a listener. config: of the listener and the mechanism OAUTHBEARER.

    Raises: ConfigError that names the configuration; MissingExtra for signed tokens without PyJWT.
    """
    key = f"listener.name.{listener.lower()}.oauthbearer.{_HANDLER_KEY}"
    handler = config.given.get(key, _UNSECURED_HANDLER).strip()
    if handler == _UNSECURED_HANDLER:
        return _unsecured_tokens(key, module)
    if handler != SIGNED_HANDLER:
        raise ConfigError(f"{key}: {handler} is not supported; {_UNSECURED_HANDLER} and {SIGNED_HANDLER} are")
    url = config.string(_JWKS_URL)
    if not url:
        raise ConfigError(f"{_JWKS_URL}: missing; the listener {listener} verifies signed tokens")
    rules = ClaimRules(
        audiences=_audiences(config),
        issuer=_issuer(config),
        subject_claim=_claim_name(config, "sasl.oauthbearer.sub.claim.name"),
        scope_claim=_claim_name(config, "sasl.oauthbearer.scope.claim.name"),
        clock_skew_s=config.integer("sasl.oauthbearer.clock.skew.seconds"),
    )
    return SignedTokens(_verification_keys(config, url), rules)


def _unsecured_tokens(key: str, module: LoginModule) -> UnsecuredTokens:
    options = {name.removeprefix(_OPTION): text.strip() for name, text in module.options.items()}
    scopes = options.get("RequiredScope", "").split()
    skew = options.get("AllowableClockSkewMs") or "0"
    if not all(map(_SCOPE.fullmatch, scopes)):
        raise ConfigError(f"{key}: {_OPTION}RequiredScope has an invalid scope")
    if not skew.isdecimal():
        raise ConfigError(f"{key}: {_OPTION}AllowableClockSkewMs is not a number of milliseconds from 0 on")
    return UnsecuredTokens(
        principal_claim=options.get("PrincipalClaimName") or "sub",
        scope_claim=options.get("ScopeClaimName") or "scope",
        required_scope=tuple(scopes),
        clock_skew_ms=int(skew),
    )


def _audiences(config: BrokerConfig) -> tuple[str, ...] | None:
    """The expected audiences. Kafka 4.4 requires them, or a configuration that allows any; 4.3 then expects none."""
    audiences = tuple(config.strings(_AUDIENCE))
    if audiences or _ANY_AUDIENCE not in config:
        return audiences
    if not config.boolean(_ANY_AUDIENCE):
        raise ConfigError(f"{_AUDIENCE}: missing; set it, or {_ANY_AUDIENCE}=true")
    return None


def _issuer(config: BrokerConfig) -> str | None:
    issuer = config.string(_ISSUER)
    if not issuer and _ANY_ISSUER in config and not config.boolean(_ANY_ISSUER):
        raise ConfigError(f"{_ISSUER}: missing; set it, or {_ANY_ISSUER}=true")
    return issuer or None


def _claim_name(config: BrokerConfig, key: str) -> str:
    name = (config.string(key) or "").strip()
    if not name:
        raise ConfigError(f"{key}: empty; it names a claim")
    return name


def _verification_keys(config: BrokerConfig, url: str) -> VerificationKeys:
    parts = urlsplit(url)
    if parts.scheme == "file":
        return JwksFile(_JWKS_URL, Path(unquote(parts.path)))
    if parts.scheme != "http" or not _is_loopback(parts.hostname) or parts.username is not None:
        raise ConfigError(f"{_JWKS_URL}: {url!r} is not supported; file: URLs and http: URLs of this machine are")
    refresh_ms = config.integer("sasl.oauthbearer.jwks.endpoint.refresh.ms")
    if refresh_ms <= 0:
        raise ConfigError(f"sasl.oauthbearer.jwks.endpoint.refresh.ms: {refresh_ms}; must be at least 1")
    return FetchedKeys(
        url,
        refresh_ms=refresh_ms,
        backoff_ms=config.integer("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms"),
        backoff_max_ms=config.integer("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms"),
    )


def _is_loopback(host: str | None) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host or "").is_loopback
    except ValueError:
        return False
