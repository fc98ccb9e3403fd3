"""A position in the bytes of a message, with the warnings so far and, on request, the tree of nodes that were read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol

import msgspec

from kwire.decode_warnings import DecodeWarning
from kwire.errors import LimitExceeded, Truncated, WireError
from kwire.schema_codec.tree import BATCH_ERROR, ERROR, Kind, Node, Value

#: More nodes than any real message has. It bounds the cost of a hostile one (about 100 MB, a few seconds).
NODES_MAX = 250_000


class ReadableForm(Protocol):
    """The form of a value, see `kwire.schema_codec.forms.Form`."""

    def read(self, reader: Reader, path: str) -> object:
        """The value at the reader's position."""


class Reader:
    """Passed to every form of a layout while it reads.

    Args: lenient: read on, with a warning, where Kafka's decoder does. classes: the classes of the structs by name;
    a struct without one becomes a dict. root: the root of the tree; None records no nodes.
    """

    def __init__(
        self,
        data: bytes,
        at: int = 0,
        *,
        lenient: bool,
        classes: Mapping[str, type[msgspec.Struct]] | None = None,
        root: Node | None = None,
        nodes_max: int = NODES_MAX,
    ) -> None:
        self.data = data
        self.at = at
        #: The end of the current region: the message, or in a tree the records or one batch.
        self.end = len(data)
        self.lenient = lenient
        self.classes = classes or {}
        self.warnings: list[DecodeWarning] = []
        self.is_recording = root is not None
        self._open = [root] if root is not None else []
        self._nodes_left = nodes_max - 1
        self._nodes_max = nodes_max

    @property
    def left(self) -> int:
        """How many bytes the current region has left."""
        return self.end - self.at

    def need(self, count: int, path: str) -> None:
        """Check that this many bytes are left, before they are read or memory is allocated. Raises: Truncated."""
        if count > self.end - self.at:
            raise Truncated(path, self.at, count, max(self.end - self.at, 0))

    def take(self, count: int, path: str) -> bytes:
        """The next bytes. Raises: Truncated."""
        self.need(count, path)
        start = self.at
        self.at += count
        return self.data[start : self.at]

    def warn(self, error: WireError, consequence: str) -> None:
        """Raise an error, or, in a lenient decode, add a warning with the way Kafka reads the bytes."""
        if not self.lenient:
            raise error
        text = f"{error.what}; {consequence}"
        self.warnings.append(DecodeWarning(error.path, error.at or 0, text))
        if self.is_recording:
            self.add_note(text)

    def add_note(self, text: str) -> None:
        """Add a note to the innermost node that is shown: the nodes of tagged sections are not."""
        node = next(node for node in reversed(self._open) if node.kind is not Kind.FORM)
        node.note = f"{node.note}; {text}" if node.note else text

    # Nodes

    @property
    def current(self) -> Node:
        """The innermost open node."""
        return self._open[-1]

    @property
    def depth(self) -> int:
        """How many nodes are open."""
        return len(self._open)

    def read_node(self, form: ReadableForm, name: str, path: str, type_name: str, kind: Kind) -> object:
        """Read a value, and record it as a node if there is a tree."""
        if not self.is_recording:
            return form.read(self, path)
        self.open(name, path, type_name, kind)
        value = form.read(self, path)
        self.close(value)
        return value

    def open(self, name: str, path: str, type_name: str, kind: Kind, *, start: int | None = None) -> None:
        """Add a node to the innermost one and open it.

        Raises: LimitExceeded when the tree has as many nodes as allowed.
        """
        start = self.at if start is None else start
        if not self._nodes_left:
            raise LimitExceeded(path, start, f"has more than {self._nodes_max} fields; the rest is not described")
        self._nodes_left -= 1
        node = Node(name, path, type_name, start, kind=kind)
        self._open[-1].children.append(node)
        self._open.append(node)

    def close(self, value: object = None) -> None:
        """Close the innermost node. The parts of structs and arrays are nodes, so these have no value."""
        node = self._open.pop()
        node.end = self.at
        if node.kind not in _WITHOUT_VALUE:
            node.value = value  # type: ignore[assignment]

    def add_leaf(self, name: str, type_name: str, start: int, value: Value, kind: Kind = Kind.FORM) -> None:
        """Add a node that ends here, such as a count, if there is a tree."""
        if self.is_recording:
            self.open(name, f"{self.current.path}.{name}", type_name, kind, start=start)
            self.close(value)

    def mark_null(self) -> None:
        """Make the innermost node, an array or a struct, a leaf with the value null."""
        if self.is_recording:
            self.current.kind = Kind.LEAF

    @contextmanager
    def region(self, size: int) -> Iterator[None]:
        """Until the end of the block, read no more than these bytes."""
        outer = self.end
        self.end = self.at + size
        try:
            yield
        finally:
            self.end = outer

    def record_error(self, error: WireError, depth: int = 0) -> None:
        """Add the error to the tree and close the nodes that are open down to this depth, where the reading goes on.

        The error's node covers the rest of the region, from the end of the last complete node.
        """
        innermost = self._open[-1]
        start = innermost.children[-1].end if innermost.children else innermost.start
        reason = error.what if error.at == start else f"{error.what} (at byte {error.at})"
        kind = BATCH_ERROR if depth else ERROR
        innermost.children.append(Node("(error)", innermost.path, kind, start, self.end, reason, Kind.ERROR))
        while len(self._open) > depth:
            self._open.pop().end = self.end


_WITHOUT_VALUE = {Kind.STRUCT, Kind.ARRAY}
