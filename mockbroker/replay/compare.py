"""Compares a new response with the captured one: ids mapped, what varies left out, arrays without order aligned."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec

from kwire.codec import to_json
from kwire.errors import WireError
from mockbroker.replay.response_trees import (
    NOTHING,
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

#: Fields by which the elements of an array differ; those of the second tuple are ids that are mapped.
_STABLE_IDENTITIES = (
    *("name", "topicName", "topic", "groupId", "key", "coordinatorKeys", "resourceName", "transactionalId"),
    *("partitionIndex", "partition", "index", "apiKey", "feature", "host", "logDir", "principal", "userName"),
)
_IDENTITIES = (*_STABLE_IDENTITIES, "nodeId", "brokerId", "topicId", "memberId", "producerId")
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
    """The new tree, with the elements of arrays at the places of the captured ones; where one is missing: NOTHING."""
    if isinstance(captured, dict) and isinstance(new, dict):
        return {name: _align(captured.get(name), value, values, name) for name, value in new.items()}
    if not isinstance(captured, list) or not isinstance(new, list):
        return new
    ordered = new if key in ORDERED_KEYS else _order_like(captured, new, values, key)
    pairs = zip(captured, ordered, strict=False)
    return [_align(left, right, values, key) for left, right in pairs] + ordered[len(captured) :]


def _order_like(captured: list[Json], new: list[Json], values: ValueMap, key: str) -> list[Json]:
    wanted = _number_equal([_identity(values.translate(each, key=key)) for each in captured])
    found = dict(zip(_number_equal([_identity(each) for each in new]), new, strict=True))
    if not found.keys() & set(wanted):
        return new
    rest = [each for identity, each in found.items() if identity not in set(wanted)]
    # Ids that are not mapped yet are learned from the elements that are left, in their order.
    unnamed = [each for each in rest if not _is_named(each)]
    ordered: list[Json] = []
    for identity, each in zip(wanted, captured, strict=True):
        if identity in found:
            ordered.append(found[identity])
        else:
            ordered.append(unnamed.pop(0) if unnamed and not _is_named(each) else NOTHING)
    return ordered + [each for each in rest if _is_named(each)] + unnamed


def _number_equal(identities: list[str]) -> list[tuple[str, int]]:
    """Each identity with the number of equal ones before it."""
    seen: Counter[str] = Counter()
    numbered = []
    for identity in identities:
        numbered.append((identity, seen[identity]))
        seen[identity] += 1
    return numbered


def _is_named(element: Json) -> bool:
    """Whether it is a row with a key of its own, which no other element can stand for."""
    return isinstance(element, dict) and any(element.get(name) not in (None, "") for name in _STABLE_IDENTITIES)


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
