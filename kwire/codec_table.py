"""The codec of one message in a generated module: its class, and a function to read and to write each version."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from kwire.primitives import Part

#: Reads a message from an offset; returns it with the offset behind it.
Reader = Callable[[bytes, int], tuple[Any, int]]
#: Writes a message as parts to be joined.
Writer = Callable[[Any], list[Part]]


@dataclass(frozen=True, slots=True)
class Codec:
    """One message of one edition."""

    message: type[msgspec.Struct]
    readers: Mapping[int, Reader]
    writers: Mapping[int, Writer]
    #: The classes of its structs by their names in the schema.
    structs: Mapping[str, type[msgspec.Struct]]
    #: The API key or record type, -1 where there is none; with the name and edition, as the class has them.
    api_key: int = -1
    name: str = ""
    edition: str = ""
