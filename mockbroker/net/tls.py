"""A listener's TLS context from Kafka's `ssl.*` configurations, for PEM and PKCS12 stores."""

from __future__ import annotations

import ssl
import tempfile
from pathlib import Path

from mockbroker.config import BrokerConfig, ConfigError
from mockbroker.net.listeners import Listener
from mockbroker.security.principal_rules import rules_of

_CLIENT_AUTH = "ssl.client.auth"
_VERIFY = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}


def server_context(config: BrokerConfig, listener: Listener) -> ssl.SSLContext:
    """The context for a listener that speaks SSL or SASL_SSL; `listener.name.NAME.ssl.*` wins over `ssl.*`.

    `ssl.keystore.type=PEM` with either `ssl.keystore.location` (a file with key and certificates) or
    `ssl.keystore.certificate.chain` and `ssl.keystore.key` (the texts themselves), as in KIP-651, or PKCS12 with
    `ssl.keystore.location` and `ssl.keystore.password`; a client certificate is asked for by `ssl.client.auth` and
    checked against `ssl.truststore.location` or, PEM only, `ssl.truststore.certificates`.
    Raises ConfigError that names the key for what is missing, unreadable or not supported.
    """
    own = config.of_listener(listener.name)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _load_key(context, own)
    context.verify_mode = _VERIFY[_client_auth(config, own, listener)]
    if context.verify_mode is not ssl.CERT_NONE:
        _load_trusted(context, own)
        rules_of(config, listener.name)  # What is wrong with them is told before anybody comes.
    return context


def _client_auth(config: BrokerConfig, own: BrokerConfig, listener: Listener) -> str:
    """KIP-684: with SASL a certificate is asked for by the listener's own configuration alone."""
    is_own = f"listener.name.{listener.name.lower()}.{_CLIENT_AUTH}" in config.given
    return (own.string(_CLIENT_AUTH) or "none") if listener.protocol == "SSL" or is_own else "none"


def _load_key(context: ssl.SSLContext, config: BrokerConfig) -> None:
    kind = _kind(config, "ssl.keystore.type")
    location = config.string("ssl.keystore.location")
    password = _password(config, "ssl.key.password")
    try:
        if kind == "PKCS12":
            if location is None:
                raise ConfigError("ssl.keystore.location: a listener speaks SSL and there is no key store")
            _load_text(context, _from_pkcs12(location, _password(config, "ssl.keystore.password")), None)
        elif location is not None:
            context.load_cert_chain(location, password=password)
        else:
            chain, key = _password(config, "ssl.keystore.certificate.chain"), _password(config, "ssl.keystore.key")
            if not chain or not key:
                raise ConfigError("ssl.keystore.location: a listener speaks SSL and there is no key store")
            _load_text(context, f"{key}\n{chain}\n", password)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"ssl.keystore: the key and certificates cannot be used: {error}") from error


def _load_text(context: ssl.SSLContext, text: str, password: str | None) -> None:
    # Python's ssl module reads keys from files alone; the file is gone when the context has it.
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "keystore.pem")
        path.touch(mode=0o600)
        path.write_text(text)
        context.load_cert_chain(path, password=password)


def _load_trusted(context: ssl.SSLContext, config: BrokerConfig) -> None:
    location, texts = config.string("ssl.truststore.location"), _password(config, "ssl.truststore.certificates")
    try:
        if _kind(config, "ssl.truststore.type") == "PKCS12":
            if location is None:
                raise ConfigError("ssl.truststore.location: client certificates are asked for and none is trusted")
            texts, location = _from_pkcs12(location, _password(config, "ssl.truststore.password")), None
        context.load_verify_locations(cafile=location, cadata=texts)
    except (OSError, TypeError, ssl.SSLError) as error:
        raise ConfigError(f"ssl.truststore.location: the certificates cannot be used: {error}") from error


def _from_pkcs12(location: str, password: str | None) -> str:
    """What a PKCS12 store holds, as PEM: key first, if there is one, then certificates."""
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.serialization import pkcs12
    except ImportError as error:
        raise ConfigError('ssl.keystore.type: PKCS12 needs an extra: pip install "kwire[tls]"') from error
    try:
        store = pkcs12.load_pkcs12(Path(location).read_bytes(), None if password is None else password.encode())
    except ValueError as error:
        raise ConfigError(f"{location}: no PKCS12 store, or another password") from error
    encoding = serialization.Encoding.PEM
    parts = [one.certificate.public_bytes(encoding) for one in (store.cert, *store.additional_certs) if one is not None]
    if store.key is not None:
        form, bare = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        parts.insert(0, store.key.private_bytes(encoding, form, bare))
    return b"".join(parts).decode()


def _kind(config: BrokerConfig, name: str) -> str:
    kind = (config.string(name) or "JKS").upper()
    if kind not in ("PEM", "PKCS12"):
        raise ConfigError(f"{name}: {kind!r} is not supported; PEM and PKCS12 are")
    return kind


def _password(config: BrokerConfig, name: str) -> str | None:
    value = config[name]
    return None if value is None else str(value)
