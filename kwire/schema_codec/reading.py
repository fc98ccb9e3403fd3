"""Reading messages by their layouts: the first wrong field is named, and a lenient decode reads on as Kafka does.

Slow, and only run where the generated code has raised. Rules for Kafka: its generated `read` methods and
`ByteBufferAccessor` in 4.4.0.
"""

from __future__ import annotations

from typing import Any

import msgspec

from kwire.codec_table import Codec
from kwire.decode_warnings import DecodeWarning, LenientResult, ignored_tail
from kwire.errors import TrailingBytes, WireError
from kwire.schema_codec.layouts import layout_of
from kwire.schema_codec.reader import Reader

#: How many bytes of fields that are not decoded a warning shows.
_SHOWN_MAX = 64

#: A message, whose class depends on the codec at run time, the offset behind it, and warnings.
MessagePrefix = tuple[Any, int, tuple[DecodeWarning, ...]]


def read_message(codec: Codec, version: int, data: bytes, at: int) -> msgspec.Struct:
    """The message in the bytes from `at` on, all of them. Raises: WireError with path and offset."""
    message: msgspec.Struct
    message, end, _ = read_message_prefix(codec, version, data, at, lenient=False)
    if end != len(data):
        raise TrailingBytes(codec.name, end, f"{len(data) - end} bytes behind the end of the message")
    return message


def read_message_leniently(codec: Codec, version: int, data: bytes, at: int) -> LenientResult[Any]:
    """The message as Kafka reads it, with warnings for what a strict decode rejects.

    Raises: WireError where Kafka fails too.
    """
    message, end, warnings = read_message_prefix(codec, version, data, at, lenient=True)
    return LenientResult(message, (*warnings, *ignored_tail(codec.name, end, len(data))), end - at)


def read_newer_message(codec: Codec, version: int, data: bytes, at: int) -> LenientResult[Any]:
    """A message of a newer version than the newest known one, `version`: its leading fields as that version has them.

    The fields that only the newer version has are a warning with their first bytes. Never fails: without a single known
    field, all fields have their defaults.
    """
    try:
        result = read_message_leniently(codec, version, data, at)
    except WireError:
        pass
    else:
        if at + result.size == len(data):
            return result
    reader = _create_reader(codec, data, at, lenient=True)
    message = layout_of(codec.name, version, codec.edition).read_leading(reader, codec.name)
    shown = data[reader.at : reader.at + _SHOWN_MAX].hex()
    what = f"{len(data) - reader.at} bytes of fields that version {version} does not have are not decoded: {shown}"
    return LenientResult(message, (*reader.warnings, DecodeWarning(codec.name, reader.at, what)), reader.at - at)


def read_message_prefix(codec: Codec, version: int, data: bytes, at: int = 0, *, lenient: bool) -> MessagePrefix:
    """A message in front of other bytes, such as a header; the offset behind it; the warnings.

    Raises: WireError with path and offset.
    """
    reader = _create_reader(codec, data, at, lenient=lenient)
    message = layout_of(codec.name, version, codec.edition).parse(data, reader=reader, at_path=codec.name)
    return message, reader.at, tuple(reader.warnings)


def _create_reader(codec: Codec, data: bytes, at: int, *, lenient: bool) -> Reader:
    return Reader(data, at, lenient=lenient, classes={**codec.structs, codec.name: codec.message})
