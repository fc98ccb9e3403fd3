"""Which task reads a connection, where there is no index that says what each costs."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kwire.capture.values import Segment


def share_of(segment: Segment, count: int) -> int:
    """The share of the connections between these two hosts: sessions may move from one to another of them."""
    hosts = sorted((segment.source[0], segment.target[0]))
    return zlib.crc32(b"".join(hosts)) % count
