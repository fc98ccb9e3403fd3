"""Rendering of a tree as text: indented lines with byte ranges, or hex annotated with the fields."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kwire import uuids
from kwire.error_codes import name_of
from kwire.escape import escape
from kwire.layout.secret_nodes import secret_nodes
from kwire.redact import MASK
from kwire.registry import api_name, known_api_keys
from kwire.schema_codec.tree import UNKNOWN_TAG, Kind, Node, Tree, Value

_TEXT_SHOWN, _BYTES_SHOWN, _NUMBERS_SHOWN = 200, 32, 24
_HEX_WIDTH = 16

#: Returns the replacement of a node's value, or None to show the value.
Replace = Callable[[Node], str | None]


def render_tree(tree: Tree, *, show_secrets: bool = False, payload: bool = False) -> str:
    """One line for each field: its bytes, its name by depth, its type and value. Text from the wire is escaped.

    Args: show_secrets, payload: show credentials, and keys and values of records, instead of `***` and a size.
    """
    return "\n".join(_tree_lines(tree, _make_replace(tree, show_secrets=show_secrets, payload=payload)))


def render_hex(tree: Tree, *, show_secrets: bool = False, payload: bool = False) -> str:
    """Every byte in hex, in the order of the wire, each range with its field.

    Args: as for `render_tree`.
    """
    return "\n".join(_hex_lines(tree, _make_replace(tree, show_secrets=show_secrets, payload=payload)))


def _make_replace(tree: Tree, *, show_secrets: bool, payload: bool) -> Replace:
    secrets = set() if show_secrets else secret_nodes(tree)
    payloads = set() if payload else {id(node) for node in _payload_nodes(tree.root)}

    def replace(node: Node) -> str | None:
        if id(node) in secrets:
            return MASK
        if id(node) in payloads:
            return f"{len(node.value)} bytes" if isinstance(node.value, bytes) else MASK
        return None

    return replace


def _payload_nodes(root: Node) -> Iterator[Node]:
    """Keys, values and header values inside records, compressed ones, and invalid parts."""
    for records in root.walk():
        if records.kind is Kind.RECORDS:
            for node in records.walk():
                if not node.children and (node.type == "bytes" or node.name == "compressed" or node.kind is Kind.ERROR):
                    yield node


def _tree_lines(tree: Tree, replace: Replace) -> Iterator[str]:
    width = len(str(len(tree.data)))
    # An explicit stack of nodes with their depth. Only the hex view shows counts and sizes.
    pending = [(0, tree.root)]
    while pending:
        depth, node = pending.pop()
        # The section of tagged fields has no line, but known and unknown fields in it have one.
        if node.kind is not Kind.FORM or node.name.startswith(UNKNOWN_TAG):
            yield f"{node.start:>{width}}-{node.end:<{width}}  {'  ' * depth}{_node_line(node, replace)}"
            depth += 1
        pending.extend((depth, child) for child in reversed(node.children))


def _node_line(node: Node, replace: Replace) -> str:
    if node.kind is Kind.ERROR:
        return f"!! {escape(str(node.value))}"
    note = f"   ! {escape(node.note)}" if node.note else ""
    # A message is shown as "ShareFetchRequest v2", a frame as "frame", everything else with its field name.
    if not node.name or node.type.partition(" ")[0] == node.name:
        return f"{node.type}{note}"
    return f"{node.name}: {node.type}{_value_text(node, replace)}{note}"


def _value_text(node: Node, replace: Replace) -> str:
    hidden = replace(node)
    if hidden is not None and node.value is not None:
        return f" = {hidden}"
    match node.kind:
        case Kind.STRUCT:
            return ""
        case Kind.ARRAY:
            count = sum(child.kind not in {Kind.FORM, Kind.ERROR} for child in node.children)
            return f" ({count})"
        case Kind.RECORDS:
            return f" ({len(node.value)} bytes)" if isinstance(node.value, bytes) else ""
    if any(child.kind is Kind.ERROR for child in node.children):
        return ""
    return f" = {_format_value(node)}"


def _format_value(node: Node) -> str:
    value: Value = node.value
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'"{escape(value, limit=_TEXT_SHOWN)}"'
    if isinstance(value, bytes):
        return uuids.to_text(value) if node.type == "uuid" else _format_hex(value)
    if isinstance(value, tuple):
        first = value[:_NUMBERS_SHOWN]
        shown = [uuids.to_text(element) if isinstance(element, bytes) else str(element) for element in first]
        more = f", ... {len(value)} in all" if len(value) > len(first) else ""
        return f"[{', '.join(shown)}{more}]"
    if node.name.endswith("error_code") and isinstance(value, int):
        return f"{value} ({name_of(value)})"
    if node.name in {"api_key", "request_api_key"} and isinstance(value, int) and value in known_api_keys():
        return f"{value} ({api_name(value)})"
    return str(value)


def _format_hex(value: bytes) -> str:
    if not value:
        return "(no bytes)"
    more = f" ... {len(value)} bytes" if len(value) > _BYTES_SHOWN else ""
    return value[:_BYTES_SHOWN].hex() + more


def _hex_lines(tree: Tree, replace: Replace) -> Iterator[str]:
    width = len(f"{max(len(tree.data) - 1, 0):x}")
    for leaf in tree.root.leaves():
        if leaf.start == leaf.end:
            continue
        hidden = replace(leaf) is not None
        meaning = f" {_node_line(leaf, replace)}" if leaf.kind is Kind.ERROR else _value_text(leaf, replace)
        note = f"   ! {escape(leaf.note)}" if leaf.note else ""
        rows = list(_hex_rows(tree.data, leaf.start, leaf.end, hidden=hidden))
        yield f"{leaf.start:0{width}x}  {rows[0]:<{_HEX_WIDTH * 3 - 1}}  {leaf.path}{meaning}{note}"
        for index, row in enumerate(rows[1:], start=1):
            yield f"{leaf.start + index * _HEX_WIDTH:0{width}x}  {row}"


def _hex_rows(data: bytes, start: int, end: int, *, hidden: bool) -> Iterator[str]:
    for at in range(start, end, _HEX_WIDTH):
        row = data[at : min(at + _HEX_WIDTH, end)]
        yield " ".join(["**"] * len(row)) if hidden else row.hex(" ")
