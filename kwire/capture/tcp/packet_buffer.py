"""Buffer for the packets of one direction of a connection, until no exchange can need them any more.

A packet is stored while a frame in it waits for the other half of its exchange, and for a moment longer, since it may
be sent again. Each packet is examined when that moment is over and when a frame in it is released, so the work grows
only with the number of packets, however many frames are open.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from kwire.capture.model import Packet
from kwire.capture.tcp.sequence_numbers import seq_distance, unwrap_seq

# By how much time packets may be out of order; where clocks stand still, by how many packets.
_DISORDER_NS = 150_000_000
_DISORDER_MAX = 1000
# With fewer removed packets, it is not worth copying the list.
_REMOVED_MIN = 64


@dataclass(slots=True, eq=False)
class BufferedPacket:
    """A packet, the position of its payload in the stream, and the comments to write with it.

    `at` is the unwrapped sequence number.
    """

    packet: Packet
    arrival: int
    seq: int
    size: int
    at: int = 0
    comments: list[str] = field(default_factory=list)
    buffer: PacketBuffer | None = None
    is_selected: bool = False
    is_removed: bool = False


class PacketBuffer:
    """The packets of one direction by their position in the stream, and the frames that wait for their other half."""

    def __init__(self, on_release: Callable[[BufferedPacket], None]) -> None:
        """`on_release` receives each packet that cannot be needed any more; it must call `remove_packet`."""
        self._on_release = on_release
        self._packets: list[BufferedPacket] = []
        self._recent: deque[BufferedPacket] = deque()
        self._removed = 0
        self._size_max = 0
        self._last = 0
        # The sequence number of the stream's first byte, wrapped and unwrapped; and the end of the released frames.
        self._base: tuple[int, int] | None = None
        self._released_end = -(2**63)
        # Begin and end of the open frames. They do not overlap, and come in stream order.
        self._open: dict[int, int] = {}
        self._begins: list[int] = []

    def add_packet(self, packet: BufferedPacket) -> None:
        """Store a packet with payload."""
        if not self._size_max:
            # The first of all; positions are unwrapped from it, also while nothing is stored.
            self._last = packet.seq
        packet.at = self._last = unwrap_seq(packet.seq, self._last)
        self._size_max = max(self._size_max, packet.size)
        packet.buffer = self
        insort(self._packets, packet, key=_position)
        while self._recent and self._recent[0].is_removed:
            self._recent.popleft()
        self._recent.append(packet)

    def open_frame(self, start: int, offset: int, size: int) -> None:
        """Store the packets of a frame until it is released. Args: start: the sequence number of stream offset 0."""
        begin = self._stream_position(start, offset)
        if begin not in self._open:
            insort(self._begins, begin)
        self._open[begin] = begin + size

    def release_frame(self, start: int, offset: int, size: int, *, now: int, arrivals: int) -> None:
        """Release a frame. Args: now: its time; arrivals: how many packets have come."""
        begin = self._stream_position(start, offset)
        end = begin + size
        if self._open.pop(begin, None) is not None:
            del self._begins[bisect_left(self._begins, begin)]
        # Bytes between frames are released, too.
        first = min(begin, self._released_end) if end > self._released_end else begin
        self._released_end = max(self._released_end, end)
        for packet in list(self._packets_between(first, end)):
            if not self._is_recent(packet, now, arrivals):
                self._release_packet(packet)
        while self._recent and not self._is_recent(self._recent[0], now, arrivals):
            self._release_packet(self._recent.popleft())

    def find_packets(self, start: int, offset: int, size: int) -> list[tuple[int, BufferedPacket]]:
        """The packets with a part of a range in stream order, each with its distance from the begin of the range."""
        begin = self._stream_position(start, offset)
        return [(packet.at - begin, packet) for packet in self._packets_between(begin, begin + size)]

    def close(self) -> None:
        """Release all packets."""
        for packet in [each for each in self._packets if not each.is_removed]:
            self._on_release(packet)
        self._packets.clear()
        self._recent.clear()
        self._open.clear()
        self._begins.clear()

    def remove_packet(self, packet: BufferedPacket) -> None:
        """Remove a packet."""
        packet.is_removed = True
        self._removed += 1
        if self._removed > max(len(self._packets) // 2, _REMOVED_MIN):
            self._packets = [each for each in self._packets if not each.is_removed]
            self._removed = 0

    def _release_packet(self, packet: BufferedPacket) -> None:
        """Release a packet, unless an open frame needs it."""
        if packet.is_removed or packet.at + packet.size > self._released_end:
            return
        # Of the frames that begin before its end, the last one ends last.
        before = bisect_left(self._begins, packet.at + packet.size)
        if not before or self._open[self._begins[before - 1]] <= packet.at:
            self._on_release(packet)

    def _packets_between(self, begin: int, end: int) -> Iterator[BufferedPacket]:
        packets = self._packets
        index = bisect_left(packets, begin - self._size_max, key=_position)
        while index < len(packets) and packets[index].at < end:
            packet = packets[index]
            index += 1
            if not packet.is_removed and packet.at + packet.size > begin:
                yield packet

    def _stream_position(self, start: int, offset: int) -> int:
        if self._base is None or self._base[0] != start:
            self._base = start, self._last + seq_distance(start + offset, self._last) - offset
        return self._base[1] + offset

    @staticmethod
    def _is_recent(packet: BufferedPacket, now: int, arrivals: int) -> bool:
        return packet.packet.ts > now - _DISORDER_NS and arrivals - packet.arrival < _DISORDER_MAX


def _position(packet: BufferedPacket) -> int:
    return packet.at
