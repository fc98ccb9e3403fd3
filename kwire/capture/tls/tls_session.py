"""Decryption of TLS connections whose secrets are known, in both directions.

Sources: RFC 8446 (TLS 1.3), RFC 5246 (TLS 1.2).
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping

from kwire.capture.model import Flow, MissingBytes, StreamData
from kwire.capture.tls import ciphers, handshake, key_log
from kwire.capture.tls.handshake import CLIENT_HELLO, FINISHED, KEY_UPDATE, SERVER_HELLO, TLS_12, TLS_13, ServerHello
from kwire.capture.tls.key_log import KeyLog
from kwire.capture.tls.midstream_search import SEARCH_SIZE_MAX, FoundSecret, MidstreamSearch, find_record
from kwire.capture.tls.tls_direction import (
    ALERT,
    APPLICATION,
    CHANGE_CIPHER,
    HANDSHAKE,
    HEADER_SIZE,
    RecordKey,
    TlsDirection,
)

# Memory for data that waits for secrets from the rest of a pcapng file: of one connection, and of all.
BUFFERED_SIZE_MAX = 1 << 20
TOTAL_BUFFERED_SIZE_MAX = 64 << 20
_HANDSHAKE_SIZE_MAX = 1 << 20
_HANDSHAKE_LOST = "bytes of its handshake were not captured, or are not TLS"


class TlsSession:
    """One TLS connection. `failure` has the reason why it cannot be decrypted, or not any further."""

    def __init__(self, flow: Flow, keys: KeyLog) -> None:
        """Secrets are looked up in `keys` when both ClientHello and ServerHello are known."""
        self.failure: str | None = None
        self.alert: str | None = None
        self._flow = flow
        self._keys = keys
        self._key_log_version = -1
        self._directions = (TlsDirection(), TlsDirection())
        self._client_side: int | None = None
        self._client_random = b""
        self._server_hello: ServerHello | None = None
        self._search: MidstreamSearch | None = None
        self._buffered_size = 0
        self._is_late = False
        """Whether data was dropped before the secrets were known; they may still come, in a followed key log."""
        self._initial_keys: tuple[RecordKey, RecordKey] | None = None
        """By role, client first: the keys of the handshake in TLS 1.3, those of all records in TLS 1.2."""
        self._traffic_keys: tuple[RecordKey, RecordKey] | None = None

    def decrypt_whole_records(self, event: StreamData) -> list[StreamData] | None:
        """The content of an event that has only whole records of application data, as nearly all have.

        Returns: None for any other event, or if something precedes it: `process_event` adds it then.
        """
        is_waiting = self.failure is not None or self._directions[1 - event.side].is_blocked
        return None if is_waiting else self._directions[event.side].decrypt_whole_records(event)

    def process_event(self, event: StreamData | MissingBytes) -> Iterator[StreamData | MissingBytes]:
        """Add an event of the connection; yield what can be decrypted now."""
        direction = self._directions[event.side]
        size = len(event.payload) if isinstance(event, StreamData) else event.size
        if self.failure is not None:
            direction.lost_size += size
            return
        direction.add_event(event)
        self._count_buffered(size)
        yield from self._decrypt_both(event.side)
        is_full = self._buffered_size > BUFFERED_SIZE_MAX or self._keys.buffered_size > TOTAL_BUFFERED_SIZE_MAX
        if is_full and self.failure is None and not self._drop_waiting():
            self.failure = self._missing_secret_reason()
        if self.failure is not None:
            self._count_buffered(-self._buffered_size)
            for each in self._directions:
                each.lost_size = each.discard_remaining()

    def _drop_waiting(self) -> bool:
        """Drop the data that waits for secrets, if they may still come; decryption begins then where they are known."""
        is_waiting = self._server_hello is not None and self._initial_keys is None
        if not self._keys.is_followed or not (is_waiting or (self._search is not None and self._server_hello is None)):
            return False
        self._is_late = True
        for direction in self._directions:
            direction.drop_records()
        self._count_buffered(-self._buffered_size)
        if self._search is None and self._server_hello is not None and self._server_hello.version == TLS_13:
            # How many of the dropped records belong to the handshake is not known: the number is searched for.
            self._search = MidstreamSearch(self._keys)
        return True

    def close(self) -> Iterator[StreamData | MissingBytes]:
        """End the connection; yield the rest. Undecrypted bytes of a direction that was decrypted are missing bytes."""
        # Secrets may have come after the last packet.
        yield from self._decrypt_both(self._client_side or 0)
        if self.failure is None and not any(direction.has_decrypted for direction in self._directions):
            self.failure = self._missing_secret_reason()
        for index, direction in enumerate(self._directions):
            while self._can_find_record(direction) and (yield from self._find_record(index, is_last=True)):
                yield from self._decrypt_available(index)
            size = direction.discard_remaining()
            if size and direction.has_decrypted:
                yield MissingBytes(self._flow, index, direction.ts, direction.offset, size, direction.loss_cause)
        self._count_buffered(-self._buffered_size)

    def _can_find_record(self, direction: TlsDirection) -> bool:
        return self.failure is None and direction.is_out_of_sync and direction.key is not None

    def _count_buffered(self, size: int) -> None:
        self._buffered_size += size
        self._keys.buffered_size += size

    def _decrypt_both(self, index: int) -> Iterator[StreamData | MissingBytes]:
        """Decrypt both directions, since each may wait for the other: both need ClientHello and ServerHello."""
        yield from self._decrypt_available(index)
        if self._directions[1 - index].is_blocked:
            yield from self._decrypt_available(1 - index)
            if self._directions[index].is_blocked:
                yield from self._decrypt_available(index)

    def _missing_secret_reason(self) -> str:
        """Return the reason why the connection was not decrypted."""
        if self.alert not in {None, "close_notify"}:
            return f"its handshake ended with the alert {self.alert}"
        if self._client_side is None:
            return self._search.failure_reason if self._search is not None else "no ClientHello was captured"
        if self._server_hello is None:
            return "no answer in TLS to its ClientHello was captured"
        return f"no secrets are known for its client random {self._client_random.hex()}"

    def _decrypt_available(self, index: int) -> Iterator[StreamData | MissingBytes]:
        """Decrypt the buffered data of one direction, until it must wait."""
        direction = self._directions[index]
        direction.is_blocked = False
        while self.failure is None:
            if self._search is not None and direction.key is None:
                if not (yield from self._search_secret(index, self._search)):
                    return
                continue
            if self._is_late and self._initial_keys is None and not self._load_late_secrets():
                direction.is_blocked = True
                return
            if direction.is_out_of_sync:
                if not (yield from self._synchronize(index)):
                    return
                continue
            record = direction.next_record()
            if record is None:
                if not direction.is_out_of_sync and not self._read_event(direction):
                    return
                continue
            header, body = record
            if self._client_side is None and header[0] == APPLICATION:
                self._search = MidstreamSearch(self._keys)
                continue
            if not self._can_process(index, header[0]):
                direction.is_blocked = True
                return
            del direction.buffer[: HEADER_SIZE + len(body)]
            yield from self._process_record(index, header, body)

    def _synchronize(self, index: int) -> Generator[StreamData | MissingBytes, None, bool]:
        """Continue after a loss; return whether there may be more to decrypt."""
        direction = self._directions[index]
        if direction.key is None and self._server_hello is None:
            self._search = MidstreamSearch(self._keys)
        elif direction.key is None:
            self.failure = _HANDSHAKE_LOST
        elif not (yield from self._find_record(index, is_last=False)):
            return self._read_event(direction)
        return True

    def _search_secret(self, index: int, search: MidstreamSearch) -> Generator[MissingBytes, None, bool]:
        """Search the secret of a complete record, where the handshake was not captured; return whether to continue."""
        direction = self._directions[index]
        self._keys.refresh()
        position = find_record(direction.buffer)
        if position is None:
            if len(direction.buffer) > SEARCH_SIZE_MAX:
                self.failure = f"{search.failure_reason}: no record was found"
            return self.failure is None and self._read_event(direction)
        at, end = position
        header, body = bytes(direction.buffer[at : at + HEADER_SIZE]), bytes(direction.buffer[at + HEADER_SIZE : end])
        has_secrets = self._keys.secrets_of(self._client_random).keys() >= {*key_log.TRAFFIC_LABELS}
        if self._client_side is None:
            secret = search.find_secret(header, body)
        elif has_secrets:
            secret = search.find_number(self._client_random, int(index != self._client_side), header, body)
        else:
            secret = None
        if secret is not None:
            yield from self._start_midstream(index, secret, at)
            return True
        if self._keys.may_grow and (self._server_hello is None or not has_secrets):
            direction.is_blocked = True
            return False
        del direction.buffer[:end]
        direction.lost_size += end
        if not search.skip_record():
            self.failure = search.failure_reason if self._client_side is None else _HANDSHAKE_LOST
        return self.failure is None

    def _start_midstream(self, index: int, secret: FoundSecret, at: int) -> Iterator[MissingBytes]:
        """Start decryption at the record at `at` in the buffer, whose secret was found."""
        direction = self._directions[index]
        if self._server_hello is None:
            self._set_midstream_keys(index, secret)
        if self._traffic_keys is None:
            secrets = self._keys.secrets_of(secret.random)
            self._initial_keys = self._traffic_keys = self._record_keys(secrets, key_log.TRAFFIC_LABELS)
        direction.switch_key(self._traffic_keys[secret.role])
        direction.number = secret.number
        # Only the handshake precedes the first record; before another record, data was skipped.
        is_first = secret.number == 0
        skipped = 0 if is_first else direction.lost_size + at
        direction.is_out_of_sync, direction.lost_size = False, 0
        del direction.buffer[:at]
        self._flow.starts_known[index] = is_first
        if skipped:
            yield MissingBytes(self._flow, index, direction.ts, 0, skipped, "tls")
            direction.offset = skipped

    def _set_midstream_keys(self, index: int, secret: FoundSecret) -> None:
        """Set what one direction shows about both: the client random with its secrets, and the cipher suite."""
        self._client_side, self._client_random = index if secret.role == 0 else 1 - index, secret.random
        self._server_hello = handshake.ServerHello(b"", TLS_13, secret.suite, encrypt_then_mac=False)
        self._keys.mark_used(secret.random)
        self._directions[1 - index].is_blocked = True
        # It is not known where the first frame begins.
        self._flow.opener = self._client_side
        self._flow.starts_known[:] = [False, False]

    def _read_event(self, direction: TlsDirection) -> bool:
        event = direction.read_event()
        if event is None:
            return False
        self._count_buffered(-(len(event.payload) if isinstance(event, StreamData) else event.size))
        return True

    def _can_process(self, index: int, kind: int) -> bool:
        """Whether all that the next record of this kind requires is known."""
        if self._client_side is None:
            # The other direction may have the ClientHello; an alert does not need it.
            begin = self._directions[index].buffer[: HEADER_SIZE + 1]
            return kind == ALERT or (kind == HANDSHAKE and begin[HEADER_SIZE:] == b"\x01")
        if self._server_hello is None:
            return kind in {ALERT, HANDSHAKE}
        needs_keys = kind == APPLICATION or (kind == CHANGE_CIPHER and self._server_hello.version <= TLS_12)
        if self._initial_keys is None and needs_keys:
            self._load_secrets()
        return self._initial_keys is not None or not needs_keys

    def _process_record(self, index: int, header: bytes, body: bytes) -> Iterator[StreamData | MissingBytes]:
        direction = self._directions[index]
        kind, is_protected = header[0], self._is_protected(direction, header[0])
        if is_protected:
            decrypted = direction.decrypt_record(header, body)
            if decrypted is None:
                if not direction.has_decrypted:
                    self.failure = "its records cannot be decrypted with the secrets that are known for it"
                direction.record_loss(HEADER_SIZE + len(body), "tls")
                return
            kind, body = decrypted
        yield from self._process_content(index, kind, body, is_protected=is_protected)

    def _is_protected(self, direction: TlsDirection, kind: int) -> bool:
        if self._server_hello is not None and self._server_hello.version == TLS_13:
            return kind == APPLICATION
        return direction.key is not None

    def _process_content(self, index: int, kind: int, content: bytes, *, is_protected: bool) -> Iterator[StreamData]:
        direction = self._directions[index]
        if kind == APPLICATION:
            if content:
                yield StreamData(self._flow, index, direction.ts, direction.offset, content, direction.packet)
                direction.offset += len(content)
        elif kind == HANDSHAKE:
            direction.handshake += content
            self._process_handshake(index, is_protected=is_protected)
        elif kind == ALERT and len(content) == 2:
            self.alert = handshake.ALERT_NAMES.get(content[1], str(content[1]))
        elif kind == CHANGE_CIPHER and self._server_hello is not None and self._server_hello.version == TLS_12:
            assert self._initial_keys is not None
            direction.switch_key(self._initial_keys[index != self._client_side])

    def _process_handshake(self, index: int, *, is_protected: bool) -> None:
        """Process the complete handshake messages."""
        buffer = self._directions[index].handshake
        while len(buffer) >= 4 and self.failure is None:
            size = int.from_bytes(buffer[1:4], "big")
            if size > _HANDSHAKE_SIZE_MAX:
                self.failure = "a message of its handshake states an impossible length"
            if len(buffer) < 4 + size:
                return
            kind, body = buffer[0], bytes(buffer[4 : 4 + size])
            del buffer[: 4 + size]
            if is_protected:
                self._process_protected_message(index, kind)
            elif kind == CLIENT_HELLO and self._client_side is None:
                self._process_client_hello(index, body)
            elif kind == SERVER_HELLO and index != self._client_side:
                self._process_server_hello(body)

    def _process_protected_message(self, index: int, kind: int) -> None:
        direction = self._directions[index]
        assert self._server_hello is not None
        assert direction.key is not None
        if self._server_hello.version == TLS_12:
            if kind in {0, CLIENT_HELLO}:
                self.failure = "it renegotiates, which is not supported"
        elif kind == FINISHED and not direction.key.is_traffic:
            assert self._traffic_keys is not None
            direction.switch_key(self._traffic_keys[index != self._client_side])
        elif kind == KEY_UPDATE:
            direction.switch_key(direction.key.next_key())

    def _process_client_hello(self, index: int, body: bytes) -> None:
        random = handshake.parse_client_random(body)
        if random is None:
            self.failure = "its ClientHello cannot be decoded"
            return
        self._client_side, self._client_random = index, random
        self._keys.mark_used(random)
        # The content begins with the connection, also if the TCP handshake was not captured.
        self._flow.opener = index
        self._flow.starts_known[:] = [True, True]

    def _process_server_hello(self, body: bytes) -> None:
        hello = handshake.parse_server_hello(body)
        if hello is None:
            self.failure = "its ServerHello cannot be decoded"
        elif hello.version not in {TLS_12, TLS_13}:
            self.failure = f"{handshake.VERSION_NAMES.get(hello.version, hex(hello.version))} is not supported"
        elif not ciphers.is_supported(hello.suite, is_13=hello.version == TLS_13):
            self.failure = f"the cipher suite 0x{hello.suite:04x} is not supported"
        else:
            self._server_hello = hello

    def _load_late_secrets(self) -> bool:
        """Look up the secrets of TLS 1.2 after data was dropped: the next record has the number of those dropped."""
        self._load_secrets()
        if self._initial_keys is None:
            return False
        for index, direction in enumerate(self._directions):
            if direction.dropped_number is not None:
                direction.switch_key(self._initial_keys[index != self._client_side])
                direction.number = direction.dropped_number
                direction.is_out_of_sync = True
                self._flow.starts_known[index] = False
        return True

    def _load_secrets(self) -> None:
        """Look up the secrets. It is a failure if there are none and the key log cannot grow."""
        hello = self._server_hello
        assert hello is not None
        self._keys.refresh()
        if self._key_log_version == self._keys.version:
            return
        self._key_log_version = self._keys.version
        secrets = self._keys.secrets_of(self._client_random)
        master = secrets.get(key_log.MASTER_LABEL, b"")
        if hello.version == TLS_12 and len(master) == 48:
            client, server = ciphers.tls12_ciphers(
                hello.suite, master, (self._client_random, hello.random), encrypt_then_mac=hello.encrypt_then_mac
            )
            self._initial_keys = RecordKey(client, b"", is_traffic=True), RecordKey(server, b"", is_traffic=True)
        elif hello.version == TLS_13 and secrets.keys() >= {*key_log.HANDSHAKE_LABELS, *key_log.TRAFFIC_LABELS}:
            self._initial_keys = self._record_keys(secrets, key_log.HANDSHAKE_LABELS)
            self._traffic_keys = self._record_keys(secrets, key_log.TRAFFIC_LABELS)
            for index, direction in enumerate(self._directions):
                direction.key = self._initial_keys[index != self._client_side]
        elif not self._keys.may_grow:
            self.failure = self._missing_secret_reason()

    def _record_keys(self, secrets: Mapping[str, bytes], labels: tuple[str, str]) -> tuple[RecordKey, RecordKey]:
        assert self._server_hello is not None
        suite, is_traffic = self._server_hello.suite, labels == key_log.TRAFFIC_LABELS
        client, server = (RecordKey.from_secret(suite, secrets[label], is_traffic=is_traffic) for label in labels)
        return client, server

    def _find_record(self, index: int, *, is_last: bool) -> Generator[StreamData | MissingBytes, None, bool]:
        """Search for the next record after a loss; return whether it was found."""
        direction = self._directions[index]
        assert direction.key is not None
        keys = [direction.key]
        if direction.key.secret:
            assert self._traffic_keys is not None
            traffic_key = self._traffic_keys[index != self._client_side]
            keys.append(direction.key.next_key() if direction.key.is_traffic else traffic_key)
        result = direction.find_record(keys, is_last=is_last)
        if result is None:
            return False
        decrypted, missing = result
        if missing:
            yield MissingBytes(self._flow, index, direction.ts, direction.offset, missing, direction.loss_cause)
            direction.offset += missing
        yield from self._process_content(index, decrypted.kind, decrypted.content, is_protected=True)
        return True
