"""Random mutations of message bodies: their JSON texts and summaries by the extension and by the Python code."""

from __future__ import annotations

import random
from functools import cache

import msgspec

from kwire import registry
from kwire.capture.columnar.summary_reader import SummaryReader
from kwire.capture.kafka.topic_names import TopicNames
from kwire.capture.rows.exchange_summary import summarize_bodies
from kwire.json_text import escape_text, json_texts_writer, json_writer
from kwire.primitives import FAILURES
from kwire.redact import redacted_json
from kwire.registry import DEFAULT_EDITION, api_name, codec_of_name
from tests.kwire.accelerator.mutations import mutated_bytes
from tests.support.messages.filled_messages import filled_vectors
from tests.support.messages.golden_vectors import own_vectors

# No reader may use the bytes before and behind a body.
_BEFORE, _AFTER = b"\x7f\x01", b"\x02\x00\xff"
_NAMES = TopicNames({})

Bodies = dict[str, dict[int, list[bytes]]]


@cache
def bodies() -> Bodies:
    """The bodies of requests and responses of the default edition by message and version."""
    found: Bodies = {}
    for api_key in sorted(registry.API_KEYS):
        for name in (f"{api_name(api_key)}Request", f"{api_name(api_key)}Response"):
            by_version = found.setdefault(name, {})
            for vector in filled_vectors(name, DEFAULT_EDITION):
                by_version.setdefault(vector.version, []).append(vector.raw)
    for vector in own_vectors():
        if vector.edition == DEFAULT_EDITION and vector.message in found:
            found[vector.message].setdefault(vector.version, []).append(vector.raw)
    return found


def body_difference(chance: random.Random) -> str | None:
    """Compare one random exchange, of mutated bodies or not: None, or the difference with the input."""
    api_key = chance.choice(sorted(registry.API_KEYS))
    asked, answered = (bodies()[f"{api_name(api_key)}{kind}"] for kind in ("Request", "Response"))
    versions = sorted(asked.keys() & answered.keys())
    if not versions:
        return None
    version = chance.choice(versions)
    request, response = (_maybe_mutated(chance.choice(found[version]), chance) for found in (asked, answered))
    name = chance.choice(("Request", "Response"))
    body = request if name == "Request" else response
    return summary_difference(api_key, version, request, response) or json_difference(
        f"{api_name(api_key)}{name}", version, body, is_escaped=chance.random() < 0.5
    )


def _maybe_mutated(raw: bytes, chance: random.Random) -> bytes:
    return mutated_bytes(raw, chance) if chance.random() < 0.6 else raw


def read_valid(name: str, version: int, raw: bytes) -> msgspec.Struct | None:
    """The message that the Python code reads; None for invalid bytes."""
    try:
        message, end = codec_of_name(name).pure_readers[version](raw, 0)
    except FAILURES:
        return None
    return message if end == len(raw) else None


def summary_difference(api_key: int, version: int, request: bytes, response: bytes) -> str | None:
    """Compare the summary of an exchange. Invalid bodies are read too, but have no defined summary."""
    names = f"{api_name(api_key)}Request", f"{api_name(api_key)}Response"
    data = _BEFORE + request + _AFTER + response + _AFTER
    places = [len(_BEFORE)], [len(_BEFORE + request + _AFTER)]
    asked, answered = read_valid(names[0], version, request), read_valid(names[1], version, response)
    try:
        found = next(zip(*SummaryReader(*names, version, _NAMES).read(data, *places), strict=True))
    except FAILURES as error:
        # The head is made of decoded messages, which invalid bodies do not have.
        found = None, 0
        if asked is not None and answered is not None:
            return f"{names} v{version} {request.hex()} {response.hex()}: {error!r}"
    if found[0] is None or asked is None or answered is None:
        return None
    expected = summarize_bodies(asked, answered, None, _NAMES), max(getattr(asked, "max_wait_ms", 0), 0)
    if found == expected:
        return None
    return f"{names} v{version} {request.hex()} {response.hex()}: {found!r}, by the Python code {expected!r}"


def json_difference(name: str, version: int, raw: bytes, *, is_escaped: bool) -> str | None:
    """Compare the JSON text of a body. An invalid one is read too, but has no defined text."""
    write = json_writer(name, version, is_escaped=is_escaped)
    write_each = json_texts_writer(name, version, is_escaped=is_escaped)
    if write is None or write_each is None:
        return None
    data, at = _BEFORE + raw + _AFTER, len(_BEFORE)
    try:
        one = write(data, at)
    except FAILURES:
        one = None
    texts = write_each(data, (at, -1, at, len(data) + 1))
    if texts != [one, None, one, None]:
        return f"{name} v{version} {raw.hex()}: one text is {one!r}, many are {texts!r}"
    message = read_valid(name, version, raw)
    if message is None or one is None:
        return None
    expected = msgspec.json.encode(redacted_json(message, version)).decode()
    expected = escape_text(expected) if is_escaped else expected
    return None if one == expected else f"{name} v{version} {raw.hex()}: {one!r}, by the Python code {expected!r}"
