"""`Journal`: the newest exchanges of the whole cluster, in order of arrival, limited by count and bytes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import takewhile

import msgspec

from mockbroker.journal.api_names import resolve_api_name
from mockbroker.journal.exchange import Exchange

#: The default maximum number of exchanges.
EXCHANGES_MAX = 20_000
#: The default maximum of the bytes of all frames together; decoded records are views into them.
BYTES_MAX = 64 << 20
#: The maximum number of topic names, those of deleted topics included.
TOPIC_NAMES_MAX = 100_000
#: The maximum number of connections whose end is remembered.
ENDS_MAX = 20_000


class Journal:
    """Every exchange in order; beyond its limits the oldest are dropped, and `dropped` counts them.

    exchanges_max: a count. bytes_max: bytes of request and response frames together. topic_names: by topic id, of
    topics that were deleted since, too. client_ends: when clients closed their connections, nanoseconds since 1970, by
    connection id; without those that a node closed, or that were reset. on_answer, on_unanswered: called with exchanges
    that are complete, and with those that were handled and get no answer.
    """

    def __init__(self, *, exchanges_max: int = EXCHANGES_MAX, bytes_max: int = BYTES_MAX) -> None:
        self.exchanges_max = exchanges_max
        self.bytes_max = bytes_max
        self.dropped = 0
        self.on_answer: list[Callable[[Exchange], None]] = []
        self.on_unanswered: list[Callable[[Exchange], None]] = []
        self.topic_names: dict[bytes, str] = {}
        self.client_ends: dict[int, int] = {}
        self._exchanges: deque[Exchange] = deque()
        self._bytes = 0
        self._number = 0

    def record_topic_name(self, topic_id: bytes, name: str) -> None:
        """Remember the name of a topic; beyond the limit, the oldest one is forgotten, and its id is shown instead."""
        self.topic_names[topic_id] = name
        if len(self.topic_names) > TOPIC_NAMES_MAX:
            del self.topic_names[next(iter(self.topic_names))]

    def record_client_end(self, connection_id: int, at_ns: int) -> None:
        """Remember that a client has closed its connection cleanly; beyond the limit, the oldest end is forgotten."""
        self.client_ends[connection_id] = at_ns
        if len(self.client_ends) > ENDS_MAX:
            del self.client_ends[next(iter(self.client_ends))]

    @property
    def last_number(self) -> int:
        """The number of the newest exchange, 0 before the first."""
        return self._number

    def add(self, exchange: Exchange) -> None:
        """Add the exchange of a request that has just been decoded, and give it the next number, from 1 on."""
        self._number = exchange.number = self._number + 1
        self._exchanges.append(exchange)
        self._bytes += exchange.request_bytes
        if self._bytes > self.bytes_max or len(self._exchanges) > self.exchanges_max:
            self._trim()

    def complete(self, exchange: Exchange) -> None:
        """Complete an exchange that has its response, or whose connection was closed."""
        if self._exchanges and exchange.number >= self._exchanges[0].number:  # A dropped one holds no bytes any more.
            self._bytes += exchange.response_bytes
            if self._bytes > self.bytes_max:
                self._trim()
        for listener in self.on_answer:
            listener(exchange)

    def leave_unanswered(self, exchange: Exchange) -> None:
        """A request that gets no answer was handled: a Produce with acks 0."""
        for listener in self.on_unanswered:
            listener(exchange)

    def _trim(self) -> None:
        while len(self._exchanges) > self.exchanges_max or (self._bytes > self.bytes_max and len(self._exchanges) > 1):
            oldest = self._exchanges.popleft()
            self._bytes -= oldest.request_bytes + oldest.response_bytes
            self.dropped += 1

    def __repr__(self) -> str:
        return f"<Journal: {len(self)} exchanges, {self.dropped} dropped>"

    def __len__(self) -> int:
        return len(self._exchanges)

    def __iter__(self) -> Iterator[Exchange]:
        return iter(list(self._exchanges))

    def exchanges_after(self, number: int) -> list[Exchange]:
        """The exchanges with a higher number, oldest first; it takes time for these only."""
        newest = takewhile(lambda exchange: exchange.number > number, reversed(self._exchanges))
        return list(newest)[::-1]

    def exchanges(
        self, api: str | type[msgspec.Struct] | None = None, *, connection_id: int | None = None
    ) -> list[Exchange]:
        """The stored exchanges, oldest first.

        api: "ShareFetch", or its request class; all when None. Raises: ValueError for an unknown API.
        """
        name = None if api is None else resolve_api_name(api)
        return [
            exchange
            for exchange in self._exchanges
            if (name is None or exchange.api_name == name)
            and (connection_id is None or exchange.connection_id == connection_id)
        ]
