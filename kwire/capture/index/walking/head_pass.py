"""The headers of a file's packets, span after span: those that are odd go through the exact function, one by one."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np

from kwire.capture.fragments import Fragments
from kwire.capture.index.walking.files import NotIndexed
from kwire.capture.index.walking.heads import LINK_NAMES, Heads, end_words, made_heads, merged, plain
from kwire.capture.ip import Unwrapping
from kwire.capture.values import Packet, Segment, Trouble

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sized

    import numpy.typing as npt

    from kwire.capture.index.walking.spans import Span

    Ints = npt.NDArray[np.int64]

# A capture with more than so many troubles, payloads in fragments, or bytes of those, is streamed by the exact reader.
TROUBLES_MAX = 10_000
LOOSE_MAX = 10_000
LOOSE_SIZE_MAX = 32 * 1024 * 1024


class _Deferred(Exception):
    """A packet is a fragment, and those are for somebody else."""


class _NoFragments(Fragments):
    """Takes none."""

    def ipv4(self, packet: Packet, at: int, start: int, stop: int) -> Packet | None:
        """Raises: _Deferred."""
        raise _Deferred

    def ipv6(self, packet: Packet, addresses: tuple[bytes, bytes], start: int, stop: int) -> Packet | None:
        """Raises: _Deferred."""
        raise _Deferred


class HeadPass:
    """Goes over the spans of one file; what fragments are under way is kept between them."""

    def __init__(self, *, defers: bool = False) -> None:
        """Nothing was read yet. `defers`: fragments are only told of, since their packet may lie in another range."""
        self._exact = Unwrapping()
        if defers:
            self._exact.fragments = _NoFragments()
        self.troubles: list[tuple[int, Trouble]] = []
        """What could not be read, after the number of the packet at which that was known."""
        self.loose: list[bytes] = []
        """Payloads that lie nowhere in the file in one piece, since they came in fragments."""
        self.deferred: list[tuple[int, ...]] = []
        """Fragments that were left out: number, time, link, place in the file, bytes there, size on the wire."""
        self._loose_size = 0

    def heads(self, span: Span) -> Heads:
        """The TCP packets of the span. Raises: NotIndexed when too much of the file is odd to be held."""
        found, is_odd = plain(span)
        odd = np.nonzero(is_odd)[0]
        if not len(odd):
            return found
        return merged([found, self.exact(_packets(span, odd))])

    def exact(self, packets: Iterable[tuple[Packet, int]]) -> Heads:
        """The same by the exact function, of packets with the place of each in the file."""
        rows: list[tuple[int, ...]] = []
        ends: list[tuple[int, ...]] = []
        for packet, at in packets:
            try:
                found = self._exact.segment(packet)
            except _Deferred:
                self.deferred.append((packet.number, packet.ts, packet.link, at, len(packet.data), packet.size))
                continue
            except (struct.error, IndexError):
                found = Trouble("header_cut", "a packet is cut inside its headers", packet.number, packet.ts)
            if isinstance(found, Trouble):
                self.troubles.append((packet.number, found))
            elif found is not None:
                row, words = _row(found, self._place(found, at))
                rows.append(row)
                ends.append(words)
            lost = self._exact.fragments.lost
            self.troubles += [(packet.number, each) for each in lost]
            lost.clear()
            refuse_too_much(self.troubles, self.loose, self._loose_size)
        columns = list(np.array(rows, dtype=np.int64).reshape(-1, len(Heads._fields) - 1).T)
        return made_heads(columns[:3], np.array(ends, dtype=np.uint64).reshape(-1, 5), columns[3:])

    def close(self, number: int) -> None:
        """The file ends: fragments that wait will never be whole, and tunnels that are not read are counted."""
        self.troubles += [(number, each) for each in self._exact.close()]

    def _place(self, found: Segment, at: int) -> int:
        """Where the payload of a segment begins, of a packet at this place; as `Heads` says it."""
        begin = self._exact.payload_at
        if begin is not None:
            return at + begin
        self.loose.append(found.payload)
        self._loose_size += len(found.payload)
        return -len(self.loose)


def refuse_too_much(troubles: Sized, loose: Sized = (), loose_size: int = 0) -> None:
    """Raises: NotIndexed when there is more of what is odd than an index holds."""
    if len(troubles) > TROUBLES_MAX:
        raise NotIndexed(f"more than {TROUBLES_MAX:,} packets of the file cannot be read")
    if len(loose) > LOOSE_MAX or loose_size > LOOSE_SIZE_MAX:
        raise NotIndexed(f"more than {LOOSE_MAX:,} payloads, or {LOOSE_SIZE_MAX >> 20} MiB, came in fragments")


def _packets(span: Span, chosen: Ints) -> Iterator[tuple[Packet, int]]:
    for index in chosen.tolist():
        number, at = int(span.number[index]), int(span.at[index])
        data = span.data[at : at + int(span.kept[index])]
        packet = Packet(number, int(span.ts[index]), int(span.link[index]), data, int(span.size[index]))
        yield packet, span.base + at


def _row(found: Segment, at: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    side = 0 if found.source <= found.target else 1
    low, high = (found.source, found.target) if side == 0 else (found.target, found.source)
    row = (
        found.packet,
        found.ts,
        LINK_NAMES.index(found.link),
        side,
        found.seq,
        found.ack,
        found.flags,
        found.window,
        at,
        len(found.payload),
        found.missing,
    )
    return row, end_words(low, high)
