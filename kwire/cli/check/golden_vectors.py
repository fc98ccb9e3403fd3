"""Check of a golden vector: a message in hex and in Kafka's JSON form, which must convert to each other."""

from __future__ import annotations

import msgspec

from kwire.cli.check.comparison import Mismatch, check_keys, compare_bytes, compare_json, parse_hex, shorten_repr
from kwire.codec import decode, encode, from_json, to_json
from kwire.json_form import to_json_form
from kwire.registry import codec_of_class

_REQUIRED_KEYS = ("message", "version", "hex")
_KNOWN_KEYS = (*_REQUIRED_KEYS, "json", "unknownTaggedFields")


def vector_name(tree: dict[str, object]) -> str:
    """The message and version of the line, for error messages: `ShareFetchRequest v1`."""
    return f"{tree.get('message', 'no message')} v{tree.get('version', '?')}"


def check_vector(tree: dict[str, object], edition: str) -> None:
    """Compare every key of the line.

    Raises: Mismatch, or the WireError of the codec.
    """
    check_keys(tree, _REQUIRED_KEYS, _KNOWN_KEYS)
    name, version = tree["message"], tree["version"]
    if not isinstance(name, str):
        raise Mismatch(f"message is not a name: {shorten_repr(name)}")
    if type(version) is not int:
        raise Mismatch(f"version is not a number: {shorten_repr(version)}")
    data = parse_hex(tree["hex"], "hex")
    tags = _parse_tags(tree["unknownTaggedFields"]) if "unknownTaggedFields" in tree else None

    message = decode(name, version, data, edition=edition)
    compare_bytes(data, encode(message, version), "hex, decoded and encoded")
    if tags is not None:
        compare_json(_tag_list(tags), _tag_list(getattr(message, "unknown_tagged_fields", ())), "unknownTaggedFields")
    if "json" in tree:
        json_form = _compare_json_form(tree["json"], message, version)
        message_from_json = from_json(name, version, json_form, edition=edition)
        if tags:
            _set_tags(message_from_json, tags)
        compare_bytes(data, encode(message_from_json, version), "hex, encoded from json")


def _compare_json_form(expected: object, message: msgspec.Struct, version: int) -> object:
    """Compare the line's JSON with the message's, and return it with records where they were left out.

    Kafka's own converters write record batches as an empty text: such a line is complete only together with its hex. A
    line that has the batches in base64 is compared as a whole.
    """
    complete = to_json(message, version)
    if expected == complete:
        compare_json(expected, complete, "json")
        return expected
    compare_json(expected, to_json_form(codec_of_class(type(message)), version, message, records=False), "json")
    return complete


def _parse_tags(value: object) -> tuple[tuple[int, bytes], ...]:
    try:
        pairs = [(tag, data) for tag, data in value]  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        raise Mismatch(f"unknownTaggedFields is not a list of [tag, hex] pairs: {shorten_repr(value)}") from None
    if not all(type(tag) is int for tag, _ in pairs):
        raise Mismatch(f"a tag in unknownTaggedFields is not a number: {shorten_repr(value)}")
    return tuple((tag, parse_hex(data, f"tag {tag}")) for tag, data in pairs)


def _tag_list(tags: tuple[tuple[int, bytes], ...]) -> list[object]:
    return [[tag, data.hex()] for tag, data in tags]


def _set_tags(message: msgspec.Struct, tags: tuple[tuple[int, bytes], ...]) -> None:
    if not hasattr(message, "unknown_tagged_fields"):
        raise Mismatch(f"unknownTaggedFields: {type(message).__name__} has none in any version")
    message.unknown_tagged_fields = tags
