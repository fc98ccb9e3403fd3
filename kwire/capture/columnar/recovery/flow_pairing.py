"""Pair the requests and responses of one connection by number, as `kwire.capture.kafka.exchange_pairing` pairs objects."""

from __future__ import annotations

from typing import NamedTuple

from kwire.capture.kafka.exchange_pairing import DISORDER_NS, ORPHANS_MAX, PENDING_REQUESTS_MAX

NO_ID = 1 << 32
"""Stands for a correlation id where there is none, or where no response can follow."""

_REQUEST_COST = 2000


class PairedRow(NamedTuple):
    """An exchange of a request and a response by their numbers, -1 for none. completed_by: the packet."""

    flow: int
    request: int
    response: int
    order_ok: int
    completed_by: int


class _Orphan(NamedTuple):
    """A response whose request was not captured yet."""

    number: int
    end_ts: int


class FlowPairing:
    """Requests and responses have numbers that ascend in the order of their completion.

    pending: the number of each request without a response, by correlation id. pending_size_max: the most memory of
    such requests so far. has_failed: whether the streaming pipeline has to read the connection.
    """

    def __init__(self, flow: int, pending: dict[int, int]) -> None:
        """Args: flow: its number, for the rows. pending: is kept up to date."""
        self.pending = pending
        self.pending_size_max = 0
        self.has_failed = False
        self.count = 0
        self.in_flight = 0
        self._flow = flow
        self._costs: dict[int, int] = {}
        self._size = 0
        self._last_answered = -1
        self._orphans: dict[int, _Orphan] = {}

    def add_request(
        self, number: int, correlation_id: int, frame: tuple[int, int, int], rows: list[PairedRow]
    ) -> None:
        """Add a request. Args: frame: its time, its size, and the packet that completed it. rows: what it completes."""
        ts, size, found_by = frame
        self.count += 1
        if correlation_id == NO_ID:
            rows.append(PairedRow(self._flow, number, -1, -1, found_by))
            return
        if self._orphans:
            orphan = self._orphans.get(correlation_id)
            if orphan is not None and orphan.end_ts >= ts - DISORDER_NS:
                del self._orphans[correlation_id]
                self._pair(number, orphan.number, found_by, rows)
                return
        if correlation_id in self.pending or self.in_flight >= PENDING_REQUESTS_MAX:
            self.has_failed = True
            return
        self.pending[correlation_id] = number
        self.in_flight += 1
        self._costs[correlation_id] = size + _REQUEST_COST
        self._size += size + _REQUEST_COST
        if self._size > self.pending_size_max:
            self.pending_size_max = self._size

    def add_response(
        self, number: int, correlation_id: int, end_ts: int, found_by: int, rows: list[PairedRow]
    ) -> None:
        """Add a response. Args: end_ts: its time. found_by: the packet that completed it. rows: what it completes."""
        if correlation_id == NO_ID:
            rows.append(PairedRow(self._flow, -1, number, -1, found_by))
        elif correlation_id in self.pending:
            request = self.pending.pop(correlation_id)
            self.in_flight -= 1
            self._size -= self._costs.pop(correlation_id)
            self._pair(request, number, found_by, rows)
        else:
            self._add_orphan(correlation_id, _Orphan(number, end_ts), found_by, rows)

    def close(self, found_by: int) -> list[PairedRow]:
        """The exchanges without a request or a response, at the end of the connection."""
        rows = [PairedRow(self._flow, number, -1, -1, found_by) for number in sorted(self.pending.values())]
        rows += [PairedRow(self._flow, -1, orphan.number, -1, found_by) for orphan in self._orphans.values()]
        self.pending.clear()
        self._orphans.clear()
        return rows

    def waiting_responses(self) -> list[int]:
        """The numbers of the responses whose requests were not captured yet."""
        return [orphan.number for orphan in self._orphans.values()]

    def _pair(self, request: int, response: int, found_by: int, rows: list[PairedRow]) -> None:
        order_ok = request > self._last_answered
        self._last_answered = max(self._last_answered, request)
        rows.append(PairedRow(self._flow, request, response, int(order_ok), found_by))

    def _add_orphan(self, correlation_id: int, orphan: _Orphan, found_by: int, rows: list[PairedRow]) -> None:
        before = self._orphans.pop(correlation_id, None)
        if before is not None:
            rows.append(PairedRow(self._flow, -1, before.number, -1, found_by))
        self._orphans[correlation_id] = orphan
        while len(self._orphans) > ORPHANS_MAX:
            oldest = self._orphans.pop(next(iter(self._orphans)))
            rows.append(PairedRow(self._flow, -1, oldest.number, -1, found_by))
