"""A described message as text: an indented tree with byte ranges, or hex with the meaning of each stretch beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kwire import uuids
from kwire.error_codes import name_of
from kwire.escape import escape
from kwire.layout.hidden import secret_nodes
from kwire.layout.tree import UNKNOWN_TAG, Kind, Node, Tree, Value
from kwire.redact import MASK
from kwire.registry import API_KEYS, api_name

_TEXT_SHOWN, _BYTES_SHOWN, _NUMBERS_SHOWN = 200, 32, 24
_HEX_WIDTH = 16

#: What stands for a node's value, or None to show it.
Replace = Callable[[Node], str | None]


def render_tree(tree: Tree, *, show_secrets: bool = False, payload: bool = False) -> str:
    """One line for each field: its bytes, its name by depth, its type and value. What comes from the wire is escaped.

    Args: show_secrets, payload: show credentials, and keys and values of records, instead of `***` and a size.
    """
    return "\n".join(_tree_lines(tree, _hider(tree, show_secrets=show_secrets, payload=payload)))


def render_hex(tree: Tree, *, show_secrets: bool = False, payload: bool = False) -> str:
    """Every byte in hex, in the order of the wire, each stretch with the field it belongs to.

    Args: as for `render_tree`.
    """
    return "\n".join(_hex_lines(tree, _hider(tree, show_secrets=show_secrets, payload=payload)))


def _hider(tree: Tree, *, show_secrets: bool, payload: bool) -> Replace:
    secrets = set() if show_secrets else secret_nodes(tree)
    payloads = set() if payload else {id(node) for node in _payload_nodes(tree.root)}

    def replace(node: Node) -> str | None:
        """The value as it may be shown."""
        if id(node) in secrets:
            return MASK
        if id(node) in payloads:
            return f"{len(node.value)} bytes" if isinstance(node.value, bytes) else MASK
        return None

    return replace


def _payload_nodes(root: Node) -> Iterator[Node]:
    """Keys, values and header values inside records, compressed ones, and whatever could not be read there."""
    for records in root.walk():
        if records.kind is Kind.RECORDS:
            for node in records.walk():
                if not node.children and (node.type == "bytes" or node.name == "compressed" or node.kind is Kind.ERROR):
                    yield node


def _tree_lines(tree: Tree, replace: Replace) -> Iterator[str]:
    width = len(str(len(tree.data)))
    # Depth beside the node, on a stack of our own. Counts and sizes are left to the hex view.
    waiting = [(0, tree.root)]
    while waiting:
        depth, node = waiting.pop()
        # The section of tagged fields has no line of its own, but known and unknown fields in it have.
        is_field = node.kind is not Kind.FORM or node.name.startswith(UNKNOWN_TAG)
        if is_field:
            place = f"{node.start:>{width}}-{node.end:<{width}}"
            yield f"{place}  {'  ' * depth}{_line(node, replace)}"
            depth += 1
        waiting.extend((depth, child) for child in reversed(node.children))


def _line(node: Node, replace: Replace) -> str:
    if node.kind is Kind.ERROR:
        return f"!! {escape(str(node.value))}"
    note = f"   ! {escape(node.note)}" if node.note else ""
    # A message is shown as "ShareFetchRequest v2", a whole frame as such; everything else by its field's name.
    if not node.name or node.type.partition(" ")[0] == node.name:
        return f"{node.type}{note}"
    return f"{node.name}: {node.type}{_shown(node, replace)}{note}"


def _shown(node: Node, replace: Replace) -> str:
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
    return f" = {_value(node)}"


def _value(node: Node) -> str:
    value: Value = node.value
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'"{escape(value, limit=_TEXT_SHOWN)}"'
    if isinstance(value, bytes):
        return uuids.to_text(value) if node.type == "uuid" else _hex(value)
    if isinstance(value, tuple):
        first = value[:_NUMBERS_SHOWN]
        shown = [uuids.to_text(each) if isinstance(each, bytes) else str(each) for each in first]
        more = f", ... {len(value)} in all" if len(value) > len(first) else ""
        return f"[{', '.join(shown)}{more}]"
    if node.name.endswith("error_code") and isinstance(value, int):
        return f"{value} ({name_of(value)})"
    if node.name in {"api_key", "request_api_key"} and isinstance(value, int) and value in API_KEYS:
        return f"{value} ({api_name(value)})"
    return str(value)


def _hex(value: bytes) -> str:
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
        meaning = f" {_line(leaf, replace)}" if leaf.kind is Kind.ERROR else _shown(leaf, replace)
        note = f"   ! {escape(leaf.note)}" if leaf.note else ""
        rows = list(_hex_rows(tree.data, leaf.start, leaf.end, hidden=hidden))
        yield f"{leaf.start:0{width}x}  {rows[0]:<{_HEX_WIDTH * 3 - 1}}  {leaf.path}{meaning}{note}"
        for index, row in enumerate(rows[1:], start=1):
            yield f"{leaf.start + index * _HEX_WIDTH:0{width}x}  {row}"


def _hex_rows(data: bytes, start: int, end: int, *, hidden: bool) -> Iterator[str]:
    for at in range(start, end, _HEX_WIDTH):
        row = data[at : min(at + _HEX_WIDTH, end)]
        yield " ".join(["**"] * len(row)) if hidden else row.hex(" ")
