"""Kafka's hash of a group's subscribed topics, which its records contain.

Source: Kafka's Utils.computeTopicHash and computeGroupHash: XXH3 with 64 bits over little-endian numbers, and over
texts as UTF-16 units followed by their count.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

import xxhash

#: The version of the encoding.
_MAGIC = 0


def topic_hash(name: str, topic_id: bytes, count: int, rack: str | None, replica_counts: Sequence[int]) -> int:
    """The hash of one topic. rack: of all brokers; replica_counts: by partition, used if there is a rack."""
    high, low = struct.unpack(">qq", topic_id)
    data = [struct.pack("<bqq", _MAGIC, high, low), _text(name), _int(count)]
    # Each replica has its rack, with the length before it as well.
    rack_bytes = b"" if rack is None else _int(_units(rack)) + _text(rack)
    for index in range(count):
        data.append(_int(index))
        if rack is not None:
            data.append(rack_bytes * replica_counts[index])
    return _hash(b"".join(data))


def group_hash(topic_hashes: Iterable[int]) -> int:
    """The hash of a group from those of its topics, in order of their names."""
    return _hash(b"".join([struct.pack("<q", value) for value in topic_hashes]))


def _int(value: int) -> bytes:
    return struct.pack("<i", value)


def _units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


def _text(text: str) -> bytes:
    return text.encode("utf-16-le") + _int(_units(text))


def _hash(data: bytes) -> int:
    value = xxhash.xxh3_64_intdigest(data)
    return value - (1 << 64) if value >= 1 << 63 else value
