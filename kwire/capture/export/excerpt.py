"""Export of selected exchanges: their packets as a pcapng file with comments, to open a part of a capture in Wireshark.

The packets of an exchange are those with a part of its range of a stream, up to the one that completed it, and the
handshake of its connection.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING, NamedTuple

from kwire.capture.columnar.reader import ColumnarReader
from kwire.capture.export.packet_index import KeptPacket, PacketIndex
from kwire.capture.export.pcapng_writer import PcapngWriter
from kwire.capture.files.packet_reader import read_packets
from kwire.capture.files.source import source_name
from kwire.capture.kafka.exchange import Exchange
from kwire.capture.model import StreamGap

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import BinaryIO

    from kwire.capture.files.source import Source
    from kwire.capture.kafka.exchange import Outcome
    from kwire.capture.model import Flow
    from kwire.capture.options import Options
    from kwire.capture.tls.key_log import KeyLog

# Memory of the packets that wait to be written in the order of the capture.
_QUEUE_SIZE_MAX = 32 * 1024 * 1024
_QUEUE_COUNT_MAX = 20_000


class _StreamRange(NamedTuple):
    """A selected range of one side of a connection; `is_complete` if the capture has all of it."""

    is_request: bool
    offset: int
    size: int
    is_complete: bool
    comment: str


class Excerpt:
    """Reads captures, and writes the packets of the selected outcomes while it reads."""

    def __init__(self, file: BinaryIO, comment: str) -> None:
        """The caller closes `file`; `comment` is for the whole file."""
        self._file = file
        self._comment = comment
        self._writer: PcapngWriter | None = None
        self._interfaces: dict[int, int] = {}
        self._queue: list[tuple[int, KeptPacket]] = []
        self._queue_size = 0
        self._index: PacketIndex | None = None
        self._flow_numbers: dict[Flow, int] = {}
        self._completed_by = 0
        self.written = 0
        self.encrypted = 0
        """Selected exchanges of TLS connections. They are not written: a part of their packets cannot be decrypted."""
        self.incomplete = 0
        """Selected frames without all their packets: dropped before the frame was complete, or sent in IP fragments."""

    def read_outcomes(self, source: Source, options: Options, keys: KeyLog) -> Iterator[Outcome]:
        """Yield the outcomes of a capture. Each may be selected until the next one is requested."""
        self._write_queue()
        packets = read_packets(source, keys, options.unpacked_size_max, with_markers=True)
        self._index = index = PacketIndex(source_name(source), packets, options, keys)
        reader = ColumnarReader(index, None, options)
        self._flow_numbers = reader.exchange_builder.flow_numbers
        for completed_by, outcome in reader.completed_outcomes("messages", issues=True, selects=False):
            self._completed_by = completed_by
            yield outcome

    def select_packets(self, outcome: Outcome, request_comment: str, response_comment: str) -> None:
        """Write the packets of an outcome, with a comment on the first packet of each side."""
        if isinstance(outcome, Exchange):
            for side, comment in ((outcome.request, request_comment), (outcome.response, response_comment)):
                if side is not None:
                    frame, is_complete = side.frame, side.frame.damage is None
                    selected = _StreamRange(frame.is_request, frame.offset, frame.size + 4, is_complete, comment)
                    self._select_range(outcome.flow, selected)
        elif isinstance(outcome, StreamGap):
            size = outcome.missing + outcome.skipped
            selected = _StreamRange(outcome.is_request, outcome.offset, size, False, request_comment)
            self._select_range(outcome.flow, selected)

    def flush(self) -> None:
        """Write all selected packets."""
        self._open_writer()
        self._write_queue()
        self._file.flush()

    def _select_range(self, flow: Flow, selected: _StreamRange) -> None:
        if flow.is_tls:
            self.encrypted += selected.is_request
            return
        assert self._index is not None
        number = self._flow_numbers[flow]
        for packet in self._index.find_handshake(number, self._completed_by):
            self._enqueue_packet(packet)
        side = 2 * number + (flow.client_side if selected.is_request else 1 - flow.client_side)
        found = self._index.find_packets(side, selected.offset, selected.size, self._completed_by)
        comments, covered = [selected.comment] if selected.comment else [], 0
        for distance, size, packet in found:
            self._enqueue_packet(packet, comments)
            comments = []
            # Packets after a gap are written too, but do not fill it.
            covered = max(covered, distance + size) if distance <= covered else covered
        self.incomplete += selected.is_complete and covered < selected.size

    def _enqueue_packet(self, number: int, comments: Sequence[str] = ()) -> None:
        assert self._index is not None
        kept = self._index.kept[number]
        kept.comments += comments
        if kept.is_selected:
            return
        kept.is_selected = True
        heappush(self._queue, (number, kept))
        self._queue_size += len(kept.packet.data)
        while self._queue_size > _QUEUE_SIZE_MAX or len(self._queue) > _QUEUE_COUNT_MAX:
            self._write_next()

    def _write_queue(self) -> None:
        while self._queue:
            self._write_next()

    def _write_next(self) -> None:
        _, kept = heappop(self._queue)
        packet = kept.packet
        self._queue_size -= len(packet.data)
        writer = self._open_writer(packet.link)
        interface = self._interfaces.get(packet.link)
        if interface is None:
            interface = self._interfaces[packet.link] = writer.add_interface(packet.link)
        comment = "; ".join(kept.comments) or None
        writer.write_packet(packet.ts, packet.data, comment, interface=interface, size=packet.size)
        self.written += 1

    def _open_writer(self, link: int = 1) -> PcapngWriter:
        """The writer. The file has a section even if nothing is selected, so that it is a valid capture."""
        if self._writer is None:
            self._writer = PcapngWriter(self._file, link=link, comment=self._comment)
            self._interfaces[link] = 0
        return self._writer
