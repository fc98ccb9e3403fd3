"""The iteration order of Java's hash maps, which decides the assignments of Kafka's assignors.

A Java map walks its buckets from first to last, and inside one bucket in the order of insertion. The number of
buckets is a power of two that only grows, so a Python dict (insertion order) and one number give the same order.
Buckets with eight or more colliding keys become trees in Java, which is not implemented here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")

_DEFAULT_CAPACITY = 16
_FIBONACCI = -7046029254386353131
_LONG = (1 << 64) - 1


def signed32(value: int) -> int:
    """Wrap a number like Java's int."""
    return (value + 0x8000_0000 & 0xFFFF_FFFF) - 0x8000_0000


def signed64(value: int) -> int:
    """Wrap a number like Java's long."""
    return (value + (1 << 63) & _LONG) - (1 << 63)


def uuid_hash(uuid: bytes) -> int:
    """Hash 16 raw bytes as Kafka's `Uuid.hashCode` does: both halves folded together, then folded again."""
    folded = int.from_bytes(uuid[:8], "big") ^ int.from_bytes(uuid[8:], "big")
    return signed32((folded >> 32) ^ (folded & 0xFFFF_FFFF))


def topic_partition_hash(topic_partition: tuple[bytes, int]) -> int:
    """Hash a (topic id, partition) pair as the Java record of these two does."""
    topic_id, partition_index = topic_partition
    return signed32(31 * uuid_hash(topic_id) + partition_index)


def int_hash(value: int) -> int:
    """The hash of an Integer is its value."""
    return value


def capacity_for(mappings: int) -> int:
    """The number of buckets that Kafka requests for this many expected entries."""
    minimum = int((mappings + 1) / 0.75 + 1)
    return 1 << max(minimum - 1, 0).bit_length()


class JavaMap(Generic[K, V]):
    """A mapping that iterates like a `java.util.HashMap` with the same history.

    mappings: the number of entries that Kafka's code expects, None for Java's default capacity.
    buckets: the number of buckets that it requests instead.
    """

    def __init__(self, hash_of: Callable[[K], int], *, mappings: int | None = None, buckets: int | None = None) -> None:
        self._hash_of = hash_of
        self._capacity = _DEFAULT_CAPACITY if mappings is None else capacity_for(mappings)
        if buckets is not None:
            self._capacity = 1 << max(buckets - 1, 0).bit_length()
        self._items: dict[K, V] = {}

    def __setitem__(self, key: K, value: V) -> None:
        self._items[key] = value
        while len(self._items) > self._capacity * 0.75:
            self._capacity *= 2

    def add_computed(self, key: K, value: V) -> None:
        """Add a missing key like `computeIfAbsent`: the table grows later, and the key comes first in its bucket."""
        if len(self._items) > int(self._capacity * 0.75):
            self._capacity *= 2
        self._items = {key: value, **self._items}

    def __getitem__(self, key: K) -> V:
        return self._items[key]

    def __contains__(self, key: object) -> bool:
        return key in self._items

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[K]:
        """Walk a copy of the keys in bucket order; the map may change meanwhile."""
        return iter(sorted(self._items, key=self._bucket))

    def pop(self, key: K) -> V | None:
        """Remove a key, if it is there."""
        return self._items.pop(key, None)

    def _bucket(self, key: K) -> int:
        hashed = self._hash_of(key) & 0xFFFF_FFFF
        return (hashed ^ hashed >> 16) & self._capacity - 1


def timeline_order(keys: Iterable[K], hash_of: Callable[[K], int], *, most: int) -> list[K]:
    """The iteration order of Kafka's `TimelineHashMap`: slot by slot, and within one the newest first.

    keys: in the order they were added. most: the largest number at one time; the table has grown for them, and never
    shrinks. Source: Kafka's BaseHashTable and SnapshottableHashTable.
    """
    bits = 1
    while (most + 1) * 0.75 > 1 << bits:
        bits += 1

    def slot(key: K) -> int:
        return (hash_of(key) * _FIBONACCI & _LONG) >> 64 - bits

    newest_first = list(keys)[::-1]
    return sorted(newest_first, key=slot)


class JavaSet(JavaMap[K, None]):
    """A set that iterates like a `java.util.HashSet` with the same history."""

    def __init__(self, hash_of: Callable[[K], int], values: Iterable[K] = (), *, mappings: int | None = None) -> None:
        super().__init__(hash_of, mappings=mappings)
        for value in values:
            self.add(value)

    def add(self, value: K) -> None:
        """Add a value; an existing one keeps its position."""
        self[value] = None

    def discard(self, value: K) -> None:
        """Remove a value, if it is there."""
        self.pop(value)
