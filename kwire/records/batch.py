"""A record batch (magic 2): its header fields, its records on demand, and the fields that a broker changes.

Header, 61 bytes: base offset int64, length int32 (of what follows), partition leader epoch int32, magic int8, crc
uint32 (CRC-32C of all that follows it), attributes int16, last offset delta int32, base timestamp int64, max timestamp
int64, producer id int64, producer epoch int16, base sequence int32, record count int32.
"""

from __future__ import annotations

import struct

import msgspec

from kwire.errors import CorruptRecords
from kwire.records import checksum, record_decoder
from kwire.records.compression import DEFAULT_MAX_BYTES, RECORD_COST, check_count, codec_of, decompress
from kwire.records.failures import Data, corrupt_error
from kwire.records.record import BatchBase, Codec, Record, TimestampType

HEADER = struct.Struct(">qiibIhiqqqhii")
HEADER_SIZE = HEADER.size
PREFIX_SIZE = 12  # Base offset and length; the length counts what follows them.
CRC_START = 21  # The checksum covers everything from the attributes on.

APPEND_TIME_BIT = 0x08
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20
DELETE_HORIZON_BIT = 0x40

_OFFSET = struct.Struct(">q")
_EPOCH = struct.Struct(">i")
_CRC = struct.Struct(">I")
_APPEND_TIME = struct.Struct(">hiqq")  # Attributes, last offset delta, base timestamp, max timestamp.
_INT64_MAX = (1 << 63) - 1
_AFTER_TIMES = CRC_START + _APPEND_TIME.size


class Batch(msgspec.Struct, frozen=True, gc=False):
    """The header of one batch. `raw` is a view of the whole batch in the bytes that were read, not a copy.

    The ids, epochs and sequence of a batch without a producer are -1. Times are milliseconds.
    """

    base_offset: int
    last_offset: int
    magic: int
    attributes: int
    count: int
    partition_leader_epoch: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    crc: int
    raw: memoryview

    @property
    def size(self) -> int:
        """Bytes of the whole batch."""
        return len(self.raw)

    @property
    def codec(self) -> Codec:
        """The compression codec of the records. Raises: UnsupportedCodec for a number that Kafka does not have."""
        return codec_of(self.attributes, CRC_START)

    @property
    def timestamp_type(self) -> TimestampType:
        """Whether producer or broker set the timestamps."""
        return TimestampType.LOG_APPEND_TIME if self.attributes & APPEND_TIME_BIT else TimestampType.CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        """Whether the batch is part of a transaction (its end marker is, too)."""
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        """Whether these are control records, which are never delivered to an application."""
        return bool(self.attributes & CONTROL_BIT)

    @property
    def delete_horizon_ms(self) -> int | None:
        """When the log cleaner may drop tombstones and markers; the base timestamp holds it (KIP-534)."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_BIT else None

    @property
    def crc_is_valid(self) -> bool:
        """Whether the checksum matches the bytes."""
        return bool(checksum.crc32c(self.raw[CRC_START:]) == self.crc)

    def check_crc(self) -> None:
        """Raise CorruptRecords unless the checksum matches the bytes."""
        if not self.crc_is_valid:
            raise CorruptRecords("batch.crc", 17, f"is {self.crc:#010x}, not the CRC-32C of the batch")

    def records(
        self, max_bytes: int = DEFAULT_MAX_BYTES, *, strict: bool = True, max_count: int | None = None
    ) -> list[Record]:
        """Decompress and decode the records.

        Args: max_bytes: the limit of the decompressed size, 128 MiB by default; each record and each header counts at
            least 64 bytes. max_count: the limit of records and headers together; None follows from `max_bytes`.
            strict: False reads as Kafka does: header keys that are not UTF-8 get U+FFFD, lengths below -1 are null.
        Raises: LimitExceeded, UnsupportedCodec, CorruptRecords and other WireErrors; nothing else.
        """
        if not self.count:
            return []  # Compaction may leave an empty batch; Kafka does not read behind its header.
        codec = self.codec
        append_time = self.max_timestamp if self.attributes & APPEND_TIME_BIT else None
        headers_max = record_decoder.NO_LIMIT
        if codec is Codec.NONE:
            data: Data = self.raw
            starts_at = HEADER_SIZE
        else:
            max_count = max_bytes // RECORD_COST if max_count is None else max_count
            check_count(codec, self.count, self.size, max_count * RECORD_COST)
            headers_max = max_count - self.count
            data = decompress(codec, self.raw[HEADER_SIZE:], max_bytes)
            starts_at = 0
        base = BatchBase(
            count=self.count,
            offset=self.base_offset,
            timestamp=self.base_timestamp,
            append_time=append_time,
            starts_at=starts_at,
        )
        return record_decoder.decode_records(data, base, strict=strict, headers_max=headers_max)


def parse_batch(data: Data, offset: int) -> Batch:
    """Read the header of the v2 batch at `offset`, whose magic has been checked.

    Raises: CorruptRecords when the batch is incomplete or too short for its header.
    """
    (base_offset, length, epoch, magic, crc, attributes, last_delta, base_timestamp, max_timestamp,
     producer_id, producer_epoch, base_sequence, count) = HEADER.unpack_from(data, offset)  # fmt: skip
    last_offset = base_offset + last_delta
    if last_delta < 0 or count < 0 or last_offset > _INT64_MAX:
        what = f"base offset {base_offset}, last offset delta {last_delta}, record count {count}"
        raise corrupt_error(what, offset, "batch")
    end = offset + PREFIX_SIZE + length
    return Batch(
        base_offset, last_offset, magic, attributes, count, epoch, base_timestamp, max_timestamp,
        producer_id, producer_epoch, base_sequence, crc, memoryview(data)[offset:end],
    )  # fmt: skip


def patch_offset_and_epoch(
    batch: bytearray | memoryview, base_offset: int, partition_leader_epoch: int, *, at: int = 0
) -> None:
    """Write base offset and leader epoch into a v2 batch in place; the checksum does not cover them.

    Args: batch: the writable bytes; at: the offset of the batch in them.
    """
    _OFFSET.pack_into(batch, at, base_offset)
    _EPOCH.pack_into(batch, at + PREFIX_SIZE, partition_leader_epoch)


def with_append_time(batch: Data, timestamp: int) -> bytes:
    """A copy of a v2 batch with the broker's append time for all records, and the new checksum.

    Args: timestamp: milliseconds; it becomes the max timestamp; the deltas of the records stay, but are no longer read.
    Source: Kafka's DefaultRecordBatch.setMaxTimestamp.
    """
    view = memoryview(batch)
    attributes, last_delta, base_timestamp, _ = _APPEND_TIME.unpack_from(view, CRC_START)
    times = _APPEND_TIME.pack(attributes | APPEND_TIME_BIT, last_delta, base_timestamp, timestamp)
    rest = view[_AFTER_TIMES:]
    return b"".join((view[:17], _CRC.pack(checksum.crc32c(rest, checksum.crc32c(times))), times, rest))
