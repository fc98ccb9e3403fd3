"""Records of the cluster's metadata log, `__cluster_metadata-0`, and of its snapshots: the frame around each message.

The value of such a record is a frame version, the API key of the record and the version of the message, each an
unsigned varint, and then the message. Source: MetadataRecordSerde and AbstractApiMessageSerde of Kafka 4.4.0.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from kwire.codec import Buffer, decode, encode
from kwire.codec_table import Codec
from kwire.errors import InvalidVarint, Truncated, UnsupportedVersion
from kwire.messages.index import METADATA_RECORDS
from kwire.primitives import FAILURES, read_uvarint, uvarint
from kwire.registry import codec_of_class, codec_of_name

__all__ = ["MetadataRecord", "decode_metadata_record", "encode_metadata_record"]

#: The only version of the frame that Kafka has defined.
FRAME_VERSION = 1

#: The most bytes of an unsigned varint of 32 bits.
_VARINT_BYTES_MAX = 5


class MetadataRecord(NamedTuple):
    """A message of the metadata log, and the version in which it is written."""

    message: msgspec.Struct
    version: int


def decode_metadata_record(value: Buffer) -> MetadataRecord:
    """The message in the value of a record of the metadata log.

    Raises: UnsupportedVersion for another frame version, an unknown API key or a version that the record does not
    have; WireError with path and offset, counted from the start of the value, for everything else.
    """
    raw = value if type(value) is bytes else bytes(value)
    frame_version, at = _read_number(raw, 0, "frame_version")
    if frame_version != FRAME_VERSION:
        raise UnsupportedVersion("frame_version", f"is {frame_version}, not {FRAME_VERSION}")
    api_key, at = _read_number(raw, at, "api_key")
    name = METADATA_RECORDS.get(api_key)
    if name is None:
        raise UnsupportedVersion("api_key", f"no metadata record has the key {api_key}")
    version, at = _read_number(raw, at, "version")
    return MetadataRecord(decode(name, version, raw, at=at), version)


def encode_metadata_record(message: msgspec.Struct, version: int) -> bytes:
    """The value of a record of the metadata log.

    Raises: UnsupportedVersion when the message is no metadata record, or does not have the version; WireError as
    `kwire.encode`.
    """
    codec = codec_of_class(type(message))
    if not _is_metadata_record(codec):
        raise UnsupportedVersion(codec.name, "is not a record of the metadata log")
    body = encode(message, version)
    return b"".join((uvarint(FRAME_VERSION), uvarint(codec.api_key), uvarint(version), body))


def _is_metadata_record(codec: Codec) -> bool:
    name = METADATA_RECORDS.get(codec.api_key)
    return name is not None and codec_of_name(name) is codec


def _read_number(raw: bytes, at: int, path: str) -> tuple[int, int]:
    try:
        return read_uvarint(raw, at)
    except FAILURES as error:
        have = len(raw) - at
        if have < _VARINT_BYTES_MAX and all(byte >= 0x80 for byte in raw[at:]):
            raise Truncated(path, at, have + 1, have) from error
        raise InvalidVarint(path, at, "is an unsigned varint of more than 32 bits") from error
