"""TLS 1.3 connections whose handshake was not captured: which known secret opens their records, and from what number.

Nothing in a record tells either, so they are tried, within bounds. With AES-GCM that is cheap: it is a stream cipher,
so one call makes the stream of 4,096 numbers at the place of a record's last byte, and only numbers that make this
byte the content type of application data are tried in full. Source: RFC 8446 sections 5.2 and 5.3, NIST SP 800-38D.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from kwire.capture import keylog, tls_ciphers
from kwire.capture.tls_side import APPLICATION, HEAD

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kwire.capture.keylog import KeyLog
    from kwire.capture.tls_ciphers import RecordCipher

_RECORD = re.compile(rb"(?=\x17\x03\x03[\x00-\x41].)", re.DOTALL)
_TAG = 16
# What two records of the largest size need, and again as much.
SOUGHT_SIZE_MAX = 1 << 16

_CHUNK_BITS = 12
_CHUNK = 1 << _CHUNK_BITS
# How many times so many numbers are tried of one secret, and for one connection; the key log bounds it for all.
SECRET_CHUNKS_MAX = 1024
CONNECTION_CHUNKS_MAX = 4096
# So many records may be none of application data, before one that is.
_SKIPS_MAX = 16
# ChaCha20 has no such short cut: what a chunk costs, and how many numbers are tried at most.
_CHACHA_CHUNK = 128
_CHACHA_TRIES = 2048
_GCM_128, _GCM_256, _CHACHA = 0x1301, 0x1302, 0x1303


class Found(NamedTuple):
    """The secret that opens a record: whose (client random), of which role (0 client, 1 server), and how."""

    random: bytes
    role: int
    suite: int
    number: int


class LateStart:
    """The search for the secrets of one connection."""

    def __init__(self, keys: KeyLog) -> None:
        """Secrets are looked up in `keys`, those of connections with a captured handshake left out."""
        self._keys = keys
        self._tried: set[bytes] = set()
        self._has_tried = False
        self._chunks = SECRET_CHUNKS_MAX
        self._left = CONNECTION_CHUNKS_MAX
        self._skips_left = _SKIPS_MAX

    @property
    def why(self) -> str:
        """Why the connection is not opened."""
        if self._has_tried:
            return "the capture began after its handshake, and no secret that is known opens its records"
        return "the capture began after its handshake, and no secret of TLS 1.3 for it is known"

    def find(self, head: bytes, body: bytes) -> Found | None:
        """Try all secrets on one whole record, but those that were tried before; the latest first."""
        fresh = [each for each in self._keys.randoms() if each not in self._tried and each not in self._keys.used]
        for random in reversed(fresh):
            if self._left <= 0 or self._keys.chunks_left <= 0:
                break
            secrets = self._keys.of(random)
            if not all(label in secrets for label in keylog.TRAFFIC):
                continue
            self._tried.add(random)
            # Both roles, for nobody knows who the client is; more numbers where there are few secrets. Half of all
            # tries is for other records, and for the other direction.
            chunks = min(max(CONNECTION_CHUNKS_MAX // (4 * len(fresh)), 1), self._chunks)
            for role in (0, 1):
                found = self._find(random, role, head, body, chunks)
                if found is not None:
                    return found
        return None

    def find_with(self, random: bytes, role: int, head: bytes, body: bytes) -> Found | None:
        """Try one secret on one whole record."""
        return self._find(random, role, head, body, self._chunks)

    def skip(self) -> bool:
        """Whether to try the next record: this one may be a session ticket, or still belong to the handshake."""
        self._tried.clear()
        # Whatever is near the handshake has a small number.
        self._chunks = 1
        self._skips_left -= 1
        return self._skips_left >= 0

    def _find(self, random: bytes, role: int, head: bytes, body: bytes, chunks: int) -> Found | None:
        self._has_tried = True
        secret = self._keys.of(random)[keylog.TRAFFIC[role]]
        for suite in (_GCM_256,) if len(secret) == 48 else (_GCM_128, _CHACHA):
            cipher = tls_ciphers.of_secret(suite, secret)
            numbers: Iterator[int]
            if suite == _CHACHA:
                numbers = self._few(chunks)
            else:
                numbers = self._promising(*tls_ciphers.key_and_iv(suite, secret), body, chunks)
            number = next((each for each in numbers if _opens(cipher, each, head, body)), None)
            if number is not None:
                return Found(random, role, suite, number)
        return None

    def _may_go_on(self) -> bool:
        """Whether there may be one more chunk of tries, which is then used up."""
        if self._left <= 0 or self._keys.chunks_left <= 0:
            return False
        self._left -= 1
        self._keys.chunks_left -= 1
        return True

    def _few(self, chunks: int) -> Iterator[int]:
        """The first numbers, one by one."""
        for start in range(0, min(chunks * _CHACHA_CHUNK, _CHACHA_TRIES), _CHACHA_CHUNK):
            if not self._may_go_on():
                return
            yield from range(start, start + _CHACHA_CHUNK)

    def _promising(self, key: bytes, iv: bytes, body: bytes, chunks: int) -> Iterator[int]:
        """Numbers with which the last byte of a record becomes the type of application data."""
        last = len(body) - _TAG - 1
        if last < 0:
            return
        # Block by block is how GCM makes its stream; nothing is hidden here.
        encryptor = Cipher(algorithms.AES(key), modes.ECB()).encryptor()  # noqa: S305
        # The first block of the stream makes the tag.
        counter = 2 + last // 16
        wanted = bytes([body[last] ^ APPLICATION])
        for chunk in range(chunks):
            if not self._may_go_on():
                return
            pattern = (int.from_bytes(iv, "big") ^ chunk << _CHUNK_BITS) << 32 | counter
            blocks = _numbers() ^ int.from_bytes(pattern.to_bytes(16, "big") * _CHUNK, "big")
            stream = encryptor.update(blocks.to_bytes(16 * _CHUNK, "big"))[last % 16 :: 16]
            at = stream.find(wanted)
            while at >= 0:
                yield chunk << _CHUNK_BITS | at
                at = stream.find(wanted, at + 1)


def record_at(data: bytes | bytearray) -> tuple[int, int] | None:
    """Where a whole record of application data begins and ends, in bytes that may begin inside another one."""
    for found in _RECORD.finditer(data):
        at = found.start()
        end = at + HEAD + (data[at + 3] << 8 | data[at + 4])
        # What stands behind it must be a record too, or nothing.
        if end == len(data) or (end < len(data) and data[end : end + 3] == b"\x17\x03\x03"):
            return at, end
    return None


def _opens(cipher: RecordCipher, number: int, head: bytes, body: bytes) -> bool:
    return cipher.open(number, head, body) is not None


@cache
def _numbers() -> int:
    """The numbers of a chunk at the place where they stand in the blocks that AES encrypts."""
    return int.from_bytes(b"".join((each << 32).to_bytes(16, "big") for each in range(_CHUNK)), "big")
