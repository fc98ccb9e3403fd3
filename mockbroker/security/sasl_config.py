"""SASL listeners and their first users, from texts: `listener.name.*`, JAAS, and the words of `kafka-storage.sh`."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from typing import NamedTuple

from kwire.scram import ITERATIONS_MIN, ScramMechanism, mechanism_of
from mockbroker.config import BrokerConfig, ConfigError
from mockbroker.security.jaas import LoginModule, parse_jaas
from mockbroker.state.scram import ITERATIONS_MAX

_PLAIN = "PLAIN"
_PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
_SCRAM_USER = re.compile(r"(?P<mechanism>[A-Z0-9-]+)=\[(?P<options>.*)\]")


class SaslListener(NamedTuple):
    """What a SASL listener demands.

    passwords: those of PLAIN, by user. max_reauth_ms: by mechanism, after which a client has to log in again; 0: never.
    failure_delay_ms: after which a failed login is answered. token_bytes_max: the largest request before a login.
    """

    mechanisms: tuple[str, ...]
    passwords: Mapping[str, str]
    max_reauth_ms: Mapping[str, int]
    failure_delay_ms: int
    token_bytes_max: int

    def __repr__(self) -> str:
        return f"SaslListener({self.mechanisms}, ***)"


class ScramUser(NamedTuple):
    """A user to start with; salt None: any."""

    mechanism: ScramMechanism
    name: str
    password: str
    iterations: int
    salt: bytes | None

    def __repr__(self) -> str:
        return f"ScramUser({self.mechanism}, {self.name!r}, ***)"


def parse_scram_user(text: str) -> ScramUser:
    """A user in the words of `kafka-storage.sh format --add-scram`. Raises: ConfigError, without the password."""
    match = _SCRAM_USER.fullmatch(text.strip())
    options = dict(part.split("=", 1) for part in match["options"].split(",") if "=" in part) if match else {}
    name, password = options.get("name", ""), options.get("password", "")
    if match is None or not name or not password or set(options) - {"name", "password", "iterations", "salt"}:
        raise ConfigError("add-scram: a user has the form SCRAM-SHA-256=[name=NAME,password=PASSWORD,iterations=N]")
    mechanism = mechanism_of(match["mechanism"])
    if mechanism is None:
        raise ConfigError(f"add-scram: {match['mechanism']} is neither SCRAM-SHA-256 nor SCRAM-SHA-512")
    iterations = options.get("iterations", str(ITERATIONS_MIN))
    if not iterations.isdigit() or not ITERATIONS_MIN <= int(iterations) <= ITERATIONS_MAX:
        raise ConfigError(f"add-scram: iterations={iterations} of {name}: {ITERATIONS_MIN} to {ITERATIONS_MAX}")
    try:
        salt = base64.b64decode(options["salt"].strip('"'), validate=True) if "salt" in options else None
    except binascii.Error:
        raise ConfigError(f"add-scram: the salt of {name} is not base64") from None
    return ScramUser(mechanism, name, password, int(iterations), salt)


def sasl_listener(config: BrokerConfig, listener: str) -> SaslListener:
    """What a SASL listener demands, from `listener.name.NAME.` and the configurations of all listeners.

    Raises: ConfigError for a mechanism that is not served, or has no JAAS configuration.
    """
    own = config.of_listener(listener)
    mechanisms = own.names("sasl.enabled.mechanisms")
    if not mechanisms:
        raise ConfigError(f"sasl.enabled.mechanisms: the listener {listener} speaks SASL and has no mechanism")
    reauth = {one: config.of_listener(listener, one).integer("connections.max.reauth.ms") for one in mechanisms}
    passwords: Mapping[str, str] = {}
    for mechanism in mechanisms:
        module = _module(config, listener, mechanism)
        # A module of the other kind is no error in Kafka, but then PLAIN has no users.
        if mechanism == _PLAIN and module.name == _PLAIN_MODULE:
            users = ((name, value) for name, value in module.options.items() if name.startswith("user_"))
            passwords = {name.removeprefix("user_"): value for name, value in users}
    return SaslListener(
        mechanisms=tuple(mechanisms),
        passwords=passwords,
        max_reauth_ms=reauth,
        failure_delay_ms=own.integer("connection.failed.authentication.delay.ms"),
        token_bytes_max=own.integer("sasl.server.max.receive.size"),
    )


def _module(config: BrokerConfig, listener: str, mechanism: str) -> LoginModule:
    """The login module of a mechanism; without one Kafka does not start."""
    if mechanism != _PLAIN and mechanism_of(mechanism) is None:
        raise ConfigError(
            f"sasl.enabled.mechanisms: {mechanism} of the listener {listener} is not supported; PLAIN and SCRAM are"
        )
    key = f"listener.name.{listener.lower()}.{mechanism.lower()}.sasl.jaas.config"
    text = config.given.get(key)
    if text is None:
        raise ConfigError(f"{key}: is missing, and the listener {listener} has the mechanism {mechanism}")
    module = parse_jaas(key, text)
    if module.name not in (_PLAIN_MODULE, _SCRAM_MODULE):
        raise ConfigError(f"{key}: {module.name} is not supported; {_PLAIN_MODULE} and {_SCRAM_MODULE} are")
    return module
