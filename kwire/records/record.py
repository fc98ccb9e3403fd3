"""What a batch is made of: a record, and the two choices that a batch makes for all of its records."""

from __future__ import annotations

from enum import IntEnum

import msgspec

Header = tuple[str, bytes | None]


class Codec(IntEnum):
    """How the records of a batch are compressed: the lowest three bits of its attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @property
    def label(self) -> str:
        """The name that Kafka's `compression.type` uses: none, gzip, snappy, lz4, zstd."""
        return self.name.lower()


class TimestampType(IntEnum):
    """Who set the timestamps: nobody (magic 0), the producer, or the broker at append."""

    NO_TIMESTAMP_TYPE = -1
    CREATE_TIME = 0
    LOG_APPEND_TIME = 1

    @property
    def label(self) -> str:
        """The name that Kafka prints and configures: NoTimestampType, CreateTime, LogAppendTime."""
        return self.name.title().replace("_", "")


class Record(msgspec.Struct, frozen=True, gc=False):
    """One record: its absolute offset, its timestamp in milliseconds (-1: none), and what it carries.

    Headers keep their order and may repeat a key; a key, a value and a header's value may be None.
    """

    offset: int = 0
    timestamp: int = -1
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[Header, ...] = ()


class Base(msgspec.Struct, frozen=True, gc=False):
    """What the records of a v2 batch take from its header.

    `append_time` is None unless the broker set the timestamps; `starts_at` is where in the given bytes they begin.
    """

    count: int
    offset: int
    timestamp: int
    append_time: int | None
    starts_at: int
