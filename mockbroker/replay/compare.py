"""Compares a new response with the captured one: ids mapped, what varies left out, arrays without order aligned."""

from __future__ import annotations

from typing import Any

import msgspec

from kwire.codec import to_json
from kwire.errors import WireError
from mockbroker.replay.response_trees import (
    ORDERED_KEYS,
    VARYING_KEYS,
    Difference,
    Json,
    find_differences,
    is_text_for_people,
    sort_key,
    summarize_records,
)
from mockbroker.replay.value_map import Scope, ValueMap

#: Fields by which the elements of an array differ; ids that are mapped come last.
_IDENTITIES = (
    *("name", "topicName", "topic", "groupId", "key", "coordinatorKeys", "resourceName", "transactionalId"),
    *("partitionIndex", "partition", "index", "apiKey", "feature", "host", "logDir", "principal", "userName"),
    *("nodeId", "brokerId", "topicId", "memberId", "producerId"),
)
_TIMES = frozenset({"logAppendTimeMs", "issueTimestamp", "expiryTimestamp", "expiryTimestampMs", "maxTimestampMs"})


def response_tree(api_name: str, response: msgspec.Struct, version: int) -> Json:
    """A response in JSON form, with summaries of its records."""
    tree: Any = to_json(response, version)
    batches, contents = _copy(tree), _copy(tree)
    try:
        summarize_records(api_name, batches)
        summarize_records(api_name, contents, contents=True)
    except (WireError, ValueError):
        return tree  # Damaged records are compared as bytes.
    if api_name in ("Fetch", "ShareFetch"):
        for topic, other in zip(batches["responses"], contents["responses"], strict=True):
            for row, other_row in zip(topic["partitions"], other["partitions"], strict=True):
                row["batches"], row["records"] = row["records"], other_row["records"]
    return batches


def compare_responses(captured: Json, new: Json, values: ValueMap, scope: Scope) -> list[Difference]:
    """Learn ids from the two responses, and return what differs otherwise; paths are those of the captured one."""
    aligned = _align(captured, new, values, "")
    values.learn(captured, aligned, scope)
    expected = _simplify("", values.translate(captured, scope))
    return list(find_differences(expected, _simplify("", aligned)))


def _align(captured: Json, new: Json, values: ValueMap, key: str) -> Json:
    """The new tree, with the elements of arrays in the order of the captured ones."""
    if isinstance(captured, dict) and isinstance(new, dict):
        return {name: _align(captured.get(name), value, values, name) for name, value in new.items()}
    if not isinstance(captured, list) or not isinstance(new, list):
        return new
    ordered = new if key in ORDERED_KEYS else _order_like(captured, new, values, key)
    pairs = zip(captured, ordered, strict=False)
    return [_align(left, right, values, key) for left, right in pairs] + ordered[len(captured) :]


def _order_like(captured: list[Json], new: list[Json], values: ValueMap, key: str) -> list[Json]:
    wanted = [_identity(values.translate(each, key=key)) for each in captured]
    found = [_identity(each) for each in new]
    positions = {identity: place for place, identity in enumerate(wanted)}
    if len(positions) == len(wanted) and len(set(found)) == len(found) and set(found) & set(wanted):
        return sorted(new, key=lambda each: positions.get(_identity(each), len(wanted)))
    return new


def _identity(element: Json) -> str:
    if not isinstance(element, dict):
        return sort_key(element)
    parts = [(name, element[name]) for name in _IDENTITIES if element.get(name) not in (None, "")]
    # A name makes the ids of the same thing superfluous, which may not be mapped yet.
    return sort_key(parts[:1] if parts and parts[0][0] in _IDENTITIES[:8] else parts)


def _simplify(key: str, tree: Json) -> Json:
    if isinstance(tree, dict):
        return {name: _simplify(name, value) for name, value in tree.items()}
    if isinstance(tree, list):
        return [_simplify(key, value) for value in tree]
    if key in VARYING_KEYS or key in ("host", "port", "clientHost", "rack"):
        return "*"
    if is_text_for_people(key):
        return "<text>" if tree else ""
    if key in _TIMES and isinstance(tree, int) and tree > 0:
        return "<time>"
    return tree


def _copy(tree: Json) -> Json:
    return msgspec.json.decode(msgspec.json.encode(tree))
