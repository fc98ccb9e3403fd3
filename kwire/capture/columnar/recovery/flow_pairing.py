"""Pair the requests and responses of one connection by number, by the rules of `exchange_pairing`."""

from __future__ import annotations

from kwire.capture.kafka.exchange_pairing import DISORDER_NS, ORPHANS_MAX, PENDING_REQUESTS_MAX

NO_ID = 1 << 32
"""Stands for a correlation id where there is none, or where no response can follow."""


class FlowPairing:
    """Requests and responses have numbers that ascend in the order of their completion.

    Exchanges are added to flat lists of numbers, five for each: the flow, the number of the request, that of the
    response (-1 for none), `order_ok`, and the packet that completed it.

    pending: the number of each request without a response, by correlation id. orphans: by correlation id, number and
    time of each response whose request was not captured yet. has_failed: whether the streaming pipeline has to read
    the connection. count, in_flight: of the requests so far.
    """

    def __init__(self, flow: int, pending: dict[int, int]) -> None:
        """Args: flow: its number, for the rows. pending: is kept up to date."""
        self.pending = pending
        self.orphans: dict[int, tuple[int, int]] = {}
        self.has_failed = False
        self.count = self.in_flight = 0
        self._flow = flow
        self._last_answered = -1

    def add_request(self, number: int, correlation_id: int, ts: int, found_by: int, rows: list[int]) -> None:
        """Add a request. Args: found_by: the packet that completed it. rows: receives what it completes."""
        if correlation_id == NO_ID:
            rows += (self._flow, number, -1, -1, found_by)
            return
        if self.orphans:
            orphan = self.orphans.get(correlation_id)
            if orphan is not None and orphan[1] >= ts - DISORDER_NS:
                del self.orphans[correlation_id]
                self._pair(number, orphan[0], found_by, rows)
                return
        if correlation_id in self.pending or self.in_flight >= PENDING_REQUESTS_MAX:
            self.has_failed = True
            return
        self.pending[correlation_id] = number
        self.in_flight += 1

    def add_response(self, number: int, correlation_id: int, end_ts: int, found_by: int, rows: list[int]) -> None:
        """Add a response. Args: end_ts: its time. found_by, rows: as for `add_request`."""
        request = self.pending.pop(correlation_id, None)
        if request is not None:
            self.in_flight -= 1
            self._pair(request, number, found_by, rows)
        elif correlation_id == NO_ID:
            rows += (self._flow, -1, number, -1, found_by)
        else:
            self._add_orphan(correlation_id, (number, end_ts), found_by, rows)

    def close(self, found_by: int) -> list[int]:
        """The exchanges without a request or a response, at the end of the connection."""
        rows: list[int] = []
        for number in sorted(self.pending.values()):
            rows += (self._flow, number, -1, -1, found_by)
        for number, _ in self.orphans.values():
            rows += (self._flow, -1, number, -1, found_by)
        self.pending.clear()
        self.orphans.clear()
        return rows

    def _pair(self, request: int, response: int, found_by: int, rows: list[int]) -> None:
        order_ok = request > self._last_answered
        if order_ok:
            self._last_answered = request
        rows += (self._flow, request, response, order_ok, found_by)

    def _add_orphan(self, correlation_id: int, orphan: tuple[int, int], found_by: int, rows: list[int]) -> None:
        before = self.orphans.pop(correlation_id, None)
        if before is not None:
            rows += (self._flow, -1, before[0], -1, found_by)
        self.orphans[correlation_id] = orphan
        while len(self.orphans) > ORPHANS_MAX:
            oldest, _ = self.orphans.pop(next(iter(self.orphans)))
            rows += (self._flow, -1, oldest, -1, found_by)
