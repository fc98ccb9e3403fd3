"""Hash partitioning of connections by their two hosts, for tasks that are planned without an index."""

from __future__ import annotations

import zlib


def host_partition(host: bytes, other: bytes, count: int) -> int:
    """The number, below `count`, of the task that reads all connections between these two hosts.

    They stay together because a fetch session may move from one connection to another.
    """
    return zlib.crc32(b"".join(sorted((host, other)))) % count
