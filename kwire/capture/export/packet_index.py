"""The index of a stream that also has its packets: those of the latest part, and earlier ones that may be needed.

An exchange is complete in a part that may come long after its packets. So a packet is kept while its payload may belong
to an incomplete frame, or belongs to a message that waits for its other half; and the handshake while the connection is
open. All others are dropped with their part.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from kwire.capture.index.arrays import NO_NUMBERS, Bools, Ints, concatenate_rows
from kwire.capture.index.flows.frame_columns import FrameColumns
from kwire.capture.index.flows.undecided_flows import KAFKA
from kwire.capture.index.scan.stream_headers import HeaderBatch, Packets
from kwire.capture.index.stream_index import StreamIndex
from kwire.capture.model import Packet
from kwire.capture.options import Options
from kwire.capture.tcp.flags import SYN
from kwire.capture.tcp.sequence_numbers import unwrap_seq
from kwire.capture.tls.key_log import KeyLog

BUFFERED_SIZE_MAX = 512 * 1024 * 1024
"""How many bytes of packets are kept for later parts; above it the oldest are dropped."""
# For a connection that is not closed, the handshake and its retransmissions are enough.
_HANDSHAKE_MAX = 6
# Above all unwrapped sequence numbers: added for each side, so that none reaches into the next side.
_SIDE_DISTANCE = 1 << 44


@dataclass(slots=True, eq=False)
class KeptPacket:
    """A packet, whether it is in the excerpt, and the comments to write with it."""

    packet: Packet
    is_selected: bool = False
    comments: list[str] = field(default_factory=list)


class PayloadRows(NamedTuple):
    """The payloads of packets. at: unwrapped sequence number. size: on the wire. number: of the packet."""

    side: Ints
    at: Ints
    size: Ints
    number: Ints

    def select(self, chosen: Ints | Bools) -> PayloadRows:
        """The rows with these indexes."""
        return PayloadRows(*(column[chosen] for column in self))


_NO_ROWS = PayloadRows(*[NO_NUMBERS] * 4)


class PacketIndex(StreamIndex):
    """The index of a stream, with packets. kept: by number, those that are there."""

    def __init__(self, file: str, packets: Packets, options: Options, keys: KeyLog) -> None:
        """Args: as for `StreamIndex`."""
        super().__init__(file, packets, options, keys)
        self.kept: dict[int, KeptPacket] = {}
        # Packets that were read and belong to no part yet.
        self._arrived: list[Packet] = []
        # By side and sequence number; and those of streams whose start is not known, with numbers as sent.
        self._rows = self._unplaced = _NO_ROWS
        self._size_max = 0
        self._handshakes: dict[int, list[int]] = {}
        # By side, where the last frame that was found ends.
        self._frame_ends = NO_NUMBERS

    def read_file(self, packets: Packets) -> Iterator[int]:
        """Read the packets of one file; the numbers of their parts."""
        return super().read_file(self._note_arrivals(packets))

    def _note_arrivals(self, packets: Packets) -> Packets:
        for item in packets:
            if isinstance(item, Packet):
                self._arrived.append(item)
            yield item

    def _add_batch(self, batch: HeaderBatch) -> None:
        """Add packets as the next part."""
        if self.kept:
            self._drop_packets()
        packets = self._arrived[: len(batch.numbers)]
        del self._arrived[: len(packets)]
        self.kept.update(zip(batch.numbers.tolist(), map(KeptPacket, packets), strict=True))
        super()._add_batch(batch)
        headers, flow, replaced = self.latest.headers, self.latest.divided.flow, self.latest.divided.replaced
        begins = np.zeros(len(self.table) + 1, dtype=np.int64)
        for connection in replaced:
            self._handshakes.pop(connection.flow, None)
            begins[connection.flow] = connection.end.number
        is_in_flow = (flow >= 0) & (headers.number >= begins[flow])
        is_syn = (headers.flags & SYN) > 0
        rows = np.nonzero(is_in_flow & is_syn)[0]
        for number, packet in zip(flow[rows].tolist(), headers.number[rows].tolist(), strict=True):
            handshake = self._handshakes.setdefault(number, [])
            handshake += [packet] if len(handshake) < _HANDSHAKE_MAX else []
        size = headers.captured + headers.missing
        # A payload that came in IP fragments is in no packet; it is stored behind all of them.
        is_in_packet = headers.at < self._extent[0] + sum(len(packet.data) for packet in packets)
        rows = np.nonzero(is_in_flow & is_in_packet & (size > 0))[0]
        added = PayloadRows(2 * flow + headers.side, headers.seq + is_syn, size, headers.number).select(rows)
        self._place_rows(concatenate_rows(self._unplaced, added))

    def add_end(self) -> None:
        """The capture ends, by which the starts of all streams are known."""
        super().add_end()
        self._place_rows(self._unplaced)

    def _place_rows(self, rows: PayloadRows) -> None:
        """Add rows whose sequence numbers are not unwrapped yet."""
        flows = self.table
        is_started = flows.start_seq[rows.side] >= 0
        self._unplaced, rows = rows.select(~is_started), rows.select(is_started)
        rows = concatenate_rows(self._rows, rows._replace(at=unwrap_seq(rows.at, flows.next_seq[rows.side])))
        self._rows, self._size_max = rows.select(np.lexsort((rows.at, rows.side))), int(rows.size.max(initial=0))

    def find_handshake(self, flow: int, until: int) -> list[int]:
        """The packets with the SYNs of a flow, up to a number."""
        return [number for number in self._handshakes.get(flow, ()) if number <= until and number in self.kept]

    def find_packets(self, side: int, offset: int, size: int, until: int) -> list[tuple[int, int, int]]:
        """The payloads with a part of this range of a stream, in stream order.

        Each has its distance from the begin of the range, its size, and the number of its packet.
        Args: until: the last packet.
        """
        rows, begin = self._rows, int(self.table.start_seq[side]) + offset
        first, stop = bisect_left(rows.side, side), bisect_left(rows.side, side + 1)
        first = bisect_left(rows.at, begin - self._size_max, first, stop)
        stop = bisect_left(rows.at, begin + size, first, stop)
        found = zip(*(column[first:stop].tolist() for column in (rows.at, rows.size, rows.number)), strict=True)
        return [(at - begin, own, packet) for at, own, packet in found if at + own > begin and packet <= until]

    def _drop_packets(self) -> None:
        """Drop the packets that no later part needs."""
        rows, flows, part = self._rows, self.table, self.latest
        waiting = concatenate_rows(*self._open.waiting_frames())
        self._frame_ends = np.append(self._frame_ends, np.zeros(2 * len(flows) - len(self._frame_ends), dtype=np.int64))
        for frames in (part.exchanges.request.frame, part.exchanges.response.frame, waiting):
            # A frame that is missing has the size -1.
            found = np.nonzero(frames.size >= 0)[0]
            np.maximum.at(self._frame_ends, frames.side[found], (frames.offset + frames.size + 4)[found])
        is_readable = flows.detection[: len(flows)] <= KAFKA
        is_readable[np.array([*part.closing, *self.tls_flows], dtype=np.int64)] = False
        is_needed = rows.at + rows.size > flows.start_seq[rows.side] + self._frame_ends[rows.side]
        is_needed |= self._belong_to(rows, waiting)
        self._rows = rows.select(is_needed & is_readable[rows.side >> 1])
        self._unplaced = self._unplaced.select(is_readable[self._unplaced.side >> 1])
        for number in [number for number in self._handshakes if not is_readable[number]]:
            del self._handshakes[number]
        numbers = {*self._rows.number.tolist(), *self._unplaced.number.tolist()}
        self._keep(sorted(numbers.union(*self._handshakes.values()), reverse=True))

    def _keep(self, numbers: list[int]) -> None:
        """Keep these packets within `BUFFERED_SIZE_MAX`. Args: numbers: the latest packet first."""
        packets, self.kept, left = self.kept, {}, BUFFERED_SIZE_MAX
        for number in numbers:
            if number not in packets or left < len(packets[number].packet.data):
                break
            self.kept[number] = packets[number]
            left -= len(packets[number].packet.data)
        if len(self.kept) < len(numbers):
            first = min(self.kept, default=self.packet_count + 1)
            self._rows, self._unplaced = (rows.select(rows.number >= first) for rows in (self._rows, self._unplaced))

    def _belong_to(self, rows: PayloadRows, frames: FrameColumns) -> Bools:
        """Whether each payload has a part of one of these frames, of which those of one side do not overlap."""
        sides = np.unique(frames.side)
        begins = (
            np.searchsorted(sides, frames.side) * _SIDE_DISTANCE + self.table.start_seq[frames.side] + frames.offset
        )
        at = np.searchsorted(sides, rows.side) * _SIDE_DISTANCE + rows.at
        begun = np.searchsorted(np.sort(begins), at + rows.size)
        ended = np.searchsorted(np.sort(begins + frames.size + 4), at, "right")
        return np.isin(rows.side, sides) & (begun > ended)
