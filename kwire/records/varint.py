"""Zigzag varints of records: at most 5 bytes for 32 bits, at most 10 bytes for 64.

The record loops read varints of one and two bytes in place; longer and invalid ones are read here.
"""

from __future__ import annotations

from functools import cache

_SEVEN_BITS = 0x7F
ONE_BYTE_VARINTS = tuple(bytes((value,)) for value in range(128))
"""The varints of one byte."""


class UnreadableVarintError(Exception):
    """A varint that is too long or too wide. Internal to this package; `checked_decoder` reports InvalidVarint."""


def encode_unsigned(value: int) -> bytes:
    """The varint of a value that is zigzag-encoded already."""
    if value < 128:
        return ONE_BYTE_VARINTS[value]
    if value < 16384:
        return bytes((value & _SEVEN_BITS | 128, value >> 7))
    parts = bytearray()
    while value > _SEVEN_BITS:
        parts.append(value & _SEVEN_BITS | 128)
        value >>= 7
    parts.append(value)
    return bytes(parts)


@cache
def one_and_two_byte_varints() -> tuple[bytes, ...]:
    """The varints of one and of two bytes: half a megabyte, built in two milliseconds on first use."""
    return ONE_BYTE_VARINTS + tuple(bytes((low | 128, high)) for high in range(1, 128) for low in range(128))


def wrap_int64(value: int) -> int:
    """A sum or difference of two signed 64-bit values, wrapped around as in Java."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


def decode_zigzag(raw: int) -> int:
    """The signed value of a raw varint."""
    return (raw >> 1) ^ -(raw & 1)


def read_raw_varint(data: bytes, at: int, bits: int) -> tuple[int, int]:
    """Read the varint at `at`; returns its raw (still zigzag-encoded) value and the offset behind it.

    Args: bits: 32 or 64, the width that the value must fit.
    Raises: IndexError at the end of the data; UnreadableVarintError when it is too long or too wide.
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
            raise UnreadableVarintError(f"a varint longer than {-(-bits // 7)} bytes")
    if raw >> bits:
        raise UnreadableVarintError(f"a varint that does not fit {bits} bits")
    return raw, at
