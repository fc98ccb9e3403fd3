"""Which nodes of a tree must not be shown, by the project's one rule for secrets (`kwire.redact`)."""

from __future__ import annotations

from kwire import redact
from kwire.layout.tree import TAGGED, Kind, Node, Tree


def secret_nodes(tree: Tree) -> set[int]:
    """The `id` of every node that holds a secret, the nodes below it included.

    In a message that can hold secrets, bytes that could not be read count as secret too: nobody knows what they are.
    """
    parts = tree.root.children if tree.root.type == "frame" else [tree.root]
    # Damage may stand beside header and body, where neither ends with the frame.
    messages = [part for part in parts if part.kind is Kind.STRUCT]
    found: set[int] = set()
    for message in messages:
        places: dict[redact.Path, Node] = {}
        form = _json(message, (), places)
        assert isinstance(form, dict)
        nodes = [places[path] for path in redact.secret_paths(form, message.name)]
        if message.name in redact.SECRET_FIELDS or message.name in redact.CONFIG_MESSAGES:
            nodes += tree.errors
        found |= {id(below) for node in nodes for below in node.walk()}
    return found


def _json(node: Node, path: redact.Path, places: dict[redact.Path, Node]) -> redact.Json:
    """As much of Kafka's JSON form as the rule looks at, and the node of each place."""
    places[path] = node
    if node.kind is Kind.STRUCT:
        fields = [child for child in node.children if child.kind is not Kind.FORM]
        fields += [tagged for child in node.children if child.name == TAGGED for tagged in child.children]
        # What could not be read counts as something, so that it is hidden where its value would be.
        return {_camel(field.name): _json(field, (*path, _camel(field.name)), places) for field in fields}
    if node.kind is Kind.ARRAY:
        elements = [child for child in node.children if child.kind is not Kind.FORM]
        return [_json(element, (*path, index), places) for index, element in enumerate(elements)]
    value = node.value
    return value if isinstance(value, (str, bool)) else None if value is None and not node.children else ""


def _camel(snake: str) -> str:
    first, *rest = snake.split("_")
    return first + "".join(word.capitalize() for word in rest)
