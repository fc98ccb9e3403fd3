"""Which task reads a connection, where nobody knows beforehand what each costs."""

from __future__ import annotations

import zlib


def share_of(host: bytes, other: bytes, count: int) -> int:
    """The share of the connections between these two hosts: sessions may move from one to another of them."""
    return zlib.crc32(b"".join(sorted((host, other)))) % count
