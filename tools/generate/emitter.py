"""The base class of the emitters of decode and encode functions."""

from __future__ import annotations

from kwire.schema import snake_case
from tools.generate.model import Message
from tools.generate.source import Names, Source


class Emitter:
    """The body of one function, for one message in one version."""

    def __init__(self, message: Message, version: int, uses: set[str], name: str) -> None:
        self.message = message
        self.version = version
        self.flexible = message.spec.is_flexible(version)
        #: The names that the module must import or build.
        self.uses = uses
        self.name = name
        #: Whether record batches are read, as views of the whole message.
        self.uses_view = False
        self.out = Source(1)
        self.names = Names()
        #: Fields of fixed size, as struct code and expression, that are to be read or packed by one call.
        self.run: list[tuple[str, str]] = []
        #: Functions for the known tagged fields of structs; separate, so that the main function stays short.
        self.helpers: dict[str, str] = {}

    def use(self, name: str) -> str:
        """Record that the module must import or build this name; returns the name."""
        self.uses.add(name)
        return name

    def class_of(self, struct_name: str) -> str:
        """The Python class of a struct, or of the message itself."""
        return struct_name if struct_name == self.message.spec.name else self.message.class_of(struct_name)

    def helper_name(self, struct_name: str) -> str:
        """The name of the function for the tagged fields of a struct."""
        part = "" if struct_name == self.message.spec.name else f"_{snake_case(struct_name)}"
        return f"_{self.name}{part}_tags"
