"""The index of a capture that is read once, packet after packet: a pipe, an interface, a file that grows.

It has the latest part, and of earlier ones only what later parts need: the bytes of messages that wait, and the places
of their fragments. `parts` reads the capture; a part must be read before the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from kwire.capture.index.arrays import NO_NUMBERS, Ints, concatenate_rows
from kwire.capture.index.column_schema import FLOW_COLUMNS, UNANSWERED_PART
from kwire.capture.index.columns import Columns
from kwire.capture.index.flows.endpoint_pairs import EndpointPairs
from kwire.capture.index.flows.flow_builder import FlowBuilder, SpanResult
from kwire.capture.index.flows.frame_columns import FileWindow, StreamGapRow
from kwire.capture.index.flows.frame_headers import StoredNumbers
from kwire.capture.index.flows.message_columns import ExchangeColumns, RequestColumns
from kwire.capture.index.flows.other_connections import OtherConnection
from kwire.capture.index.held_bytes import HeldBytes
from kwire.capture.index.held_fragments import HeldColumn, HeldFragments
from kwire.capture.index.model import FlowInfo, FlowKey, Index
from kwire.capture.index.scan.packet_headers import LINK_NAMES, NO_HEADERS, PacketHeaders, endpoints_of_words
from kwire.capture.index.scan.stream_headers import HeaderBatch, Packets, StreamHeaders
from kwire.capture.index.stored_payload import Extent, ReadableFile
from kwire.capture.index.streams.connections import DividedSpan
from kwire.capture.index.streams.flow_closing import FlowEnd
from kwire.capture.index.streams.flow_table import END_REASONS, FlowTable
from kwire.capture.index.streams.stream_pieces import packet_numbers
from kwire.capture.kafka import exchange_pairing
from kwire.capture.kafka.client_detection import DetectionSettings, may_decrypt
from kwire.capture.model import CaptureIssue, Endpoint
from kwire.capture.options import Options
from kwire.capture.tls.key_log import KeyLog

# What is not pickled.
_OF_ONE_FILE = frozenset({"_packets", "_part", "columns", "select_packets"})


class StreamPart(NamedTuple):
    """What a part has besides its bytes.

    first_fragment: the number of its first fragment. headers, pair: the TCP packets and the numbers of their endpoints.
    divided: their connections, and those that end.
    """

    exchanges: ExchangeColumns
    first_fragment: int
    fragment_at: Ints
    fragment_size: Ints
    gaps: list[StreamGapRow]
    others: list[OtherConnection]
    headers: PacketHeaders
    pair: Ints
    divided: DividedSpan

    @property
    def closing(self) -> dict[int, FlowEnd]:
        """The flows that end."""
        return self.divided.streams.closing


class StreamIndex(Index):
    """The index of a stream of packets. It can be pickled between files, when no part is read any more."""

    is_stream = is_built_for_reader = True
    select_packets: Callable[[PacketHeaders], PacketHeaders] | None = None
    """Returns those of the packets of a span that are read; None reads all."""

    def __init__(
        self, file: str, packets: Packets, options: Options, keys: KeyLog, *, may_get_keys: bool = False
    ) -> None:
        """Args: file: the value of that column. packets: in spans or one by one, with markers before waits. keys: the
        secrets of TLS connections. may_get_keys: whether later files may have the first ones.
        """
        self._file = file
        self._packets = packets
        self._options = options
        self._keys = keys
        self._may_get_keys = may_get_keys
        self._bytes = HeldBytes()
        self._fragments = HeldFragments()
        self._headers = StreamHeaders()
        self._pairs = EndpointPairs()
        self._builder: FlowBuilder | None = None
        self._part: StreamPart | None = None
        self._extent: Extent = (0, 0)
        self._ranks: dict[FlowKey, int] = {}
        self.source = b""
        self.columns = Columns()
        self.size = self.mtime_ns = self.packet_count = self.first_ts = self.last_ts = 0
        self.client_ids: list[str] = []
        self.issues = []

    # Reading the capture

    def parts(self) -> Iterator[int]:
        """Read the capture; the numbers of its parts."""
        yield from self.read_file(self._packets)
        self.issues += self.end_file()
        self.add_end()
        yield UNANSWERED_PART

    def read_file(self, packets: Packets) -> Iterator[int]:
        """Read the packets of one file; the numbers of their parts. `end_file` must follow."""
        for number, batch in enumerate(self._headers.read_batches(packets)):
            self._add_batch(batch)
            yield number

    def add_packets(self, packets: Packets) -> None:
        """Add packets of one file as the next part, or several if they are many."""
        for _ in self.read_file(packets):
            pass

    def add_headers(self, batch: HeaderBatch) -> None:
        """Add packets whose headers were read elsewhere, at least one, as the next part."""
        self._headers.note_batch(batch)
        self._add_batch(batch)

    def end_file(self) -> list[tuple[int, CaptureIssue]]:
        """The issues of the file that ends, each with the number of the packet at which it was found."""
        return self._headers.end_file()

    def expire(self, before_ts: int) -> None:
        """Close the connections without a packet since a time, and complete older messages that wait, as a part."""
        builder, begin = self.drop_part(), self._bytes.end
        self._bytes.add_span(b"")
        result = builder.expire(before_ts, self.packet_count + 1, plain_at=begin)
        self._set_part(result, begin, NO_HEADERS, NO_NUMBERS)

    def add_end(self) -> None:
        """The capture ends: what is left of all connections is the last part."""
        builder, begin = self.drop_part(), self._bytes.end
        self._bytes.add_span(b"")
        self._set_part(builder.finish_flows(plain_at=begin), begin, NO_HEADERS, NO_NUMBERS)

    @property
    def has_packets(self) -> bool:
        """Whether any packet was added."""
        return self._builder is not None

    def _open_builder(self) -> FlowBuilder:
        """Only with the first packets it is known whether the capture may have secrets."""
        settings = DetectionSettings(self._options.ports, self._options.frame_size_max)
        secrets = self._keys if self._may_get_keys or may_decrypt(self._keys) else None
        builder = self._builder = FlowBuilder(
            self._bytes.read,
            self.find_ends,
            settings,
            secrets=secrets,
            waiting_size_max=exchange_pairing.PENDING_SIZE_MAX,
        )
        self.client_ids = builder.client_ids
        self.tls_flows = () if builder.tls is None else builder.tls.tls_flows
        return builder

    def drop_part(self) -> FlowBuilder:
        """Drop what only the latest part needed; return the builder of the next one."""
        builder = self._builder or self._open_builder()
        if self._part is not None and builder.tls is not None:
            builder.tls.tls_flows.difference_update(self._part.closing)
        self._part = None
        waiting = concatenate_rows(*builder.waiting_frames())
        whole = np.where(waiting.fragment_count > 0, -1, waiting.at), waiting.size
        self._bytes.keep([*builder.held_ranges(), whole, *self._fragments.keep(waiting)])
        return builder

    def _add_batch(self, batch: HeaderBatch) -> None:
        """Add packets as the next part."""
        builder, base = self.drop_part(), self._bytes.end
        self.packet_count, self.last_ts = self._headers.packet_count, self._headers.last_ts
        self._bytes.add_span(batch.data)
        headers = batch.headers if self.select_packets is None else self.select_packets(batch.headers)
        headers = headers._replace(at=headers.at + base)
        pair = self._pairs.number_pairs(headers.ends)
        result = builder.add_span(headers, pair, FileWindow(base, batch.data), plain_at=self._bytes.end)
        self._set_part(result, base, headers, pair)

    def _set_part(self, result: SpanResult, begin: int, headers: PacketHeaders, pair: Ints) -> None:
        """The latest part has this result; its bytes begin at a position. Args: headers, pair: as in `StreamPart`."""
        builder, fragments = self._open, result.fragments
        self._bytes.append(result.plaintext)
        request, response, moments = result.exchanges
        exchanges = ExchangeColumns(request, response, packet_numbers(moments))
        first = self._fragments.count
        self._fragments.add_run(fragments)
        self._part = StreamPart(
            exchanges,
            first,
            fragments.at,
            fragments.size,
            builder.take_gaps(),
            builder.take_others(),
            headers,
            pair,
            result.divided,
        )
        self._extent = begin, self._bytes.end - begin

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle what later files need."""
        state = {name: value for name, value in vars(self).items() if name not in _OF_ONE_FILE}
        return type(self), (self._file, (), self._options, self._keys), state

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore what `__reduce__` returned."""
        vars(self).update(state)
        self._packets, self._part = (), None
        self.columns = Columns()

    def find_ends(self, pair: int) -> tuple[Endpoint, Endpoint]:
        """The endpoints of a pair, by its number."""
        return endpoints_of_words(self._pairs.words[pair])

    # The latest part

    @property
    def latest(self) -> StreamPart:
        """The latest part."""
        assert self._part is not None
        return self._part

    @property
    def file(self) -> str:
        """The value of the column `file` of its rows."""
        return self._file

    def flow(self, number: int) -> FlowInfo:
        """A flow by its number."""
        flows = self.table
        values = (int(getattr(flows, name)[number]) for name in FLOW_COLUMNS)
        pair, epoch, first_ts, last_ts, packets, size, link, _, end = values
        totals = packets, size, first_ts, last_ts
        return FlowInfo(pair, epoch, self.find_ends(pair), LINK_NAMES[link], *totals, END_REASONS[end])

    def flow_rank(self, key: FlowKey) -> int:
        """The place of the latest connection of these endpoints among those that the end of the capture closes."""
        if not self._ranks:
            self._ranks = {self.flow(number).key: number for number in self.latest.closing}
        return self._ranks[key]

    def opener(self, number: int) -> int:
        """The side that opened a flow, or the client; -1 if the capture does not show it."""
        return int(self.table.opener[number])

    @property
    def held_size(self) -> int:
        """How many bytes of earlier parts are held."""
        return self._bytes.kept_size

    def open_file(self) -> ReadableFile:
        """The bytes that are there."""
        return self._bytes

    def extents(self, part: int) -> list[Extent]:
        """Position and size of the latest part."""
        return [self._extent]

    def file_packet_numbers(self, numbers: Ints) -> Ints:
        """Convert packet numbers of the stream to those of the file that contains the packet; -1 stays."""
        return self._headers.file_packet_numbers(numbers)

    def read_exchanges(self, part: int) -> ExchangeColumns:
        """The exchanges that the latest part completes."""
        return self.latest.exchanges

    def waiting_requests(self) -> RequestColumns:
        """The requests that wait for their responses."""
        return self._open.waiting_requests()

    def part_gaps(self, part: int) -> list[StreamGapRow]:
        """The bytes that the latest part shows to be lost, or skips."""
        return self.latest.gaps

    def part_others(self, part: int) -> list[OtherConnection]:
        """The flows that are not read as Kafka and end in the latest part."""
        return self.latest.others

    def describe_end(self, number: int) -> tuple[str, int | None, int | None]:
        """How a flow ended: the reason, the side that sent the first FIN, and the time of the last one or the RST."""
        flows = self.table
        fin_side, end_ts = int(flows.fin_side[number]), int(flows.end_ts[number])
        return END_REASONS[flows.end_reason[number]], fin_side if fin_side >= 0 else None, end_ts or None

    def fragments(self, part: int) -> tuple[int, Ints, Ints]:
        """The body fragments of the latest part: the number of the first one, positions and sizes."""
        return self.latest[1:4]

    def body_fragments(self) -> tuple[StoredNumbers, StoredNumbers]:
        """Position and size of the fragments of bodies, by the fragment numbers that frames have."""
        return HeldColumn(self._fragments, "at"), HeldColumn(self._fragments, "size")

    @property
    def _open(self) -> FlowBuilder:
        assert self._builder is not None
        return self._builder

    @property
    def table(self) -> FlowTable:
        """The flows so far."""
        return self._open.flows
