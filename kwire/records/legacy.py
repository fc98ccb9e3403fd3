"""Messages of magic 0 and 1: each is a batch of one record, or a wrapper whose value is a compressed set of messages.

A message: offset int64, size int32 (of what follows), crc uint32 (CRC-32 of all that follows it), magic int8,
attributes int8, from magic 1 on timestamp int64, then key and value, each an int32 length (-1 for null) and the bytes.
Source: Kafka's AbstractLegacyRecordBatch, for wrappers.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

from kwire.errors import CorruptRecords, InvalidLength, Truncated
from kwire.records.batch import APPEND_TIME_BIT, Batch
from kwire.records.compression import DEFAULT_MAX_BYTES, RECORD_COST, check_count, decompress
from kwire.records.failures import Data, corrupt_error
from kwire.records.record import Codec, Record, TimestampType
from kwire.records.varint import wrap_int64

_HEADER = struct.Struct(">qiIbb")
_TIMESTAMP = struct.Struct(">q")
_LENGTH = struct.Struct(">i")
_CRC_START = 16
SIZES_MIN = (26, 34)
"""The smallest message of magic 0 and of magic 1: its header and two lengths."""


class LegacyBatch(Batch, frozen=True, gc=False):
    """A message, or a wrapper of messages. Fields that only v2 has (producer, sequence, leader epoch) are -1.

    The first offset and the count of a wrapper follow from its content, so reading these two decompresses it.
    """

    # msgspec sets the fields by position, so a property may replace one of them.
    @property  # type: ignore[misc]
    def base_offset(self) -> int:
        """The offset of the first record."""
        return self.last_offset if self.codec is Codec.NONE else self.records()[0].offset

    @property  # type: ignore[misc]
    def count(self) -> int:
        """How many records there are."""
        return 1 if self.codec is Codec.NONE else len(self.records())

    @property
    def timestamp_type(self) -> TimestampType:
        """None in magic 0; otherwise the producer or the broker set the timestamps."""
        if self.magic == 0:
            return TimestampType.NO_TIMESTAMP_TYPE
        return TimestampType.LOG_APPEND_TIME if self.attributes & APPEND_TIME_BIT else TimestampType.CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        """False: only v2 has this bit."""
        return False

    @property
    def is_control(self) -> bool:
        """False: only v2 has this bit."""
        return False

    @property
    def delete_horizon_ms(self) -> int | None:
        """None: only v2 has this bit."""
        return None

    @property
    def crc_is_valid(self) -> bool:
        """Whether the checksum matches the bytes."""
        return zlib.crc32(self.raw[_CRC_START:]) == self.crc

    def check_crc(self) -> None:
        """Raise CorruptRecords unless the checksum matches the bytes."""
        if not self.crc_is_valid:
            raise CorruptRecords("message.crc", 12, f"is {self.crc:#010x}, not the CRC-32 of the message")

    def records(
        self, max_bytes: int = DEFAULT_MAX_BYTES, *, strict: bool = True, max_count: int | None = None
    ) -> list[Record]:
        """The record, or the decompressed records of a wrapper.

        Args: max_bytes: the limit of the decompressed size, 128 MiB by default; each record counts at least 64 bytes.
            max_count: the limit of the records of a wrapper; None follows from `max_bytes`.
            strict: False reads as Kafka's log does: inner checksums are not checked, a truncated last one is omitted.
        Raises: LimitExceeded, UnsupportedCodec, CorruptRecords and other WireErrors; nothing else.
        """
        key, value = _read_payload(self.raw, self.magic)
        codec = self.codec
        if codec is Codec.NONE:
            return [Record(self.last_offset, self.max_timestamp, key, value)]
        if value is None:
            raise corrupt_error("a compressed message with a null value", path="message.value")
        size_max = max_bytes if max_count is None else max_count * RECORD_COST
        data = decompress(codec, value, max_bytes, magic=self.magic)
        inner: list[Record] = []
        for record in _read_inner_records(data, self.magic, strict):
            inner.append(record)
            check_count(codec, len(inner), self.size, size_max)
        if not inner:
            raise corrupt_error("a compressed message with nothing inside")
        return _with_absolute_offsets(inner, self)


def parse_message(data: Data, offset: int) -> LegacyBatch:
    """Read the message of magic 0 or 1 at `offset`, whose size and magic have been checked."""
    last_offset, size, crc, magic, attributes = _HEADER.unpack_from(data, offset)
    timestamp = _TIMESTAMP.unpack_from(data, offset + _HEADER.size)[0] if magic else -1
    raw = memoryview(data)[offset : offset + 12 + size]
    return LegacyBatch(last_offset, last_offset, magic, attributes, 1, -1, -1, timestamp, -1, -1, -1, crc, raw)


def _read_payload(raw: memoryview, magic: int) -> tuple[bytes | None, bytes | None]:
    at = _HEADER.size + 8 * magic
    key, at = _read_blob(raw, at, "message.key")
    value, at = _read_blob(raw, at, "message.value")
    if at != len(raw):
        raise corrupt_error(f"{len(raw) - at} bytes follow the value", at, "message")
    return key, value


def _read_blob(raw: memoryview, at: int, path: str) -> tuple[bytes | None, int]:
    have = len(raw) - at
    if have < 4:
        raise Truncated(path, at, 4, have)
    (size,) = _LENGTH.unpack_from(raw, at)
    if size == -1:
        return None, at + 4
    if size < 0:
        raise InvalidLength(path, at, f"a length of {size}, null is -1")
    if size > have - 4:
        raise Truncated(path, at, size, have - 4)
    return bytes(raw[at + 4 : at + 4 + size]), at + 4 + size


def _read_inner_records(data: bytes, magic: int, strict: bool) -> Iterator[Record]:
    """The records in a wrapper, with their own offsets and timestamps."""
    at = 0
    while at < len(data):
        have = len(data) - at
        if have > _CRC_START and data[at + _CRC_START] != magic:
            raise corrupt_error(f"a message of magic {data[at + _CRC_START]} inside one of magic {magic}", at)
        size = _LENGTH.unpack_from(data, at + 8)[0] if have >= 12 else SIZES_MIN[magic] - 12
        if size + 12 < SIZES_MIN[magic]:
            raise corrupt_error(f"an inner message of {size} bytes", at)
        if size + 12 > have:
            if strict:
                raise Truncated("records", at, size + 12, have)
            return
        message = parse_message(data, at)
        if message.codec is not Codec.NONE:
            raise corrupt_error("a compressed message inside a compressed message", at)
        if strict:
            message.check_crc()
        yield Record(message.last_offset, message.max_timestamp, *_read_payload(message.raw, magic))
        at += message.size


def _with_absolute_offsets(inner: list[Record], wrapper: LegacyBatch) -> list[Record]:
    """The records with absolute offsets: those of magic 0 are absolute, those of magic 1 relative to the first.

    The wrapper has the offset of the last one, but some versions of librdkafka produce it with 0.
    With the broker's append time, the timestamp of the wrapper applies to all records.
    """
    shift = 0
    if wrapper.magic == 1 and wrapper.last_offset != 0:
        shift = wrapper.last_offset - inner[-1].offset
        if shift < 0:
            raise corrupt_error(f"wrapper offset {wrapper.last_offset} below the last inner one {inner[-1].offset}")
    append_time = wrapper.timestamp_type is TimestampType.LOG_APPEND_TIME
    if not shift and not append_time:
        return inner
    time = wrapper.max_timestamp
    return [
        Record(wrap_int64(record.offset + shift), time if append_time else record.timestamp, record.key, record.value)
        for record in inner
    ]
