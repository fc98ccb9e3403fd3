"""What is known of connections besides their packets: the client, the kind, and the endpoints.

`IndexedFacts` has what an index says of all connections; `StagedFacts` what the stages of a pass over a capture have
found out so far.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np

from kwire.capture.index.arrays import Bools, Ints
from kwire.capture.index.flows.undecided_flows import KAFKA, FindEnds
from kwire.capture.index.model import FlowKey, Index
from kwire.capture.index.streams.flow_table import FlowTable
from kwire.capture.index.streams.stream_pieces import AFTER_CAPTURE, packet_numbers

KINDS = ("kafka", "tls", "not_kafka", "no_data")
"""The values of the column `kind`, by code."""
_KAFKA, _NO_DATA = KINDS.index("kafka"), KINDS.index("no_data")


class FlowSides(NamedTuple):
    """The sides of flows: 0 or 1, -1 if unknown.

    opener: the side that sent the SYN. client: the client, of other connections than Kafka the opener. settled_by: the
    packet at which the client was found, or that the connection is another one; 0 if that was at its first bytes,
    `AFTER_CAPTURE` if it is still open.
    """

    opener: Ints
    client: Ints
    settled_by: Ints


class ConnectionFacts(Protocol):
    """What rows need of connections, and of the capture."""

    flows: FlowTable
    """The flows of the packets."""

    def find_sides(self, flow: Ints) -> FlowSides:
        """The sides of flows."""

    def find_kinds(self, flow: Ints, has_data: Bools) -> tuple[Ints, Bools]:
        """The kinds of flows that are closed, as in `KINDS`, and whether they speak TLS.

        Args: has_data: whether bytes of each were captured.
        """

    def find_ends(self, pair: int) -> FlowKey:
        """The endpoints of a pair, by the number that flows and packets have."""

    def number_in_file(self, numbers: Ints) -> Ints:
        """Convert packet numbers to those of the file that contains the packet."""


class StagedFacts:
    """What the stages of a pass have found out, after a span or at the end; `FlowBuilder` has them."""

    def __init__(
        self, flows: FlowTable, others: Mapping[int, str], find_ends: FindEnds, *, tls_flows: Collection[int] = ()
    ) -> None:
        """Args: others: by flow, the kinds of closed connections that are not read as Kafka. tls_flows: the decrypted
        ones.
        """
        self.flows = flows
        self._others = others
        self.find_ends = find_ends
        self._tls_flows = tls_flows

    def find_sides(self, flow: Ints) -> FlowSides:
        """The sides of flows."""
        flows = self.flows
        detection, opener = flows.detection[flow], flows.opener[flow]
        has_syn = (flows.syns[2 * flow] | flows.syns[2 * flow + 1]) > 0
        open_until = np.where(detection > KAFKA, 0, AFTER_CAPTURE)
        settled_by = np.where(detection == KAFKA, packet_numbers(flows.decided_at[flow]), open_until)
        return FlowSides(np.where(has_syn, opener, -1), opener, settled_by)

    def find_kinds(self, flow: Ints, has_data: Bools) -> tuple[Ints, Bools]:
        """The kinds of closed flows."""
        kinds = [KINDS.index(self._others.get(number, "no_data")) for number in flow.tolist()]
        kind = np.where(self.flows.detection[flow] == KAFKA, _KAFKA, np.array(kinds, dtype=np.int64))
        is_tls = (kind == KINDS.index("tls")) | np.isin(flow, np.array(list(self._tls_flows), dtype=np.int64))
        return kind, is_tls

    def number_in_file(self, numbers: Ints) -> Ints:
        """The packets are those of one file."""
        return numbers


class IndexedFacts:
    """What an index says of its connections. The packets are divided among flows again, with other numbers."""

    def __init__(self, index: Index, flows: FlowTable, pairs: Ints) -> None:
        """Args: flows: of the packets, only with what their headers show. pairs: by their pairs, those of the index."""
        self._index = index
        self.flows = flows
        self._pairs = pairs
        columns = index.columns
        keys = columns["flow.pair"].astype(np.int64) << 32 | columns["flow.epoch"]
        self._order = np.argsort(keys)
        self._keys = keys[self._order]
        # By number in the index; behind them, a connection that it does not have.
        self._clients = np.append(index.openers, -1)
        self._kinds = np.full(len(keys) + 1, -1, dtype=np.int64)
        self._kinds[[row.flow for row in index.others]] = [KINDS.index(row.kind) for row in index.others]
        self._is_tls = self._kinds == KINDS.index("tls")
        self._is_tls[list(index.tls_flows)] = True

    def find_sides(self, flow: Ints) -> FlowSides:
        """The sides of flows; that of the client is known from the beginning if the opener is."""
        own, opener = self._find_numbers(flow), self.flows.opener[flow]
        is_searched = (opener < 0) & (self._kinds[own] < 0) & (own < len(self._keys))
        settled_by = np.zeros(len(flow), dtype=np.int64)
        if bool(is_searched.any()):
            settled_by[is_searched] = self._first_requests[own[is_searched]]
        return FlowSides(opener, np.where(own < len(self._keys), self._clients[own], opener), settled_by)

    def find_kinds(self, flow: Ints, has_data: Bools) -> tuple[Ints, Bools]:
        """The kinds of closed flows."""
        own = self._find_numbers(flow)
        kind = self._kinds[own]
        return np.where(kind >= 0, kind, np.where(has_data, _KAFKA, _NO_DATA)), self._is_tls[own]

    def find_ends(self, pair: int) -> FlowKey:
        """The endpoints of a pair."""
        return self._index.keys[int(self._pairs[pair])]

    def number_in_file(self, numbers: Ints) -> Ints:
        """The packet numbers in their files."""
        return self._index.file_packet_numbers(numbers)

    def _find_numbers(self, flow: Ints) -> Ints:
        """The numbers of flows in the index; that behind the last one for those that it does not have."""
        flows = self.flows
        keys = self._pairs[flows.pair[flow]] << 32 | flows.epoch[flow]
        place = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        return np.where(self._keys[place] == keys, self._order[place], len(self._keys))

    @cached_property
    def _first_requests(self) -> Ints:
        """By flow of the index, the packet that completes its first request, which shows the client; 0 without one."""
        first = np.full(len(self._keys), AFTER_CAPTURE + 1, dtype=np.int64)
        for part in (*range(len(self._index.spans)), -1):
            exchanges = self._index.read_exchanges(part)
            frame = exchanges.request.frame
            rows = np.nonzero(frame.packet > 0)[0]
            np.minimum.at(first, exchanges.flow[rows], packet_numbers(frame.completed_by[rows]))
        return np.where(first > AFTER_CAPTURE, 0, first)
