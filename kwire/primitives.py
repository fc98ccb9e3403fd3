"""Functions that generated code shares: varints, long strings, arrays of numbers, tagged fields.

They accept valid input only. For anything else they raise `FastPathError` or a built-in error (see `FAILURES`);
`kwire.codec` then reads again by `kwire.schema_codec`, which reports what is wrong and where.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from struct import Struct
from typing import Any

#: One part of an encoded message; the parts are joined once, so record batches are not copied twice.
Part = bytes | bytearray | memoryview

#: Tagged fields that the schema does not have: (tag, content), ascending.
Tags = tuple[tuple[int, bytes], ...]

NO_TAGS: Tags = ()

ZERO_UUID = bytes(16)

#: The largest string of Kafka in any version, the maximum of int16.
TEXT_BYTES_MAX = 0x7FFF


class FastPathError(Exception):
    """Input that the generated code does not accept."""


#: What generated code may raise: its own error, and those of Python for truncated bytes and values that do not fit.
FAILURES = (
    FastPathError,
    struct.error,
    IndexError,
    KeyError,
    TypeError,
    AttributeError,
    ValueError,
    OverflowError,
    BufferError,
)

#: Booleans by their byte, and bytes by boolean; an invalid one raises IndexError or KeyError.
BOOLEANS = (False, True)
BOOLEAN_BYTES = {False: 0, True: 1}

#: The varints of the numbers below 1,024; lengths and counts are rarely greater.
UVARINTS = tuple(bytes((n,)) if n < 128 else bytes((n & 127 | 128, n >> 7)) for n in range(1 << 10))


def read_uvarint(data: bytes, at: int) -> tuple[int, int]:
    """An unsigned varint of at most 32 bits, and the offset behind it."""
    value = data[at]
    if value < 128:
        return value, at + 1
    byte = data[at + 1]
    if byte < 128:
        return value - 128 + (byte << 7), at + 2
    value += (byte << 7) - 0x4080
    byte = data[at + 2]
    if byte < 128:
        return value + (byte << 14), at + 3
    value += (byte & 127) << 14
    byte = data[at + 3]
    if byte < 128:
        return value | byte << 21, at + 4
    value |= (byte & 127) << 21
    byte = data[at + 4]
    # Four bits of an int32 are left; Kafka drops higher ones silently.
    if byte > 15:
        raise FastPathError
    return value | byte << 28, at + 5


def uvarint(value: int) -> bytes:
    """A number as unsigned varint."""
    if value < 1024:
        return UVARINTS[value]
    if value < 16384:
        return bytes((value & 127 | 128, value >> 7))
    if value < 2097152:
        return bytes((value & 127 | 128, value >> 7 & 127 | 128, value >> 14))
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_long_count(data: bytes, at: int) -> tuple[int, int]:
    """The count + 1 of an array whose length takes more than a byte; not null, and not more elements than bytes."""
    count, at = read_uvarint(data, at)
    if count == 0 or count - 1 > len(data) - at:
        raise FastPathError
    return count, at


def read_long_text(data: bytes, at: int) -> tuple[str, int]:
    """A compact string whose length takes more than a byte; not null."""
    size, at = read_uvarint(data, at)
    if not 0 < size <= TEXT_BYTES_MAX + 1:
        raise FastPathError
    end = at + size - 1
    return data[at:end].decode(), end


def long_text_length(length: int) -> bytes:
    """The length + 1 of a compact string of more than 126 bytes."""
    if length > TEXT_BYTES_MAX + 1:
        raise FastPathError
    return uvarint(length)


def read_unknown_tags(data: bytes, at: int) -> tuple[Tags, int]:
    """The tagged fields at the end of a struct whose schema has none."""
    count, at = read_uvarint(data, at)
    tags: list[tuple[int, bytes]] = []
    previous = -1
    for _ in range(count):
        tag, at = read_uvarint(data, at)
        size, at = read_uvarint(data, at)
        if not previous < tag < 1 << 31:
            raise FastPathError
        previous = tag
        end = at + size
        tags.append((tag, data[at:end]))
        at = end
    return tuple(tags), at


def tag_section(known: Sequence[tuple[int, bytes]], unknown: Tags, schema_tags: int) -> bytes:
    """All tagged fields of a struct; the schema has the tags below `schema_tags`, unknown ones are above."""
    fields = [*known, *unknown]
    previous = schema_tags - 1
    for tag, _ in unknown:
        # Kafka rejects unknown tags that are not ascending, or that its schema defines.
        if tag <= previous or tag >= 1 << 31:
            raise FastPathError
        previous = tag
    parts = [uvarint(len(fields))]
    for tag, content in fields:
        parts += (uvarint(tag), uvarint(len(content)), content)
    return b"".join(parts)


class Numbers:
    """Arrays of one fixed-size type, with prebuilt structs for short ones, which are the most frequent."""

    def __init__(self, code: str, size: int) -> None:
        self.code = code
        self.size = size
        short = [Struct(f">{n * code}") for n in range(32)]
        #: By the count.
        self.unpack: tuple[Callable[..., tuple[Any, ...]], ...] = tuple(one.unpack_from for one in short)
        #: By the count + 1, as compact arrays have it; the first one is for null and is never called.
        self.unpack_compact = (short[0].unpack_from, *self.unpack)
        self.pack: tuple[Callable[..., bytes], ...] = tuple(one.pack for one in short)

    def read_long(self, data: bytes, at: int, count: int) -> tuple[tuple[Any, ...], int]:
        """Any number of values; the size is checked before memory is allocated."""
        end = at + self.size * count
        if count < 0 or end > len(data):
            raise FastPathError
        return struct.unpack_from(f">{count}{self.code}" if self.size < 16 else f">{count * self.code}", data, at), end

    def read_compact(self, data: bytes, at: int) -> tuple[tuple[Any, ...], int]:
        """A compact array whose count is beyond the table; not null."""
        count, at = read_uvarint(data, at)
        return self.read_long(data, at, count - 1)

    def write_long(self, values: Sequence[Any]) -> bytes:
        """Any number of values."""
        count = len(values)
        return struct.pack(f">{count}{self.code}" if self.size < 16 else f">{count * self.code}", *values)


int8s = Numbers("b", 1)
uint8s = Numbers("B", 1)
int16s = Numbers("h", 2)
uint16s = Numbers("H", 2)
int32s = Numbers("i", 4)
uint32s = Numbers("I", 4)
int64s = Numbers("q", 8)
float64s = Numbers("d", 8)
uuids = Numbers("16s", 16)

# The tables as module names: one lookup in generated code.
unpack_int8s, unpack_compact_int8s, pack_int8s = int8s.unpack, int8s.unpack_compact, int8s.pack
unpack_uint8s, unpack_compact_uint8s, pack_uint8s = uint8s.unpack, uint8s.unpack_compact, uint8s.pack
unpack_int16s, unpack_compact_int16s, pack_int16s = int16s.unpack, int16s.unpack_compact, int16s.pack
unpack_uint16s, unpack_compact_uint16s, pack_uint16s = uint16s.unpack, uint16s.unpack_compact, uint16s.pack
unpack_int32s, unpack_compact_int32s, pack_int32s = int32s.unpack, int32s.unpack_compact, int32s.pack
unpack_uint32s, unpack_compact_uint32s, pack_uint32s = uint32s.unpack, uint32s.unpack_compact, uint32s.pack
unpack_int64s, unpack_compact_int64s, pack_int64s = int64s.unpack, int64s.unpack_compact, int64s.pack
unpack_float64s, unpack_compact_float64s, pack_float64s = float64s.unpack, float64s.unpack_compact, float64s.pack
unpack_uuids, unpack_compact_uuids, pack_uuids = uuids.unpack, uuids.unpack_compact, uuids.pack


def check_texts(values: object) -> None:
    """Reject a string: it is a sequence of strings too, but not an array."""
    if isinstance(values, str):
        raise FastPathError


def check_uuids(values: Sequence[bytes]) -> None:
    """Reject UUIDs that do not have 16 bytes: a struct would cut or fill them."""
    for value in values:
        if len(value) != 16:
            raise FastPathError


def read_booleans(data: bytes, at: int, count: int) -> tuple[tuple[bool, ...], int]:
    """An array of booleans."""
    end = at + count
    if count < 0 or end > len(data):
        raise FastPathError
    return tuple(BOOLEANS[byte] for byte in data[at:end]), end
