"""SASL listeners and their initial users, from `listener.name.*`, JAAS, and the format of `kafka-storage.sh`."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from kwire.scram import ITERATIONS_MIN, ScramMechanism, find_mechanism
from mockbroker.config.broker_config import BrokerConfig, ConfigError
from mockbroker.security.jaas import LoginModule, parse_jaas
from mockbroker.state.security.oauthbearer import MECHANISM as OAUTHBEARER
from mockbroker.state.security.scram import ITERATIONS_MAX

if TYPE_CHECKING:
    from mockbroker.security.signed_tokens import SignedTokens
    from mockbroker.security.verification_keys import FetchedKeys
    from mockbroker.state.security.unsecured_tokens import UnsecuredTokens

_PLAIN = "PLAIN"
_PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
_OAUTH_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
_MODULES = (_PLAIN_MODULE, _SCRAM_MODULE, _OAUTH_MODULE)
_SCRAM_USER = re.compile(r"(?P<mechanism>[A-Z0-9-]+)=\[(?P<options>.*)\]")


class SaslListener(NamedTuple):
    """The settings of a SASL listener.

    passwords: those of PLAIN, by user. max_reauth_ms: by mechanism, after which a client must log in again; 0: never.
    failure_delay_ms: after which a failed login is answered. token_bytes_max: the largest request before a login.
    tokens: validates those of OAUTHBEARER; None without this mechanism.
    """

    mechanisms: tuple[str, ...]
    passwords: Mapping[str, str]
    max_reauth_ms: Mapping[str, int]
    failure_delay_ms: int
    token_bytes_max: int
    tokens: UnsecuredTokens | SignedTokens | None = None

    def __repr__(self) -> str:
        return f"SaslListener({self.mechanisms}, ***)"

    @property
    def fetched_keys(self) -> FetchedKeys | None:
        """The keys of signed tokens that come from a URL; None for those of a file, and without signed tokens."""
        keys = getattr(self.tokens, "keys", None)
        return keys if hasattr(keys, "url") else None


class ScramUser(NamedTuple):
    """An initial user; salt None: a random one."""

    mechanism: ScramMechanism
    name: str
    password: str
    iterations: int
    salt: bytes | None

    def __repr__(self) -> str:
        return f"ScramUser({self.mechanism}, {self.name!r}, ***)"


def parse_scram_user(text: str) -> ScramUser:
    """Parse a user of `kafka-storage.sh format --add-scram`. Raises: ConfigError, without the password."""
    match = _SCRAM_USER.fullmatch(text.strip())
    options = dict(part.split("=", 1) for part in match["options"].split(",") if "=" in part) if match else {}
    name, password = options.get("name", ""), options.get("password", "")
    if match is None or not name or not password or set(options) - {"name", "password", "iterations", "salt"}:
        raise ConfigError("add-scram: a user has the form SCRAM-SHA-256=[name=NAME,password=PASSWORD,iterations=N]")
    mechanism = find_mechanism(match["mechanism"])
    if mechanism is None:
        raise ConfigError(f"add-scram: {match['mechanism']} is neither SCRAM-SHA-256 nor SCRAM-SHA-512")
    iterations = options.get("iterations", str(ITERATIONS_MIN))
    if not iterations.isdigit() or not ITERATIONS_MIN <= int(iterations) <= ITERATIONS_MAX:
        raise ConfigError(f"add-scram: iterations={iterations} of {name}: must be {ITERATIONS_MIN} to {ITERATIONS_MAX}")
    try:
        salt = base64.b64decode(options["salt"].strip('"'), validate=True) if "salt" in options else None
    except binascii.Error:
        raise ConfigError(f"add-scram: the salt of {name} is not base64") from None
    return ScramUser(mechanism, name, password, int(iterations), salt)


def sasl_listener(config: BrokerConfig, listener: str) -> SaslListener:
    """The settings of a SASL listener, from `listener.name.NAME.` and the configurations of all listeners.

    Raises: ConfigError for an unsupported mechanism, or one without a JAAS configuration; MissingExtra for signed
    tokens without PyJWT.
    """
    listener_config = config.for_listener(listener)
    mechanisms = listener_config.strings("sasl.enabled.mechanisms")
    if not mechanisms:
        raise ConfigError(f"sasl.enabled.mechanisms: the SASL listener {listener} has no mechanism")
    reauth = {name: config.for_listener(listener, name).integer("connections.max.reauth.ms") for name in mechanisms}
    passwords: Mapping[str, str] = {}
    tokens: UnsecuredTokens | SignedTokens | None = None
    for mechanism in mechanisms:
        module = _module(config, listener, mechanism)
        # A module of the other mechanism is no error in Kafka, but then PLAIN has no users.
        if mechanism == _PLAIN and module.name == _PLAIN_MODULE:
            users = ((name, value) for name, value in module.options.items() if name.startswith("user_"))
            passwords = {name.removeprefix("user_"): value for name, value in users}
        elif mechanism == OAUTHBEARER:
            from mockbroker.security.oauth_config import oauth_tokens

            tokens = oauth_tokens(config.for_listener(listener, mechanism), listener, module)
    return SaslListener(
        mechanisms=tuple(mechanisms),
        passwords=passwords,
        max_reauth_ms=reauth,
        failure_delay_ms=listener_config.integer("connection.failed.authentication.delay.ms"),
        token_bytes_max=listener_config.integer("sasl.server.max.receive.size"),
        tokens=tokens,
    )


def _module(config: BrokerConfig, listener: str, mechanism: str) -> LoginModule:
    """The login module of a mechanism; without one Kafka does not start."""
    if mechanism not in (_PLAIN, OAUTHBEARER) and find_mechanism(mechanism) is None:
        raise ConfigError(
            f"sasl.enabled.mechanisms: {mechanism} of the listener {listener} is not supported; "
            "PLAIN, SCRAM and OAUTHBEARER are"
        )
    key = f"listener.name.{listener.lower()}.{mechanism.lower()}.sasl.jaas.config"
    text = config.given.get(key)
    if text is None:
        raise ConfigError(f"{key}: missing; the listener {listener} has the mechanism {mechanism}")
    module = parse_jaas(key, text)
    if (module.name == _OAUTH_MODULE) is not (mechanism == OAUTHBEARER) or module.name not in _MODULES:
        supported = (_OAUTH_MODULE,) if mechanism == OAUTHBEARER else (_PLAIN_MODULE, _SCRAM_MODULE)
        raise ConfigError(f"{key}: {module.name} is not supported; supported: {', '.join(supported)}")
    return module
