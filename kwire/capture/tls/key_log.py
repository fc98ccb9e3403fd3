"""TLS key logs: secrets by client random and label. Source: draft-ietf-tls-keylogfile (RFC 9850).

The lines come from a file that a client or a broker was configured to write, or from secrets blocks of pcapng files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

# The labels that application data needs; others (early data, exporters) are not read.
MASTER_LABEL = "CLIENT_RANDOM"
HANDSHAKE_LABELS = ("CLIENT_HANDSHAKE_TRAFFIC_SECRET", "SERVER_HANDSHAKE_TRAFFIC_SECRET")
TRAFFIC_LABELS = ("CLIENT_TRAFFIC_SECRET_0", "SERVER_TRAFFIC_SECRET_0")
_LABELS = frozenset({MASTER_LABEL, *HANDSHAKE_LABELS, *TRAFFIC_LABELS})
# A hash of TLS 1.3 has 32 or 48 bytes, as has a master secret.
_LINE = re.compile(r"^([A-Z0-9_]+) ([0-9a-fA-F]{64}) ([0-9a-fA-F]{64}|[0-9a-fA-F]{96})\s*$", re.MULTILINE)
# Connections whose secrets are stored; above it, the latest.
_CONNECTIONS_MAX = 200_000
# How many times 4,096 numbers are tried for connections whose handshake was not captured.
CAPTURE_CHUNKS_MAX = 65_536


def read_key_logs(paths: Iterable[str | os.PathLike[str]]) -> str:
    """Return the lines of key log files, for `Options.tls_keylog`.

    Raises: ValueError for a file without any TLS secret; OSError.
    """
    texts: list[str] = []
    for path in paths:
        text = Path(path).read_text("latin-1")
        if not len(KeyLog(text)):
            raise ValueError(f"{path}: no line of it is a TLS secret, as SSLKEYLOGFILE has them")
        texts.append(text)
    return "\n".join(texts)


class KeyLog:
    """Secrets of many connections, by client random and label.

    is_followed: it grows as long as packets come, so connections wait for their secrets without a limit of time.
    """

    is_followed = False

    def __init__(self, text: str = "") -> None:
        """Read the lines of a key log; comments and other lines are ignored."""
        self._secrets: dict[bytes, dict[str, bytes]] = {}
        self.may_grow = False
        self.buffered_size = 0
        """Bytes of all connections that wait for their secrets."""
        self.version = 0
        """Counter of added secrets; a reader looks them up again when it changes."""
        self.used_randoms: set[bytes] = set()
        """Client randoms of connections whose handshake was captured: their secrets are for no other."""
        self.chunks_left = CAPTURE_CHUNKS_MAX
        """How many chunks of numbers may still be tried for connections whose handshake was not captured."""
        self.add_lines(text)

    def __len__(self) -> int:
        return len(self._secrets)

    def add_lines(self, text: str) -> None:
        """Add lines of a key log."""
        for label, random, secret in _LINE.findall(text):
            if label in _LABELS:
                self._secrets.setdefault(bytes.fromhex(random), {})[label] = bytes.fromhex(secret)
                self.version += 1
        while len(self._secrets) > _CONNECTIONS_MAX:
            del self._secrets[next(iter(self._secrets))]

    def refresh(self) -> None:
        """Read what was added since; only a key log that is followed has a file to read again."""

    def client_randoms(self) -> Iterable[bytes]:
        """Return the client randoms of all connections with secrets, the latest last."""
        return self._secrets

    def mark_used(self, random: bytes) -> None:
        """Record that the handshake of a connection was captured."""
        if random in self._secrets:
            self.used_randoms.add(random)

    def secrets_of(self, random: bytes) -> Mapping[str, bytes]:
        """Return the secrets of the connection with this client random by label; empty if there are none."""
        return self._secrets.get(random, {})
