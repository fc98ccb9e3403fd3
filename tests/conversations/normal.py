"""Answers made comparable: what differs from run to run becomes a placeholder, what has no order is sorted."""

from __future__ import annotations

import base64
import copy
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from kwire.records import read_batches

Json = Any  # A parsed JSON tree has no narrower type.

_NODE_KEYS = frozenset(
    [
        "nodeId",
        "brokerId",
        "leaderId",
        "controllerId",
        "replicaNodes",
        "isrNodes",
        "offlineReplicas",
        "replicas",
        "isr",
        "preferredReadReplica",
    ]
)
_ANY_KEYS = frozenset(
    [
        "throttleTimeMs",
        "transactionStartTimeMs",
        "clusterId",
        "brokerEpoch",
        "issueTimestampMs",
        "finalizedFeaturesEpoch",
    ]
)
_ORDERED_KEYS = frozenset(["acquiredRecords", "abortedTransactions", "records", "stateBatches", "endOffsets"])
_LEADERSHIP_ERRORS = frozenset({6, 74, 75})
_GENERATED = re.compile(r"(.*)-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_UUID = re.compile(r"[A-Za-z0-9_-]{22}")
_ZERO_UUID = "A" * 22


def text_of(tree: Json) -> str:
    """JSON without spaces: what unordered arrays are sorted by."""
    return json.dumps(tree, separators=(",", ":"), ensure_ascii=False)


def spell_records(api: str, answer: Json, *, offsets: bool = False) -> None:
    """Replace record bytes by [base offset, last offset, codec, is control, is transactional] for each batch.

    offsets: with the offsets of its records behind, of which compaction may have left holes. Of a ShareFetch the bytes
    are counted that follow, of a batch that is cut off.
    """
    if api in ("Fetch", "ShareFetch"):
        for topic in answer["responses"]:
            for row in topic["partitions"]:
                row.pop("recordsSizeInBytes", None)
                raw = base64.b64decode(row.get("records") or "")
                row["records"] = [
                    [b.base_offset, b.last_offset, b.codec.name.lower(), b.is_control, b.is_transactional]
                    + ([[record.offset for record in b.records()]] if offsets else [])
                    for b in read_batches(raw, partial_ok=True)
                ]
                cut = len(raw) - sum(batch.size for batch in read_batches(raw, partial_ok=True))
                if cut and api == "ShareFetch":
                    row["records"].append(cut)


def visit(tree: Json, pointer: str, found: Callable[[Json, Any, Json], None]) -> None:
    """Call `found(parent, key, value)` for each place that a pointer with * for "every" names."""
    _walk(tree, pointer[1:].split("/"), found)


def _walk(tree: Json, path: list[str], found: Callable[[Json, Any, Json], None]) -> None:
    keys: list[Any]
    if isinstance(tree, list):
        keys = list(range(len(tree))) if path[0] == "*" else [int(path[0])] if path[0].isdigit() else []
        keys = [key for key in keys if key < len(tree)]
    elif isinstance(tree, dict):
        keys = list(tree) if path[0] == "*" else [path[0]] if path[0] in tree else []
    else:
        return
    for key in keys:
        if len(path) == 1:
            found(tree, key, tree[key])
        else:
            _walk(tree[key], path[1:], found)


class Normaliser:
    """What one run knows: its variables, and which node ids the cluster has."""

    def __init__(self, variables: Mapping[str, Json], nodes: Mapping[int, str]) -> None:
        self.variables = variables
        self.nodes = nodes

    def finish(self, step: Mapping[str, Json], raw: Json, took_ms: int, resolve: Callable[[Json], Json]) -> Json:
        """The answer of a step as it is compared."""
        tree = copy.deepcopy(raw)
        ordered = bool(step.get("ordered"))
        for pointer, text in step.get("keep", {}).items():
            visit(tree, pointer, _keeper(str(resolve(text))))
        tree = self._normal("", tree, None, ordered)
        for pointer in step.get("drop", ()):
            visit(tree, pointer, lambda parent, key, v: parent.pop(key) if isinstance(parent, dict) else None)
        for pointer in step.get("counts", ()):
            visit(tree, pointer, lambda parent, key, v: parent.__setitem__(key, len(v)))
        for pointer in step.get("mask", ()):
            visit(tree, pointer, lambda parent, key, v: parent.__setitem__(key, "*"))
        if not ordered and any(step.get(word) for word in ("mask", "counts", "drop")):
            tree = _sorted_again("", tree)
        if "collect" in step:
            tree = {name: _collected(tree, pointer, ordered) for name, pointer in step["collect"].items()}
        if "elapsed" in step:
            low, high = step["elapsed"]
            tree["elapsed"] = "in time" if low <= took_ms <= high else f"{took_ms} ms, not in {low}-{high}"
        return tree

    def _normal(self, key: str, tree: Json, owner: Json, ordered: bool) -> Json:
        if isinstance(tree, dict):
            is_open = key != "currentLeader" or owner is None or owner.get("errorCode") in _LEADERSHIP_ERRORS
            return {k: self._normal(k, tree[k], tree, ordered) if is_open else tree[k] for k in sorted(tree)}
        if isinstance(tree, list):
            items = [self._normal(key, item, owner, ordered) for item in tree]
            if not ordered and key not in _ORDERED_KEYS and not (items and isinstance(items[0], list)):
                items.sort(key=text_of)
            return items
        return tree if tree is None else self._value(key, tree)

    def _value(self, key: str, value: Json) -> Json:
        low = key.lower()
        if key in _ANY_KEYS:
            return "*"
        if low.endswith(("errormessage", "statusdetail")):
            return "<text>" if value else ""
        if key in ("host", "clientHost"):
            return "<host>" if value else value
        if key == "port":
            return value if value < 0 else "<port>"
        if isinstance(value, bool):
            return value
        if isinstance(value, int):
            return self._number(key, value)
        return self._text(key, value) if isinstance(value, str) else value

    def _number(self, key: str, value: int) -> Json:
        if key in _NODE_KEYS:
            return self.nodes.get(value, value)
        if key == "producerId" and value >= 0:
            for name, known in self.variables.items():
                if known == value and not isinstance(known, str) and name.startswith("pid") and not name.endswith("_e"):
                    return f"${{{name}}}"
            return value if value == 0 else "<producerId>"
        if key == "logAppendTimeMs":
            return value if value < 0 else "<time>"
        return value

    def _text(self, key: str, value: str) -> str:
        for name, known in self.variables.items():
            if not isinstance(known, str) or not known:
                continue
            if (value == known and known != "range") or len(known) >= 20 or name == "run":
                value = value.replace(known, f"${{{name}}}")
        generated = _GENERATED.fullmatch(value)
        if generated:
            return f"{generated[1]}-<uuid>"
        is_id = key in ("topicId", "leader") or key.lower().endswith("memberid")
        return "<uuid>" if is_id and _UUID.fullmatch(value) and value != _ZERO_UUID else value


def _keeper(wanted: str) -> Callable[[Json, Any, Json], None]:
    """Shortens an array to the elements that contain a text."""

    def keep(parent: Json, key: Any, value: Json) -> None:
        parent[key] = [item for item in value if wanted in text_of(item)]

    return keep


def _collected(tree: Json, pointer: str, ordered: bool) -> list[Json]:
    found: list[Json] = []
    visit(tree, pointer, lambda parent, key, value: found.append(value))
    return found if ordered else sorted(found, key=text_of)


def _sorted_again(key: str, tree: Json) -> Json:
    if isinstance(tree, dict):
        return {k: _sorted_again(k, v) for k, v in tree.items()}
    if not isinstance(tree, list):
        return tree
    items = [_sorted_again(key, item) for item in tree]
    if key not in _ORDERED_KEYS and not (items and isinstance(items[0], list)):
        items.sort(key=text_of)
    return items


def difference(want: Json, got: Json, at: str = "") -> str | None:
    """The first place where two trees differ, or None."""
    if want == got and isinstance(want, bool) == isinstance(got, bool):
        return None
    if isinstance(want, dict) and isinstance(got, dict):
        pairs = [(key, want.get(key, _NOTHING), got.get(key, _NOTHING)) for key in sorted(want.keys() | got.keys())]
    elif isinstance(want, list) and isinstance(got, list):
        count = max(len(want), len(got))
        pairs = [(str(i), (want + [_NOTHING] * count)[i], (got + [_NOTHING] * count)[i]) for i in range(count)]
    else:
        return f"{at}: expected {want}, got {got}"
    return next((found for key, w, g in pairs if (found := difference(w, g, f"{at}/{key}"))), None)


_NOTHING = "(nothing)"
