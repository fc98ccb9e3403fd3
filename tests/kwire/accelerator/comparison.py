"""Compares the extension with the Python code on one input: the same message, or both refuse it."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from kwire import schema_codec
from kwire.codec_table import Codec
from kwire.errors import WireError
from kwire.primitives import FAILURES
from kwire.registry import codec_of_name
from tests.support.messages.golden_vectors import Vector


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a reader makes of some bytes: a message and the offset behind it, or neither."""

    message: msgspec.Struct | None
    end: int = -1


def read_by(reader: object, raw: bytes) -> Outcome:
    """The outcome of a reader; a message that ends behind the bytes is refused by every caller."""
    try:
        message, end = reader(raw, 0)  # type: ignore[operator]
    except FAILURES:
        return Outcome(None)
    return Outcome(message, end) if end <= len(raw) else Outcome(None)


def read_difference(vector: Vector, raw: bytes) -> str | None:
    """How the two readers of a message differ on these bytes; None where they agree.

    Where only one accepts them, the other leaves the decision to the schema-driven codec, which must then agree.
    """
    codec = codec_of_name(vector.message, vector.edition)
    native = read_by(codec.readers[vector.version], raw)
    pure = read_by(codec.pure_readers[vector.version], raw)
    if native.message is None and pure.message is None:
        return None
    if native.message is None or pure.message is None:
        one, name = (native, "the extension") if pure.message is None else (pure, "the Python code")
        return _difference_from_schema(codec, vector, raw, one, name)
    if native.end != pure.end:
        return f"ends at {native.end} in the extension, at {pure.end} in the Python code"
    assert native.message is not None
    if not _is_same(codec, vector.version, native.message, pure.message):
        return f"the extension reads {native.message!r}, the Python code {pure.message!r}"
    return write_difference(codec, vector.version, native.message)


def write_difference(codec: Codec, version: int, message: msgspec.Struct) -> str | None:
    """How the two writers of a message differ; None where they agree."""
    native, pure = _written(codec.encoders[version], message), _written(codec.pure_writers[version], message)
    if native != pure:
        return f"the extension writes {native!r}, the Python code {pure!r}"
    parts = _written(codec.writers[version], message)
    return None if parts == pure else f"the extension writes the parts {parts!r}, the Python code {pure!r}"


def _written(write: object, message: msgspec.Struct) -> bytes | str:
    """The bytes, or the name of the exception."""
    try:
        written = write(message)  # type: ignore[operator]
        return written if isinstance(written, bytes) else b"".join(written)
    except FAILURES as error:
        return type(error).__name__


def _difference_from_schema(codec: Codec, vector: Vector, raw: bytes, one: Outcome, name: str) -> str | None:
    try:
        message = schema_codec.read_message(codec, vector.version, raw, 0)
    except WireError as error:
        # Bytes behind the message are an error of the caller, who compares the end.
        return None if one.end < len(raw) else f"{name} reads {one.message!r}, the schema refuses it: {error}"
    assert one.message is not None
    same = one.end == len(raw) and _is_same(codec, vector.version, one.message, message)
    return None if same else f"{name} reads {one.message!r} to {one.end}, the schema {message!r}"


def _is_same(codec: Codec, version: int, one: msgspec.Struct, other: msgspec.Struct) -> bool:
    """Equal, or of equal bytes: a NaN is not equal to itself."""
    return one == other or _written(codec.pure_writers[version], one) == _written(codec.pure_writers[version], other)
