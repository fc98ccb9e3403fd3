"""Topic names by id from outside the rows: a file that the user has, or a first pass over captures that name them."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from kwire import uuids
from kwire.capture.exchange import Exchange
from kwire.capture.topic_names import TopicNames
from kwire.errors import InvalidValue
from kwire.registry import DEFAULT_EDITION
from kwire.schema import library

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

    from kwire.capture.options import Options
    from kwire.capture.source import Source
    from kwire.schema.spec import FieldSpec, MessageSpec

# The lines with which `kafka-topics.sh --describe` begins each topic.
_DESCRIBED = re.compile(r"^\s*Topic:\s*(\S+)\s+TopicId:\s*(\S+)")
# An id, and a name behind white space or an equals sign.
_PAIR = re.compile(r"^\s*([\w-]{22})(?:\s*=\s*|\s+)([\w.-]{1,249})\s*$", re.ASCII)


def read_topics(path: str | os.PathLike[str]) -> dict[str, str]:
    """The map in a file: JSON of names by id, lines of id and name, or what `kafka-topics.sh --describe` prints.

    Raises: ValueError for a file without any topic, or with an id that is none; OSError.
    """
    text = Path(path).read_text("utf-8-sig", errors="replace")
    try:
        found = _from_json(text) if text.lstrip().startswith("{") else _from_lines(text)
        for topic_id in found:
            _check_id(topic_id)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    if not found:
        raise ValueError(f"{path}: no topic with its id in it; a line is an id, a space and a name")
    return found


def names_in(sources: Iterable[Source], options: Options, *, cache: str | None = None) -> dict[str, str]:
    """A first pass over captures that can be read twice: the names that they tell anywhere, and those of the options.

    Rows are made as a capture is read, so a name that comes late is not in the rows before it: give this as `topics`.
    What can have an index is read by it, so that only messages that name topics are decoded.

    Args: cache: where indexes are kept, `beside` or a folder; None keeps none.
    """
    from kwire.capture.arrow import indexed

    for source in sources:
        index = indexed(source, cache)
        if index is None:
            names = names_decoded(source, options)
        else:
            from kwire.capture.lane.names import names_told

            names = names_told(index, options)
        options = replace(options, topics=names)
    return dict(options.topics)


def names_decoded(source: Source, options: Options) -> dict[str, str]:
    """The same of one capture, read from its beginning to its end as a stream."""
    from kwire.capture.pipeline import outcomes

    names = TopicNames(options.topics)
    for outcome in outcomes(source, for_names(options)):
        if isinstance(outcome, Exchange):
            learn_from(outcome, names, options.edition)
    return names.known()


def learn_from(exchange: Exchange, names: TopicNames, edition: str) -> None:
    """Remember what the messages of an exchange tell that are there to name topics."""
    teaching = teachers(edition)
    for side in (exchange.request, exchange.response):
        if side is not None and side.name in teaching and side.body is not None:
            names.learn(side.body)


def for_names(options: Options) -> Options:
    """The options for exchanges of which only names of topics are wanted."""
    # Behind a handshake there may be tokens without headers, which must not be taken for requests.
    return replace(options, sessions=False, bodies=False, decoded=teachers(options.edition) | {"SaslHandshakeRequest"})


@cache
def teachers(edition: str = DEFAULT_EDITION) -> frozenset[str]:
    """The messages that give both name and id of a topic, as `MetadataResponse`: what the schemas say."""
    own, all_others = set(library.names(edition)), set(library.names())
    specs = [library.load(name, edition if name in own else DEFAULT_EDITION) for name in own | all_others]
    return frozenset(spec.name for spec in specs if _teaches(spec, spec.fields))


def _teaches(spec: MessageSpec, fields: tuple[FieldSpec, ...]) -> bool:
    # Produce and Fetch have both too, but never in one version.
    ids = [each.versions for each in fields if each.type == "uuid" and each.name == "TopicId"]
    names = [each.versions for each in fields if each.type == "string" and each.entity_type == "topicName"]
    if any(one.intersect(other).intersect(spec.versions) for one in ids for other in names):
        return spec.api_key is not None
    return any(_teaches(spec, each.fields) for each in fields)


def _from_json(text: str) -> dict[str, str]:
    try:
        found: dict[str, object] = json.loads(text)
    except ValueError as error:
        raise ValueError(f"it is no JSON: {error}") from error
    names: dict[str, str] = {}
    for topic_id, name in found.items():
        if not isinstance(name, str):
            raise ValueError(f"{name!r} is not the name of a topic")
        names[topic_id] = name
    return names


def _check_id(topic_id: str) -> None:
    try:
        uuids.from_text(topic_id)
    except InvalidValue as error:
        raise ValueError(f"{topic_id!r} is not the id of a topic") from error


def _from_lines(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in text.splitlines():
        described, pair = _DESCRIBED.match(line), _PAIR.match(line)
        if described is not None:
            found[described[2]] = described[1]
        elif pair is not None:
            found[pair[1]] = pair[2]
    return found
