"""TLS contexts of listeners from Kafka's `ssl.*` configurations, with PEM, PKCS12 and JKS stores."""

from __future__ import annotations

import ssl
import tempfile
from pathlib import Path

from mockbroker.config.broker_config import BrokerConfig, ConfigError
from mockbroker.net.listeners import Listener
from mockbroker.net.tls_handshake import logged_handshakes
from mockbroker.security.principal_rules import parse_principal_rules
from mockbroker.security.tls_stores import key_store_texts, trust_store_text

_CLIENT_AUTH = "ssl.client.auth"
_VERIFY = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}


def create_server_context(config: BrokerConfig, listener: Listener) -> ssl.SSLContext:
    """Create the context of an SSL or SASL_SSL listener; `listener.name.NAME.ssl.*` overrides `ssl.*`.

    `ssl.keystore.type=PEM` with either `ssl.keystore.location` (a file with key and certificates) or
    `ssl.keystore.certificate.chain` and `ssl.keystore.key` (the texts themselves), as in KIP-651, or PKCS12 or JKS with
    `ssl.keystore.location`, `ssl.keystore.password` and `ssl.key.password`; a client certificate is requested by
    `ssl.client.auth` and checked against `ssl.truststore.location` or, PEM only, `ssl.truststore.certificates`.
    Raises: ConfigError that names the key, for a missing, unreadable or unsupported value.
    """
    listener_config = config.for_listener(listener.name)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.sslobject_class = logged_handshakes(listener.name)
    _load_key(context, listener_config)
    context.verify_mode = _VERIFY[_client_auth(config, listener_config, listener)]
    if context.verify_mode is not ssl.CERT_NONE:
        _load_trusted(context, listener_config)
        parse_principal_rules(config, listener.name)  # Raises configuration errors before any client connects.
    return context


def _client_auth(config: BrokerConfig, listener_config: BrokerConfig, listener: Listener) -> str:
    """KIP-684: a SASL listener requests a certificate only by a configuration with the listener's prefix."""
    has_prefix = f"listener.name.{listener.name.lower()}.{_CLIENT_AUTH}" in config.given
    return (listener_config.string(_CLIENT_AUTH) or "none") if listener.protocol == "SSL" or has_prefix else "none"


def _load_key(context: ssl.SSLContext, config: BrokerConfig) -> None:
    kind = _store_type(config, "ssl.keystore.type")
    location = config.string("ssl.keystore.location")
    password = _password(config, "ssl.key.password")
    try:
        if kind != "PEM":
            if location is None:
                raise ConfigError("ssl.keystore.location: a listener uses TLS and has no key store")
            for text in key_store_texts(location, _password(config, "ssl.keystore.password"), password):
                _load_text(context, text, None)
        elif location is not None:
            context.load_cert_chain(location, password=password)
        else:
            chain, key = _password(config, "ssl.keystore.certificate.chain"), _password(config, "ssl.keystore.key")
            if not chain or not key:
                raise ConfigError("ssl.keystore.location: a listener uses TLS and has no key store")
            _load_text(context, f"{key}\n{chain}\n", password)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"ssl.keystore: the key and certificates cannot be used: {error}") from error


def _load_text(context: ssl.SSLContext, text: str, password: str | None) -> None:
    # Python's ssl module reads keys only from files; the temporary file is deleted after the context has read it.
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "keystore.pem")
        path.touch(mode=0o600)
        path.write_text(text)
        context.load_cert_chain(path, password=password)


def _load_trusted(context: ssl.SSLContext, config: BrokerConfig) -> None:
    location, texts = config.string("ssl.truststore.location"), _password(config, "ssl.truststore.certificates")
    try:
        if _store_type(config, "ssl.truststore.type") != "PEM":
            if location is None:
                raise ConfigError("ssl.truststore.location: certificates are requested and there is no trust store")
            texts, location = trust_store_text(location, _password(config, "ssl.truststore.password")), None
        context.load_verify_locations(cafile=location, cadata=texts)
        # As in Java, each certificate of a trust store is trusted, also one that is signed by another.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    except (OSError, TypeError, ssl.SSLError) as error:
        raise ConfigError(f"ssl.truststore.location: the certificates cannot be used: {error}") from error


def _store_type(config: BrokerConfig, name: str) -> str:
    kind = (config.string(name) or "JKS").upper()
    if kind not in ("JKS", "PEM", "PKCS12"):
        raise ConfigError(f"{name}: {kind!r} is not supported; JKS, PEM and PKCS12 are")
    return kind


def _password(config: BrokerConfig, name: str) -> str | None:
    value = config[name]
    return None if value is None else str(value)
