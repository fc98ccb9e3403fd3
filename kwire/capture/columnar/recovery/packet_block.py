"""The packets of one span as columns, with the runs of them that are in order."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kwire.capture.tcp.flags import FIN, RST, SYN
from kwire.capture.tcp.sequence_numbers import SEQ_MASK

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kwire.capture.index.arrays import Ints

CONTROL = SYN | FIN | RST


class PacketTable(NamedTuple):
    """Packets, those of each flow together, in the order of the capture.

    at, captured, missing: of the payload. head, word: the first two words of the payload, as numbers.
    """

    number: Ints
    ts: Ints
    side: Ints
    seq: Ints
    ack: Ints
    flags: Ints
    at: Ints
    captured: Ints
    missing: Ints
    head: Ints
    word: Ints


class PacketBlock:
    """Packets of one span.

    A run is a range of packets of one flow in which each packet has the sequence number that follows the packet before
    it on the same side, and none opens or ends the connection.
    """

    def __init__(self, flow: Ints, columns: PacketTable) -> None:
        """Args: flow: of each packet, ascending."""
        self.columns = columns
        key = 2 * flow + columns.side
        order = np.argsort(key, kind="stable")
        size = columns.captured + columns.missing
        seq, end, key = columns.seq[order], (columns.seq + size)[order] & SEQ_MASK, key[order]
        is_next = np.ones(len(order), dtype=np.bool_)
        is_next[1:] = (key[1:] != key[:-1]) | (seq[1:] == end[:-1])
        is_plain = (columns.flags & CONTROL == 0) & ((columns.captured > 0) | (columns.missing == 0))
        is_plain &= (columns.at >= 0) | (columns.captured == 0)
        is_plain[order[~is_next]] = False
        self._breaks = np.append(np.nonzero(~is_plain)[0], len(order))

    def run_end(self, begin: int) -> int:
        """The end of the run that begins with this packet; the same number if none does."""
        return int(self._breaks[np.searchsorted(self._breaks, begin)])

    def rows(self, begin: int, end: int) -> Iterator[tuple[int, ...]]:
        """Some packets, one by one."""
        return zip(*(column[begin:end].tolist() for column in self.columns), strict=True)
