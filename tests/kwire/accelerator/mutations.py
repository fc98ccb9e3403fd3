"""Damages bytes and messages at random: what a broken or hostile peer sends, and a careless caller passes."""

from __future__ import annotations

import random

import msgspec

#: Sizes and counts that overflow, are negative, too long, or nearly fit.
_NUMBERS = (
    *("00", "7f", "80", "ff", "ff7f", "8000", "7fffffff", "80000000", "ffffffff", "ffffff7f"),
    *("ffffffff07", "ffffffff0f", "ffffffff10", "ffffffffff01", "ffffffffffffffffff01", "8080808000", "8100"),
)
_TEXTS = (b"\xff\xfe", b"\xed\xa0\x80", b"\xc3\xa9", b"\xf0\x9f\x98\x80", b"\x00")
_INSERTED = (*map(bytes.fromhex, _NUMBERS), *_TEXTS)


def mutated_bytes(raw: bytes, chance: random.Random) -> bytes:
    """The bytes with one to three changes."""
    data = bytearray(raw)
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        _change(data, chance)
    return bytes(data)


def _change(data: bytearray, chance: random.Random) -> None:
    at = chance.randrange(len(data) + 1)
    end = min(len(data), at + chance.choice((1, 1, 2, 4, 16)))
    match chance.randrange(7):
        case 0:
            del data[at:]
        case 1:
            del data[at:end]
        case 2:
            data[at:at] = data[at:end]
        case 3:
            inserted = chance.choice(_INSERTED)
            data[at : at + len(inserted)] = inserted
        case 4:
            data[at:at] = chance.choice(_INSERTED)
        case 5 if at < len(data):
            data[at] ^= 1 << chance.randrange(8)
        case _ if at < len(data):
            data[at] = chance.randrange(256)


_VALUES: tuple[object, ...] = (
    *(None, True, False, 0, 1, -1, 127, 128, 255, 256, -129, 1 << 15, 1 << 16, 1 << 31, -(1 << 31) - 1, 1 << 32),
    *(1 << 63, -(1 << 63), -(1 << 63) - 1, 1 << 64, 0.0, 1.5, float("nan")),
    *("", "a", "é", "x" * 127, "x" * 128, "x" * 32767, "x" * 32768, "\ud800"),
    *(b"", b"a", bytes(15), bytes(16), bytes(17), bytes(600), bytearray(b"ab"), memoryview(b"abc"), memoryview(b"")),
    *(memoryview(b"abcdef")[::2], memoryview(bytes(700)), memoryview(bytes(8)).cast("I")),
    *((), [], (1,), [1], (1, 2), ("a",), [None]),
    *(((0, b""),), ((1 << 31, b""),), ((9999, b"x"),), ((3, b"x"), (2, b"y"))),
    object(),
)  # fmt: skip


def mutate_message(message: msgspec.Struct, chance: random.Random) -> None:
    """Replace a value of the message, or of a struct in it, by any other value."""
    struct = message
    while chance.random() < 0.7:
        inner = [one for name in struct.__struct_fields__ for one in _structs_in(getattr(struct, name))]
        if not inner:
            break
        struct = chance.choice(inner)
    if struct.__struct_fields__:
        name = chance.choice(struct.__struct_fields__)
        setattr(struct, name, chance.choice((*_VALUES, message)))


def _structs_in(value: object) -> list[msgspec.Struct]:
    if isinstance(value, msgspec.Struct):
        return [value]
    return [one for one in value if isinstance(one, msgspec.Struct)] if isinstance(value, list) else []
