"""The rows of the level `flows`: every TCP connection, at its end, in the order of its first packet within a window."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from kwire.capture.index.arrays import NO_NUMBERS, Ints, concatenate_rows
from kwire.capture.index.scan.packet_headers import LINK_NAMES
from kwire.capture.index.streams.connections import DividedSpan
from kwire.capture.index.streams.flow_table import END_REASONS
from kwire.capture.rows.reorder_buffer import ORDER_WINDOW
from kwire.capture.traffic.connection_facts import KINDS, ConnectionFacts
from kwire.capture.traffic.connection_states import NO_STATES, ConnectionStates
from kwire.capture.traffic.row_columns import EndpointColumns, RowSettings, file_column, make_batch, take_texts
from kwire.capture.traffic.tcp_columns import ClosedConnections

# Rows per record batch, at most.
_ROWS_MAX = 16_384
_BY_SIDE = {"bytes": "size", "lost_bytes": "lost", "packets": "packets", "retransmits": "retransmits"}
_BY_SIDE["zero_windows"] = "zero_windows"
_BY_RESET_OR_FIN = [END_REASONS.index(reason) for reason in ("fin", "rst")]


class _Flows(NamedTuple):
    """Connections that are closed, one row each; columns as in `FlowTable`. kind: as in `KINDS`.

    client: the side of the client, or the most probable one.
    """

    states: ConnectionStates
    pair: Ints
    epoch: Ints
    link: Ints
    end_reason: Ints
    client: Ints
    kind: Ints
    is_tls: Ints

    def select(self, rows: Ints) -> _Flows:
        """The rows with these indexes."""
        return _Flows(self.states.select(rows), *(column[rows] for column in self[1:]))


_NO_FLOWS = _Flows._make([NO_STATES, *[NO_NUMBERS] * 7])


class FlowBatches:
    """Makes rows of connections; those in the window remain from span to span."""

    def __init__(self, settings: RowSettings) -> None:
        """No connection is closed."""
        self._settings = settings
        # In the order of their ends.
        self._kept = _NO_FLOWS

    def add_closed(
        self, closed: ClosedConnections, span: DividedSpan, facts: ConnectionFacts
    ) -> Iterator[pa.RecordBatch]:
        """Add the connections that a span closes; return the rows that leave the window."""
        flows = _describe(closed, span, facts)
        if self._settings.ports and len(flows.pair):
            chosen = EndpointColumns(flows.pair, facts).has_port(self._settings.ports)
            flows = flows.select(np.nonzero(chosen)[0])
        if len(flows.pair):
            yield from self._add(flows, ORDER_WINDOW, facts)

    def finish(self, facts: ConnectionFacts) -> Iterator[pa.RecordBatch]:
        """The rows in the window."""
        yield from self._add(_NO_FLOWS, 0, facts)

    def _add(self, flows: _Flows, window: int, facts: ConnectionFacts) -> Iterator[pa.RecordBatch]:
        kept_count = len(self._kept.pair)
        flows = concatenate_rows(self._kept, flows)
        order, kept = _order_rows(flows.states.first_ts.tolist(), kept_count, window)
        for first in range(0, len(order), _ROWS_MAX):
            part = flows.select(np.array(order[first : first + _ROWS_MAX], dtype=np.int64))
            yield make_batch("flows", self._settings, self._columns(part, facts))
        self._kept = flows.select(np.array(kept, dtype=np.int64))

    def _columns(self, flows: _Flows, facts: ConnectionFacts) -> dict[str, Callable[[], Any]]:
        """What builds each column."""
        ends = EndpointColumns(flows.pair, facts)
        states, client, row = flows.states, flows.client, np.arange(len(flows.pair))
        has_closer = np.isin(flows.end_reason, _BY_RESET_OR_FIN) & (states.closing_side >= 0)
        closer = np.where(has_closer, (states.closing_side != client) + 1, 0)
        columns: dict[str, Callable[[], Any]] = {
            "file": lambda: file_column(self._settings, states.first_ts),
            "conn_id": lambda: ends.connection(client),
            "stream_epoch": lambda: flows.epoch,
            "client_ip": lambda: ends.ip(client),
            "client_port": lambda: ends.port(client),
            "broker_ip": lambda: ends.ip(1 - client),
            "broker_port": lambda: ends.port(1 - client),
            "link": lambda: take_texts(LINK_NAMES, flows.link),
            "tls": lambda: pa.array(flows.is_tls > 0),
            "kind": lambda: take_texts(KINDS, flows.kind),
            "first_ts": lambda: states.first_ts,
            "last_ts": lambda: states.last_ts,
            "first_packet": lambda: facts.number_in_file(states.first_packet),
            "last_packet": lambda: facts.number_in_file(states.last_packet),
            "rtt_us": lambda: pa.array(states.rtt // 1000, mask=states.rtt < 0),
            "ended": lambda: take_texts(END_REASONS, flows.end_reason),
            "ended_by": lambda: take_texts((None, "client", "broker"), closer),
        }
        for name, column in _BY_SIDE.items():
            values: Ints = getattr(states, column)
            columns[f"{name}_client"] = _build_side(values, row, client)
            columns[f"{name}_broker"] = _build_side(values, row, 1 - client)
        return columns


def _build_side(values: Ints, row: Ints, side: Ints) -> Callable[[], Ints]:
    return lambda: values[row, side]


def _describe(closed: ClosedConnections, span: DividedSpan, facts: ConnectionFacts) -> _Flows:
    """The rows of closed connections, in their order."""
    flow, flows = closed.states.flow, facts.flows
    columns = [flows.pair[flow], flows.epoch[flow], flows.link[flow], flows.end_reason[flow]]
    client = facts.find_sides(flow).client
    kind, is_tls = facts.find_kinds(flow, closed.states.has_data > 0)
    rows = np.nonzero(closed.replaced >= 0)[0]
    if len(rows):
        own = closed.replaced[rows]
        names = "epoch", "link", "end_reason", "opener"
        for column, name in zip((*columns[1:], client), names, strict=True):
            column[rows] = np.array([getattr(each, name) for each in span.replaced], dtype=np.int64)[own]
        kind[rows], is_tls[rows] = KINDS.index("no_data"), False
    return _Flows._make([closed.states, *columns, np.maximum(client, 0), kind, is_tls.astype(np.int64)])


def _order_rows(first_ts: list[int], kept_count: int, window: int) -> tuple[list[int], list[int]]:
    """The rows that leave the window, in their order, and those that stay, as `ReorderBuffer` has them.

    Args: kept_count: how many of them were in the window before.
    """
    heap = [(ts, row) for row, ts in enumerate(first_ts[:kept_count])]
    heapify(heap)
    order: list[int] = []
    for row, ts in enumerate(first_ts[kept_count:], kept_count):
        heappush(heap, (ts, row))
        if len(heap) > window:
            order.append(heappop(heap)[1])
    while len(heap) > window:
        order.append(heappop(heap)[1])
    return order, sorted(row for _, row in heap)
