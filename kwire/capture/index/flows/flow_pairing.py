"""Pair the requests and responses of one connection one by one, by the rules of `exchange_pairing`.

Pairing in columns uses it where correlation ids are repeated, or come out of order.
"""

from __future__ import annotations

from kwire.capture.kafka.exchange_pairing import DISORDER_NS

PairRow = tuple[int, int, int]
"""The number of a request and of a response, -1 for none, and the moment at which they were complete."""


class FlowPairing:
    """Requests and responses have numbers.

    pending: the number of each request without a response, by correlation id. orphans: by correlation id, number and
    time of each response whose request was not captured yet. has_failed: whether an id is used by two open requests.
    rows: what is complete.
    """

    def __init__(self) -> None:
        """There are none."""
        self.pending: dict[int, int] = {}
        self.orphans: dict[int, tuple[int, int]] = {}
        self.has_failed = False
        self.rows: list[PairRow] = []

    def add_request(self, number: int, correlation_id: int, ts: int, moment: int) -> None:
        """Add a request. Args: moment: when it was complete."""
        orphan = self.orphans.get(correlation_id)
        if orphan is not None and orphan[1] >= ts - DISORDER_NS:
            # The response was captured first, or the request waited until a gap was filled.
            del self.orphans[correlation_id]
            self.rows.append((number, orphan[0], moment))
        elif correlation_id in self.pending:
            self.has_failed = True
        else:
            self.pending[correlation_id] = number

    def add_response(self, number: int, correlation_id: int, end_ts: int, moment: int) -> None:
        """Add a response. Args: end_ts: its time. moment: when it was complete."""
        request = self.pending.pop(correlation_id, None)
        if request is not None:
            self.rows.append((request, number, moment))
            return
        before = self.orphans.pop(correlation_id, None)
        if before is not None:
            self.rows.append((-1, before[0], moment))
        self.orphans[correlation_id] = number, end_ts
