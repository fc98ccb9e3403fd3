"""Keeps the tree while construct parses: what is open, where the present region ends, what went wrong."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from construct import ConstructError

from kwire.layout.tree import BATCH_ERROR, ERROR, Kind, Node, Value

#: More nodes than any real message has; what a hostile one costs stays bounded (about 100 MB, a few seconds).
NODES_MAX = 250_000


# construct has no types; it becomes a node of the tree, and nobody sees it raised.
class Damage(ConstructError):  # type: ignore[misc]
    """The bytes do not fit the description any further."""

    def __init__(self, at: int, reason: str) -> None:
        super().__init__(reason)
        self.at = at
        self.reason = reason


class Recorder:
    """The tree in the making. Constructs find it in their context, as `context._params.recorder`."""

    def __init__(self, root: Node, end: int, nodes_max: int = NODES_MAX) -> None:
        self.root = root
        self.end = end
        self.nodes_max = nodes_max
        self.count = 1
        self._open = [root]

    @property
    def current(self) -> Node:
        """The innermost node whose bytes are being read."""
        return self._open[-1]

    def left(self, at: int) -> int:
        """How many bytes the present region (the message, a tagged field, the records) has from here on."""
        return self.end - at

    def need(self, at: int, size: int) -> None:
        """Be sure of so many bytes before anybody reads or allocates them."""
        if size > self.end - at:
            raise Damage(at, f"needs {size} bytes, but {self.end - at} are left")

    def open(self, name: str, type_name: str, start: int, kind: Kind = Kind.LEAF) -> Node:
        """Begin a node below the innermost one."""
        if self.count >= self.nodes_max:
            raise Damage(start, f"has more than {self.nodes_max} fields; the rest is not described")
        self.count += 1
        parent = self._open[-1]
        path = parent.path + name if name.startswith("[") else f"{parent.path}.{name}"
        node = Node(name, path, type_name, start, kind=kind)
        parent.children.append(node)
        self._open.append(node)
        return node

    def close(self, end: int, value: Value = None) -> None:
        """End the innermost node."""
        node = self._open.pop()
        node.end = end
        node.value = value

    def leaf(self, name: str, type_name: str, span: tuple[int, int], value: Value, kind: Kind = Kind.FORM) -> None:
        """A node that is known as a whole."""
        self.open(name, type_name, span[0], kind)
        self.close(span[1], value)

    def note(self, text: str) -> None:
        """Say what is odd about the innermost node."""
        node = self._open[-1]
        node.note = f"{node.note}; {text}" if node.note else text

    @contextmanager
    def region(self, end: int) -> Iterator[None]:
        """Until the end of the block nothing is read beyond this offset."""
        outer = self.end
        self.end = end
        try:
            yield
        finally:
            self.end = outer

    def fail(self, damage: Damage, depth: int = 0) -> None:
        """Put the damage into the tree, and close what is open down to this depth, where the reading goes on.

        The error covers the rest of the region, from where the innermost node stops being known.
        """
        innermost = self._open[-1]
        at = innermost.children[-1].end if innermost.children else innermost.start
        reason = damage.reason if damage.at == at else f"{damage.reason} (at byte {damage.at})"
        kind = BATCH_ERROR if depth else ERROR
        innermost.children.append(Node("(error)", innermost.path, kind, at, self.end, reason, Kind.ERROR))
        while len(self._open) > depth:
            self._open.pop().end = self.end

    @property
    def depth(self) -> int:
        """How many nodes are open."""
        return len(self._open)
