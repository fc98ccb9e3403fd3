"""TLS secrets by the random bytes of the client that they were made for. Source: draft-ietf-tls-keylogfile (RFC 9850).

They come from a file that a client or a broker was told to write, or from the secrets blocks of a pcapng file.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Mapping

# The labels that application data needs; what others tell (early data, exporters) is not read.
MASTER = "CLIENT_RANDOM"
HANDSHAKE = ("CLIENT_HANDSHAKE_TRAFFIC_SECRET", "SERVER_HANDSHAKE_TRAFFIC_SECRET")
TRAFFIC = ("CLIENT_TRAFFIC_SECRET_0", "SERVER_TRAFFIC_SECRET_0")
_LABELS = frozenset({MASTER, *HANDSHAKE, *TRAFFIC})
# A hash of TLS 1.3 has 32 or 48 bytes, as has a master secret.
_LINE = re.compile(r"^([A-Z0-9_]+) ([0-9a-fA-F]{64}) ([0-9a-fA-F]{64}|[0-9a-fA-F]{96})\s*$", re.MULTILINE)
# Connections whose secrets are kept; of more, the latest.
_CONNECTIONS_MAX = 200_000
# How many times 4,096 numbers are tried for connections whose handshake was not captured.
CAPTURE_CHUNKS_MAX = 65_536


def read_key_logs(paths: Iterable[str | os.PathLike[str]]) -> str:
    """The lines of key log files, as `Options.tls_keylog` holds them.

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
    """Secrets of many connections, looked up by client random and label."""

    def __init__(self, text: str = "") -> None:
        """The lines of a key log; comments and lines of other kinds are passed over."""
        self._secrets: dict[bytes, dict[str, bytes]] = {}
        self.may_grow = False
        self.held_size = 0
        """Bytes of all connections that wait for their secrets."""
        self.version = 0
        """Counts what was added, so that a reader knows when to look again."""
        self.used: set[bytes] = set()
        """Client randoms of connections whose handshake was captured: their secrets open no others."""
        self.chunks_left = CAPTURE_CHUNKS_MAX
        """How often numbers may still be tried for connections whose handshake was not captured."""
        self.add(text)

    def __len__(self) -> int:
        return len(self._secrets)

    def add(self, text: str) -> None:
        """More lines."""
        for label, random, secret in _LINE.findall(text):
            if label in _LABELS:
                self._secrets.setdefault(bytes.fromhex(random), {})[label] = bytes.fromhex(secret)
                self.version += 1
        while len(self._secrets) > _CONNECTIONS_MAX:
            del self._secrets[next(iter(self._secrets))]

    def randoms(self) -> Iterable[bytes]:
        """The client randoms of all connections with secrets, the latest last."""
        return self._secrets

    def use(self, random: bytes) -> None:
        """The handshake of a connection was captured."""
        if random in self._secrets:
            self.used.add(random)

    def of(self, random: bytes) -> Mapping[str, bytes]:
        """The secrets by label of the connection with this client random; empty when there are none."""
        return self._secrets.get(random, {})
