"""What a case has seen, as texts for people: errors, records, exchanges and lists of them without Python's notation."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from enum import Enum

import msgspec

from mockbroker.certify.driver.messages import ConsumedRecord, Delivery, ErrorInfo, TopicPartition
from mockbroker.journal import Exchange

#: The longest text, characters, and the longest list.
TEXT_MAX = 2_000
LIST_MAX = 50


def describe_seen(value: object) -> str:
    """A value as a text; a text as it is. None and what is empty are "none".

    In fields of messages None is "null": a null list often means all, as in Metadata, and an empty one none.
    """
    text = value if isinstance(value, str) else _describe(value)
    return text if len(text) <= TEXT_MAX else f"{text[:TEXT_MAX]}... ({len(text)} characters)"


def _describe(value: object) -> str:
    match value:
        case None:
            return "none"
        case bool():
            return "true" if value else "false"
        case Enum():
            return value.name
        case str():
            return json.dumps(value, ensure_ascii=False)
        case bytes() | bytearray() | memoryview():
            return json.dumps(bytes(value).decode("utf-8", "backslashreplace"), ensure_ascii=False)
        case Exchange() | msgspec.Struct():
            return _describe_message(value)
    return _describe_collection(value) if isinstance(value, Iterable) else str(value)


def _describe_collection(value: Iterable[object]) -> str:
    match value:
        case Mapping():
            return _join(f"{_describe_key(key)}: {_describe(each)}" for key, each in value.items())
        case set() | frozenset():
            return _join(sorted(map(_describe, value)))
    return _join(f"({_describe(each)})" if isinstance(each, tuple | list) else _describe(each) for each in value)


def _describe_message(value: Exchange[object, object] | msgspec.Struct) -> str:
    match value:
        case Exchange():
            return f"{value.api_name} {value.api_version} to node {value.node_id}"
        case ErrorInfo():
            return str(value)
        case Delivery():
            return str(value.error) if value.error else f"{value.topic}-{value.partition} at offset {value.offset}"
        case ConsumedRecord():
            return f"{_describe(value.value)} of {value.topic}-{value.partition} at offset {value.offset}"
        case TopicPartition() if type(value) is TopicPartition:
            return f"{value.topic}-{value.partition}"
    fields = [f"{name} {_describe_field(getattr(value, name))}" for name in value.__struct_fields__]
    return f"{type(value).__name__} ({', '.join(fields)})"


def _describe_field(value: object) -> str:
    return "null" if value is None else _describe(value)


def _describe_key(key: object) -> str:
    """The key of a mapping; (topic, index) as a partition."""
    match key:
        case (str(topic), int(index)):
            return f"{topic}-{index}"
        case str():
            return key
    return _describe(key)


def _join(texts: Iterable[str]) -> str:
    found = list(texts)
    more = [f"... {len(found) - LIST_MAX} more"] if len(found) > LIST_MAX else []
    return ", ".join([*found[:LIST_MAX], *more]) or "none"
