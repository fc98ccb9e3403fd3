"""Key stores and trust stores in Java's forms, JKS and PKCS12, as PEM. The form is that of the file, as in Java."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kwire.errors import install_command
from mockbroker.config.keys import ConfigError
from mockbroker.security.java_key_store import (
    STORE_BYTES_MAX,
    InvalidKeyStore,
    PrivateKeyEntry,
    is_java_key_store,
    read_java_key_store,
    to_pem,
)
from mockbroker.state.java.hash_order import JavaSet
from mockbroker.state.metadata.topics import java_hash

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12KeyAndCertificates


class KeyStore(NamedTuple):
    """The content of a key store.

    texts: the private keys as PEM, each with its certificates, in the order in which OpenSSL must read them.
    certificates: the certificate of each entry, DER, by alias in the order in which Java lists them.
    """

    texts: tuple[str, ...]
    certificates: tuple[tuple[str, bytes], ...]

    def __repr__(self) -> str:
        return f"KeyStore({', '.join(alias for alias, _ in self.certificates)})"


def read_key_store(location: str, password: str | None, key_password: str | None) -> KeyStore:
    """Read the keys of a store that a server presents.

    Of a JKS store all keys, in the order in which Java tries them: a client gets the first one of a type that it
    accepts. key_password: by default that of the store.
    Raises: ConfigError, without the passwords; OSError.
    """
    data = read_store_file(location)
    if not is_java_key_store(data):
        store = _load_pkcs12(location, data, password)
        if key_password not in (None, password):
            raise ConfigError(f"ssl.key.password: another one than that of {location}; a PKCS12 store has one password")
        if store.key is None or store.cert is None:
            raise ConfigError(f"{location}: the store has no private key with a certificate")
        return KeyStore((_pkcs12_text(store),), (_pkcs12_certificate(store),))
    try:
        content = read_java_key_store(data, password)
        entries = {key.alias: key for key in content.keys if key.certificates}
        if not entries:
            raise ConfigError(f"{location}: the store has no private key with a certificate")
        secret = password if key_password is None else key_password
        if secret is None:
            raise ConfigError(f"ssl.keystore.password: missing; the keys of {location} need it or ssl.key.password")
        # OpenSSL keeps the last key of each type, Java uses the first one of its hash table.
        texts = [_entry_text(entries[alias], secret) for alias in reversed(list(JavaSet(java_hash, entries)))]
        listed = dict(content.trusted) | {alias: key.certificates[0] for alias, key in entries.items()}
        return KeyStore(tuple(texts), tuple((alias, listed[alias]) for alias in JavaSet(java_hash, listed)))
    except InvalidKeyStore as error:
        raise ConfigError(f"{location}: {error}") from error


def _entry_text(entry: PrivateKeyEntry, password: str) -> str:
    certificates = "".join(to_pem(data, "CERTIFICATE") for data in entry.certificates)
    return to_pem(entry.decrypt(password), "PRIVATE KEY") + certificates


def trust_store_text(location: str, password: str | None) -> str:
    """The trusted certificates of a store. Raises: ConfigError, without the password; OSError."""
    data = read_store_file(location)
    if not is_java_key_store(data):
        return _pkcs12_text(_load_pkcs12(location, data, password))
    try:
        anchors = read_java_key_store(data, password).anchors
    except InvalidKeyStore as error:
        raise ConfigError(f"{location}: {error}") from error
    if not anchors:
        raise ConfigError(f"{location}: the store has no certificate")
    return "".join(to_pem(data, "CERTIFICATE") for data in anchors)


def read_store_file(location: str) -> bytes:
    """The bytes of a store, of a longer file no more than a store may have. Raises: OSError."""
    with Path(location).open("rb") as file:
        return file.read(STORE_BYTES_MAX + 1)


def _load_pkcs12(location: str, data: bytes, password: str | None) -> PKCS12KeyAndCertificates:
    try:
        from cryptography.hazmat.primitives.serialization import pkcs12
    except ImportError as error:
        raise ConfigError(f"{location}: a PKCS12 store needs an extra: {install_command('tls')}") from error
    try:
        return pkcs12.load_pkcs12(data, None if password is None else password.encode())
    except ValueError as error:
        raise ConfigError(f"{location}: neither a JKS nor a PKCS12 store, or a wrong password") from error


def _pkcs12_certificate(store: PKCS12KeyAndCertificates) -> tuple[str, bytes]:
    """The alias and the certificate of the key."""
    from cryptography.hazmat.primitives.serialization import Encoding

    assert store.cert is not None
    alias = (store.cert.friendly_name or b"").decode("utf-8", "replace")
    return alias, store.cert.certificate.public_bytes(Encoding.DER)


def _pkcs12_text(store: PKCS12KeyAndCertificates) -> str:
    """The content of a PKCS12 store: the key, if there is one, then the certificates."""
    from cryptography.hazmat.primitives import serialization

    encoding = serialization.Encoding.PEM
    entries = (store.cert, *store.additional_certs)
    parts = [entry.certificate.public_bytes(encoding) for entry in entries if entry is not None]
    if store.key is not None:
        form, bare = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        parts.insert(0, store.key.private_bytes(encoding, form, bare))
    return b"".join(parts).decode()
