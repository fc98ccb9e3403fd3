"""Decryption of TLS records: key derivation from logged secrets, and the ciphers of TLS 1.2 and 1.3.

Sources: RFC 8446 sections 5.2, 5.3, 7.1 to 7.3 (TLS 1.3), RFC 5246 sections 5, 6.2.3 and 6.3 (TLS 1.2), RFC 5288 (GCM),
RFC 6655 and RFC 7251 (CCM), RFC 7905 (ChaCha20-Poly1305), RFC 7366 (encrypt-then-MAC).
"""

from __future__ import annotations

import hmac
import io
import struct
from typing import NamedTuple, Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESCCM, AESGCM, ChaCha20Poly1305

_BLOCK = 16


class DecryptedRecord(NamedTuple):
    """The content of a record, and its content type."""

    kind: int
    content: bytes


class RecordCipher(Protocol):
    """Decrypts the records of one direction. `overhead`: size of a record without its content, for CBC on average."""

    overhead: int

    def decrypt_record(self, number: int, header: bytes, body: bytes) -> DecryptedRecord | None:
        """Decrypt the record with this number, counted from the first use of the key; None if it is not authentic."""


class _Aead(Protocol):
    def decrypt(self, nonce: bytes, data: bytes, associated_data: bytes | None, /) -> bytes:
        """Decrypt the data. Raises: InvalidTag."""


class _Suite(NamedTuple):
    """A cipher suite: the cipher's name, the size of its key, the hash of the key schedule, of the MAC."""

    cipher: str
    key_size: int
    hash: str
    mac: str = ""


_SUITES_13 = {
    0x1301: _Suite("gcm", 16, "sha256"),
    0x1302: _Suite("gcm", 32, "sha384"),
    0x1303: _Suite("chacha", 32, "sha256"),
    0x1304: _Suite("ccm", 16, "sha256"),
    0x1305: _Suite("ccm8", 16, "sha256"),
}
# Suites that differ only in the key exchange are grouped.
_GCM_128 = (0x009C, 0x009E, 0x00A0, 0x00A2, 0x00A4, 0x00A6, 0xC02B, 0xC02D, 0xC02F, 0xC031)
_SHA_128 = (*range(0x002F, 0x0035), 0xC004, 0xC009, 0xC00E, 0xC013, 0xC018)
_SHA256_128 = (0x003C, 0x003E, 0x003F, 0x0040, 0x0067, 0x006C, 0xC023, 0xC025, 0xC027, 0xC029)
_SUITES_12 = {
    **dict.fromkeys(_GCM_128, _Suite("gcm", 16, "sha256")),
    **dict.fromkeys((each + 1 for each in _GCM_128), _Suite("gcm", 32, "sha384")),
    **dict.fromkeys((0xC09C, 0xC09E, 0xC0AC), _Suite("ccm", 16, "sha256")),
    **dict.fromkeys((0xC09D, 0xC09F, 0xC0AD), _Suite("ccm", 32, "sha256")),
    **dict.fromkeys((0xC0A0, 0xC0A2, 0xC0AE), _Suite("ccm8", 16, "sha256")),
    **dict.fromkeys((0xC0A1, 0xC0A3, 0xC0AF), _Suite("ccm8", 32, "sha256")),
    **dict.fromkeys((0xCCA8, 0xCCA9, 0xCCAA), _Suite("chacha", 32, "sha256")),
    **dict.fromkeys(_SHA_128, _Suite("cbc", 16, "sha256", "sha1")),
    **dict.fromkeys((each + (6 if each < 0xC000 else 1) for each in _SHA_128), _Suite("cbc", 32, "sha256", "sha1")),
    **dict.fromkeys(_SHA256_128, _Suite("cbc", 16, "sha256", "sha256")),
    **dict.fromkeys((0x003D, *range(0x0068, 0x006C), 0x006D), _Suite("cbc", 32, "sha256", "sha256")),
    **dict.fromkeys((0xC024, 0xC026, 0xC028, 0xC02A), _Suite("cbc", 32, "sha384", "sha384")),
}
_MAC_SIZES = {"sha1": 20, "sha256": 32, "sha384": 48}


def is_supported(suite: int, *, is_13: bool) -> bool:
    """Whether records of this cipher suite can be decrypted."""
    return suite in (_SUITES_13 if is_13 else _SUITES_12)


def tls13_cipher(suite: int, secret: bytes) -> RecordCipher:
    """Return the TLS 1.3 cipher for a traffic secret."""
    return _Cipher13(_SUITES_13[suite].cipher, *key_and_iv(suite, secret))


def key_and_iv(suite: int, secret: bytes) -> tuple[bytes, bytes]:
    """Derive key and initialization vector from a TLS 1.3 traffic secret."""
    parameters = _SUITES_13[suite]
    key = _expand_label(secret, b"key", parameters.key_size, parameters.hash)
    return key, _expand_label(secret, b"iv", 12, parameters.hash)


def next_secret(suite: int, secret: bytes) -> bytes:
    """Derive the traffic secret after a KeyUpdate."""
    return _expand_label(secret, b"traffic upd", len(secret), _SUITES_13[suite].hash)


def tls12_ciphers(
    suite: int, master: bytes, randoms: tuple[bytes, bytes], *, encrypt_then_mac: bool
) -> tuple[RecordCipher, RecordCipher]:
    """Return the TLS 1.2 ciphers of client and server. Args: randoms: those of client and server."""
    parameters = _SUITES_12[suite]
    mac_size = _MAC_SIZES.get(parameters.mac, 0)
    # GCM and CCM send the rest of their nonce with each record, CBC the whole initialization vector.
    iv_size = {"chacha": 12, "cbc": 0}.get(parameters.cipher, 4)
    sizes = (mac_size, mac_size, parameters.key_size, parameters.key_size, iv_size, iv_size)
    block = io.BytesIO(_prf(master, b"key expansion" + randoms[1] + randoms[0], sum(sizes), parameters))
    parts = [block.read(size) for size in sizes]
    client, server = (_cipher_12(parameters, *parts[side::2], encrypt_then_mac=encrypt_then_mac) for side in (0, 1))
    return client, server


def _cipher_12(suite: _Suite, mac_key: bytes, key: bytes, iv: bytes, *, encrypt_then_mac: bool) -> RecordCipher:
    if suite.cipher == "cbc":
        return _Cbc(key, mac_key, suite.mac, encrypt_then_mac=encrypt_then_mac)
    return _Cipher12(suite.cipher, key, iv)


def _aead(name: str, key: bytes) -> _Aead:
    if name == "gcm":
        return AESGCM(key)
    if name == "chacha":
        return ChaCha20Poly1305(key)
    return AESCCM(key, _tag_size(name))


def _tag_size(name: str) -> int:
    return 8 if name == "ccm8" else 16


def _expand_label(secret: bytes, label: bytes, size: int, hash_name: str) -> bytes:
    """HKDF-Expand-Label without context. No result is longer than the hash, so one block is enough."""
    label = b"tls13 " + label
    return hmac.digest(secret, struct.pack(">HB", size, len(label)) + label + b"\0\1", hash_name)[:size]


def _prf(secret: bytes, seed: bytes, size: int, suite: _Suite) -> bytes:
    output, chained = b"", seed
    while len(output) < size:
        chained = hmac.digest(secret, chained, suite.hash)
        output += hmac.digest(secret, chained + seed, suite.hash)
    return output[:size]


class _AeadCipher:
    def __init__(self, name: str, key: bytes, iv: bytes) -> None:
        self._arguments = name, key, iv
        self._aead = _aead(name, key)

    def __reduce__(self) -> tuple[type, tuple[str, bytes, bytes]]:
        """Pickle the arguments, since the library's objects cannot be pickled: a connection may continue elsewhere."""
        return type(self), self._arguments


class _Cipher13(_AeadCipher):
    """An AEAD of TLS 1.3: the nonce is the IV combined with the number; the real content type is encrypted."""

    def __init__(self, name: str, key: bytes, iv: bytes) -> None:
        super().__init__(name, key, iv)
        self._iv = int.from_bytes(iv, "big")
        self.overhead = 5 + 1 + _tag_size(name)

    def decrypt_record(self, number: int, header: bytes, body: bytes) -> DecryptedRecord | None:
        """Decrypt a record; its padding is zeros after the content type."""
        try:
            data = self._aead.decrypt((self._iv ^ number).to_bytes(12, "big"), body, header)
        except (InvalidTag, ValueError):
            return None
        data = data.rstrip(b"\0")
        return DecryptedRecord(data[-1], data[:-1]) if data else DecryptedRecord(0, b"")


class _Cipher12(_AeadCipher):
    """An AEAD of TLS 1.2: GCM or CCM with a salt of four bytes and the rest of the nonce in the record, or ChaCha20."""

    def __init__(self, name: str, key: bytes, iv: bytes) -> None:
        super().__init__(name, key, iv)
        self._iv = iv
        self._explicit = 12 - len(iv)
        self._tag = _tag_size(name)
        self.overhead = 5 + self._explicit + self._tag

    def decrypt_record(self, number: int, header: bytes, body: bytes) -> DecryptedRecord | None:
        """Decrypt a record; its authenticated header has the size of the content."""
        if self._explicit:
            nonce = self._iv + body[: self._explicit]
        else:
            nonce = (int.from_bytes(self._iv, "big") ^ number).to_bytes(12, "big")
        size = len(body) - self._explicit - self._tag
        if size < 0:
            return None
        authenticated = struct.pack(">Q3sH", number, header[:3], size)
        try:
            return DecryptedRecord(header[0], self._aead.decrypt(nonce, body[self._explicit :], authenticated))
        except (InvalidTag, ValueError):
            return None


class _Cbc:
    """AES-CBC of TLS 1.2 with HMAC, before the encryption or (RFC 7366) after it."""

    def __init__(self, key: bytes, mac_key: bytes, mac: str, *, encrypt_then_mac: bool) -> None:
        self._key = key
        self._mac_key = mac_key
        self._mac = mac
        self._mac_size = _MAC_SIZES[mac]
        self._encrypt_then_mac = encrypt_then_mac
        # The padding has half a block on average.
        self.overhead = 5 + _BLOCK + self._mac_size + _BLOCK // 2

    def decrypt_record(self, number: int, header: bytes, body: bytes) -> DecryptedRecord | None:
        """Decrypt a record; its first block is the initialization vector."""
        if self._encrypt_then_mac:
            body, mac = body[: -self._mac_size], body[-self._mac_size :]
            if not self._is_authentic(number, header, body, mac):
                return None
        if len(body) < 2 * _BLOCK or len(body) % _BLOCK:
            return None
        decryptor = Cipher(algorithms.AES(self._key), modes.CBC(body[:_BLOCK])).decryptor()
        data = decryptor.update(body[_BLOCK:]) + decryptor.finalize()
        size = len(data) - data[-1] - 1
        if self._encrypt_then_mac:
            return DecryptedRecord(header[0], data[:size]) if size >= 0 else None
        size -= self._mac_size
        if size < 0 or not self._is_authentic(number, header, data[:size], data[size : size + self._mac_size]):
            return None
        return DecryptedRecord(header[0], data[:size])

    def _is_authentic(self, number: int, header: bytes, data: bytes, mac: bytes) -> bool:
        authenticated = struct.pack(">Q3sH", number, header[:3], len(data))
        return hmac.compare_digest(hmac.digest(self._mac_key, authenticated + data, self._mac), mac)
