"""The walk over a capture file, whatever its format: from record to record, a span at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from kwire.capture import pcap, pcapng
from kwire.capture.index.walking import spans
from kwire.capture.index.walking.files import File, NotIndexed, Source
from kwire.capture.index.walking.pcap import Pcap
from kwire.capture.index.walking.pcapng import Pcapng
from kwire.capture.index.walking.spans import Place, Span, Walked

SPAN_SIZE = spans.SPAN_SIZE


class Walk(Protocol):
    """What both formats do."""

    may_have_secrets: bool
    first: Place

    def spans(self, stop: int, walked: Walked) -> Iterator[Span]:
        """The packets from where `walked` is, of records that begin before this offset, which is of the grid."""

    def places(self, stops: list[int]) -> Iterator[Place]:
        """Where the first record is that does not begin before each of these offsets."""

    def guess(self, start: int, stop: int) -> Place | None:
        """Where the first record between two offsets is, as far as one can tell without the walk; None for nowhere."""

    def close(self, walked: Walked) -> None:
        """Say what is wrong where the whole records end. Raises: NotIndexed."""


def walk(file: File, source: Source) -> Walk:
    """The walk over a file. Raises: NotIndexed when it is packed, or no capture."""
    magic = file.read(0, 4)
    if magic in pcap.MAGICS:
        return Pcap(file, magic, SPAN_SIZE)
    if magic == pcapng.MAGIC:
        return Pcapng(file, source, SPAN_SIZE)
    # Packed, or nothing that can be read: the exact reader knows, and says so.
    raise NotIndexed(f"neither pcap nor pcapng: the file begins with {magic.hex(' ') or 'nothing'}")
