"""Pair the requests and responses of one connection one by one, by the rules of `exchange_pairing`.

Pairing in columns uses it where correlation ids are repeated or come out of order, where more wait than may wait, and
where SASL tokens have no correlation id.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from kwire.capture.index.flows.frame_columns import NO_ID
from kwire.capture.kafka.exchange_pairing import DISORDER_NS, ORPHANS_MAX, PENDING_REQUESTS_MAX

PairRow = tuple[int, int, int, int]
"""The number of a request and of a response, -1 for none; moment and offset of the message that completed them."""


class PairedMessage(NamedTuple):
    """A request or a response. number: in any order. correlation_id: `NO_ID` for a token. ts: of a response, its end.

    moment, offset: when it was complete, and where it begins in its stream.
    """

    number: int
    correlation_id: int
    ts: int
    moment: int
    offset: int


class FlowPairing:
    """Pairs messages in the order of their moments.

    rows: what is complete. duplicates: the numbers of requests that came while one of their id was open.
    """

    def __init__(self) -> None:
        """There are none."""
        self.rows: list[PairRow] = []
        self.duplicates: list[int] = []
        # By place in the order of requests: number and correlation id of each request without a response.
        self._open: dict[int, tuple[int, int]] = {}
        self._queues: dict[int, deque[int]] = {}
        self._orphans: dict[int, PairedMessage] = {}
        self._request_count = 0

    @property
    def open_requests(self) -> list[int]:
        """The number of each request without a response, in their order."""
        return [number for number, _ in self._open.values()]

    @property
    def open_ids(self) -> dict[int, int]:
        """By correlation id, how many requests have no response; tokens are not among them."""
        return {key: len(queue) for key, queue in self._queues.items() if key != NO_ID}

    @property
    def waiting(self) -> list[int]:
        """The number of each response whose request was not captured yet."""
        return [orphan.number for orphan in self._orphans.values()]

    def add_request(self, request: PairedMessage) -> None:
        """Add a request that has a response."""
        number, correlation_id = request.number, request.correlation_id
        orphan = self._orphans.get(correlation_id)
        if orphan is not None and orphan.ts >= request.ts - DISORDER_NS:
            # The response was captured first, or the request waited until a gap was filled.
            del self._orphans[correlation_id]
            self._add_row(number, orphan.number, request)
            return
        queue = self._queues.setdefault(correlation_id, deque())
        if queue and correlation_id != NO_ID:
            self.duplicates.append(number)
        queue.append(self._request_count)
        self._open[self._request_count] = number, correlation_id
        self._request_count += 1
        if len(self._open) > PENDING_REQUESTS_MAX:
            _, oldest_id = next(iter(self._open.values()))
            self._add_row(self._take_oldest(oldest_id), -1, request)

    def add_response(self, response: PairedMessage) -> None:
        """Add a response."""
        number, correlation_id = response.number, response.correlation_id
        tokens, queue = self._queues.get(NO_ID), self._queues.get(correlation_id)
        # Tokens have no correlation id: responses come in the order of the requests.
        taken = NO_ID if tokens and (not queue or tokens[0] <= queue[0]) else correlation_id
        if tokens or (queue and correlation_id != NO_ID):
            self._add_row(self._take_oldest(taken), number, response)
        elif correlation_id == NO_ID:
            self._add_row(-1, number, response)
        else:
            before = self._orphans.pop(correlation_id, None)
            if before is not None:
                self._add_row(-1, before.number, response)
            self._orphans[correlation_id] = response
            if len(self._orphans) > ORPHANS_MAX:
                oldest = self._orphans.pop(next(iter(self._orphans)))
                self._add_row(-1, oldest.number, response)

    def _take_oldest(self, correlation_id: int) -> int:
        """Remove the oldest open request of an id; return its number."""
        queue = self._queues[correlation_id]
        number, _ = self._open.pop(queue.popleft())
        if not queue:
            del self._queues[correlation_id]
        return number

    def _add_row(self, request: int, response: int, completing: PairedMessage) -> None:
        self.rows.append((request, response, completing.moment, completing.offset))
