"""The way in and out: bytes to messages and back, by name or by class, in any version and edition.

Generated code does the work and is strict. Only when it refuses does the careful pass (`kwire.careful`) go through the
same bytes or values, schema in hand, to say which field is wrong, where and why; so errors cost nothing on good input.
That pass, JSON and the schemas are imported when they are first needed: a broker that starts needs none of them.
"""

from __future__ import annotations

from typing import TypeVar, overload

import msgspec

from kwire import careful
from kwire.codec_table import Codec
from kwire.errors import TrailingBytes, UnsupportedVersion
from kwire.oddities import Lenient, Oddity, ignored_tail
from kwire.primitives import FAILURES, Part
from kwire.registry import DEFAULT_EDITION, codec_of_class, codec_of_name

__all__ = ["Lenient", "Oddity", "decode", "decode_lenient", "encode", "from_json", "to_json"]

M = TypeVar("M", bound=msgspec.Struct)

#: What can be decoded. Anything but bytes is copied once; record batches in the message are views of that copy.
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

    With `strict=False` what Kafka's own decoder lets pass does so here: see `decode_lenient`.
    Raises: WireError with the field's path and the offset; UnsupportedVersion when there is no such message, version or
    edition.
    """
    if not strict:
        return decode_lenient(message, version, data, edition=edition, at=at).message
    codec = _codec(message, version, edition)
    raw = data if type(data) is bytes else bytes(data)
    try:
        result, end = codec.readers[version](raw, at)
    except FAILURES:
        return careful.read(codec, version, raw, at)
    if end == len(raw):
        found: msgspec.Struct = result
        return found
    if end < len(raw):
        raise TrailingBytes(codec.name, end, f"{len(raw) - end} bytes behind the end of the message")
    # A slice at the end was cut short, and only the offset knows.
    return careful.read(codec, version, raw, at)


@overload
def decode_lenient(
    message: str, version: int, data: Buffer, *, edition: str = ..., at: int = ...
) -> Lenient[msgspec.Struct]: ...
@overload
def decode_lenient(
    message: type[M], version: int, data: Buffer, *, edition: str = ..., at: int = ...
) -> Lenient[M]: ...
def decode_lenient(
    message: str | type[M], version: int, data: Buffer, *, edition: str = DEFAULT_EDITION, at: int = 0
) -> Lenient[M] | Lenient[msgspec.Struct]:
    """The message as Kafka's own decoder reads it, with a note on everything that a strict one refuses.

    Any non-zero byte is true, malformed UTF-8 becomes U+FFFD, bytes behind the body are ignored.
    Raises: WireError where Kafka fails too; UnsupportedVersion as `decode`.
    """
    codec = _codec(message, version, edition)
    raw = data if type(data) is bytes else bytes(data)
    try:
        result, end = codec.readers[version](raw, at)
    except FAILURES:
        return careful.read_lenient(codec, version, raw, at)
    if end > len(raw):
        return careful.read_lenient(codec, version, raw, at)
    return Lenient(result, ignored_tail(codec.name, end, len(raw)), end - at)


def encode(message: msgspec.Struct, version: int, *, edition: str | None = None) -> bytes:
    """The bytes of a message: its body, without header or frame length.

    A class belongs to an edition; `edition` need only be given to have it checked.
    Raises: UnsupportedVersion naming what does not go with the version; InvalidValue or UnexpectedNull with the path of
    a value that does not fit.
    """
    codec = _codec_of(message, version, edition)
    try:
        return b"".join(codec.writers[version](message))
    except FAILURES:
        return careful.write(codec, version, message)


def encode_parts(message: msgspec.Struct, version: int) -> list[Part]:
    """As `encode`, but in parts that are not joined yet; record batches are the objects that the message holds."""
    codec = _codec_of(message, version, None)
    try:
        return codec.writers[version](message)
    except FAILURES:
        return [careful.write(codec, version, message)]


def to_json(
    message: msgspec.Struct, version: int, *, edition: str | None = None, records: bool = True
) -> dict[str, object]:
    """Kafka's own JSON form of a message; tagged fields that hold their default are left out.

    Record batches are base64, so that nothing is lost; Kafka's own converters write an empty text, as with
    `records=False`.
    Raises: UnsupportedVersion or UnexpectedNull as `encode`.
    """
    from kwire.json_shape import to_tree

    return to_tree(_codec_of(message, version, edition), version, message, records=records)


@overload
def from_json(message: str, version: int, tree: object, *, edition: str = ...) -> msgspec.Struct: ...
@overload
def from_json(message: type[M], version: int, tree: object, *, edition: str = ...) -> M: ...
def from_json(message: str | type[M], version: int, tree: object, *, edition: str = DEFAULT_EDITION) -> msgspec.Struct:
    """The message that Kafka's JSON form describes; fields that are left out take their defaults.

    Raises: InvalidValue with the path of what does not fit; UnsupportedVersion for a field of other versions, and as
    `decode`.
    """
    from kwire.json_shape import from_tree

    return from_tree(_codec(message, version, edition), version, tree)


def _codec(message: str | type[msgspec.Struct], version: int, edition: str) -> Codec:
    if isinstance(message, str):
        codec = codec_of_name(message, edition)
    elif not isinstance(message, type):
        raise TypeError(f"a message is asked for by its name or class, not by a {type(message).__name__}")
    else:
        codec = codec_of_class(message)
        own = codec.edition
        # The default is what "no edition given" looks like, and a class of another edition knows better.
        if edition not in (own, DEFAULT_EDITION):
            codec = codec_of_name(message.__name__, edition)
            if codec.message is not message:
                raise _foreign(message, own, edition)
    # 2.0 equals 2, and would be found here, but in no range of a schema.
    if version not in codec.readers or not isinstance(version, int):
        raise _outside(codec, version)
    return codec


def _codec_of(message: msgspec.Struct, version: int, edition: str | None) -> Codec:
    codec = _codec(type(message), version, DEFAULT_EDITION if edition is None else edition)
    if edition == DEFAULT_EDITION != codec.edition:
        raise _foreign(type(message), codec.edition, edition)
    return codec


def _foreign(message: type[msgspec.Struct], own: str, edition: str) -> UnsupportedVersion:
    return UnsupportedVersion(message.__name__, f"is a class of edition {own}, not of {edition}")


def _outside(codec: Codec, version: int) -> UnsupportedVersion:
    low, high = min(codec.readers), max(codec.readers)
    return UnsupportedVersion(codec.name, f"version {version} is outside {low} to {high} of edition {codec.edition}")
