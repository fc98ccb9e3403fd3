"""Reading Java key stores of the type JKS: private keys with their certificates, and trusted certificates.

Source: the JDK's sun.security.provider.JavaKeyStore (the layout and its digest) and KeyProtector (the keys). SHA-1 is
what the format has.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import textwrap
from typing import NamedTuple

_JKS_MAGIC, _JCEKS_MAGIC = b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce"
_VERSIONS = (1, 2)
_PRIVATE_KEY, _TRUSTED_CERTIFICATE = 1, 2
_WHITENER = b"Mighty Aphrodite"
_DIGEST_SIZE = _SALT_SIZE = 20
_CERTIFICATE_TYPE = "X.509"
#: The algorithm of protected keys, 1.3.6.1.4.1.42.2.17.1.1, as DER.
_PROTECTOR_OID = bytes.fromhex("060a2b060104012a02110101")
STORE_BYTES_MAX = 16 << 20
_KEY_BYTES_MAX = 64 << 10


class InvalidKeyStore(Exception):
    """A store that cannot be read; the text is the reason, without passwords and keys."""


class PrivateKeyEntry(NamedTuple):
    """A protected private key, as the store has it, and its certificates, DER, its own first."""

    alias: str
    protected: bytes
    certificates: tuple[bytes, ...]

    def __repr__(self) -> str:
        return f"PrivateKeyEntry({self.alias!r}, ***)"

    def decrypt(self, password: str) -> bytes:
        """The key as PKCS #8, DER. Raises: InvalidKeyStore for a wrong password and a damaged key."""
        data = _read_protected(self.protected)
        salt, encrypted = data[:_SALT_SIZE], data[_SALT_SIZE:-_DIGEST_SIZE]
        secret, stream, block = password.encode("utf-16-be", "surrogatepass"), bytearray(), salt
        while len(stream) < len(encrypted):
            block = _sha1(secret, block)
            stream += block
        key = bytes(one ^ other for one, other in zip(encrypted, stream, strict=False))
        if not hmac.compare_digest(_sha1(secret, key), data[-_DIGEST_SIZE:]):
            raise InvalidKeyStore(f"a wrong password of the key {self.alias!r}, or a damaged key")
        return key


class JavaKeyStore(NamedTuple):
    """The entries of a store, in their order. trusted: certificates by alias, DER."""

    keys: tuple[PrivateKeyEntry, ...]
    trusted: tuple[tuple[str, bytes], ...]

    @property
    def anchors(self) -> list[bytes]:
        """The certificates that Java trusts: those of trusted entries, and the own one of each key."""
        return [*(data for _, data in self.trusted), *(key.certificates[0] for key in self.keys if key.certificates)]


def is_java_key_store(data: bytes) -> bool:
    """Whether a file begins as a JKS or a JCEKS store."""
    return data[:4] in (_JKS_MAGIC, _JCEKS_MAGIC)


def read_java_key_store(data: bytes, password: str | None) -> JavaKeyStore:
    """Read a store. password: None leaves its integrity unchecked, as in Java.

    Raises: InvalidKeyStore for a wrong password, a damaged store, and a JCEKS store.
    """
    if data[:4] == _JCEKS_MAGIC:
        raise InvalidKeyStore(
            "JCEKS stores are not supported; `keytool -importkeystore` converts them to JKS or PKCS12"
        )
    if data[:4] != _JKS_MAGIC:
        raise InvalidKeyStore("not a JKS store")
    if not len(_JKS_MAGIC) + 8 + _DIGEST_SIZE <= len(data) <= STORE_BYTES_MAX:
        raise InvalidKeyStore("the store is cut off, or larger than 16 MiB")
    content, digest = data[:-_DIGEST_SIZE], data[-_DIGEST_SIZE:]
    if password is not None:
        secret = password.encode("utf-16-be", "surrogatepass")
        if not hmac.compare_digest(_sha1(secret, _WHITENER, content), digest):
            raise InvalidKeyStore("a wrong password, or a damaged store")
    return _StoreReader(content).read()


class _StoreReader:
    """Reads the entries; every length is compared with what is left."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = len(_JKS_MAGIC)

    def read(self) -> JavaKeyStore:
        version, count = self._read_int(4), self._read_int(4)
        if version not in _VERSIONS:
            raise InvalidKeyStore(f"version {version} of the format is unknown")
        keys: list[PrivateKeyEntry] = []
        trusted: list[tuple[str, bytes]] = []
        for _ in range(count):  # An entry has at least 14 bytes, so the content ends the loop.
            tag, alias, _created = self._read_int(4), self._read_text(), self._read_bytes(8)
            if tag == _PRIVATE_KEY:
                protected = self._read_bytes(self._read_int(4))
                chain = tuple(self._read_certificate(version) for _ in range(self._read_int(4)))
                keys.append(PrivateKeyEntry(alias, protected, chain))
            elif tag == _TRUSTED_CERTIFICATE:
                trusted.append((alias, self._read_certificate(version)))
            else:
                raise InvalidKeyStore(f"entries of the type {tag} are unknown")
        if self._at != len(self._content):
            raise InvalidKeyStore(f"{len(self._content) - self._at} bytes after the last entry")
        return JavaKeyStore(tuple(keys), tuple(trusted))

    def _read_certificate(self, version: int) -> bytes:
        kind = self._read_text() if version > 1 else _CERTIFICATE_TYPE
        if kind != _CERTIFICATE_TYPE:
            raise InvalidKeyStore(f"certificates of the type {kind[:20]!r} are unknown")
        return self._read_bytes(self._read_int(4))

    def _read_text(self) -> str:
        return self._read_bytes(self._read_int(2)).decode("utf-8", "replace")

    def _read_int(self, size: int) -> int:
        return int.from_bytes(self._read_bytes(size), "big")

    def _read_bytes(self, size: int) -> bytes:
        end = self._at + size
        if end > len(self._content):
            raise InvalidKeyStore(f"the store is cut off: {size} bytes are missing after byte {self._at}")
        data, self._at = self._content[self._at : end], end
        return data


def _read_protected(data: bytes) -> bytes:
    """The content of an EncryptedPrivateKeyInfo of the JDK's own algorithm (RFC 5958: an algorithm, and bytes)."""
    outer, rest = _read_der(data, 0x30)
    algorithm, after = _read_der(outer, 0x30)
    content, last = _read_der(after, 0x04)
    if rest or last or not algorithm.startswith(_PROTECTOR_OID):
        raise InvalidKeyStore("a key that is protected by another algorithm than that of JKS")
    if not _SALT_SIZE + _DIGEST_SIZE < len(content) <= _KEY_BYTES_MAX:
        raise InvalidKeyStore("a damaged key")
    return content


def _read_der(data: bytes, tag: int) -> tuple[bytes, bytes]:
    """The content of the first value, which must have this tag, and what follows it."""
    size, start = (data[1], 2) if len(data) > 1 and data[0] == tag else (-1, 0)
    if size > 0x80:
        start = 2 + (size & 0x7F)
        size = int.from_bytes(data[2:start], "big")
    if size < 0 or size == 0x80 or start + size > len(data):
        raise InvalidKeyStore("a damaged key")
    return data[start : start + size], data[start + size :]


def _sha1(*parts: bytes) -> bytes:
    return hashlib.sha1(b"".join(parts), usedforsecurity=False).digest()


def to_pem(data: bytes, label: str) -> str:
    """DER as PEM, with a label as "CERTIFICATE"."""
    lines = textwrap.wrap(base64.b64encode(data).decode(), 64)
    return "\n".join([f"-----BEGIN {label}-----", *lines, f"-----END {label}-----", ""])
