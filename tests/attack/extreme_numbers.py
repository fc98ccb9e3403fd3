"""Requests of all APIs in random order, with the smallest and the largest numbers, on one cluster.

Whatever is stored, no request may be an internal error: a value that one API accepts must not break another one.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

from mockbroker.handlers import ROUTES
from tests.support.brokers.broker import Broker
from tests.support.messages.filled_requests import filled_request, highest, lowest

_REQUESTS_PER_CLUSTER = 150
#: They wait for a client's credentials or end the connection.
_LEFT_OUT = frozenset({17, 36})
_TEXTS = ("t", "g", "", "é" * 16_000)


def attack(rng: random.Random, *, seconds: float) -> Iterator[str]:
    """Yield the requests that raised an exception."""
    end = time.monotonic() + seconds
    api_keys = [key for key in ROUTES if key not in _LEFT_OUT]
    while True:
        yield from _attack_cluster(rng, api_keys, end)
        if time.monotonic() >= end:
            return


def _attack_cluster(rng: random.Random, api_keys: list[int], end: float) -> Iterator[str]:
    broker = Broker(nodes=2, topics={"t": 2})

    def choose(bits: int) -> int:
        return rng.choice((lowest(bits), highest(bits), lowest(bits) + 1, highest(bits) - 1, 0, 0, -1, 1, 2))

    for number in range(_REQUESTS_PER_CLUSTER):
        request, version = filled_request(rng.choice(api_keys), choose, text=rng.choice(_TEXTS))
        try:
            broker.call(request, version, connection=str(number), node=rng.randrange(2))
            if rng.random() < 0.2:
                broker.advance(rng.choice((1, 1_000, 60_000)))
        except Exception as error:
            yield f"{type(request).__name__} version {version}: {error!r:.500} by {request!r:.500}"
            return
        if time.monotonic() >= end:
            return
