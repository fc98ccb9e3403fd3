"""`Condition`: one thing that a request must have, with texts for messages; helpers for these texts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from kwire import uuids
from mockbroker.journal.exchange import Exchange

#: The name of a topic by its id, of deleted topics too.
TopicNames = Mapping[bytes, str]
#: Longer values are cut in messages.
_TEXT_MAX = 60


class Condition(NamedTuple):
    """One condition on an exchange.

    text: for messages, as "client_id='a'". actual: what an exchange has instead, as text.
    """

    text: str
    matches: Callable[[Exchange[Any, Any]], bool]
    actual: Callable[[Exchange[Any, Any]], str]


class Subject(NamedTuple):
    """What conditions are about. request_classes: of the API, in each edition that was used; empty for any API."""

    request_classes: tuple[type[msgspec.Struct], ...]
    topic_names: TopicNames


def join_values(values: Iterable[object]) -> str:
    """Different values as one text, "none" without any. Bytes are shown as a UUID or as their number."""
    texts = dict.fromkeys(_value_text(value) for value in values)
    return shorten(", ".join(texts)) if texts else "none"


def shorten(text: str) -> str:
    """The beginning of a long text."""
    return text if len(text) <= _TEXT_MAX else f"{text[:_TEXT_MAX]}..."


def _value_text(value: object) -> str:
    if isinstance(value, bytes | bytearray | memoryview):
        is_uuid = isinstance(value, bytes) and len(value) == len(uuids.ZERO)
        return uuids.to_text(bytes(value)) if is_uuid else f"{len(value)} bytes"
    if isinstance(value, msgspec.Struct):
        return type(value).__name__
    return repr(value)
