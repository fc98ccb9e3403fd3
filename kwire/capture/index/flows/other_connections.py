"""Connections that are not read as Kafka: what they are, and how many bytes they have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from kwire.capture.index.arrays import find_groups
from kwire.capture.index.flows.frame_columns import FileWindow, ReadAt
from kwire.capture.index.streams.flow_closing import FlowEnd
from kwire.capture.index.streams.flow_table import FlowTable
from kwire.capture.index.streams.stream_pieces import StreamPieces
from kwire.capture.kafka.client_detection import describe_tls
from kwire.capture.kafka.heuristics import TLS_HEADER_SIZE
from kwire.capture.model import Flow, NonKafkaConnection


class OtherConnection(NamedTuple):
    """A `NonKafkaConnection` of a flow number. completed_by: the packet that shows the connection to be over."""

    flow: int
    kind: str
    ts: int
    detail: str
    size: int
    completed_by: int

    def to_outcome(self, flow: Flow) -> NonKafkaConnection:
        """The connection as a value."""
        return NonKafkaConnection(flow, *self[1:-1])


class OtherConnections:
    """The connections that are not read; their state continues from span to span."""

    def __init__(self, flows: FlowTable, read: ReadAt) -> None:
        """`read` reads the file by offset."""
        self._flows = flows
        self._read = read
        self._open: dict[int, OtherConnection] = {}
        self._first_bytes: dict[int, list[bytes]] = {}
        self._closed: list[OtherConnection] = []

    def add(self, number: int, connection: NonKafkaConnection, first_bytes: list[bytes]) -> None:
        """Add a flow, by its number. Args: first_bytes: of each side, as many as show whether it speaks TLS."""
        self._open[number] = OtherConnection(number, *connection[1:], completed_by=0)
        self._first_bytes[number] = first_bytes

    def skip_pieces(self, pieces: StreamPieces, window: FileWindow) -> None:
        """Count the bytes of these pieces of open connections. Args: pieces: those of each side in their order."""
        rows = np.nonzero(pieces.at >= 0)[0]
        if not len(rows):
            return
        rows = rows[np.argsort(pieces.side[rows], kind="stable")]
        firsts = find_groups(pieces.side[rows])
        sizes = np.add.reduceat(pieces.size[rows], firsts).tolist()
        for row, size in zip(rows[firsts].tolist(), sizes, strict=True):
            number, side = divmod(int(pieces.side[row]), 2)
            self._open[number] = self._open[number]._replace(size=self._open[number].size + size)
            first_bytes = self._first_bytes[number]
            if not first_bytes[side]:
                head_size = min(int(pieces.size[row]), TLS_HEADER_SIZE)
                first_bytes[side] = window.read(int(pieces.at[row]), head_size, self._read)

    def close(self, closing: Mapping[int, FlowEnd]) -> None:
        """Close those of these flows that end now."""
        for number in self._open.keys() & closing:
            connection, first_bytes = self._open.pop(number), self._first_bytes.pop(number)
            detail = describe_tls(connection.detail, first_bytes) if connection.kind == "tls" else connection.detail
            self._closed.append(connection._replace(detail=detail, completed_by=closing[number].number))

    def take_closed(self) -> list[OtherConnection]:
        """Return the connections that were closed since the last call."""
        closed, self._closed = self._closed, []
        return closed


def sort_connections(rows: Iterable[OtherConnection]) -> list[OtherConnection]:
    """The rows in the order of the ends of the connections."""
    return sorted(rows, key=attrgetter("completed_by", "flow"))
