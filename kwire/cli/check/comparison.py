"""Comparison of golden lines: keys, hex, and the position where two JSON trees differ."""

from __future__ import annotations

from collections.abc import Collection

_SHOWN_MAX = 120


class Mismatch(Exception):
    """A golden line and the codec disagree, or the golden line is invalid."""


def check_keys(tree: dict[str, object], needed: Collection[str], known: Collection[str]) -> None:
    """Raise Mismatch unless the line has all required keys and no unknown ones."""
    missing = [key for key in needed if key not in tree]
    if missing:
        raise Mismatch(f"the line lacks {', '.join(missing)}")
    unknown = sorted(set(tree) - set(known))
    if unknown:
        raise Mismatch(f"the line has keys that cannot be compared: {', '.join(unknown)}")


def parse_hex(value: object, what: str) -> bytes:
    """The bytes of a hex string."""
    try:
        if isinstance(value, str) and value.isascii() and not any(character.isspace() for character in value):
            return bytes.fromhex(value)
    except ValueError:
        pass
    raise Mismatch(f"{what} is not a string of hex digits: {shorten_repr(value)}")


def compare_json(expected: object, got: object, path: str) -> None:
    """Raise Mismatch at the first difference of two JSON trees; 1, 1.0 and true are different values."""
    if isinstance(expected, dict) and isinstance(got, dict):
        for key in expected.keys() | got.keys():
            if key not in got:
                raise Mismatch(f"{path}.{key}: expected {shorten_repr(expected[key])}, but it is not there")
            if key not in expected:
                raise Mismatch(f"{path}.{key}: not expected, but there: {shorten_repr(got[key])}")
            compare_json(expected[key], got[key], f"{path}.{key}")
    elif isinstance(expected, list) and isinstance(got, list):
        if len(expected) != len(got):
            raise Mismatch(f"{path}: expected {len(expected)} elements, got {len(got)}")
        for index, (one, other) in enumerate(zip(expected, got, strict=True)):
            compare_json(one, other, f"{path}[{index}]")
    elif type(expected) is not type(got) or (expected != got and expected == expected):  # noqa: PLR0124 - NaN.
        raise Mismatch(f"{path}: expected {shorten_repr(expected)}, got {shorten_repr(got)}")


def compare_bytes(expected: bytes, got: bytes, path: str) -> None:
    """Raise Mismatch at the first byte that differs."""
    if expected == got:
        return
    shorter = min(len(expected), len(got))
    at = next((index for index in range(shorter) if expected[index] != got[index]), shorter)
    pieces = (f"{piece[at : at + 8].hex() or 'the end'}" for piece in (expected, got))
    sizes = "" if len(expected) == len(got) else f" (of {len(expected)} and {len(got)} bytes)"
    raise Mismatch(f"{path}: at byte {at}{sizes} expected {next(pieces)}, got {next(pieces)}")


def shorten_repr(value: object) -> str:
    """A value for an error message, cut if it is long."""
    text = repr(value)
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}... ({len(text)} characters)"
