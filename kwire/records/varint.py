"""Zigzag varints as records use them: at most 5 bytes for 32 bits, at most 10 bytes for 64.

The record loops read one- and two-byte varints in place; what is longer, or wrong, comes here.
"""

from __future__ import annotations

from functools import cache

_SEVEN_BITS = 0x7F
SMALL = tuple(bytes((value,)) for value in range(128))
"""The varints of one byte."""


class OddVarintError(Exception):
    """A varint that the fast loops will not read; the careful pass says what is wrong. Never leaves this package."""


def encode_unsigned(value: int) -> bytes:
    """The plain varint of a value that has been zigzagged already."""
    if value < 128:
        return SMALL[value]
    if value < 16384:
        return bytes((value & _SEVEN_BITS | 128, value >> 7))
    parts = bytearray()
    while value > _SEVEN_BITS:
        parts.append(value & _SEVEN_BITS | 128)
        value >>= 7
    parts.append(value)
    return bytes(parts)


@cache
def all_short() -> tuple[bytes, ...]:
    """The varints of one and of two bytes: half a megabyte, made in two milliseconds when first needed."""
    return SMALL + tuple(bytes((low | 128, high)) for high in range(1, 128) for low in range(128))


def wrapped(value: int) -> int:
    """The signed 64-bit value that Java's arithmetic leaves of a sum or difference of two such values."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


def zigzag(raw: int) -> int:
    """The signed value of a raw varint."""
    return (raw >> 1) ^ -(raw & 1)


def read_raw(data: bytes, at: int, bits: int) -> tuple[int, int]:
    """Read the varint at `at` and give its raw (still zigzagged) value and where the next field begins.

    Args: bits: 32 or 64, the width that the value must fit.
    Raises: IndexError at the end of the data; OddVarintError when it is too long or too wide.
    """
    raw = shift = 0
    while True:
        byte = data[at]
        at += 1
        raw |= (byte & _SEVEN_BITS) << shift
        if byte < 128:
            break
        shift += 7
        if shift >= bits:
            raise OddVarintError(f"a varint longer than {-(-bits // 7)} bytes")
    if raw >> bits:
        raise OddVarintError(f"a varint that does not fit {bits} bits")
    return raw, at
