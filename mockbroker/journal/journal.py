"""The journal: the newest exchanges of the whole cluster, in order of arrival, within bounds."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

import msgspec

from mockbroker.journal.exchange import Exchange

#: How many exchanges are kept unless told otherwise.
EXCHANGES_MAX = 20_000
#: How many bytes of frames the kept exchanges may hold on to; decoded records are views into them.
BYTES_MAX = 64 << 20


class Journal:
    """Every exchange in order; beyond its bounds the oldest are dropped, and `dropped` says how many.

    exchanges_max: a count. bytes_max: bytes of request and response frames together.
    """

    def __init__(self, *, exchanges_max: int = EXCHANGES_MAX, bytes_max: int = BYTES_MAX) -> None:
        self.exchanges_max = exchanges_max
        self.bytes_max = bytes_max
        self.dropped = 0
        self.on_answer: list[Callable[[Exchange], None]] = []
        self._kept: deque[Exchange] = deque()
        self._bytes = 0
        self._number = 0

    def next_number(self) -> int:
        """The number of the next exchange, from 1 on."""
        self._number += 1
        return self._number

    def begin(self, exchange: Exchange) -> None:
        """Note a request that has just been decoded."""
        self._kept.append(exchange)
        self._bytes += exchange.request_bytes
        self._trim()

    def answered(self, exchange: Exchange) -> None:
        """Note that the exchange has its response, or that its connection was closed for it."""
        if self._kept and exchange.number >= self._kept[0].number:  # A dropped one holds no bytes any more.
            self._bytes += exchange.response_bytes
            self._trim()
        for listener in self.on_answer:
            listener(exchange)

    def _trim(self) -> None:
        while len(self._kept) > self.exchanges_max or (self._bytes > self.bytes_max and len(self._kept) > 1):
            oldest = self._kept.popleft()
            self._bytes -= oldest.request_bytes + oldest.response_bytes
            self.dropped += 1

    def __len__(self) -> int:
        return len(self._kept)

    def __iter__(self) -> Iterator[Exchange]:
        return iter(list(self._kept))

    def exchanges(
        self, api: str | type[msgspec.Struct] | None = None, *, connection_id: int | None = None
    ) -> list[Exchange]:
        """The kept exchanges, oldest first.

        api: "ShareFetch", or its request class; all when None.
        """
        name = api if isinstance(api, str) or api is None else api.__name__.removesuffix("Request")
        return [
            exchange
            for exchange in self._kept
            if (name is None or exchange.api_name == name)
            and (connection_id is None or exchange.connection_id == connection_id)
        ]
