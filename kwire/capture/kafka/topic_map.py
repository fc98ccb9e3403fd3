"""Reads a file of topic names by topic id, for ids that a capture does not name."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

from kwire import uuids
from kwire.errors import InvalidValue

if TYPE_CHECKING:
    import os

# The first line of each topic in the output of `kafka-topics.sh --describe`.
_DESCRIBED_TOPIC = re.compile(r"^\s*Topic:\s*(\S+)\s+TopicId:\s*(\S+)")
# An id, then white space or an equals sign, then a name.
_ID_AND_NAME = re.compile(r"^\s*([\w-]{22})(?:\s*=\s*|\s+)([\w.-]{1,249})\s*$", re.ASCII)


def read_topic_map(path: str | os.PathLike[str]) -> dict[str, str]:
    """Topic names by id from a file: JSON, lines of id and name, or the output of `kafka-topics.sh --describe`.

    Raises: ValueError for a file without any topic, or with an invalid id; OSError.
    """
    text = Path(path).read_text("utf-8-sig", errors="replace")
    try:
        names = _from_json(text) if text.lstrip().startswith("{") else _from_lines(text)
        for topic_id in names:
            _check_id(topic_id)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    if not names:
        raise ValueError(f"{path}: no topic with its id in it; a line is an id, a space and a name")
    return names


def _from_json(text: str) -> dict[str, str]:
    try:
        tree: dict[str, object] = json.loads(text)
    except ValueError as error:
        raise ValueError(f"it is no JSON: {error}") from error
    names: dict[str, str] = {}
    for topic_id, name in tree.items():
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
    names: dict[str, str] = {}
    for line in text.splitlines():
        described, pair = _DESCRIBED_TOPIC.match(line), _ID_AND_NAME.match(line)
        if described is not None:
            names[described[2]] = described[1]
        elif pair is not None:
            names[pair[1]] = pair[2]
    return names
