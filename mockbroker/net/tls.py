"""A server's TLS context from Kafka's `ssl.*` configurations, for PEM key stores."""

from __future__ import annotations

import ssl
import tempfile
from pathlib import Path

from mockbroker.config import BrokerConfig, ConfigError


def server_context(config: BrokerConfig) -> ssl.SSLContext:
    """The context for listeners that speak SSL.

    `ssl.keystore.type=PEM` with either `ssl.keystore.location` (a file with key and certificates) or
    `ssl.keystore.certificate.chain` and `ssl.keystore.key` (the texts themselves), as in KIP-651; a client certificate
    is asked for by `ssl.client.auth` and checked against `ssl.truststore.location` or `ssl.truststore.certificates`.
    Raises ConfigError that names the key for what is missing, unreadable or not supported.
    """
    kind = config.string("ssl.keystore.type") or "JKS"
    if kind != "PEM":
        raise ConfigError(f"ssl.keystore.type: {kind!r} is not supported yet; PEM is")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    location = config.string("ssl.keystore.location")
    password = _password(config, "ssl.key.password")
    try:
        if location is not None:
            context.load_cert_chain(location, password=password)
        else:
            _load_texts(context, config, password)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"ssl.keystore: the key and certificates cannot be used: {error}") from error
    _ask_for_client_certificates(context, config)
    return context


def _load_texts(context: ssl.SSLContext, config: BrokerConfig, password: str | None) -> None:
    chain, key = _password(config, "ssl.keystore.certificate.chain"), _password(config, "ssl.keystore.key")
    if not chain or not key:
        raise ConfigError("ssl.keystore.location: a listener speaks SSL and there is no key store")
    # Python's ssl module reads keys from files alone; the file is gone when the context has it.
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "keystore.pem")
        path.touch(mode=0o600)
        path.write_text(f"{key}\n{chain}\n")
        context.load_cert_chain(path, password=password)


def _ask_for_client_certificates(context: ssl.SSLContext, config: BrokerConfig) -> None:
    wanted = config.string("ssl.client.auth") or "none"
    if wanted == "none":
        return
    context.verify_mode = ssl.CERT_REQUIRED if wanted == "required" else ssl.CERT_OPTIONAL
    texts = _password(config, "ssl.truststore.certificates")
    try:
        context.load_verify_locations(cafile=config.string("ssl.truststore.location"), cadata=texts)
    except (OSError, TypeError, ssl.SSLError) as error:
        raise ConfigError(f"ssl.truststore.location: the certificates cannot be used: {error}") from error


def _password(config: BrokerConfig, name: str) -> str | None:
    value = config[name]
    return None if value is None else str(value)
