"""The levels below `messages`, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING

from kwire.capture.bodies import Decoder
from kwire.capture.pairs import Pairs
from kwire.capture.record_rows import partitions, records
from kwire.capture.share_rows import share_acks, share_acquired
from kwire.capture.topic_map import learn_from, teachers

if TYPE_CHECKING:
    from kwire.capture.exchange import Exchange
    from kwire.capture.options import Options
    from kwire.capture.rows import Row
    from kwire.capture.topic_names import TopicNames

# The messages that rows of a level are made of; those of `partitions` may come from any.
_MADE_OF = {
    "share_acquired": {"ShareFetchRequest", "ShareFetchResponse"},
    "share_acks": {
        "ShareFetchRequest",
        "ShareFetchResponse",
        "ShareAcknowledgeRequest",
        "ShareAcknowledgeResponse",
    },
    "records": {"ProduceRequest", "ProduceResponse", "FetchResponse", "ShareFetchResponse"},
}


def reduced(options: Options, level: str) -> Options:
    """The options with which a level is read: no body is decoded that neither makes rows of it nor names a topic."""
    # Only rows of messages tell of sessions.
    found = replace(options, sessions=options.sessions and level == "messages")
    if level not in _MADE_OF or options.decoded is not None:
        return found
    # Behind a handshake there may be tokens without headers, which must not be taken for requests.
    return replace(found, decoded=teachers(options.edition) | _MADE_OF[level] | {"SaslHandshakeRequest"})


@cache
def api_keys(level: str, edition: str) -> frozenset[int] | None:
    """The keys of the APIs that may have rows of a level; None for any."""
    return frozenset(Decoder(edition, frozenset(_MADE_OF[level])).api_keys()) if level in _MADE_OF else None


class Levels:
    """Makes the rows of one capture. Every exchange must pass, since any of them may tell a topic's name."""

    def __init__(self, file: str, options: Options, names: TopicNames) -> None:
        """`file` is what the column of that name says."""
        self._names = names
        self._edition = options.edition
        pairs = Pairs(file, names)
        self._make: dict[str, Callable[[Exchange], Iterator[Row]]] = {
            "partitions": partial(partitions, pairs),
            "share_acquired": partial(share_acquired, pairs),
            "share_acks": partial(share_acks, pairs),
            "records": partial(records, pairs, payload=options.payload),
        }

    def rows(self, level: str, exchange: Exchange) -> Iterator[Row]:
        """The rows of the level."""
        learn_from(exchange, self._names, self._edition)
        return self._make[level](exchange)
