"""The nodes of a tree that must not be shown, by the rules of `kwire.redact`."""

from __future__ import annotations

from kwire import redact
from kwire.schema_codec.tree import TAGGED, Kind, Node, Tree


def secret_nodes(tree: Tree) -> set[int]:
    """The `id` of every node that holds a secret, the nodes below it included.

    In a message that can hold secrets, invalid bytes are secret too, because their meaning is unknown.
    """
    parts = tree.root.children if tree.root.type == "frame" else [tree.root]
    # An error node may follow header and body.
    messages = [part for part in parts if part.kind is Kind.STRUCT]
    secret_ids: set[int] = set()
    for message in messages:
        nodes_by_path: dict[redact.Path, Node] = {}
        form = _json_form(message, (), nodes_by_path)
        assert isinstance(form, dict)
        nodes = [nodes_by_path[path] for path in redact.secret_paths(form, message.name)]
        if message.name in redact.SECRET_FIELDS or message.name in redact.CONFIG_MESSAGES:
            nodes += tree.errors
        secret_ids |= {id(below) for node in nodes for below in node.walk()}
    return secret_ids


def _json_form(node: Node, path: redact.Path, nodes_by_path: dict[redact.Path, Node]) -> redact.Json:
    """The parts of Kafka's JSON form that the rules need; `nodes_by_path` receives the node of each path."""
    nodes_by_path[path] = node
    if node.kind is Kind.STRUCT:
        fields = [child for child in node.children if child.kind is not Kind.FORM]
        fields += [tagged for child in node.children if child.name == TAGGED for tagged in child.children]
        # An invalid value is present in the JSON form, so that it is hidden.
        return {_camel(field.name): _json_form(field, (*path, _camel(field.name)), nodes_by_path) for field in fields}
    if node.kind is Kind.ARRAY:
        elements = [child for child in node.children if child.kind is not Kind.FORM]
        return [_json_form(element, (*path, index), nodes_by_path) for index, element in enumerate(elements)]
    value = node.value
    return value if isinstance(value, (str, bool)) else None if value is None and not node.children else ""


def _camel(snake: str) -> str:
    first, *rest = snake.split("_")
    return first + "".join(word.capitalize() for word in rest)
