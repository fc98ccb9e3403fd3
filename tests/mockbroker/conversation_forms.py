"""The form in which answers of conversations are compared: what differs from run to run is masked."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

Json = Any
Step = dict[str, Json]

_NODE_KEYS = {
    "nodeId", "brokerId", "leaderId", "controllerId", "replicaNodes", "isrNodes", "offlineReplicas", "replicas", "isr",
    "preferredReadReplica",
}  # fmt: skip
_ANY_KEYS = {
    "throttleTimeMs", "transactionStartTimeMs", "clusterId", "brokerEpoch", "issueTimestampMs",
    "finalizedFeaturesEpoch",
}  # fmt: skip
_ORDERED_KEYS = {"acquiredRecords", "abortedTransactions", "records", "stateBatches", "endOffsets"}
_GENERATED = re.compile(r"(.*)-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.DOTALL)
_LEADER_CODES = (6, 74, 75)


def at(tree: Json, pointer: str) -> Json:
    """What a JSON pointer points to, or None."""
    for part in pointer.split("/")[1:]:
        if isinstance(tree, list) and part.isdigit() and int(part) < len(tree):
            tree = tree[int(part)]
        elif isinstance(tree, dict):
            tree = tree.get(part)
        else:
            return None
    return tree


class Forms:
    """Brings answers into their compared form. variables: the script's; their values are written back as names."""

    def __init__(self, variables: dict[str, Json], substitute: Callable[[Json], Json]) -> None:
        self.variables = variables
        self.substitute = substitute

    def finished(self, step: Step, raw: Json, *, took_ms: int) -> Json:
        """The answer of a step in the form in which answers are compared."""
        tree = copy.deepcopy(raw)
        for pointer, text in step.get("keep", {}).items():
            rows = at(tree, pointer)
            rows[:] = [row for row in rows if self.substitute(text) in json.dumps(row)]
        ordered = bool(step.get("ordered"))
        tree = self._normal("", tree, None, ordered)
        for pointer in step.get("drop", ()):
            for parent, key in _visit(tree, pointer):
                parent.pop(key, None)
        for pointer in step.get("counts", ()):
            for parent, key in _visit(tree, pointer):
                parent[key] = len(parent[key])
        for pointer in step.get("mask", ()):
            for parent, key in _visit(tree, pointer):
                parent[key] = "*"
        if not ordered and (step.get("mask") or step.get("counts") or step.get("drop")):
            tree = _sorted_anew("", tree)
        if "collect" in step:
            found = {
                name: [parent[key] for parent, key in _visit(tree, pointer)]
                for name, pointer in step["collect"].items()
            }
            tree = {name: values if ordered else sorted(values, key=_text) for name, values in found.items()}
        if "elapsed" in step:
            low, high = step["elapsed"]
            tree["elapsed"] = "in time" if low <= took_ms <= high else f"{took_ms} ms, not in {low}-{high}"
        return tree

    def _normal(self, key: str, node: Json, owner: Json, ordered: bool) -> Json:
        if isinstance(node, dict):
            as_sent = key == "currentLeader" and owner is not None and owner.get("errorCode") not in _LEADER_CODES
            return {k: v if as_sent else self._normal(k, v, node, ordered) for k, v in sorted(node.items())}
        if isinstance(node, list):
            rows = [self._normal(key, entry, owner, ordered) for entry in node]
            return rows if ordered else _sorted_rows(key, rows)
        return self._normal_value(key, node)

    def _normal_value(self, key: str, node: Json) -> Json:  # noqa: PLR0911 - one line for each kind of value
        if node is None:
            return None
        if key in _ANY_KEYS:
            return "*"
        if key.lower().endswith("errormessage"):
            return "<text>" if node else ""
        if key in ("host", "clientHost"):
            return "<host>" if node else node
        if key == "port":
            return "<port>" if node >= 0 else node
        if isinstance(node, bool):
            return node
        if isinstance(node, int | float):
            return self._normal_number(key, node)
        for name, value in self.variables.items():
            if isinstance(value, str) and value and (
                (node == value and value != "range") or len(value) >= 20 or name == "run"
            ):
                node = node.replace(value, f"${{{name}}}")
        generated = _GENERATED.fullmatch(node)
        if generated:
            return f"{generated.group(1)}-<uuid>"
        by_id = key in ("topicId", "leader") or key.lower().endswith("memberid")
        if by_id and re.fullmatch(r"[A-Za-z0-9_-]{22}", node) and node != "A" * 22:
            return "<uuid>"
        return node

    def _normal_number(self, key: str, node: Json) -> Json:
        if key in _NODE_KEYS:
            return "<node0>" if node == 0 else node
        if key == "producerId" and node >= 0:
            for name, value in self.variables.items():
                if value == node and name.startswith("pid") and not name.endswith("_e"):
                    return f"${{{name}}}"
            return node if node == 0 else "<producerId>"
        if key == "logAppendTimeMs":
            return node if node < 0 else "<time>"
        return node


def _visit(tree: Json, pointer: str) -> Iterator[tuple[Json, Any]]:
    head, _, rest = pointer[1:].partition("/")
    if head == "*":
        keys: list[Any] = list(range(len(tree))) if isinstance(tree, list) else list(tree)
    else:
        keys = [int(head)] if isinstance(tree, list) and head.isdigit() else [head]
    for key in keys:
        if isinstance(tree, dict) and key not in tree:
            continue
        if isinstance(tree, list) and not (isinstance(key, int) and key < len(tree)):
            continue
        if rest:
            if isinstance(tree[key], list | dict):
                yield from _visit(tree[key], "/" + rest)
        else:
            yield tree, key


def _text(node: Json) -> str:
    return json.dumps(node, separators=(",", ":"), ensure_ascii=False)


def _sorted_rows(key: str, rows: list[Json]) -> list[Json]:
    if key in _ORDERED_KEYS or (rows and isinstance(rows[0], list)):
        return rows
    return sorted(rows, key=_text)


def _sorted_anew(key: str, node: Json) -> Json:
    if isinstance(node, dict):
        return {k: _sorted_anew(k, v) for k, v in node.items()}
    if isinstance(node, list):
        return _sorted_rows(key, [_sorted_anew(key, entry) for entry in node])
    return node
