"""Holes that are filled late: reassembly gives one up only where its receiver has acknowledged what is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kwire.capture.halves import PATIENCE, WAITING_COUNT_MAX, WAITING_SIZE_MAX

if TYPE_CHECKING:
    import numpy.typing as npt

    from kwire.capture.index.building.flows import Flows
    from kwire.capture.index.building.order import Pieces

    Ints = npt.NDArray[np.int64]
    Bools = npt.NDArray[np.bool_]

# No more waits behind a hole of a clean flow: far less than the generators hold of one, since they hold little of all.
COUNT_MAX = WAITING_COUNT_MAX // 4
SIZE_MAX = WAITING_SIZE_MAX // 8
# So many late segments of a span are looked at one by one.
_LOOKED_AT_MAX = 1000


class Acks:
    """What was acknowledged in a span, and when."""

    def __init__(self, before: Ints, side: Ints, ack: Ints, number: Ints) -> None:
        """Args: before: by side, what was acknowledged in earlier spans. side: whose bytes. number: of the packet."""
        self._before = before
        self._side = side
        self._ack = ack
        self._number = number

    def reached(self, side: int, number: int) -> int:
        """How far the bytes of a side were acknowledged before a packet."""
        own = self._ack[(self._side == side) & (self._number < number)]
        return max(int(self._before[side]), int(own.max(initial=-1)))


def spoil_late(flows: Flows, found: Pieces, lateness: Ints, acks: Acks) -> None:
    """Flows in which a hole was given up before it was filled; or may have been.

    Args: found: by side and offset. lateness: how many packets of its flow after a later part of the stream each came.
    """
    late = np.nonzero(lateness >= PATIENCE)[0]
    if len(late) > _LOOKED_AT_MAX:
        flows.spoil(found.side[late] >> 1, "disorder")
        return
    for index in late.tolist():
        side, offset, number = int(found.side[index]), int(found.offset[index]), int(found.number[index])
        is_behind = (found.side == side) & (found.offset > offset) & (found.number < number)
        is_much = int(is_behind.sum()) >= COUNT_MAX or int(found.size[is_behind].sum()) >= SIZE_MAX
        if is_much or acks.reached(side, number) > offset:
            flows.spoil(found.side[[index]] >> 1, "disorder")


def spoil_waiting(flows: Flows, waiting: Pieces) -> None:
    """Flows in which a hole that is not filled yet is given up by now, or will be."""
    if not len(waiting.side):
        return
    side, first = np.unique(waiting.side, return_inverse=True)
    count = np.bincount(first)
    size = np.bincount(first, waiting.size)
    flow = side >> 1
    arrival = np.full(len(side), np.iinfo(np.int64).max)
    np.minimum.at(arrival, first, waiting.arrival)
    is_late = (flows.packets[flow] - arrival >= PATIENCE) & (flows.acked[side] > flows.next[side])
    flows.spoil(flow[is_late | (count >= COUNT_MAX) | (size >= SIZE_MAX)], "disorder")
