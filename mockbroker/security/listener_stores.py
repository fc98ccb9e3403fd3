"""`ListenerStores`: the key store and the trust store of a listener, read from Kafka's `ssl.*` configurations.

Which configurations exclude each other: Kafka's DefaultSslEngineFactory, seen with 4.4.0.
"""

from __future__ import annotations

import re
import ssl
from typing import NamedTuple

from mockbroker.config.broker_config import BrokerConfig, ConfigError
from mockbroker.security.tls_stores import KeyStore, read_key_store, read_store_file, trust_store_text

_PEM, _TYPES = "PEM", ("JKS", "PEM", "PKCS12")
_KEY_STORE = "ssl.keystore."
_TRUST_STORE = "ssl.truststore."
_KEY_PASSWORD = "ssl.key.password"  # noqa: S105 - the name of a configuration.
LOCATIONS = (f"{_KEY_STORE}location", f"{_TRUST_STORE}location")
#: The configurations that a running broker applies to a listener. Source: Kafka's SslConfigs.RECONFIGURABLE_CONFIGS.
RELOADABLE = (
    *LOCATIONS,
    *(f"{_KEY_STORE}{end}" for end in ("type", "password", "key", "certificate.chain")),
    *(f"{_TRUST_STORE}{end}" for end in ("type", "password", "certificates")),
    _KEY_PASSWORD,
)
_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\s]*-----END CERTIFICATE-----")
_PRIVATE_KEY = re.compile(r"-----BEGIN (?P<label>[A-Z ]*)PRIVATE KEY-----")


class ListenerStores(NamedTuple):
    """What a listener presents and trusts. key_password: of keys in PEM that are encrypted.

    trusted: certificates in PEM, None without a trust store.
    """

    keys: KeyStore
    key_password: str | None
    trusted: str | None

    def __repr__(self) -> str:
        return f"ListenerStores({self.keys!r})"


def read_stores(config: BrokerConfig) -> ListenerStores:
    """Read the stores of a listener. config: that of the listener.

    `ssl.keystore.type=PEM` with either `ssl.keystore.location` (a file with key and certificates) or
    `ssl.keystore.certificate.chain` and `ssl.keystore.key` (the texts themselves), as in KIP-651, or PKCS12 or JKS with
    `ssl.keystore.location`, `ssl.keystore.password` and `ssl.key.password`; the trust store in the same way.
    Raises: ConfigError that names the key, for a missing, unreadable or contradictory value.
    """
    try:
        keys = _read_keys(config)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{LOCATIONS[0]}: the key and certificates cannot be used: {error}") from error
    try:
        trusted = _read_trusted(config)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{LOCATIONS[1]}: the certificates cannot be used: {error}") from error
    kind = _store_type(config, f"{_KEY_STORE}type")
    return ListenerStores(keys, _secret(config, _KEY_PASSWORD) if kind == _PEM else None, trusted)


def read_pem_keys(text: str, key_password: str | None, where: str) -> KeyStore:
    """The key and the certificates of a text in PEM. where: for errors. Raises: ConfigError."""
    labels = [match["label"] for match in _PRIVATE_KEY.finditer(text)]
    certificates = _CERTIFICATE.findall(text)
    if len(labels) != 1 or not certificates:
        seen = f"{len(labels)} private keys and {len(certificates)} certificates"
        raise ConfigError(f"{where}: {seen} in PEM; expected one private key and its certificates")
    is_encrypted = labels[0].startswith("ENCRYPTED") or "Proc-Type: 4,ENCRYPTED" in text
    if is_encrypted != (key_password is not None):
        reason = "is encrypted, and there is none" if is_encrypted else "is given, and the key is not encrypted"
        raise ConfigError(f"{_KEY_PASSWORD}: {reason} ({where})")
    return KeyStore((text,), (("kafka", _decode_certificate(certificates[0], where)),))


def _read_keys(config: BrokerConfig) -> KeyStore:
    kind, location = _store_type(config, f"{_KEY_STORE}type"), config.string(LOCATIONS[0])
    key, chain = _secret(config, f"{_KEY_STORE}key"), _secret(config, f"{_KEY_STORE}certificate.chain")
    key_password = _secret(config, _KEY_PASSWORD)
    _check_texts(config, _KEY_STORE, f"{_KEY_STORE}key", key)
    if (key is None) != (chain is None):
        raise ConfigError(f"{_KEY_STORE}key and {_KEY_STORE}certificate.chain: one is given without the other")
    if key is not None:
        return read_pem_keys(f"{key}\n{chain}\n", key_password, f"{_KEY_STORE}key")
    if location is None:
        raise ConfigError(f"{LOCATIONS[0]}: a listener uses TLS and has no key store")
    if kind == _PEM:
        return read_pem_keys(_read_text(location), key_password, location)
    password = _secret(config, f"{_KEY_STORE}password")
    if password is None:
        raise ConfigError(f"{_KEY_STORE}password: missing; a key store of the type {kind} needs it")
    return read_key_store(location, password, key_password)


def _read_trusted(config: BrokerConfig) -> str | None:
    kind, location = _store_type(config, f"{_TRUST_STORE}type"), config.string(LOCATIONS[1])
    texts = _secret(config, f"{_TRUST_STORE}certificates")
    _check_texts(config, _TRUST_STORE, f"{_TRUST_STORE}certificates", texts)
    if texts is None and location is None:
        return None
    if location is not None and kind != _PEM:
        return trust_store_text(location, _secret(config, f"{_TRUST_STORE}password"))
    found = _CERTIFICATE.findall(_read_text(location) if location is not None else texts or "")
    if not found:
        raise ConfigError(f"{location or f'{_TRUST_STORE}certificates'}: no certificate in PEM")
    return "\n".join([*found, ""])


def _check_texts(config: BrokerConfig, store: str, name: str, text: str | None) -> None:
    """Refuse configurations of a store that contradict each other. name, text: of those in PEM themselves."""
    kind = _store_type(config, f"{store}type")
    location, password = config.string(f"{store}location"), _secret(config, f"{store}password")
    if text is not None and kind != _PEM:
        raise ConfigError(f"{name}: given for a store of the type {kind}; texts are of the type {_PEM}")
    if text is not None and location is not None:
        raise ConfigError(f"{name}: given beside {store}location; give one of them")
    if password is None:
        return
    if kind == _PEM:
        raise ConfigError(f"{store}password: a store of the type {_PEM} has none")
    if location is None:
        raise ConfigError(f"{store}password: given without {store}location, which it is for")


def _store_type(config: BrokerConfig, name: str) -> str:
    kind = (config.string(name) or "JKS").upper()
    if kind not in _TYPES:
        raise ConfigError(f"{name}: {kind!r} is not supported; JKS, PEM and PKCS12 are")
    return kind


def _secret(config: BrokerConfig, name: str) -> str | None:
    value = config[name]
    return None if value is None else str(value)


def _read_text(location: str) -> str:
    return read_store_file(location).decode("utf-8")


def _decode_certificate(text: str, where: str) -> bytes:
    try:
        return ssl.PEM_cert_to_DER_cert(text)
    except ValueError as error:
        raise ConfigError(f"{where}: a damaged certificate: {error}") from error
