"""Which packets belong to connections without data that another one of the same flow number replaced."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kwire.capture.index.arrays import Ints
from kwire.capture.index.streams.connection_walk import ReplacedConnection


def find_replaced(flow: Ints, number: Ints, replaced: Sequence[ReplacedConnection]) -> Ints:
    """The index in `replaced` of the connection of each packet; -1 if it belongs to none of these.

    Args: flow, number: of each packet, the numbers of a flow ascending. replaced: in the order of their ends.
    """
    found = np.full(len(flow), -1, dtype=np.int64)
    if not replaced:
        return found
    rows = np.nonzero(np.isin(flow, np.array([each.flow for each in replaced], dtype=np.int64)))[0]
    rows = rows[np.argsort(flow[rows], kind="stable")]
    flows, numbers = flow[rows], number[rows]
    reached: dict[int, int] = {}
    for index, each in enumerate(replaced):
        first, stop = np.searchsorted(flows, (each.flow, each.flow + 1)).tolist()
        end = first + int(np.searchsorted(numbers[first:stop], each.end.number))
        found[rows[reached.get(each.flow, first) : end]] = index
        reached[each.flow] = end
    return found
