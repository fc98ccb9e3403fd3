"""The rows of the level `packets`: every TCP packet, in the order of the file.

A packet waits until the client of its connection is known, or that it is not Kafka, up to `PENDING_PACKETS_MAX` packets
behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kwire.capture.index.arrays import NO_NUMBERS, Ints, concatenate_rows
from kwire.capture.index.scan.packet_headers import LINK_NAMES, PacketHeaders
from kwire.capture.index.streams.connections import DividedSpan
from kwire.capture.index.streams.stream_pieces import AFTER_CAPTURE
from kwire.capture.rows import traffic_rows
from kwire.capture.tcp.flags import format_flags
from kwire.capture.traffic.connection_facts import ConnectionFacts
from kwire.capture.traffic.replaced_connections import find_replaced
from kwire.capture.traffic.row_columns import EndpointColumns, RowSettings, file_column, make_batch, take_texts
from kwire.capture.traffic.sequence_gaps import ANOMALIES

# Rows per record batch, at most.
_ROWS_MAX = 16_384
_FLAG_TEXTS = [format_flags(flags) for flags in range(256)]
# The client of a packet that waits for it.
_WAITING = -2
# The columns for which the connections of packets must be known.
FLOW_COLUMNS = frozenset({"conn_id", "stream_epoch", "from_client", "anomaly"})


class _Packets(NamedTuple):
    """Packets, one row each; columns as in `PacketHeaders`, `DividedSpan` and `SpanAnalysis`.

    epoch: of the connection. client: its side, -1 if it is unknown.
    """

    number: Ints
    ts: Ints
    link: Ints
    side: Ints
    seq: Ints
    ack: Ints
    flags: Ints
    window: Ints
    captured: Ints
    missing: Ints
    pair: Ints
    anomaly: Ints
    flow: Ints
    epoch: Ints
    client: Ints

    def select(self, rows: Ints | slice) -> _Packets:
        """The rows with these indexes."""
        return _Packets._make(column[rows] for column in self)


_NO_PACKETS = _Packets._make([NO_NUMBERS] * len(_Packets._fields))


class PacketBatches:
    """Makes rows of packets; those that wait remain from span to span."""

    def __init__(self, settings: RowSettings) -> None:
        """No packet waits."""
        self._settings = settings
        self._waiting = _NO_PACKETS
        # How many packets came before those that wait.
        self._first = 0

    def add_span(
        self, headers: PacketHeaders, pair: Ints, anomaly: Ints, span: DividedSpan, facts: ConnectionFacts
    ) -> Iterator[pa.RecordBatch]:
        """Add the packets of a span; return the rows that wait no more.

        Args: pair: the number of the endpoints of each packet. anomaly: of each, as in `SpanAnalysis`.
        """
        columns = (getattr(headers, name) for name in _Packets._fields[:10])
        client = np.where(span.flow < 0, -1, _WAITING)
        new = _Packets._make([*columns, pair, anomaly, span.flow, np.zeros(len(pair), dtype=np.int64), client])
        packets = concatenate_rows(self._waiting, new) if len(self._waiting.number) else new
        packets = self._settle(packets, span, facts)
        waiting = np.nonzero(packets.client == _WAITING)[0]
        count = int(waiting[0]) if len(waiting) else len(packets.number)
        yield from self._build_rows(packets.select(slice(0, count)), facts)
        self._waiting = packets.select(slice(count, None))
        self._first += count

    def _settle(self, packets: _Packets, span: DividedSpan, facts: ConnectionFacts) -> _Packets:
        """Set epoch and client of the packets that wait no more."""
        replaced, closing = span.replaced, span.streams.closing
        rows = np.nonzero(packets.client == _WAITING)[0]
        if not len(rows):
            return packets
        flow, number = packets.flow[rows], packets.number[rows]
        found = find_replaced(flow, number, replaced)
        flows, place = np.unique(flow, return_inverse=True)
        opener, client, settled_by = facts.find_sides(flows)
        last = int(packets.number[-1])
        for at, each in enumerate(flows.tolist()):
            if each in closing:
                settled_by[at] = min(int(settled_by[at]), closing[each].number, last + 1)
        # How many packets came before the one that shows the client.
        settled_at = self._first + np.searchsorted(packets.number, settled_by)
        settled_at[settled_by > last + 1] = AFTER_CAPTURE
        limit = self._first + rows + traffic_rows.PENDING_PACKETS_MAX
        is_late = settled_at[place] > limit
        is_waiting = is_late & (limit >= self._first + len(packets.number))
        sides = np.where(is_waiting, _WAITING, np.where(is_late, opener[place], client[place]))
        epochs = facts.flows.epoch[flow]
        if replaced:
            is_replaced = found >= 0
            own = found[is_replaced]
            sides[is_replaced] = np.array([each.opener for each in replaced], dtype=np.int64)[own]
            epochs[is_replaced] = np.array([each.epoch for each in replaced], dtype=np.int64)[own]
        packets.client[rows], packets.epoch[rows] = sides, epochs
        return packets

    def _build_rows(self, packets: _Packets, facts: ConnectionFacts) -> Iterator[pa.RecordBatch]:
        """The rows of packets, except those of connections that have none."""
        ports = self._settings.ports
        if ports and len(packets.number):
            has_rows = (packets.flow < 0) | EndpointColumns(packets.pair, facts).has_port(ports)
            packets = packets.select(np.nonzero(has_rows)[0])
        for first in range(0, len(packets.number), _ROWS_MAX):
            part = packets.select(slice(first, first + _ROWS_MAX))
            yield make_batch("packets", self._settings, self._columns(part, facts))

    def _columns(self, packets: _Packets, facts: ConnectionFacts) -> dict[str, Callable[[], Any]]:
        """What builds each column."""
        ends = EndpointColumns(packets.pair, facts)
        side, has_flow = packets.side, packets.flow >= 0

        def connection() -> Any:
            texts = ends.connection(np.maximum(packets.client, 0))
            return pc.if_else(pa.array(has_flow), texts, None)

        return {
            "file": lambda: file_column(self._settings, packets.ts),
            "number": lambda: facts.number_in_file(packets.number),
            "ts": lambda: packets.ts,
            "conn_id": connection,
            "stream_epoch": lambda: pa.array(packets.epoch.astype(np.int32), mask=~has_flow),
            "from_client": lambda: pa.array(side == packets.client, mask=~has_flow | (packets.client < 0)),
            "source_ip": lambda: ends.ip(side),
            "source_port": lambda: ends.port(side),
            "target_ip": lambda: ends.ip(1 - side),
            "target_port": lambda: ends.port(1 - side),
            "link": lambda: take_texts(LINK_NAMES, packets.link),
            "seq": lambda: packets.seq,
            "ack": lambda: packets.ack,
            "flags": lambda: take_texts(_FLAG_TEXTS, packets.flags),
            "window": lambda: packets.window,
            "payload_bytes": lambda: packets.captured,
            "missing_bytes": lambda: packets.missing,
            "anomaly": lambda: take_texts(ANOMALIES, packets.anomaly),
        }
