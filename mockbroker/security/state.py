"""`Security`: listener protocols, SASL settings, users, credentials and delegation tokens of a cluster, loaded lazily.

A cluster whose listeners are all PLAINTEXT never loads the modules for these (docs/decisions/lazy-routes.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from mockbroker.config.broker_config import BrokerConfig

if TYPE_CHECKING:
    import random

    from mockbroker.security.sasl_config import SaslListener
    from mockbroker.security.verification_keys import FetchedKeys
    from mockbroker.state.security.delegation_tokens import DelegationTokens
    from mockbroker.state.security.login import Login
    from mockbroker.state.security.scram import ScramUser
    from mockbroker.state.security.scram_credentials import ScramCredentials

_PLAIN, _OAUTHBEARER = "PLAIN", "OAUTHBEARER"
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
        return parse_security_protocols(self._config)

    def security_protocol(self, listener: str) -> str:
        """PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL."""
        return self._protocols.get(listener, listener)

    def sasl_listener(self, listener: str) -> SaslListener:
        """The settings of a SASL listener. Raises: ConfigError."""
        if listener not in self._sasl:
            from mockbroker.security.sasl_config import sasl_listener

            self._sasl[listener] = sasl_listener(self._config, listener)
        return self._sasl[listener]

    def fetched_keys(self, listeners: Iterable[str]) -> list[FetchedKeys]:
        """The keys that are to be fetched for these SASL listeners."""
        fetched = (self.sasl_listener(listener).fetched_keys for listener in listeners)
        return [keys for keys in fetched if keys is not None]

    @cached_property
    def credentials(self) -> ScramCredentials:
        """The SCRAM credentials of users."""
        from mockbroker.state.security.scram_credentials import ScramCredentials

        return ScramCredentials()

    @cached_property
    def tokens(self) -> DelegationTokens:
        """The delegation tokens."""
        from mockbroker.state.security.delegation_tokens import DelegationTokens

        config = self._config
        return DelegationTokens(
            str(config["delegation.token.secret.key"] or ""),
            lifetime_max_ms=config.integer("delegation.token.max.lifetime.ms"),
            renewal_ms=config.integer("delegation.token.expiry.time.ms"),
            sweep_ms=config.integer("delegation.token.expiry.check.interval.ms"),
        )

    @property
    def change_count(self) -> int:
        """How often credentials and tokens have been changed; reading it does not load their modules."""
        return self.credential_changes + self.token_changes

    @property
    def credential_changes(self) -> int:
        """How often credentials have been changed; reading it does not load their module."""
        return self.credentials.changed.count if "credentials" in self.__dict__ else 0

    @property
    def token_changes(self) -> int:
        """How often tokens have been changed; reading it does not load their module."""
        return self.tokens.changed.count if "tokens" in self.__dict__ else 0

    def add_scram(self, text: str) -> None:
        """Create a user from the format of `kafka-storage.sh format --add-scram`.

        SCRAM-SHA-256=[name=alice,password=secret], optionally with iterations=N and salt="BASE64".
        Raises: ConfigError, without the password.
        """
        from mockbroker.security.sasl_config import parse_scram_user
        from mockbroker.state.security.scram import credential_from_password

        user = parse_scram_user(text)
        salt = user.salt if user.salt is not None else self._rng.randbytes(_SALT_BYTES)
        credential = credential_from_password(user.mechanism, user.password, salt, user.iterations)
        self.credentials.set_credential(user.name, user.mechanism, credential)

    def start_login(self, listener: str, mechanism: str, *, now_ms: int) -> Login:
        """Start a login with one of the listener's mechanisms."""
        from kwire.scram import find_mechanism
        from mockbroker.state.security.login import PlainLogin
        from mockbroker.state.security.scram import ScramLogin, ScramUser

        if mechanism == _PLAIN:
            return PlainLogin(self.sasl_listener(listener).passwords)
        tokens = self.sasl_listener(listener).tokens
        if mechanism == _OAUTHBEARER and tokens is not None:
            from mockbroker.state.security.oauthbearer import OAuthBearerLogin

            return OAuthBearerLogin(tokens.validate)
        scram = find_mechanism(mechanism)
        assert scram is not None

        def find(name: str, is_token: bool) -> ScramUser | None:
            if is_token:
                return self.tokens.find_scram_user(name, scram, now_ms=now_ms)
            credential = self.credentials.find_credential(name, scram)
            return None if credential is None else ScramUser(credential, name)

        return ScramLogin(scram, find, self._rng.randbytes(_NONCE_BYTES).hex())


def parse_security_protocols(config: BrokerConfig) -> Mapping[str, str]:
    """Security protocols by listener name: of the controller's listeners PLAINTEXT, unless they are in the map."""
    pairs = (entry.partition(":") for entry in (config.string("listener.security.protocol.map") or "").split(","))
    protocols = {name.upper(): "PLAINTEXT" for name in config.strings("controller.listener.names")}
    return protocols | {name.strip().upper(): protocol.strip().upper() for name, _, protocol in pairs}
