"""Search for the secret and the record number of TLS 1.3 connections whose handshake was not captured.

A record shows neither, so both are tried, within limits. With AES-GCM this is cheap: it is a stream cipher, so one call
computes the key stream of 4,096 numbers at the position of a record's last byte, and only numbers with which this byte
is the content type of application data are tried in full. Source: RFC 8446 sections 5.2 and 5.3, NIST SP 800-38D.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from kwire.capture.tls import ciphers, key_log
from kwire.capture.tls.ciphers import RecordCipher
from kwire.capture.tls.key_log import KeyLog
from kwire.capture.tls.tls_direction import APPLICATION, HEADER_SIZE

_RECORD = re.compile(rb"(?=\x17\x03\x03[\x00-\x41].)", re.DOTALL)
_TAG = 16
# Twice the size of two records of the largest size.
SEARCH_SIZE_MAX = 1 << 16

_CHUNK_BITS = 12
_CHUNK = 1 << _CHUNK_BITS
# How many chunks of numbers are tried with one secret, and for one connection; the key log has the limit for all.
SECRET_CHUNKS_MAX = 1024
CONNECTION_CHUNKS_MAX = 4096
# How many records may not be application data, before one that is.
_SKIPS_MAX = 16
# ChaCha20 has no such shortcut: the numbers of a chunk, and how many numbers are tried at most.
_CHACHA_CHUNK = 128
_CHACHA_TRIES = 2048
_GCM_128, _GCM_256, _CHACHA = 0x1301, 0x1302, 0x1303


class FoundSecret(NamedTuple):
    """The secret of a record: its client random, role (0 client, 1 server) and cipher suite, and the record number."""

    random: bytes
    role: int
    suite: int
    number: int


class MidstreamSearch:
    """Searches the secrets of one connection."""

    def __init__(self, keys: KeyLog) -> None:
        """Secrets are taken from `keys`, except for those of connections whose handshake was captured."""
        self._keys = keys
        self._tried_randoms: set[bytes] = set()
        self._has_tried = False
        self._secret_chunks = SECRET_CHUNKS_MAX
        self._chunks_left = CONNECTION_CHUNKS_MAX
        self._skips_left = _SKIPS_MAX

    @property
    def failure_reason(self) -> str:
        """The reason why the connection is not decrypted."""
        if self._has_tried:
            return "the capture began after its handshake, and no known secret decrypts its records"
        return "the capture began after its handshake, and no TLS 1.3 secret for it is known"

    def find_secret(self, header: bytes, body: bytes) -> FoundSecret | None:
        """Try all secrets that were not tried before on a complete record, the latest first."""
        excluded = self._tried_randoms | self._keys.used_randoms
        untried = [random for random in self._keys.client_randoms() if random not in excluded]
        for random in reversed(untried):
            if self._chunks_left <= 0 or self._keys.chunks_left <= 0:
                break
            secrets = self._keys.secrets_of(random)
            if not all(label in secrets for label in key_log.TRAFFIC_LABELS):
                continue
            self._tried_randoms.add(random)
            # Both roles, since the client is not known; more numbers where there are few secrets. Half of all tries is
            # reserved for other records, and for the other direction.
            chunks = min(max(CONNECTION_CHUNKS_MAX // (4 * len(untried)), 1), self._secret_chunks)
            for role in (0, 1):
                secret = self._find_in_role(random, role, header, body, chunks)
                if secret is not None:
                    return secret
        return None

    def find_number(self, random: bytes, role: int, header: bytes, body: bytes) -> FoundSecret | None:
        """Try one secret on a complete record."""
        return self._find_in_role(random, role, header, body, self._secret_chunks)

    def skip_record(self) -> bool:
        """Skip a record, which may be a session ticket or part of the handshake; return whether to try the next one."""
        self._tried_randoms.clear()
        # A record near the handshake has a small number.
        self._secret_chunks = 1
        self._skips_left -= 1
        return self._skips_left >= 0

    def _find_in_role(self, random: bytes, role: int, header: bytes, body: bytes, chunks: int) -> FoundSecret | None:
        self._has_tried = True
        secret = self._keys.secrets_of(random)[key_log.TRAFFIC_LABELS[role]]
        for suite in (_GCM_256,) if len(secret) == 48 else (_GCM_128, _CHACHA):
            cipher = ciphers.tls13_cipher(suite, secret)
            numbers: Iterator[int]
            if suite == _CHACHA:
                numbers = self._chacha_numbers(chunks)
            else:
                numbers = self._gcm_numbers(*ciphers.key_and_iv(suite, secret), body, chunks)
            number = next((each for each in numbers if _decrypts(cipher, each, header, body)), None)
            if number is not None:
                return FoundSecret(random, role, suite, number)
        return None

    def _use_chunk(self) -> bool:
        """Use one chunk of tries; return whether there was one left."""
        if self._chunks_left <= 0 or self._keys.chunks_left <= 0:
            return False
        self._chunks_left -= 1
        self._keys.chunks_left -= 1
        return True

    def _chacha_numbers(self, chunks: int) -> Iterator[int]:
        """Yield the first numbers one by one."""
        for start in range(0, min(chunks * _CHACHA_CHUNK, _CHACHA_TRIES), _CHACHA_CHUNK):
            if not self._use_chunk():
                return
            yield from range(start, start + _CHACHA_CHUNK)

    def _gcm_numbers(self, key: bytes, iv: bytes, body: bytes, chunks: int) -> Iterator[int]:
        """Yield the numbers with which the last byte of a record becomes the type of application data."""
        last = len(body) - _TAG - 1
        if last < 0:
            return
        # GCM computes its key stream block by block; this encrypts no secret data.
        encryptor = Cipher(algorithms.AES(key), modes.ECB()).encryptor()  # noqa: S305
        # The first block of the stream is for the tag.
        counter = 2 + last // 16
        expected = bytes([body[last] ^ APPLICATION])
        for chunk in range(chunks):
            if not self._use_chunk():
                return
            pattern = (int.from_bytes(iv, "big") ^ chunk << _CHUNK_BITS) << 32 | counter
            blocks = _chunk_numbers() ^ int.from_bytes(pattern.to_bytes(16, "big") * _CHUNK, "big")
            stream = encryptor.update(blocks.to_bytes(16 * _CHUNK, "big"))[last % 16 :: 16]
            at = stream.find(expected)
            while at >= 0:
                yield chunk << _CHUNK_BITS | at
                at = stream.find(expected, at + 1)


def find_record(data: bytes | bytearray) -> tuple[int, int] | None:
    """Find begin and end of a complete record of application data, in bytes that may begin inside another record."""
    for match in _RECORD.finditer(data):
        at = match.start()
        end = at + HEADER_SIZE + (data[at + 3] << 8 | data[at + 4])
        # It must be followed by another record, or by nothing.
        if end == len(data) or (end < len(data) and data[end : end + 3] == b"\x17\x03\x03"):
            return at, end
    return None


def _decrypts(cipher: RecordCipher, number: int, header: bytes, body: bytes) -> bool:
    return cipher.decrypt_record(number, header, body) is not None


@cache
def _chunk_numbers() -> int:
    """The numbers of a chunk, at their position in the blocks that AES encrypts."""
    return int.from_bytes(b"".join((each << 32).to_bytes(16, "big") for each in range(_CHUNK)), "big")
