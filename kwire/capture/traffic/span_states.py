"""The states of the connections of a span: those that are open, and those that begin in it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kwire.capture.index.arrays import Bools, Ints, concatenate_rows
from kwire.capture.index.streams.connection_walk import ReplacedConnection
from kwire.capture.traffic.connection_states import ConnectionStates, new_states


class SpanStates:
    """The states of a span. Several connections have the same flow number if one replaced another without data.

    replaced_rows: the rows of the connections that were replaced.
    """

    def __init__(self, open_states: ConnectionStates, flow: Ints, replaced: Sequence[ReplacedConnection]) -> None:
        """Args: open_states: of the connections that are open before the span. flow: of its packets."""
        flows = np.union1d(open_states.flow, flow)
        new = flows[~np.isin(flows, open_states.flow)]
        self._flows = flows
        self._rows = np.empty(len(flows), dtype=np.int64)
        self._rows[np.searchsorted(flows, np.append(open_states.flow, new))] = np.arange(len(flows))
        self.replaced_rows = np.empty(len(replaced), dtype=np.int64)
        for index, each in enumerate(replaced):
            place = int(np.searchsorted(flows, each.flow))
            self.replaced_rows[index] = self._rows[place]
            self._rows[place] = len(flows) + index
        behind = np.array([each.flow for each in replaced], dtype=np.int64)
        self.states = concatenate_rows(open_states, new_states(np.append(new, behind)))

    def find(self, flow: Ints) -> tuple[Ints, Bools]:
        """The rows of flows at the end of the span, and whether each has one."""
        if not len(self._flows):
            return flow, np.zeros(len(flow), dtype=np.bool_)
        place = np.minimum(np.searchsorted(self._flows, flow), len(self._flows) - 1)
        return self._rows[place], self._flows[place] == flow

    def of_packets(self, flow: Ints, replaced: Ints) -> Ints:
        """The row of each packet. Args: flow, replaced: of each packet, as in `find_replaced`."""
        rows, _ = self.find(flow)
        has_other = np.nonzero(replaced >= 0)[0]
        rows[has_other] = self.replaced_rows[replaced[has_other]]
        return rows
