"""The rows of ``kwire decode --format pcapng``: the packets that carry what was chosen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, BinaryIO

from kwire.capture.excerpt import Excerpt
from kwire.capture.keylog import KeyLog
from kwire.capture.order import Made

if TYPE_CHECKING:
    from kwire.capture.exchange import Outcome
    from kwire.capture.options import Options
    from kwire.capture.source import Source
    from kwire.cli.decode_view import Block


class PacketPrinter:
    """Takes the place of a `Printer` for all inputs: what is chosen is written as packets."""

    def __init__(self, file: BinaryIO, *, comment: str, limit: int | None) -> None:
        """`file` is the owner's to close."""
        self._excerpt = Excerpt(file, comment)
        self.left = limit

    @property
    def is_full(self) -> bool:
        """Whether as many exchanges as were asked for are chosen."""
        return self.left == 0

    def outcomes(self, source: Source, options: Options) -> Iterator[Outcome]:
        """The outcomes of an input."""
        return self._excerpt.outcomes(source, options, KeyLog(options.tls_keylog))

    def push(self, outcome: Outcome | Made, made: Sequence[Block]) -> None:
        """The comments of an outcome that is chosen, or nothing."""
        assert not isinstance(outcome, Made)
        for request, response in made:
            self._excerpt.choose(outcome, request[0].text, response[0].text)
            if self.left is not None:
                self.left -= 1
        self._excerpt.release(outcome)

    def pass_over(self, count: int) -> None:
        """So many outcomes are not chosen; nothing waits for them."""

    def show(self) -> None:
        """Write all that is chosen."""
        self._excerpt.flush()

    idle = rest = show

    def notes(self) -> Iterator[str]:
        """What a reader of the packets should know."""
        excerpt = self._excerpt
        yield f"{excerpt.written} packets written; they are whole: credentials and records in them are not hidden"
        if excerpt.encrypted:
            yield (
                f"{excerpt.encrypted} exchanges came over TLS and are left out, since a part of a TLS connection "
                "cannot be opened"
            )
        if excerpt.incomplete:
            yield (
                f"{excerpt.incomplete} frames lack a packet: it came in IP fragments, or had to be given up before its "
                "exchange was complete"
            )
