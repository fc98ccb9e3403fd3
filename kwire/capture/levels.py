"""The levels below `messages`, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from kwire.capture.pairs import Pairs
from kwire.capture.record_rows import partitions, records
from kwire.capture.share_rows import share_acks, share_acquired

if TYPE_CHECKING:
    from kwire.capture.exchange import Exchange
    from kwire.capture.options import Options
    from kwire.capture.rows import Row
    from kwire.capture.topic_names import TopicNames


class Levels:
    """Makes the rows of one capture. Every exchange must pass, since any of them may tell a topic's name."""

    def __init__(self, file: str, options: Options, names: TopicNames) -> None:
        """`file` is what the column of that name says."""
        self._names = names
        pairs = Pairs(file, names)
        self._make: dict[str, Callable[[Exchange], Iterator[Row]]] = {
            "partitions": partial(partitions, pairs),
            "share_acquired": partial(share_acquired, pairs),
            "share_acks": partial(share_acks, pairs),
            "records": partial(records, pairs, payload=options.payload),
        }

    def rows(self, level: str, exchange: Exchange) -> Iterator[Row]:
        """The rows of the level."""
        for side in (exchange.request, exchange.response):
            if side is not None and side.body is not None:
                self._names.learn(side.body)
        return self._make[level](exchange)
