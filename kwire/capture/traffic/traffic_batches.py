"""The rows of the levels `flows` and `packets`, span by span: what a pass over a capture uses."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from kwire.capture.index.arrays import NO_NUMBERS, Ints
from kwire.capture.index.scan.packet_headers import NO_HEADERS, PacketHeaders
from kwire.capture.index.streams.connections import DividedSpan
from kwire.capture.traffic.connection_facts import ConnectionFacts
from kwire.capture.traffic.flow_batches import FlowBatches
from kwire.capture.traffic.packet_batches import PacketBatches
from kwire.capture.traffic.row_columns import RowSettings
from kwire.capture.traffic.tcp_columns import TcpColumns


class TrafficBatches:
    """Makes the rows of one level. It can be pickled between spans: what it calls is an argument.

    The rows of a span are taken to the end before the next one is added.
    """

    def __init__(self, level: str, settings: RowSettings) -> None:
        """`level` is `flows` or `packets`."""
        self._analysis = TcpColumns() if level == "flows" or "anomaly" in settings.columns else None
        self._flows = FlowBatches(settings) if level == "flows" else None
        self._packets = PacketBatches(settings) if level == "packets" else None

    def add_span(
        self, headers: PacketHeaders, pair: Ints, span: DividedSpan, facts: ConnectionFacts
    ) -> Iterator[pa.RecordBatch]:
        """Add the packets of a span; return the rows that are complete.

        Args: headers: in packet order; `ends` is not used. pair: the number of the endpoints of each packet. facts: of
        the time after the span.
        """
        anomaly = np.zeros(len(pair), dtype=np.int64)
        if self._analysis is not None:
            anomaly, closed = self._analysis.add_span(headers, span)
            if self._flows is not None:
                yield from self._flows.add_closed(closed, span, facts)
        if self._packets is not None:
            yield from self._packets.add_span(headers, pair, anomaly, span, facts)

    def finish(self, span: DividedSpan, facts: ConnectionFacts) -> Iterator[pa.RecordBatch]:
        """The end of the capture. Args: span: what it completes, without packets."""
        yield from self.add_span(NO_HEADERS, NO_NUMBERS, span, facts)
        yield from self.flush(facts)

    def flush(self, facts: ConnectionFacts) -> Iterator[pa.RecordBatch]:
        """The rows of connections that are closed and wait for others before them."""
        if self._flows is not None:
            yield from self._flows.finish(facts)
