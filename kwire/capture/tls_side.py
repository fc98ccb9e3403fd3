"""One direction of a TLS connection: records cut from bytes, opened, and found again after a loss.

Both versions number the records of a key, and authenticate the number. So after missing bytes the next record is the
one that opens, and the number with which it does tells how many were lost.
"""

from __future__ import annotations

import re
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from kwire.capture.values import Data, Gap

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kwire.capture.tls_ciphers import Opened, RecordCipher

HEAD = 5
ALERT, HANDSHAKE, APPLICATION = 21, 22, 23
CHANGE_CIPHER = 20
# 2^14 bytes of content, and the most that any cipher may add.
_RECORD_SIZE_MAX = 0x4800
_RECORD = re.compile(rb"[\x14-\x17]\x03[\x01-\x03][\x00-\x48].", re.DOTALL)
# What a KeyUpdate has to say.
KEY_UPDATE_SIZE = 5
# How many numbers are tried for a record behind a loss, and how many bytes for all such tries of one direction.
_TRIES_MAX = 512
_TRIED_SIZE_MAX = 64 * 1024 * 1024


class Key(NamedTuple):
    """A cipher with the secret that it was made of (empty in TLS 1.2), and whether application data has it."""

    cipher: RecordCipher
    secret: bytes
    is_traffic: bool


class Side:
    """The bytes of one direction that are not opened yet, and the key that opens them."""

    def __init__(self) -> None:
        self.buffer = bytearray()
        self.ts = 0
        self.packet = 0
        self.key: Key | None = None
        self.number = 0
        self.offset = 0
        """Where the next content stands in the stream of contents."""
        self.handshake = bytearray()
        self.is_lost = False
        self.is_blocked = False
        """Whether a whole record waits for what is not known yet."""
        self.has_opened = False
        self.lost_size = 0
        self.why = "lost"
        self._queue: deque[Data | Gap] = deque()
        self._tried = 0

    def put(self, event: Data | Gap) -> None:
        """What comes next in this direction."""
        self._queue.append(event)

    def pull(self) -> Data | Gap | None:
        """Move the next event to the buffer. A gap ends what is in it."""
        if not self._queue:
            return None
        event = self._queue.popleft()
        self.ts = event.ts
        if isinstance(event, Data):
            self.buffer += event.payload
            self.packet = event.packet
        else:
            self.lose(len(self.buffer) + event.size, event.why)
            self.buffer.clear()
        return event

    def lose(self, size: int, why: str) -> None:
        """So many bytes cannot be opened: the next record must be found."""
        self.is_lost = True
        self.lost_size += size
        self.why = why

    def record(self) -> tuple[bytes, bytes] | None:
        """Head and body of the next record, which stays in the buffer; None while it is not whole.

        What is no record is lost, and a search begins.
        """
        buffer = self.buffer
        if len(buffer) < HEAD:
            return None
        size = buffer[3] << 8 | buffer[4]
        if not CHANGE_CIPHER <= buffer[0] <= APPLICATION or buffer[1] != 3 or size > _RECORD_SIZE_MAX:
            self.lose(0, "tls")
            return None
        if len(buffer) < HEAD + size:
            return None
        return bytes(buffer[:HEAD]), bytes(buffer[HEAD : HEAD + size])

    def open(self, head: bytes, body: bytes) -> Opened | None:
        """The content of the next record, whose number is then used up."""
        assert self.key is not None
        opened = self.key.cipher.open(self.number, head, body)
        if opened is not None:
            self.number += 1
            self.has_opened = True
        return opened

    def switch(self, key: Key) -> None:
        """Another key from the next record on."""
        self.key, self.number = key, 0

    def find(self, keys: Iterable[Key], *, is_last: bool) -> tuple[Opened, int] | None:
        """The next record that one of the keys opens, and how many bytes of content were lost before it.

        Args: keys: the key in use first, then those that may have followed. is_last: no more bytes will come.
        """
        data = bytes(self.buffer)
        keys = list(keys)
        passed = max(len(data) - HEAD + 1, 0)
        for found in _RECORD.finditer(data):
            at = found.start()
            end = at + HEAD + (data[at + 3] << 8 | data[at + 4])
            if end > len(data):
                if is_last:
                    continue
                passed = at
                break
            opened = self._try(keys, data[at : at + HEAD], data[at + HEAD : end], self.lost_size + at)
            if opened is not None:
                del self.buffer[:end]
                missing = self._settle(*opened[1:], self.lost_size + at)
                return opened[0], missing
        del self.buffer[:passed]
        self.lost_size += passed
        return None

    def _try(self, keys: list[Key], head: bytes, body: bytes, lost: int) -> tuple[Opened, Key, int] | None:
        for index, key in enumerate(keys):
            first = self.number if index == 0 else 0
            for number in range(first, first + min(lost // key.cipher.overhead + 2, _TRIES_MAX)):
                self._tried += len(body) + HEAD
                if self._tried > _TRIED_SIZE_MAX:
                    return None
                opened = key.cipher.open(number, head, body)
                if opened is not None:
                    return opened, key, number
        return None

    def _settle(self, key: Key, number: int, lost: int) -> int:
        """Go on with this key behind the record of this number; how much content was lost."""
        assert self.key is not None
        if key is self.key:
            missing = max(lost - (number - self.number) * key.cipher.overhead, 1)
        elif self.key.is_traffic:
            # At least the KeyUpdate itself was lost; what else of the key before is not known, and taken for content.
            missing = max(lost - KEY_UPDATE_SIZE - key.cipher.overhead * (number + 1), 0)
        else:
            # Of the handshake no content is lost; of the first key's records so many as their number says.
            missing = lost if number else 0
        self.key, self.number = key, number + 1
        self.is_lost, self.has_opened, self.lost_size = False, True, 0
        self.handshake.clear()
        return missing

    def rest(self) -> int:
        """How many bytes can never be opened, now that no more come; they are forgotten."""
        size = self.lost_size + len(self.buffer)
        size += sum(len(each.payload) if isinstance(each, Data) else each.size for each in self._queue)
        self._queue.clear()
        self.buffer.clear()
        self.lost_size = 0
        return size
