"""What the listeners demand of clients, and what the cluster knows of users; made when asked for.

A cluster whose listeners all speak PLAINTEXT never loads what is behind this (docs/decisions/lazy-routes.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from mockbroker.config import BrokerConfig

if TYPE_CHECKING:
    import random

    from mockbroker.security.sasl_config import SaslListener
    from mockbroker.state.credentials import Credentials
    from mockbroker.state.login import Login
    from mockbroker.state.scram import Known
    from mockbroker.state.tokens import Tokens

_PLAIN = "PLAIN"
_NONCE_BYTES = 24
_SALT_BYTES = 24


class Security:
    """Protocols and mechanisms by listener, users, credentials and tokens of a cluster."""

    def __init__(self, config: BrokerConfig, rng: random.Random) -> None:
        self._config = config
        self._rng = rng
        self._sasl: dict[str, SaslListener] = {}

    @cached_property
    def _protocols(self) -> Mapping[str, str]:
        return protocols_of(self._config)

    def protocol(self, listener: str) -> str:
        """PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL."""
        return self._protocols.get(listener, listener)

    def sasl(self, listener: str) -> SaslListener:
        """What a SASL listener demands. Raises: ConfigError."""
        found = self._sasl.get(listener)
        if found is None:
            from mockbroker.security.sasl_config import sasl_listener

            found = self._sasl[listener] = sasl_listener(self._config, listener)
        return found

    @cached_property
    def credentials(self) -> Credentials:
        """The SCRAM credentials of users."""
        from mockbroker.state.credentials import Credentials

        return Credentials()

    @cached_property
    def tokens(self) -> Tokens:
        """The delegation tokens."""
        from mockbroker.state.tokens import Tokens

        config = self._config
        return Tokens(
            str(config["delegation.token.secret.key"] or ""),
            lifetime_max_ms=config.integer("delegation.token.max.lifetime.ms"),
            renewal_ms=config.integer("delegation.token.expiry.time.ms"),
            sweep_ms=config.integer("delegation.token.expiry.check.interval.ms"),
        )

    def add_scram(self, text: str) -> None:
        """Make a user in the words of `kafka-storage.sh format --add-scram`.

        SCRAM-SHA-256=[name=alice,password=secret], with iterations=N and salt="BASE64" where wanted.
        Raises: ConfigError, without the password.
        """
        from mockbroker.security.sasl_config import parse_scram_user
        from mockbroker.state.scram import credential_for

        user = parse_scram_user(text)
        salt = user.salt if user.salt is not None else self._rng.randbytes(_SALT_BYTES)
        credential = credential_for(user.mechanism, user.password, salt, user.iterations)
        self.credentials.put(user.name, user.mechanism, credential)

    def begin(self, listener: str, mechanism: str, *, now_ms: int) -> Login:
        """A login by a mechanism that the listener has."""
        from kwire.scram import mechanism_of
        from mockbroker.state.login import PlainLogin
        from mockbroker.state.scram import Known, ScramLogin

        if mechanism == _PLAIN:
            return PlainLogin(self.sasl(listener).passwords)
        scram = mechanism_of(mechanism)
        assert scram is not None

        def find(name: str, is_token: bool) -> Known | None:
            if is_token:
                return self.tokens.known(name, scram, now_ms=now_ms)
            credential = self.credentials.find(name, scram)
            return None if credential is None else Known(credential, name)

        return ScramLogin(scram, find, self._rng.randbytes(_NONCE_BYTES).hex())


def protocols_of(config: BrokerConfig) -> Mapping[str, str]:
    """Security protocols by listener name."""
    pairs = (entry.partition(":") for entry in (config.string("listener.security.protocol.map") or "").split(","))
    return {name.strip().upper(): protocol.strip().upper() for name, _, protocol in pairs}
