"""TLS contexts of listeners from Kafka's `ssl.*` configurations, with PEM, PKCS12 and JKS stores."""

from __future__ import annotations

import ssl
import tempfile
from pathlib import Path

from mockbroker.config.broker_config import BrokerConfig, ConfigError
from mockbroker.net.listeners import Listener
from mockbroker.net.tls_handshake import logged_handshakes
from mockbroker.security.listener_stores import ListenerStores
from mockbroker.security.principal_rules import parse_principal_rules

_CLIENT_AUTH = "ssl.client.auth"
_VERIFY = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}


def create_server_context(config: BrokerConfig, listener: Listener, stores: ListenerStores) -> ssl.SSLContext:
    """Create the context of an SSL or SASL_SSL listener; `listener.name.NAME.ssl.*` overrides `ssl.*`.

    A client certificate is requested by `ssl.client.auth`, and checked against the trust store.
    Raises: ConfigError that names the key, for what cannot be used.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.sslobject_class = logged_handshakes(listener.name)
    for text in stores.keys.texts:
        _load_key(context, text, stores.key_password)
    if stores.trusted is not None:
        _load_trusted(context, stores.trusted)
    context.verify_mode = _VERIFY[_client_auth(config, listener)]
    if context.verify_mode is not ssl.CERT_NONE:
        if stores.trusted is None:
            raise ConfigError("ssl.truststore.location: certificates are requested and there is no trust store")
        parse_principal_rules(config, listener.name)  # Raises configuration errors before any client connects.
    return context


def _client_auth(config: BrokerConfig, listener: Listener) -> str:
    """KIP-684: a SASL listener requests a certificate only by a configuration with the listener's prefix."""
    has_prefix = f"listener.name.{listener.name.lower()}.{_CLIENT_AUTH}" in config.given
    value = config.for_listener(listener.name).string(_CLIENT_AUTH)
    return (value or "none") if listener.protocol == "SSL" or has_prefix else "none"


def _load_key(context: ssl.SSLContext, text: str, password: str | None) -> None:
    # Python's ssl module reads keys only from files; the temporary file is deleted after the context has read it.
    try:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "keystore.pem")
            path.touch(mode=0o600)
            path.write_text(text)
            # Without a password OpenSSL asks the terminal for the one of a key that is encrypted.
            context.load_cert_chain(path, password=password or "")
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"ssl.keystore: the key and certificates cannot be used: {error}") from error


def _load_trusted(context: ssl.SSLContext, certificates: str) -> None:
    try:
        context.load_verify_locations(cadata=certificates)
        # As in Java, each certificate of a trust store is trusted, also one that is signed by another.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(f"ssl.truststore.location: the certificates cannot be used: {error}") from error
