"""TLS connections whose secrets are known: their records become the bytes that they carry, in both directions.

Sources: RFC 8446 (TLS 1.3), RFC 5246 (TLS 1.2).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.capture import keylog, tls_ciphers, tls_hello, tls_late
from kwire.capture.tls_hello import CLIENT_HELLO, FINISHED, KEY_UPDATE, SERVER_HELLO, TLS_12, TLS_13
from kwire.capture.tls_side import ALERT, APPLICATION, CHANGE_CIPHER, HANDSHAKE, HEAD, Key, Side
from kwire.capture.values import Data, Gap

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from kwire.capture.keylog import KeyLog
    from kwire.capture.tls_hello import ServerHello
    from kwire.capture.values import Flow

# What waits for secrets that a pcapng file may still bring: of one connection, and of all.
HELD_SIZE_MAX = 1 << 20
HELD_TOTAL_MAX = 64 << 20
_HANDSHAKE_SIZE_MAX = 1 << 20
_HANDSHAKE_LOST = "bytes of its handshake were not captured, or are no TLS"


class Session:
    """One TLS connection from its ClientHello on. `failure` says why it cannot be opened, or not any further."""

    def __init__(self, flow: Flow, keys: KeyLog) -> None:
        """Secrets are looked up in `keys`, as soon as both hellos are there."""
        self.failure: str | None = None
        self.alert: str | None = None
        self.size = 0
        """All bytes of the connection, opened or not."""
        self._flow = flow
        self._keys = keys
        self._keys_seen = -1
        self._sides = (Side(), Side())
        self._client: int | None = None
        self._random = b""
        self._hello: ServerHello | None = None
        self._late: tls_late.LateStart | None = None
        self._held = 0
        self._ciphers: tuple[Key, Key] | None = None
        """By role, client first: the keys of the handshake in TLS 1.3, those of everything in TLS 1.2."""
        self._traffic: tuple[Key, Key] | None = None

    def take(self, event: Data | Gap) -> Iterator[Data | Gap]:
        """What an event of the connection makes readable."""
        side = self._sides[event.side]
        size = len(event.payload) if isinstance(event, Data) else event.size
        self.size += len(event.payload) if isinstance(event, Data) else 0
        if self.failure is not None:
            side.lost_size += size
            return
        side.put(event)
        self._hold(size)
        yield from self._advance_all(event.side)
        if (self._held > HELD_SIZE_MAX or self._keys.held_size > HELD_TOTAL_MAX) and self.failure is None:
            self.failure = self._missing()
        if self.failure is not None:
            self._hold(-self._held)
            for each in self._sides:
                each.lost_size = each.rest()

    def close(self) -> Iterator[Data | Gap]:
        """Nothing more will come; what could not be opened is a gap, where anything was."""
        # Secrets may have come after the last packet.
        yield from self._advance_all(self._client or 0)
        if self.failure is None and not any(side.has_opened for side in self._sides):
            self.failure = self._missing()
        for index, side in enumerate(self._sides):
            while self._may_find(side) and (yield from self._find(index, is_last=True)):
                yield from self._advance(index)
            size = side.rest()
            if size and side.has_opened:
                yield Gap(self._flow, index, side.ts, side.offset, size, side.why)
        self._hold(-self._held)

    def _may_find(self, side: Side) -> bool:
        return self.failure is None and side.is_lost and side.key is not None

    def _hold(self, size: int) -> None:
        self._held += size
        self._keys.held_size += size

    def _advance_all(self, index: int) -> Iterator[Data | Gap]:
        """Each side may wait for what the other says: both need both hellos."""
        yield from self._advance(index)
        if self._sides[1 - index].is_blocked:
            yield from self._advance(1 - index)
            if self._sides[index].is_blocked:
                yield from self._advance(index)

    def _missing(self) -> str:
        """Why it was not opened while it could wait."""
        if self.alert not in {None, "close_notify"}:
            return f"its handshake ended with the alert {self.alert}"
        if self._client is None:
            return self._late.why if self._late is not None else "no ClientHello was captured"
        if self._hello is None:
            return "no answer in TLS to its ClientHello was captured"
        return f"no secrets are known for its client random {self._random.hex()}"

    def _advance(self, index: int) -> Iterator[Data | Gap]:
        """Open what one side has, until it must wait."""
        side = self._sides[index]
        side.is_blocked = False
        while self.failure is None:
            if self._late is not None and side.key is None:
                if not (yield from self._join(index, self._late)):
                    return
                continue
            if side.is_lost:
                if side.key is None and self._hello is None:
                    self._late = tls_late.LateStart(self._keys)
                elif side.key is None:
                    self.failure = _HANDSHAKE_LOST
                elif not (yield from self._find(index, is_last=False)) and not self._pull(side):
                    return
                continue
            record = side.record()
            if record is None:
                if not side.is_lost and not self._pull(side):
                    return
                continue
            head, body = record
            if self._client is None and head[0] == APPLICATION:
                self._late = tls_late.LateStart(self._keys)
                continue
            if not self._is_readable(index, head[0]):
                side.is_blocked = True
                return
            del side.buffer[: HEAD + len(body)]
            yield from self._read(index, head, body)

    def _join(self, index: int, late: tls_late.LateStart) -> Generator[Gap, None, bool]:
        """The capture began after the handshake: look for the secret of a whole record; whether there is more to do."""
        side = self._sides[index]
        place = tls_late.record_at(side.buffer)
        if place is None:
            if len(side.buffer) > tls_late.SOUGHT_SIZE_MAX:
                self.failure = f"{late.why}: no record begins where one must"
            return self.failure is None and self._pull(side)
        at, end = place
        head, body = bytes(side.buffer[at : at + HEAD]), bytes(side.buffer[at + HEAD : end])
        if self._client is None:
            found = late.find(head, body)
        elif all(label in self._keys.of(self._random) for label in keylog.TRAFFIC):
            found = late.find_with(self._random, int(index != self._client), head, body)
        else:
            found = None
        if found is not None:
            yield from self._begin_late(index, found, at)
            return True
        if self._keys.may_grow and self._hello is None:
            side.is_blocked = True
            return False
        del side.buffer[:end]
        side.lost_size += end
        if not late.skip():
            self.failure = late.why if self._client is None else _HANDSHAKE_LOST
        return self.failure is None

    def _begin_late(self, index: int, found: tls_late.Found, at: int) -> Iterator[Gap]:
        """A record whose secret is found begins at `at` in the side's buffer: it is read from there on."""
        side = self._sides[index]
        if self._hello is None:
            self._know(index, found)
        assert self._traffic is not None
        side.switch(self._traffic[found.role])
        side.number = found.number
        # Before the first record there was the handshake alone; else the end of what precedes this one was passed over.
        is_first = found.number == 0
        passed = 0 if is_first else side.lost_size + at
        side.is_lost, side.lost_size = False, 0
        del side.buffer[:at]
        self._flow.starts_known[index] = is_first
        if passed:
            yield Gap(self._flow, index, side.ts, 0, passed, "tls")
            side.offset = passed

    def _know(self, index: int, found: tls_late.Found) -> None:
        """One direction tells what the other needs: whose secrets, and the cipher suite."""
        self._client, self._random = index if found.role == 0 else 1 - index, found.random
        self._hello = tls_hello.ServerHello(b"", TLS_13, found.suite, encrypt_then_mac=False)
        self._keys.use(found.random)
        secrets = self._keys.of(found.random)
        self._traffic = self._keys_of(secrets[keylog.TRAFFIC[0]], secrets[keylog.TRAFFIC[1]], is_traffic=True)
        self._ciphers = self._traffic
        self._sides[1 - index].is_blocked = True
        # Nobody knows where the first frame begins.
        self._flow.opener = self._client
        self._flow.starts_known[:] = [False, False]

    def _pull(self, side: Side) -> bool:
        event = side.pull()
        if event is None:
            return False
        self._hold(-(len(event.payload) if isinstance(event, Data) else event.size))
        return True

    def _is_readable(self, index: int, kind: int) -> bool:
        """Whether everything is known that the next record of this kind needs."""
        if self._client is None:
            # The other side may still have the ClientHello; an alert needs none.
            return kind == ALERT or (kind == HANDSHAKE and self._sides[index].buffer[HEAD : HEAD + 1] == b"\x01")
        if self._hello is None:
            return kind in {ALERT, HANDSHAKE}
        if self._ciphers is None and (kind == APPLICATION or (kind == CHANGE_CIPHER and self._hello.version <= TLS_12)):
            self._load()
            return self._ciphers is not None
        return True

    def _read(self, index: int, head: bytes, body: bytes) -> Iterator[Data | Gap]:
        side = self._sides[index]
        kind, is_protected = head[0], self._is_protected(side, head[0])
        if is_protected:
            opened = side.open(head, body)
            if opened is None:
                if not side.has_opened:
                    self.failure = "its records do not open with the secrets that are known for it"
                side.lose(HEAD + len(body), "tls")
                return
            kind, body = opened
        yield from self._content(index, kind, body, is_protected=is_protected)

    def _is_protected(self, side: Side, kind: int) -> bool:
        if self._hello is not None and self._hello.version == TLS_13:
            return kind == APPLICATION
        return side.key is not None

    def _content(self, index: int, kind: int, content: bytes, *, is_protected: bool) -> Iterator[Data]:
        side = self._sides[index]
        if kind == APPLICATION:
            if content:
                yield Data(self._flow, index, side.ts, side.offset, content, side.packet)
                side.offset += len(content)
        elif kind == HANDSHAKE:
            side.handshake += content
            self._messages(index, is_protected=is_protected)
        elif kind == ALERT and len(content) == 2:
            self.alert = tls_hello.ALERTS.get(content[1], str(content[1]))
        elif kind == CHANGE_CIPHER and self._hello is not None and self._hello.version == TLS_12:
            assert self._ciphers is not None
            side.switch(self._ciphers[index != self._client])

    def _messages(self, index: int, *, is_protected: bool) -> None:
        """The handshake messages that are whole."""
        buffer = self._sides[index].handshake
        while len(buffer) >= 4 and self.failure is None:
            size = int.from_bytes(buffer[1:4], "big")
            if size > _HANDSHAKE_SIZE_MAX:
                self.failure = "a message of its handshake states an impossible length"
            if len(buffer) < 4 + size:
                return
            kind, body = buffer[0], bytes(buffer[4 : 4 + size])
            del buffer[: 4 + size]
            if is_protected:
                self._protected_message(index, kind)
            elif kind == CLIENT_HELLO and self._client is None:
                self._begin(index, body)
            elif kind == SERVER_HELLO and index != self._client:
                self._choose(body)

    def _protected_message(self, index: int, kind: int) -> None:
        side = self._sides[index]
        assert self._hello is not None
        assert side.key is not None
        if self._hello.version == TLS_12:
            if kind in {0, CLIENT_HELLO}:
                self.failure = "it negotiates anew, which is not followed"
        elif kind == FINISHED and not side.key.is_traffic:
            assert self._traffic is not None
            side.switch(self._traffic[index != self._client])
        elif kind == KEY_UPDATE:
            side.switch(self._next_key(side.key))

    def _begin(self, index: int, body: bytes) -> None:
        random = tls_hello.client_random(body)
        if random is None:
            self.failure = "its ClientHello does not decode"
            return
        self._client, self._random = index, random
        self._keys.use(random)
        # Contents begin with the connection, whatever was seen of TCP's own beginning.
        self._flow.opener = index
        self._flow.starts_known[:] = [True, True]

    def _choose(self, body: bytes) -> None:
        hello = tls_hello.server_hello(body)
        if hello is None:
            self.failure = "its ServerHello does not decode"
        elif hello.version not in {TLS_12, TLS_13}:
            self.failure = f"{tls_hello.NAMES.get(hello.version, hex(hello.version))} is not read"
        elif not tls_ciphers.is_supported(hello.suite, is_13=hello.version == TLS_13):
            self.failure = f"the cipher suite 0x{hello.suite:04x} is not read"
        else:
            self._hello = hello

    def _load(self) -> None:
        """Look for the secrets; where none can come any more, that is a failure."""
        hello = self._hello
        assert hello is not None
        if self._keys_seen == self._keys.version:
            return
        self._keys_seen = self._keys.version
        secrets = self._keys.of(self._random)
        if hello.version == TLS_12 and len(secrets.get(keylog.MASTER, b"")) == 48:
            randoms = (self._random, hello.random)
            made = tls_ciphers.of_master(
                hello.suite, secrets[keylog.MASTER], randoms, encrypt_then_mac=hello.encrypt_then_mac
            )
            self._ciphers = Key(made[0], b"", is_traffic=True), Key(made[1], b"", is_traffic=True)
        elif hello.version == TLS_13 and all(label in secrets for label in keylog.HANDSHAKE + keylog.TRAFFIC):
            self._ciphers = self._keys_of(secrets[keylog.HANDSHAKE[0]], secrets[keylog.HANDSHAKE[1]], is_traffic=False)
            self._traffic = self._keys_of(secrets[keylog.TRAFFIC[0]], secrets[keylog.TRAFFIC[1]], is_traffic=True)
            for index, side in enumerate(self._sides):
                side.key = self._ciphers[index != self._client]
        elif not self._keys.may_grow:
            self.failure = self._missing()

    def _keys_of(self, client: bytes, server: bytes, *, is_traffic: bool) -> tuple[Key, Key]:
        return self._key(client, is_traffic=is_traffic), self._key(server, is_traffic=is_traffic)

    def _key(self, secret: bytes, *, is_traffic: bool) -> Key:
        assert self._hello is not None
        return Key(tls_ciphers.of_secret(self._hello.suite, secret), secret, is_traffic)

    def _next_key(self, key: Key) -> Key:
        assert self._hello is not None
        return self._key(tls_ciphers.next_secret(self._hello.suite, key.secret), is_traffic=True)

    def _find(self, index: int, *, is_last: bool) -> Generator[Data | Gap, None, bool]:
        """Search for the next record behind a loss; returns whether it was found."""
        side = self._sides[index]
        assert side.key is not None
        keys = [side.key]
        if side.key.secret:
            assert self._traffic is not None
            keys.append(self._next_key(side.key) if side.key.is_traffic else self._traffic[index != self._client])
        found = side.find(keys, is_last=is_last)
        if found is None:
            return False
        opened, missing = found
        if missing:
            yield Gap(self._flow, index, side.ts, side.offset, missing, side.why)
            side.offset += missing
        yield from self._content(index, opened.kind, opened.content, is_protected=True)
        return True
