"""The second, slow pass over what the generated code has refused: which field is wrong, where, and why.

Its modules and the schemas are imported when they are first needed; most programs never need them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import msgspec

    from kwire.codec_table import Codec
    from kwire.oddities import Lenient, Oddity


def read(codec: Codec, version: int, data: bytes, at: int) -> msgspec.Struct:
    """The message in the bytes from `at` on, all of them.

    Raises: WireError with path and offset.
    """
    from kwire.careful import reading

    return reading.read(codec, version, data, at)


def read_lenient(codec: Codec, version: int, data: bytes, at: int) -> Lenient[Any]:
    """The message as Kafka reads it, with notes on what a strict decode refuses.

    Raises: WireError where Kafka fails too.
    """
    from kwire.careful import reading

    return reading.read_lenient(codec, version, data, at)


def read_head(codec: Codec, version: int, data: bytes, *, lenient: bool) -> tuple[Any, int, tuple[Oddity, ...]]:
    """A message at the start of the bytes, such as a header; the offset behind it; what was odd.

    Raises: as `read` or `read_lenient`.
    """
    from kwire.careful import reading

    return reading.read_head(codec, version, data, lenient=lenient)


def write(codec: Codec, version: int, message: msgspec.Struct) -> bytes:
    """The bytes of a message.

    Raises: UnsupportedVersion, UnexpectedNull or InvalidValue with the path of the field.
    """
    from kwire.careful import writing

    return writing.write(codec, version, message)
