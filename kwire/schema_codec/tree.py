"""The tree that describes the bytes of a message: every byte belongs to exactly one leaf."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum

#: The value of a leaf. Integers of any width are int; an array of fixed-size elements is a tuple.
Value = bool | int | float | str | bytes | tuple[int | float | bytes, ...] | None


class Kind(Enum):
    """The kinds of nodes."""

    LEAF = "leaf"
    STRUCT = "struct"
    ARRAY = "array"
    #: A records field with the batches inside it; its value is all its bytes.
    RECORDS = "records"
    #: The rest of the bytes, from the damage on: the value is the reason.
    ERROR = "error"
    #: Bytes of the encoding that are no field: a count, a length, a tag.
    FORM = "form"


@dataclass(slots=True)
class Node:
    """One field, struct, array or part of the encoding, with the bytes from `start` to `end`, exclusive."""

    name: str
    path: str
    type: str
    start: int
    end: int = -1
    value: Value = None
    kind: Kind = Kind.LEAF
    children: list[Node] = field(default_factory=list)
    #: A warning about bytes that Kafka accepts; empty when there is none.
    note: str = ""

    def walk(self) -> Iterator[Node]:
        """This node and all below it, parents before children, in the order of their bytes."""
        # An explicit stack, so that deep data cannot exhaust the interpreter's.
        pending = [self]
        while pending:
            node = pending.pop()
            yield node
            pending.extend(reversed(node.children))

    def leaves(self) -> Iterator[Node]:
        """The nodes without children; together they cover every byte once."""
        return (node for node in self.walk() if not node.children)

    def child(self, name: str) -> Node:
        """The child of this name. Raises: KeyError when there is none."""
        for node in self.children:
            if node.name == name:
                return node
        raise KeyError(name)


@dataclass(slots=True)
class Tree:
    """The description of one message, and the bytes it describes."""

    root: Node
    data: bytes

    @property
    def errors(self) -> list[Node]:
        """All error nodes; an error in record batches does not end the message."""
        return [node for node in self.root.walk() if node.kind is Kind.ERROR]

    @property
    def damage(self) -> Node | None:
        """The error node that ended the message, or None."""
        return next((node for node in self.errors if node.type == ERROR), None)

    @property
    def notes(self) -> list[Node]:
        """All nodes with a note."""
        return [node for node in self.root.walk() if node.note]

    def find(self, path: str) -> Node:
        """The node of this path, such as ``ShareFetchRequest.topics[0].topic_id``.

        Raises: KeyError when there is none.
        """
        for node in self.root.walk():
            if node.path == path:
                return node
        raise KeyError(path)

    def values(self) -> dict[str, object]:
        """The message as dicts and lists by snake_case name, only with the fields that the bytes hold."""
        return _struct_values(self.root)


def _struct_values(struct: Node) -> dict[str, object]:
    values: dict[str, object] = {}
    unknown: list[tuple[int, object]] = []
    for node in struct.children:
        if node.kind is Kind.FORM and node.name == TAGGED:
            values |= {tagged.name: _value(tagged) for tagged in node.children if tagged.kind not in _FORMAL}
            unknown += [(tag, raw) for tag, raw in map(_unknown_tag, node.children) if tag is not None]
        elif node.kind not in _FORMAL:
            values[node.name] = _value(node)
    if unknown:
        values["unknown_tagged_fields"] = tuple(unknown)
    return values


def _value(node: Node) -> object:
    if node.kind is Kind.STRUCT:
        return _struct_values(node)
    if node.kind is Kind.ARRAY:
        return [_value(element) for element in node.children if element.kind not in _FORMAL]
    return node.value


def _unknown_tag(node: Node) -> tuple[int | None, object]:
    is_unknown = node.kind is Kind.FORM and node.name.startswith(UNKNOWN_TAG)
    return (int(node.name[len(UNKNOWN_TAG) : -1]), node.value) if is_unknown else (None, None)


#: The types of nodes that stand for damage: of the message, or of a record batch alone.
ERROR, BATCH_ERROR = "error", "error in the records"
#: Names of nodes that no field can have.
TAGGED, UNKNOWN_TAG = "(tagged fields)", "(tag "
_FORMAL = {Kind.FORM, Kind.ERROR}
