"""Any message that its schema allows comes back as it was: every message, every version, values of a seeded generator.

hypothesis took 44 ms of CPU for six examples of a version, nearly all of it for its own work; thirty take 5 ms so.
"""

from __future__ import annotations

import random
import string
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from kwire import decode, encode, from_json, to_json
from kwire.registry import EDITIONS, codec_of_name
from kwire.schema import FieldSpec, load_schema, own_message_names
from kwire.schema.spec import INTEGER_RANGES
from tests.support.cases import check_cases

pytestmark = pytest.mark.slow

ALL_MESSAGES = [(name, edition) for edition in EDITIONS for name in own_message_names(edition)]
VERSIONS = [
    (name, edition, version)
    for name, edition in ALL_MESSAGES
    if load_schema(name, edition).versions
    for version in load_schema(name, edition).versions.to_range()
]
#: Examples for each version.
EXAMPLES = 30
#: They run in parallel.
PARTS = 8

# Lengths around 127 and 128, where a varint gets its second byte, are made by repeating; long lists would be slow.
TEXTS = ["", "ä" * 63, "x" * 126, "x" * 127, "x" * 128, "y" * 300]
BLOBS = [b"", b"\0" * 126, b"\1" * 127, b"\2" * 16384]
CHARACTERS = [*string.printable, "\0", "\x7f", "ä", "\u2028", "\ufeff", "\uffff", "\U0001f4be", "\U0010ffff"]
FLOATS = [0.0, -0.0, 1.0, -1.5, 5e-324, 1.7976931348623157e308, 1e16, float("inf"), float("-inf")]


class MessageMaker:
    """Makes messages of one version.

    Args: chance: decides all values. is_empty: with the smallest value of every field instead.
    """

    def __init__(self, name: str, edition: str, version: int, chance: random.Random, *, is_empty: bool) -> None:
        self._spec = load_schema(name, edition)
        self._codec = codec_of_name(name, edition)
        self._version = version
        self._is_flexible = self._spec.is_flexible(version)
        self._chance = chance
        self._is_empty = is_empty

    def message(self) -> msgspec.Struct:
        return self._struct(self._codec.message, self._spec.fields)

    def _struct(self, made: type[msgspec.Struct], fields: tuple[FieldSpec, ...]) -> msgspec.Struct:
        values = {each.snake_name: self._field(each) for each in fields if self._version in each.versions}
        if self._is_flexible:
            values["unknown_tagged_fields"] = self._unknown_tags()
        return made(**values)

    def _unknown_tags(self) -> tuple[tuple[int, bytes], ...]:
        """Tags that no schema has yet, ascending."""
        count = 0 if self._is_empty else self._chance.randrange(3)
        tags = {self._chance.choice((self._chance.randrange(100, 2**31), 127, 128, 2**31 - 1)) for _ in range(count)}
        return tuple((tag, self._chance.randbytes(self._chance.randrange(4))) for tag in sorted(tags))

    def _field(self, each: FieldSpec) -> Any:
        if self._version in each.nullable_versions and (self._is_empty or self._chance.random() < 0.3):
            return None
        if not each.is_array:
            return self._element(each)
        if self._is_empty:
            return [] if each.struct else ()
        is_long = not each.struct and self._chance.random() < 0.5
        count = self._chance.randrange(31, 34) if is_long else self._chance.randrange(3)
        elements = [self._element(each) for _ in range(count)]
        return elements if each.struct else tuple(elements)

    def _element(self, each: FieldSpec) -> Any:
        if each.struct:
            return self._struct(self._codec.structs[each.struct.name], each.fields)
        low, high = INTEGER_RANGES.get(each.element_type, (0, 0))
        if self._is_empty:
            return {"string": "", "bytes": b"", "records": b"", "bool": False, "float64": 0.0, "uuid": bytes(16)}.get(
                each.element_type, low
            )
        if high:
            return self._chance.choice((self._chance.randint(low, high), low, high, 0, 1))
        return PRIMITIVES[each.element_type](self._chance)


def _text(chance: random.Random) -> str:
    if chance.random() < 0.5:
        return chance.choice(TEXTS)
    return "".join(chance.choices(CHARACTERS, k=chance.randrange(9)))


def _blob(chance: random.Random) -> bytes:
    return chance.choice(BLOBS) if chance.random() < 0.5 else chance.randbytes(chance.randrange(9))


def _float(chance: random.Random) -> float:
    return chance.choice(FLOATS) if chance.random() < 0.5 else chance.uniform(-1e6, 1e6)


PRIMITIVES: dict[str, Callable[[random.Random], Any]] = {
    "bool": lambda chance: chance.random() < 0.5,
    "float64": _float,
    "uuid": lambda chance: chance.randbytes(16),
    "string": _text,
    "bytes": _blob,
    "records": _blob,
}


@pytest.mark.parametrize("part", range(PARTS))
def test_every_message_round_trips_through_bytes_and_json(part: int) -> None:
    check_cases(VERSIONS[part::PARTS], check_round_trips)


def check_round_trips(case: tuple[str, str, int]) -> None:
    name, edition, version = case
    chance = random.Random(f"{name} {edition} {version}")
    for number in range(EXAMPLES):
        message = MessageMaker(name, edition, version, chance, is_empty=number == 0).message()
        raw = encode(message, version)

        assert decode(name, version, raw, edition=edition) == message
        plain = from_json(name, version, to_json(message, version), edition=edition)
        assert to_json(plain, version) == to_json(message, version)
