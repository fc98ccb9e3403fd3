"""The record batches of a Produce request: the format that Kafka checks before it finds the logs.

Source: Kafka's ProduceRequest.validateRecords and ByteBufferLogInputStream; pinned by the conversation
other-produce-garbage.
"""

from __future__ import annotations

from struct import Struct

from kwire.error_codes import ErrorCode
from kwire.errors import WireError
from kwire.messages.produce import ProduceRequest
from kwire.records import Batch, Codec, parse_header
from mockbroker.kafka_error import KafkaError

_ZSTD_SINCE = 7
_CODEC_MASK = 7
_TRANSACTIONAL = 0x10
#: Offset and length precede each batch; the magic byte follows the partition leader epoch.
_LENGTH_AT, _MAGIC_AT, _ATTRIBUTES_AT = 8, 16, 22
_PREFIX_SIZE = 12
#: The length of the smallest record of magic 0, without offset and length.
_LENGTH_MIN = 14
_LENGTH = Struct(">i")
_LENGTH_AND_MAGIC = Struct(">i4xB")
_LENGTH_MAX = (1 << 31) - 1 - _PREFIX_SIZE
_MAGIC_MAX = 2


class UnreadableRequestError(KafkaError):
    """The records cannot be read: the whole request fails, with this error in every row."""


def has_transactional_batch(request: ProduceRequest) -> bool:
    """Return whether the first batch of a partition is transactional.

    Raises: UnreadableRequestError (CORRUPT_MESSAGE, UNKNOWN_SERVER_ERROR) for a length or magic that no batch has.
    """
    for topic in request.topic_data:
        for row in topic.partition_data:
            try:
                size = _batch_size(row.records or b"")
            except KafkaError as error:
                message = None if error.code is ErrorCode.UNKNOWN_SERVER_ERROR else error.message
                raise UnreadableRequestError(error.code, message) from None
            if size is not None and row.records is not None and is_transactional(row.records):
                return True
    return False


def is_transactional(records: bytes | memoryview) -> bool:
    """Return whether a complete batch is transactional."""
    return records[_MAGIC_AT] == _MAGIC_MAX and bool(records[_ATTRIBUTES_AT] & _TRANSACTIONAL)


def take_only_batch(records: bytes | memoryview, api_version: int) -> bytes | memoryview:
    """The bytes of the only batch; Kafka reads complete batches, and ignores an incomplete one at the end.

    Raises: INVALID_RECORD unless there is one batch of magic 2, UNSUPPORTED_COMPRESSION_TYPE for zstd in old versions,
    CORRUPT_MESSAGE, UnreadableRequestError.
    """
    size = _batch_size(records)
    if size is None:
        raise KafkaError(ErrorCode.INVALID_RECORD, "no record batch")
    if records[_MAGIC_AT] != _MAGIC_MAX:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"a record batch of magic {records[_MAGIC_AT]}, not 2")
    codec = records[_ATTRIBUTES_AT] & _CODEC_MASK
    if api_version < _ZSTD_SINCE and codec > Codec.ZSTD:
        raise UnreadableRequestError(ErrorCode.UNKNOWN_SERVER_ERROR)
    if api_version < _ZSTD_SINCE and codec == Codec.ZSTD:
        raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"zstd in Produce version {api_version}")
    if size == len(records):
        return records
    if _batch_size(records[size:]) is not None:
        raise KafkaError(ErrorCode.INVALID_RECORD, "more than one record batch")
    return records[:size]


def parse_batch(records: bytes | memoryview) -> Batch:
    """The header of a batch. Raises: CORRUPT_MESSAGE."""
    try:
        return parse_header(records)
    except WireError as damage:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, str(damage)) from None


def _batch_size(records: bytes | memoryview) -> int | None:
    """The size of the first batch in bytes, None when it is not complete.

    Raises: CORRUPT_MESSAGE, UnreadableRequestError for a size beyond an int32.
    """
    if len(records) > _MAGIC_AT:
        length, magic = _LENGTH_AND_MAGIC.unpack_from(records, _LENGTH_AT)
        if _LENGTH_MIN <= length <= _LENGTH_MAX and magic <= _MAGIC_MAX:
            return length + _PREFIX_SIZE if length + _PREFIX_SIZE <= len(records) else None
    if len(records) < _PREFIX_SIZE:
        return None
    (length,) = _LENGTH.unpack_from(records, _LENGTH_AT)
    if length < _LENGTH_MIN:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"a batch of length {length}, the least is {_LENGTH_MIN}")
    if len(records) <= _MAGIC_AT:
        return None
    if records[_MAGIC_AT] > _MAGIC_MAX:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"magic {records[_MAGIC_AT]}, the largest is {_MAGIC_MAX}")
    if length > _LENGTH_MAX:
        raise UnreadableRequestError(ErrorCode.UNKNOWN_SERVER_ERROR)
    return None
