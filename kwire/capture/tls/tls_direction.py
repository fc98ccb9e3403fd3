"""One direction of a TLS connection: splitting into records, decryption, and resynchronization after a loss.

TLS 1.2 and 1.3 number the records of a key, and authenticate the number. So after missing bytes the next record is the
one that decrypts, and its number shows how many records were lost.
"""

from __future__ import annotations

import re
from collections import deque
from typing import NamedTuple

from kwire.capture.model import MissingBytes, StreamData
from kwire.capture.tls.ciphers import DecryptedRecord, RecordCipher, next_secret, tls13_cipher

HEADER_SIZE = 5
ALERT, HANDSHAKE, APPLICATION = 21, 22, 23
CHANGE_CIPHER = 20
# 2^14 bytes of content, and the most that any cipher may add.
_RECORD_SIZE_MAX = 0x4800
_RECORD = re.compile(rb"[\x14-\x17]\x03[\x01-\x03][\x00-\x48].", re.DOTALL)
_APPLICATION_HEADER = b"\x17\x03\x03"
# The size of a KeyUpdate message.
KEY_UPDATE_SIZE = 5
# How many numbers are tried for a record after a loss, and how many bytes in all for one direction.
_TRIES_MAX = 512
_TRIED_SIZE_MAX = 64 * 1024 * 1024


class RecordKey(NamedTuple):
    """A cipher, the secret from which it was derived (empty in TLS 1.2), and whether it is for application data.

    suite: the cipher suite, in TLS 1.3.
    """

    cipher: RecordCipher
    secret: bytes
    is_traffic: bool
    suite: int = 0

    @classmethod
    def from_secret(cls, suite: int, secret: bytes, *, is_traffic: bool) -> RecordKey:
        """The key of a secret of TLS 1.3."""
        return cls(tls13_cipher(suite, secret), secret, is_traffic, suite)

    def next_key(self) -> RecordKey:
        """The key after a KeyUpdate."""
        return self.from_secret(self.suite, next_secret(self.suite, self.secret), is_traffic=True)


class TlsDirection:
    """The encrypted bytes of one direction, and the key that decrypts them."""

    def __init__(self) -> None:
        self.buffer = bytearray()
        self.ts = 0
        self.packet = 0
        self.key: RecordKey | None = None
        self.number = 0
        self.offset = 0
        """Offset of the next content in the decrypted stream."""
        self.handshake = bytearray()
        self.is_out_of_sync = False
        self.is_blocked = False
        """Whether a complete record waits for secrets, or for the other direction."""
        self.has_decrypted = False
        self.lost_size = 0
        self.loss_cause = "lost"
        self.dropped_number: int | None = None
        """How many records `drop_records` dropped since a ChangeCipherSpec; None if it dropped none."""
        self._queue: deque[StreamData | MissingBytes] = deque()
        self._tried_size = 0

    def add_event(self, event: StreamData | MissingBytes) -> None:
        """Append an event to the queue."""
        self._queue.append(event)

    def read_event(self) -> StreamData | MissingBytes | None:
        """Move the next event to the buffer. Missing bytes clear the buffer."""
        if not self._queue:
            return None
        event = self._queue.popleft()
        self.ts = event.ts
        if isinstance(event, StreamData):
            self.buffer += event.payload
            self.packet = event.packet
        else:
            self.record_loss(len(self.buffer) + event.size, event.cause)
            self.buffer.clear()
        return event

    def record_loss(self, size: int, cause: str) -> None:
        """Record that `size` bytes cannot be decrypted; the next record must be searched."""
        self.is_out_of_sync = True
        self.lost_size += size
        self.loss_cause = cause

    def drop_records(self) -> None:
        """Drop all complete records, and count them, since TLS 1.2 numbers the records behind a ChangeCipherSpec."""
        self.loss_cause = "tls"
        while True:
            if self.is_out_of_sync:
                self._drop(len(self.buffer))
            elif (record := self.next_record()) is not None:
                header, body = record
                self._drop(HEADER_SIZE + len(body))
                if header[0] == CHANGE_CIPHER:
                    self.dropped_number = 0
                elif self.dropped_number is not None:
                    self.dropped_number += 1
                continue
            if self.read_event() is None:
                return

    def _drop(self, size: int) -> None:
        del self.buffer[:size]
        self.lost_size += size

    def next_record(self) -> tuple[bytes, bytes] | None:
        """Return header and body of the next record, which stays in the buffer; None while it is incomplete.

        Bytes that are not a record are recorded as a loss.
        """
        buffer = self.buffer
        if len(buffer) < HEADER_SIZE:
            return None
        size = buffer[3] << 8 | buffer[4]
        if not CHANGE_CIPHER <= buffer[0] <= APPLICATION or buffer[1] != 3 or size > _RECORD_SIZE_MAX:
            self.record_loss(0, "tls")
            return None
        if len(buffer) < HEADER_SIZE + size:
            return None
        return bytes(buffer[:HEADER_SIZE]), bytes(buffer[HEADER_SIZE : HEADER_SIZE + size])

    def decrypt_record(self, header: bytes, body: bytes) -> DecryptedRecord | None:
        """Decrypt the next record; on success the next number is used for the record after it."""
        assert self.key is not None
        decrypted = self.key.cipher.decrypt_record(self.number, header, body)
        if decrypted is not None:
            self.number += 1
            self.has_decrypted = True
        return decrypted

    def decrypt_whole_records(self, event: StreamData) -> list[StreamData] | None:
        """As of `TlsSession`. Nothing has changed if it returns None."""
        key = self.key
        if key is None or not key.is_traffic or self.is_out_of_sync or self.buffer or self._queue:
            return None
        flow, side, ts, _, payload, packet = event
        contents: list[StreamData] = []
        at, number, offset = 0, self.number, self.offset
        while at < len(payload):
            begin = at + HEADER_SIZE
            header = payload[at:begin]
            at = begin + int.from_bytes(header[3:], "big")
            if header[:3] != _APPLICATION_HEADER or at > len(payload) or at - begin > _RECORD_SIZE_MAX:
                return None
            record = key.cipher.decrypt_record(number, header, payload[begin:at])
            if record is None or record.kind != APPLICATION:
                return None
            number += 1
            if record.content:
                contents.append(StreamData(flow, side, ts, offset, record.content, packet))
                offset += len(record.content)
        self.ts, self.packet, self.number, self.offset = ts, packet, number, offset
        self.has_decrypted, self.is_blocked = True, False
        return contents

    def switch_key(self, key: RecordKey) -> None:
        """Use another key from the next record on."""
        self.key, self.number = key, 0

    def find_record(self, keys: list[RecordKey], *, is_last: bool) -> tuple[DecryptedRecord, int] | None:
        """Find the next record that one of the keys decrypts; return it, and the size of the content lost before it.

        Args: keys: the key in use first, then those that may have followed. is_last: whether no more bytes will come.
        """
        data = bytes(self.buffer)
        skipped = max(len(data) - HEADER_SIZE + 1, 0)
        for match in _RECORD.finditer(data):
            at = match.start()
            end = at + HEADER_SIZE + (data[at + 3] << 8 | data[at + 4])
            if end > len(data):
                if is_last:
                    continue
                skipped = at
                break
            header, body = data[at : at + HEADER_SIZE], data[at + HEADER_SIZE : end]
            lost_size = self.lost_size + at
            decrypted = self._try_keys(keys, header, body, lost_size)
            if decrypted is not None:
                del self.buffer[:end]
                return decrypted[0], self._accept_record(*decrypted[1:], lost_size)
        del self.buffer[:skipped]
        self.lost_size += skipped
        return None

    def _try_keys(
        self, keys: list[RecordKey], header: bytes, body: bytes, lost_size: int
    ) -> tuple[DecryptedRecord, RecordKey, int] | None:
        for index, key in enumerate(keys):
            first = self.number if index == 0 else 0
            for number in range(first, first + min(lost_size // key.cipher.overhead + 2, _TRIES_MAX)):
                self._tried_size += len(body) + HEADER_SIZE
                if self._tried_size > _TRIED_SIZE_MAX:
                    return None
                decrypted = key.cipher.decrypt_record(number, header, body)
                if decrypted is not None:
                    return decrypted, key, number
        return None

    def _accept_record(self, key: RecordKey, number: int, lost_size: int) -> int:
        """Continue with this key after the record of this number; return how much content was lost."""
        assert self.key is not None
        if key is self.key:
            missing = max(lost_size - (number - self.number) * key.cipher.overhead, 1)
        elif self.key.is_traffic:
            # At least the KeyUpdate was lost; the rest of the previous key's records is taken as content.
            missing = max(lost_size - KEY_UPDATE_SIZE - key.cipher.overhead * (number + 1), 0)
        else:
            # The handshake has no content; the number shows how many records of the first traffic key were lost.
            missing = lost_size if number else 0
        self.key, self.number = key, number + 1
        self.is_out_of_sync, self.has_decrypted, self.lost_size = False, True, 0
        self.handshake.clear()
        return missing

    def discard_remaining(self) -> int:
        """Discard the buffered bytes at the end; return how many bytes could not be decrypted."""
        size = self.lost_size + len(self.buffer)
        size += sum(len(each.payload) if isinstance(each, StreamData) else each.size for each in self._queue)
        self._queue.clear()
        self.buffer.clear()
        self.lost_size = 0
        return size
