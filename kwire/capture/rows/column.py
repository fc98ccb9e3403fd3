"""What a declaration of a column says: its type, what it is filled from, its short name, and how it is treated."""

from __future__ import annotations

from enum import Enum, Flag, auto
from typing import NamedTuple


class ColumnKind(Enum):
    """The type of a column. Times are nanoseconds in a row, microseconds in Arrow (as in Spark), text in JSON."""

    STRING = "string"
    BOOL = "bool"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    TIME = "timestamp"
    BINARY = "binary"
    ISSUES = "issues"
    HEADERS = "headers"


class Phase(Enum):
    """What a column of `messages` is filled from, so what has to be read for it; the cheapest first.

    Columns of `LEVEL` are those that only other levels have: the module of the level fills them.
    """

    CONNECTION = "connection"
    CLIENT = "client"
    REQUEST = "request header"
    RESPONSE = "response header"
    REQUEST_BODY = "request body"
    RESPONSE_BODY = "response body"
    BODIES = "bodies of request and response"
    SESSION = "session"
    JSON = "bodies as JSON"
    LEVEL = "level"


HEADER_PHASES = (Phase.CONNECTION, Phase.CLIENT, Phase.REQUEST, Phase.RESPONSE)
BODY_PHASES = (Phase.REQUEST_BODY, Phase.RESPONSE_BODY, Phase.BODIES)


class Trait(Flag):
    """How a column is treated."""

    HIDDEN = auto()
    """Tables omit it unless it is named: it is equal in all rows, or a number whose name has a column too."""
    LEADING = auto()
    """Tables begin with it, times first."""
    WARNING = auto()
    """Tables emphasize its values other than 0."""
    TOPIC_NAMES = auto()
    """It has names of topics, which the capture may contain later than the row."""
    LARGE = auto()
    """Its values may be as large as a frame."""


class Column(NamedTuple):
    """One column. Every column may be null, since any part of a damaged capture may be missing.

    about: its meaning, for the docs. short: another name in filters and tables.
    """

    name: str
    kind: ColumnKind
    about: str
    phase: Phase = Phase.LEVEL
    traits: Trait = Trait(0)
    short: str = ""

    @property
    def title(self) -> str:
        """The title in tables: the short name, except of numbers with a unit."""
        has_unit = self.name.endswith(("_us", "_ms"))
        return self.name if has_unit or not self.short else self.short
