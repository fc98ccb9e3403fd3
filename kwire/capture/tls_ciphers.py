"""What opens TLS records: keys from logged secrets, and the ciphers of TLS 1.2 and 1.3.

Sources: RFC 8446 sections 5.2, 5.3, 7.1 to 7.3 (TLS 1.3), RFC 5246 sections 5, 6.2.3 and 6.3 (TLS 1.2), RFC 5288 (GCM),
RFC 6655 and RFC 7251 (CCM), RFC 7905 (ChaCha20-Poly1305), RFC 7366 (encrypt-then-MAC).
"""

from __future__ import annotations

import hmac
import struct
from typing import NamedTuple, Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESCCM, AESGCM, ChaCha20Poly1305

_BLOCK = 16


class Opened(NamedTuple):
    """A record's own content type, and its content."""

    kind: int
    content: bytes


class RecordCipher(Protocol):
    """Opens the records of one direction. `overhead` is what a record has beside its content, as exact as can be."""

    overhead: int

    def open(self, number: int, head: bytes, body: bytes) -> Opened | None:
        """The content of the record with this number since the key began; None when it is not authentic."""


class _Aead(Protocol):
    def decrypt(self, nonce: bytes, data: bytes, associated_data: bytes | None, /) -> bytes:
        """The content; raises InvalidTag."""


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
# By what is the same in many of them, whatever way their keys are agreed on.
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
    """Whether records of this cipher suite can be opened."""
    return suite in (_SUITES_13 if is_13 else _SUITES_12)


def of_secret(suite: int, secret: bytes) -> RecordCipher:
    """The cipher of TLS 1.3 for one traffic secret."""
    return _Cipher13(_SUITES_13[suite].cipher, *key_and_iv(suite, secret))


def key_and_iv(suite: int, secret: bytes) -> tuple[bytes, bytes]:
    """The key and the vector that TLS 1.3 makes of a traffic secret."""
    chosen = _SUITES_13[suite]
    key = _expand_label(secret, b"key", chosen.key_size, chosen.hash)
    return key, _expand_label(secret, b"iv", 12, chosen.hash)


def next_secret(suite: int, secret: bytes) -> bytes:
    """The traffic secret after a KeyUpdate."""
    return _expand_label(secret, b"traffic upd", len(secret), _SUITES_13[suite].hash)


def of_master(
    suite: int, master: bytes, randoms: tuple[bytes, bytes], *, encrypt_then_mac: bool
) -> tuple[RecordCipher, RecordCipher]:
    """The ciphers of client and server in TLS 1.2. Args: randoms: those of client and server."""
    chosen = _SUITES_12[suite]
    mac_size = _MAC_SIZES.get(chosen.mac, 0)
    # GCM and CCM send the rest of their nonce with each record, CBC all of its vector.
    iv_size = {"chacha": 12, "cbc": 0}.get(chosen.cipher, 4)
    block = _prf(master, b"key expansion" + randoms[1] + randoms[0], 2 * (mac_size + chosen.key_size + iv_size), chosen)
    at = 0
    parts: list[bytes] = []
    for size in (mac_size, mac_size, chosen.key_size, chosen.key_size, iv_size, iv_size):
        parts.append(block[at : at + size])
        at += size
    client, server = (_cipher_12(chosen, *parts[side::2], encrypt_then_mac=encrypt_then_mac) for side in (0, 1))
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
    """HKDF-Expand-Label without context; nothing asked of it is longer than the hash, so one block is enough."""
    label = b"tls13 " + label
    return hmac.digest(secret, struct.pack(">HB", size, len(label)) + label + b"\0\1", hash_name)[:size]


def _prf(secret: bytes, seed: bytes, size: int, suite: _Suite) -> bytes:
    out, chained = b"", seed
    while len(out) < size:
        chained = hmac.digest(secret, chained, suite.hash)
        out += hmac.digest(secret, chained + seed, suite.hash)
    return out[:size]


class _Cipher13:
    """An AEAD of TLS 1.3: the nonce is the vector and the number, the real content type is inside."""

    def __init__(self, name: str, key: bytes, iv: bytes) -> None:
        self._made_of = name, key, iv
        self._aead = _aead(name, key)
        self._iv = int.from_bytes(iv, "big")
        self.overhead = 5 + 1 + _tag_size(name)

    def __reduce__(self) -> tuple[type, tuple[str, bytes, bytes]]:
        """A connection may go on in another capture and process; the library's own objects cannot."""
        return type(self), self._made_of

    def open(self, number: int, head: bytes, body: bytes) -> Opened | None:
        """Its padding is zeros behind the content type."""
        try:
            data = self._aead.decrypt((self._iv ^ number).to_bytes(12, "big"), body, head)
        except (InvalidTag, ValueError):
            return None
        data = data.rstrip(b"\0")
        return Opened(data[-1], data[:-1]) if data else Opened(0, b"")


class _Cipher12:
    """An AEAD of TLS 1.2: GCM or CCM with a salt of four bytes and the rest of the nonce in the record, or ChaCha20."""

    def __init__(self, name: str, key: bytes, iv: bytes) -> None:
        self._made_of = name, key, iv
        self._aead = _aead(name, key)
        self._iv = iv
        self._explicit = 12 - len(iv)
        self._tag = _tag_size(name)
        self.overhead = 5 + self._explicit + self._tag

    def __reduce__(self) -> tuple[type, tuple[str, bytes, bytes]]:
        """A connection may go on in another capture and process; the library's own objects cannot."""
        return type(self), self._made_of

    def open(self, number: int, head: bytes, body: bytes) -> Opened | None:
        """The header counts in the authentication with the size of the content."""
        if self._explicit:
            nonce = self._iv + body[: self._explicit]
        else:
            nonce = (int.from_bytes(self._iv, "big") ^ number).to_bytes(12, "big")
        size = len(body) - self._explicit - self._tag
        if size < 0:
            return None
        about = struct.pack(">Q3sH", number, head[:3], size)
        try:
            return Opened(head[0], self._aead.decrypt(nonce, body[self._explicit :], about))
        except (InvalidTag, ValueError):
            return None


class _Cbc:
    """AES-CBC of TLS 1.2 with HMAC, inside the encryption or (RFC 7366) behind it."""

    def __init__(self, key: bytes, mac_key: bytes, mac: str, *, encrypt_then_mac: bool) -> None:
        self._key = key
        self._mac_key = mac_key
        self._mac = mac
        self._mac_size = _MAC_SIZES[mac]
        self._is_mac_behind = encrypt_then_mac
        # With the padding, of which a record has half a block on average.
        self.overhead = 5 + _BLOCK + self._mac_size + _BLOCK // 2

    def open(self, number: int, head: bytes, body: bytes) -> Opened | None:
        """The first block is the vector."""
        if self._is_mac_behind:
            body, mac = body[: -self._mac_size], body[-self._mac_size :]
            if not self._is_authentic(number, head, body, mac):
                return None
        if len(body) < 2 * _BLOCK or len(body) % _BLOCK:
            return None
        decryptor = Cipher(algorithms.AES(self._key), modes.CBC(body[:_BLOCK])).decryptor()
        data = decryptor.update(body[_BLOCK:]) + decryptor.finalize()
        size = len(data) - data[-1] - 1
        if self._is_mac_behind:
            return Opened(head[0], data[:size]) if size >= 0 else None
        size -= self._mac_size
        if size < 0 or not self._is_authentic(number, head, data[:size], data[size : size + self._mac_size]):
            return None
        return Opened(head[0], data[:size])

    def _is_authentic(self, number: int, head: bytes, data: bytes, mac: bytes) -> bool:
        about = struct.pack(">Q3sH", number, head[:3], len(data))
        return hmac.compare_digest(hmac.digest(self._mac_key, about + data, self._mac), mac)
