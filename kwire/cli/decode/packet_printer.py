"""Output of ``kwire decode --format pcapng``: the packets of the selected exchanges."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, BinaryIO

from kwire.capture.export.excerpt import Excerpt
from kwire.capture.rows.reorder_buffer import PrebuiltRow
from kwire.capture.tls.followed_key_log import open_key_log

if TYPE_CHECKING:
    from kwire.capture.files.source import Source
    from kwire.capture.kafka.exchange import Outcome
    from kwire.capture.options import Options
    from kwire.cli.decode.views import Block


class PacketPrinter:
    """Replaces `Printer` for all inputs: writes the packets of selected exchanges."""

    def __init__(self, file: BinaryIO, *, comment: str, limit: int | None) -> None:
        """`file` is closed by the caller."""
        self._excerpt = Excerpt(file, comment)
        self.left = limit

    @property
    def is_full(self) -> bool:
        """Whether the requested number of exchanges is selected."""
        return self.left == 0

    def outcomes(self, source: Source, options: Options) -> Iterator[Outcome]:
        """The outcomes of an input."""
        return self._excerpt.read_outcomes(source, options, open_key_log(options))

    def push(self, outcome: Outcome | PrebuiltRow, blocks: Sequence[Block]) -> None:
        """Add the comments of an outcome, if it is selected."""
        assert not isinstance(outcome, PrebuiltRow)
        for request, response in blocks:
            self._excerpt.select_packets(outcome, request[0].text, response[0].text)
            if self.left is not None:
                self.left -= 1

    def skip_outcomes(self, count: int) -> None:
        """Skip `count` outcomes that are not selected."""

    def show(self) -> None:
        """Write all selected packets."""
        self._excerpt.flush()

    idle = print_due_rows = show

    def end_part(self) -> None:
        """Selected packets wait for others before them."""

    def notes(self) -> Iterator[str]:
        """Notes for the user about the written packets."""
        excerpt = self._excerpt
        yield f"{excerpt.written} packets written; they are complete: credentials and records in them are not hidden"
        if excerpt.encrypted:
            yield (
                f"{excerpt.encrypted} exchanges over TLS are left out, since a part of a TLS connection cannot be "
                "decrypted"
            )
        if excerpt.incomplete:
            reason = "it came in IP fragments, or was discarded before its exchange was complete"
            yield f"{excerpt.incomplete} frames lack a packet: {reason}"
