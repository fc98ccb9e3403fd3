"""Names of brokers in the configuration APIs: their ids as texts."""

from __future__ import annotations

import re

_INTEGER = re.compile(r"[+-]?[0-9]+")
NODE_ID_MAX = 2**31 - 1


def parse_node_id(name: str) -> int | None:
    """The id as Java's Integer.parseInt reads it, with a sign and leading zeros; None for another text."""
    if not _INTEGER.fullmatch(name):
        return None
    digits = name.lstrip("+-").lstrip("0")
    if len(digits) > len(str(NODE_ID_MAX)):
        return None
    node_id = int(name)
    return node_id if -NODE_ID_MAX - 1 <= node_id <= NODE_ID_MAX else None


def names_node(name: str, node_id: int) -> bool:
    """Whether a name is the id of this node."""
    return parse_node_id(name) == node_id
