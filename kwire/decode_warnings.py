"""The result of a lenient decode: the message, and warnings for what a strict decode rejects."""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

M_co = TypeVar("M_co", bound=msgspec.Struct, covariant=True)


class DecodeWarning(msgspec.Struct, frozen=True):
    """Bytes that Kafka's decoder accepts and a strict one rejects."""

    #: The field, from the message down.
    path: str
    #: The offset in the decoded bytes.
    at: int
    #: The bytes that were found, and how they were read.
    what: str


class LenientResult(msgspec.Struct, Generic[M_co], frozen=True):
    """A message as Kafka reads it."""

    message: M_co
    warnings: tuple[DecodeWarning, ...]
    #: The size of the message in bytes.
    size: int


def ignored_tail(path: str, end: int, size: int) -> tuple[DecodeWarning, ...]:
    """A warning about bytes behind the end of the message; none when there are no such bytes."""
    return (DecodeWarning(path, end, f"{size - end} bytes behind the end are ignored"),) if end < size else ()
