"""Connections that are also closed because no packet of them came for some time."""

from __future__ import annotations

from kwire.capture.index.streams.connections import Connections, SpanStreams
from kwire.capture.index.streams.stream_pieces import NO_PIECES


class ExpiringConnections(Connections):
    """The connections of all pairs of endpoints, which the reader of a series closes when they are quiet."""

    def expire(self, before_ts: int, number: int) -> SpanStreams:
        """Close the connections without a packet since a time, and return what is left of them.

        Args: number: of the packet before which they are closed.
        """
        ends = self._closing.close_quiet(before_ts, number)
        return SpanStreams(self._close_streams(NO_PIECES, ends), ends)
