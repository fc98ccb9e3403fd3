"""The pieces of streams: bytes in their order, and bytes that the capture lacks; and the moments at which they came."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kwire.capture.index.arrays import NO_NUMBERS, Bools, Ints, concatenate_rows

LOST, SNAPLEN, UNREADABLE = -1, -2, -3
"""The place of bytes that the capture lacks, by cause."""
CAUSES = {LOST: "lost", SNAPLEN: "snaplen", UNREADABLE: "tls"}

# What one packet completes, in this order: what is left of connections that it shows to be over, which are bytes and
# then frames of either side, and exchanges; its own payload; and what follows a gap that is given up, of either side.
CLOSED_STREAM, CLOSED_FRAMES, CLOSED_EXCHANGES, OWN_DATA, AFTER_GAP = 0, 2, 4, 5, 6
_PHASE_BITS = 3
PHASE_MASK = (1 << _PHASE_BITS) - 1
AFTER_CAPTURE = 1 << 62
"""Above every packet number."""
END_MOMENT = 1 << 48
"""The first moment after all packets."""


def moment_of(number: int, phase: int = OWN_DATA) -> int:
    """The moment of a packet: moments order all that packets complete, also of one packet."""
    return number << _PHASE_BITS | phase if number < AFTER_CAPTURE else END_MOMENT | phase


def packet_number(moment: int) -> int:
    """The packet of a moment; `AFTER_CAPTURE` after all packets."""
    return AFTER_CAPTURE if moment >= END_MOMENT else moment >> _PHASE_BITS


def moments_of(numbers: Ints) -> Ints:
    """The moments of the payload of packets."""
    return numbers << _PHASE_BITS | OWN_DATA


def packet_numbers(moments: Ints) -> Ints:
    """The packet of each moment; `AFTER_CAPTURE` after all packets, and -1 for -1."""
    numbers: Ints = np.where(moments >= END_MOMENT, AFTER_CAPTURE, moments >> _PHASE_BITS)
    return numbers


class StreamPieces(NamedTuple):
    """Pieces of streams. side: twice the flow number plus the side. offset: unwrapped sequence number.

    at: position of the bytes in the capture; one of `CAUSES` where they are missing. number: of the packet that has
    them, 0 if they are missing. moment: when all bytes up to the end of the piece were there, or given up.
    """

    side: Ints
    offset: Ints
    size: Ints
    at: Ints
    ts: Ints
    number: Ints
    moment: Ints

    def select(self, chosen: Ints | Bools) -> StreamPieces:
        """The rows with these indexes."""
        return StreamPieces(*(column[chosen] for column in self))


NO_PIECES = StreamPieces(*[NO_NUMBERS] * 7)


def merge_pieces(pieces: StreamPieces, more: StreamPieces) -> StreamPieces:
    """All of these pieces, by side and offset. Args: pieces: in this order already."""
    if not len(more.side):
        return pieces
    pieces = concatenate_rows(pieces, more)
    return pieces.select(np.lexsort((pieces.offset, pieces.side)))


PieceRow = tuple[int, int, int, int, int, int, int]
"""One row of `StreamPieces`."""


def piece_columns(rows: list[PieceRow]) -> StreamPieces:
    """The rows as columns."""
    return StreamPieces(*np.array(rows, dtype=np.int64).reshape(-1, len(StreamPieces._fields)).T)
