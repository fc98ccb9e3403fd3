"""What a lenient decode returns: the message, and what was odd about its bytes."""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

M_co = TypeVar("M_co", bound=msgspec.Struct, covariant=True)


class Oddity(msgspec.Struct, frozen=True):
    """Something that Kafka's decoder lets pass and a strict one refuses."""

    #: The field, from the message down.
    path: str
    #: The offset in the decoded bytes.
    at: int
    #: What was seen, and what it was taken for.
    what: str


class Lenient(msgspec.Struct, Generic[M_co], frozen=True):
    """A message as Kafka reads it."""

    message: M_co
    oddities: tuple[Oddity, ...]
    #: How many bytes the message itself took.
    size: int


def ignored_tail(path: str, end: int, size: int) -> tuple[Oddity, ...]:
    """The note on bytes behind a message that ends before them; none when it ends with them."""
    return (Oddity(path, end, f"{size - end} bytes behind the end are ignored"),) if end < size else ()
