"""Records, and the properties that all records of a batch share: compression codec and timestamp type."""

from __future__ import annotations

from enum import IntEnum

import msgspec

Header = tuple[str, bytes | None]


class Codec(IntEnum):
    """The compression codec of a batch: the lowest three bits of its attributes."""

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
    """The origin of timestamps: none (magic 0), the producer, or the broker at append."""

    NO_TIMESTAMP_TYPE = -1
    CREATE_TIME = 0
    LOG_APPEND_TIME = 1

    @property
    def label(self) -> str:
        """The name that Kafka prints and configures: NoTimestampType, CreateTime, LogAppendTime."""
        return self.name.title().replace("_", "")


class Record(msgspec.Struct, frozen=True, gc=False):
    """One record: its absolute offset, its timestamp in milliseconds (-1: none), its key, value and headers.

    Headers are ordered and may repeat a key; a key, a value and a header's value may be None.
    """

    offset: int = 0
    timestamp: int = -1
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[Header, ...] = ()


class BatchBase(msgspec.Struct, frozen=True, gc=False):
    """The header fields of a v2 batch that decoding its records needs.

    `append_time` is None unless the broker set the timestamps; `starts_at` is the offset of the records in the data.
    """

    count: int
    offset: int
    timestamp: int
    append_time: int | None
    starts_at: int
