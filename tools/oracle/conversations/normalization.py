"""Normalization of responses: values that differ from run to run become placeholders, unordered arrays are sorted."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping
from typing import Any

from mockbroker.replay.response_trees import (
    NODE_KEYS,
    ORDERED_KEYS,
    VARYING_KEYS,
    Json,
    find_differences,
    is_text_for_people,
    sort_key,
)

__all__ = ["Json", "ResponseNormalizer", "difference", "visit_pointer"]

_LEADERSHIP_ERRORS = frozenset({6, 74, 75})
_GENERATED = re.compile(r"(.*)-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_UUID = re.compile(r"[A-Za-z0-9_-]{22}")
_ZERO_UUID = "A" * 22


def visit_pointer(tree: Json, pointer: str, visitor: Callable[[Json, Any, Json], None]) -> None:
    """Call `visitor(parent, key, value)` for each match of a JSON pointer, in which * matches every element."""
    _visit_path(tree, pointer[1:].split("/"), visitor)


def _visit_path(tree: Json, path: list[str], visitor: Callable[[Json, Any, Json], None]) -> None:
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
            visitor(tree, key, tree[key])
        else:
            _visit_path(tree[key], path[1:], visitor)


class ResponseNormalizer:
    """The normalization of one run: its variables, and the node ids of the cluster."""

    def __init__(self, variables: Mapping[str, Json], nodes: Mapping[int, str]) -> None:
        self.variables = variables
        self.nodes = nodes
        self._texts: list[tuple[str, str]] = []

    def normalize_response(
        self, step: Mapping[str, Json], raw: Json, took_ms: int, resolve: Callable[[Json], Json]
    ) -> Json:
        """The response of a step as it is compared."""
        tree = copy.deepcopy(raw) if "keep" in step else raw
        self._texts = [(name, text) for name, text in self.variables.items() if isinstance(text, str) and text]
        ordered = bool(step.get("ordered"))
        for pointer, text in step.get("keep", {}).items():
            visit_pointer(tree, pointer, _filter_by_text(str(resolve(text))))
        tree = self._normalize("", tree, None, ordered)
        for pointer in step.get("drop", ()):
            visit_pointer(tree, pointer, lambda parent, key, v: parent.pop(key) if isinstance(parent, dict) else None)
        for pointer in step.get("counts", ()):
            visit_pointer(tree, pointer, lambda parent, key, v: parent.__setitem__(key, len(v)))
        for pointer in step.get("mask", ()):
            visit_pointer(tree, pointer, lambda parent, key, v: parent.__setitem__(key, "*"))
        if not ordered and any(step.get(word) for word in ("mask", "counts", "drop")):
            tree = _sort_arrays("", tree)
        if "collect" in step:
            tree = {name: _collect_values(tree, pointer, ordered) for name, pointer in step["collect"].items()}
        if "elapsed" in step:
            low, high = step["elapsed"]
            tree["elapsed"] = "in time" if low <= took_ms <= high else f"{took_ms} ms, not in {low}-{high}"
        return tree

    def _normalize(self, key: str, tree: Json, owner: Json, ordered: bool) -> Json:
        if isinstance(tree, dict):
            is_open = key != "currentLeader" or owner is None or owner.get("errorCode") in _LEADERSHIP_ERRORS
            return {k: self._normalize(k, tree[k], tree, ordered) if is_open else tree[k] for k in sorted(tree)}
        if isinstance(tree, list):
            items = [self._normalize(key, item, owner, ordered) for item in tree]
            if not ordered and key not in ORDERED_KEYS and not (items and isinstance(items[0], list)):
                items.sort(key=sort_key)
            return items
        return tree if tree is None else self._normalize_value(key, tree)

    def _normalize_value(self, key: str, value: Json) -> Json:
        if key in VARYING_KEYS:
            return "*"
        if is_text_for_people(key):
            return "<text>" if value else ""
        if key in ("host", "clientHost"):
            return "<host>" if value else value
        if key == "port":
            return value if value < 0 else "<port>"
        if isinstance(value, bool):
            return value
        if isinstance(value, int):
            return self._normalize_number(key, value)
        return self._normalize_text(key, value) if isinstance(value, str) else value

    def _normalize_number(self, key: str, value: int) -> Json:
        if key in NODE_KEYS:
            return self.nodes.get(value, value)
        if key == "producerId" and value >= 0:
            for name, known in self.variables.items():
                is_id = name.startswith("pid") and not name.endswith("_e")
                if is_id and known == value and not isinstance(known, str):
                    return f"${{{name}}}"
            return value if value == 0 else "<producerId>"
        if key == "logAppendTimeMs":
            return value if value < 0 else "<time>"
        return value

    def _normalize_text(self, key: str, value: str) -> str:
        for name, value_of_name in self._texts:
            if (value == value_of_name and value_of_name != "range") or len(value_of_name) >= 20 or name == "run":
                value = value.replace(value_of_name, f"${{{name}}}")
        generated = _GENERATED.fullmatch(value)
        if generated:
            return f"{generated[1]}-<uuid>"
        is_id = key in ("topicId", "leader") or key.lower().endswith("memberid")
        return "<uuid>" if is_id and _UUID.fullmatch(value) and value != _ZERO_UUID else value


def _filter_by_text(text: str) -> Callable[[Json, Any, Json], None]:
    """Filters an array by the elements that contain a text."""

    def keep(parent: Json, key: Any, value: Json) -> None:
        parent[key] = value and [item for item in value if text in sort_key(item)]

    return keep


def _collect_values(tree: Json, pointer: str, ordered: bool) -> list[Json]:
    values: list[Json] = []
    visit_pointer(tree, pointer, lambda parent, key, value: values.append(value))
    return values if ordered else sorted(values, key=sort_key)


def _sort_arrays(key: str, tree: Json) -> Json:
    if isinstance(tree, dict):
        return {k: _sort_arrays(k, v) for k, v in tree.items()}
    if not isinstance(tree, list):
        return tree
    items = [_sort_arrays(key, item) for item in tree]
    if key not in ORDERED_KEYS and not (items and isinstance(items[0], list)):
        items.sort(key=sort_key)
    return items


def difference(want: Json, got: Json) -> str | None:
    """The first difference of two trees, or None."""
    first = next(find_differences(want, got), None)
    return None if first is None else str(first)
