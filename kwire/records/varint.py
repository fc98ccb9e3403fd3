"""Zigzag varints as records use them: at most 5 bytes for 32 bits, at most 10 bytes for 64.

The record loops read one- and two-byte varints in place; what is longer, or wrong, comes here.
"""

from __future__ import annotations

_SEVEN_BITS = 0x7F
_SMALL = tuple(bytes((value,)) for value in range(128))


class OddVarintError(Exception):
    """A varint that the fast loops will not read; the careful pass says what is wrong. Never leaves this package."""


def encode(value: int) -> bytes:
    """The zigzag varint of a signed value of at most 64 bits."""
    return encode_unsigned((value << 1) ^ (value >> 63))


def encode_unsigned(value: int) -> bytes:
    """The plain varint of a value that has been zigzagged already."""
    if value < 128:
        return _SMALL[value]
    if value < 16384:
        return bytes((value & _SEVEN_BITS | 128, value >> 7))
    parts = bytearray()
    while value > _SEVEN_BITS:
        parts.append(value & _SEVEN_BITS | 128)
        value >>= 7
    parts.append(value)
    return bytes(parts)


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
