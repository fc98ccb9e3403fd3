"""Decoding and encoding of messages, by name or by class, in any version and edition.

Generated code does the work and is strict. Where it raises, the schema-driven codec (`kwire.schema_codec`) reads the
same bytes or values again and reports the field, the offset and the reason, at no cost for valid input.
That codec, the JSON form and the schemas are imported on first use: a starting broker needs none of them.
"""

from __future__ import annotations

from typing import TypeVar, overload

import msgspec

from kwire import schema_codec
from kwire.codec_table import Codec, Encoder, Reader
from kwire.decode_warnings import DecodeWarning, LenientResult, ignored_tail
from kwire.errors import TrailingBytes, UnsupportedVersion
from kwire.primitives import FAILURES, Part
from kwire.registry import DEFAULT_EDITION, codec_of_class, codec_of_name, codec_of_version

__all__ = ["LenientResult", "DecodeWarning", "decode", "decode_lenient", "encode", "from_json", "to_json"]

M = TypeVar("M", bound=msgspec.Struct)

#: The functions by message, version and edition that were asked for, so that a repeated call finds them at once.
_READERS: dict[tuple[str | type[msgspec.Struct], int, str], Reader] = {}
_ENCODERS: dict[tuple[type[msgspec.Struct], int, str | None], Encoder] = {}

#: The data to decode. Anything but bytes is copied once; record batches in the message are views of that copy.
Buffer = bytes | bytearray | memoryview


@overload
def decode(
    message: str, version: int, data: Buffer, *, edition: str = ..., strict: bool = ..., at: int = ...
) -> msgspec.Struct: ...
@overload
def decode(
    message: type[M], version: int, data: Buffer, *, edition: str = ..., strict: bool = ..., at: int = ...
) -> M: ...
def decode(
    message: str | type[M],
    version: int,
    data: Buffer,
    *,
    edition: str = DEFAULT_EDITION,
    strict: bool = True,
    at: int = 0,
) -> msgspec.Struct:
    """The message in these bytes, all of them from offset `at`.

    By its name a message has every version that Kafka ever released: those that 4.0 removed have classes of their own.
    `strict=False` accepts what Kafka's decoder accepts: see `decode_lenient`.
    Raises: WireError with the field's path and the offset; UnsupportedVersion when there is no such message, version or
    edition.
    """
    if not strict:
        return decode_lenient(message, version, data, edition=edition, at=at).message
    try:
        read = _READERS[message, version, edition]
    except (KeyError, TypeError):
        read = _READERS[message, version, edition] = _find_codec(message, version, edition).readers[version]
    if type(version) is not int:
        _find_codec(message, version, edition)  # 2.0 equals 2, but is no version.
    raw = data if type(data) is bytes else bytes(data)
    try:
        result, end = read(raw, at)
    except FAILURES:
        return schema_codec.read_message(_find_codec(message, version, edition), version, raw, at)
    if end == len(raw):
        return result  # type: ignore[no-any-return]  # Readers of all messages have one type.
    codec = _find_codec(message, version, edition)
    if end < len(raw):
        raise TrailingBytes(codec.name, end, f"{len(raw) - end} bytes behind the end of the message")
    # A slice at the end was too short; only the offset shows that.
    return schema_codec.read_message(codec, version, raw, at)


@overload
def decode_lenient(
    message: str, version: int, data: Buffer, *, edition: str = ..., at: int = ...
) -> LenientResult[msgspec.Struct]: ...
@overload
def decode_lenient(
    message: type[M], version: int, data: Buffer, *, edition: str = ..., at: int = ...
) -> LenientResult[M]: ...
def decode_lenient(
    message: str | type[M], version: int, data: Buffer, *, edition: str = DEFAULT_EDITION, at: int = 0
) -> LenientResult[M] | LenientResult[msgspec.Struct]:
    """The message as Kafka's decoder reads it, with a warning for everything that a strict one rejects.

    Any non-zero byte is true, malformed UTF-8 becomes U+FFFD, bytes behind the body are ignored.
    Raises: WireError where Kafka fails too; UnsupportedVersion as `decode`.
    """
    try:
        read = _READERS[message, version, edition]
    except (KeyError, TypeError):
        read = _READERS[message, version, edition] = _find_codec(message, version, edition).readers[version]
    if type(version) is not int:
        _find_codec(message, version, edition)  # 2.0 equals 2, but is no version.
    raw = data if type(data) is bytes else bytes(data)
    try:
        result, end = read(raw, at)
    except FAILURES:
        return schema_codec.read_message_leniently(_find_codec(message, version, edition), version, raw, at)
    if end == len(raw):
        return LenientResult(result, (), end - at)
    codec = _find_codec(message, version, edition)
    if end > len(raw):
        return schema_codec.read_message_leniently(codec, version, raw, at)
    return LenientResult(result, ignored_tail(codec.name, end, len(raw)), end - at)


def encode(message: msgspec.Struct, version: int, *, edition: str | None = None) -> bytes:
    """The bytes of a message: its body, without header or frame length.

    A class belongs to an edition; `edition` only checks it.
    Raises: UnsupportedVersion naming what the version does not have; InvalidValue or UnexpectedNull with the path of
    a value that does not fit.
    """
    try:
        write = _ENCODERS[type(message), version, edition]
    except (KeyError, TypeError):
        write = _find_codec_of(message, version, edition).encoders[version]
        _ENCODERS[type(message), version, edition] = write
    if type(version) is not int:
        _find_codec_of(message, version, edition)  # 2.0 equals 2, but is no version.
    try:
        return write(message)
    except FAILURES:
        return schema_codec.write_message(_find_codec_of(message, version, edition), version, message)


def encode_parts(message: msgspec.Struct, version: int) -> list[Part]:
    """As `encode`, but as parts to join; record batches are the objects in the message."""
    codec = _find_codec_of(message, version, None)
    try:
        return codec.writers[version](message)
    except FAILURES:
        return [schema_codec.write_message(codec, version, message)]


def to_json(
    message: msgspec.Struct, version: int, *, edition: str | None = None, records: bool = True
) -> dict[str, object]:
    """Kafka's JSON form of a message, without tagged fields that hold their default.

    Record batches are base64, so that nothing is lost; Kafka's converters write an empty text, as with
    `records=False`.
    Raises: UnsupportedVersion or UnexpectedNull as `encode`.
    """
    from kwire.json_form import to_json_form

    return to_json_form(_find_codec_of(message, version, edition), version, message, records=records)


@overload
def from_json(message: str, version: int, tree: object, *, edition: str = ...) -> msgspec.Struct: ...
@overload
def from_json(message: type[M], version: int, tree: object, *, edition: str = ...) -> M: ...
def from_json(message: str | type[M], version: int, tree: object, *, edition: str = DEFAULT_EDITION) -> msgspec.Struct:
    """The message of Kafka's JSON form; omitted fields take their defaults.

    Raises: InvalidValue with the path of what does not fit; UnsupportedVersion for a field of other versions, and as
    `decode`.
    """
    from kwire.json_form import from_json_form

    return from_json_form(_find_codec(message, version, edition), version, tree)


def _find_codec(message: str | type[msgspec.Struct], version: int, edition: str) -> Codec:
    if isinstance(message, str):
        codec = codec_of_version(message, version, edition)
    elif not isinstance(message, type):
        raise TypeError(f"a message is given by its name or class, not by a {type(message).__name__}")
    else:
        codec = codec_of_class(message)
        class_edition = codec.edition
        # The default edition also means "not given"; the class then determines the edition.
        if edition not in (class_edition, DEFAULT_EDITION):
            codec = codec_of_name(message.__name__, edition)
            if codec.message is not message:
                raise _wrong_edition(message, class_edition, edition)
    # 2.0 equals 2 and would be found here, but is in no range of a schema.
    if version not in codec.readers or not isinstance(version, int):
        low, high = min(codec.readers), max(codec.readers)
        requested = edition if isinstance(message, str) else codec.edition
        what = f"version {version} is outside {low} to {high} of edition {requested}"
        raise UnsupportedVersion(codec.name, what)
    return codec


def _find_codec_of(message: msgspec.Struct, version: int, edition: str | None) -> Codec:
    codec = _find_codec(type(message), version, DEFAULT_EDITION if edition is None else edition)
    if edition == DEFAULT_EDITION != codec.edition:
        raise _wrong_edition(type(message), codec.edition, edition)
    return codec


def _wrong_edition(message: type[msgspec.Struct], class_edition: str, edition: str) -> UnsupportedVersion:
    return UnsupportedVersion(message.__name__, f"is a class of edition {class_edition}, not of {edition}")
