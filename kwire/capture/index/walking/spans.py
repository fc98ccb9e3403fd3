"""A capture file in spans: stretches of it that are held at once, and the packets in each.

Spans lie on a grid: one has the packets whose records begin between two multiples of its size. So where they are does
not depend on where the walk began, and the parts of a file that several walk fit each other.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from kwire.capture.pcap import PACKET_SIZE_MAX

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from kwire.capture.blocks import Interface
    from kwire.capture.values import Trouble

    Ints = npt.NDArray[np.int64]

# How much of the file is held at once: more than the largest packet.
SPAN_SIZE = 24 * 1024 * 1024
# So much is read behind a span, for its last record; of a longer one so much at once that it is whole.
_BEHIND_SIZE = 256 * 1024
_LONGEST_SIZE = PACKET_SIZE_MAX + 2 * 1024 * 1024


@dataclass(slots=True)
class Span:
    """A stretch of the file and the packets in it, in their order. `at` and the like are offsets into `data`.

    extent: how much of `data` the records are; some more may be behind them. number: of the packet, from 1 where the
    walk began. ts: nanoseconds. at, kept: where its data begin, and how much there is. size: its length on the wire.
    link: its link type.
    """

    base: int
    data: bytes
    extent: int
    number: Ints
    ts: Ints
    at: Ints
    kept: Ints
    size: Ints
    link: Ints


class Place(NamedTuple):
    """Where the next record begins, and what must be known to read it: byte order and interfaces, of pcapng only."""

    at: int
    order: str = "<"
    interfaces: tuple[Interface, ...] = ()


@dataclass(slots=True)
class Walked:
    """What the walk leaves beside the packets, and where it is.

    is_ended: whether what lies there is no whole record. last_ts: of the last packet. secrets: offset and size in the
    file of each key log in it. troubles: those that the file tells, without a number.
    """

    place: Place
    packet_count: int = 0
    is_ended: bool = False
    last_ts: int = 0
    troubles: list[Trouble] = field(default_factory=list)
    secrets: list[tuple[int, int]] = field(default_factory=list)


def read_size(at: int, span_size: int, *, is_long: bool) -> tuple[int, int]:
    """How far the span goes in which a record begins, from there on, and how much to read.

    Args: is_long: whether a read told that the record is longer than most.
    """
    limit = (at // span_size + 1) * span_size - at
    return limit, max(limit + _BEHIND_SIZE, _LONGEST_SIZE if is_long else 0)
