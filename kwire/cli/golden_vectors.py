"""One golden vector: a message in hex and in Kafka's JSON form, which must become each other."""

from __future__ import annotations

import msgspec

from kwire.cli.golden import Mismatch, check_keys, compare, compare_bytes, from_hex, shown
from kwire.codec import decode, encode, from_json, to_json
from kwire.json_shape import to_tree
from kwire.registry import codec_of_class

_NEEDED = ("message", "version", "hex")
_KNOWN = (*_NEEDED, "json", "unknownTaggedFields")


def subject(tree: dict[str, object]) -> str:
    """What the line is about, as far as it says so: `ShareFetchRequest v1`."""
    return f"{tree.get('message', 'no message')} v{tree.get('version', '?')}"


def check(tree: dict[str, object], edition: str) -> None:
    """Compare every key of the line.

    Raises: Mismatch, or the WireError of the codec.
    """
    check_keys(tree, _NEEDED, _KNOWN)
    name, version = tree["message"], tree["version"]
    if not isinstance(name, str):
        raise Mismatch(f"message is not a name: {shown(name)}")
    if type(version) is not int:
        raise Mismatch(f"version is not a number: {shown(version)}")
    data = from_hex(tree["hex"], "hex")
    tags = _tags(tree["unknownTaggedFields"]) if "unknownTaggedFields" in tree else None

    message = decode(name, version, data, edition=edition)
    compare_bytes(data, encode(message, version), "hex, decoded and encoded")
    if tags is not None:
        compare(_listed(tags), _listed(getattr(message, "unknown_tagged_fields", ())), "unknownTaggedFields")
    if "json" in tree:
        again = from_json(name, version, _complete(tree["json"], message, version), edition=edition)
        if tags:
            _give(again, tags)
        compare_bytes(data, encode(again, version), "hex, encoded from json")


def _complete(expected: object, message: msgspec.Struct, version: int) -> object:
    """Compare the line's JSON with the message's, and give it with its records where they were left out.

    Kafka's own converters write any record batches as an empty text. Such a line says what the bytes are only together
    with its hex; one that has the batches in base64 is compared as a whole.
    """
    whole = to_json(message, version)
    if expected == whole:
        compare(expected, whole, "json")
        return expected
    compare(expected, to_tree(codec_of_class(type(message)), version, message, records=False), "json")
    return whole


def _tags(value: object) -> tuple[tuple[int, bytes], ...]:
    try:
        pairs = [(tag, data) for tag, data in value]  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        raise Mismatch(f"unknownTaggedFields is not a list of [tag, hex] pairs: {shown(value)}") from None
    if not all(type(tag) is int for tag, _ in pairs):
        raise Mismatch(f"a tag in unknownTaggedFields is not a number: {shown(value)}")
    return tuple((tag, from_hex(data, f"tag {tag}")) for tag, data in pairs)


def _listed(tags: tuple[tuple[int, bytes], ...]) -> list[object]:
    return [[tag, data.hex()] for tag, data in tags]


def _give(message: msgspec.Struct, tags: tuple[tuple[int, bytes], ...]) -> None:
    if not hasattr(message, "unknown_tagged_fields"):
        raise Mismatch(f"unknownTaggedFields: {type(message).__name__} has none in any version")
    message.unknown_tagged_fields = tags
