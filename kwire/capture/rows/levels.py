"""Rows of the levels `partitions`, `share_acquired`, `share_acks` and `records`, and the options to read a level."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING

from kwire.capture.kafka.message_decoder import MessageDecoder
from kwire.capture.kafka.topic_naming import learn_topic_names, topic_naming_messages
from kwire.capture.rows.column import Phase
from kwire.capture.rows.columns import message_columns
from kwire.capture.rows.partition_pairs import PartitionPairer
from kwire.capture.rows.record_rows import partition_rows, record_rows
from kwire.capture.rows.share_rows import share_ack_rows, share_acquired_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from kwire.capture.kafka.exchange import Exchange
    from kwire.capture.kafka.topic_names import TopicNames
    from kwire.capture.model import Row
    from kwire.capture.options import Options

TRAFFIC_LEVELS = frozenset({"flows", "packets"})
"""The levels of all TCP connections and their packets, Kafka or not."""
# The messages from which rows of a level are made. Rows of `partitions` are made from any message.
_SOURCE_MESSAGES = {
    "share_acquired": {"ShareFetchRequest", "ShareFetchResponse"},
    "share_acks": {"ShareFetchRequest", "ShareFetchResponse", "ShareAcknowledgeRequest", "ShareAcknowledgeResponse"},
    "records": {"ProduceRequest", "ProduceResponse", "FetchResponse", "ShareFetchResponse"},
}


def options_for_level(options: Options, level: str) -> Options:
    """The options to read a level: only bodies that are needed for its rows, or that name topics, are decoded."""
    # Only rows of messages have sessions.
    level_options = replace(options, sessions=options.sessions and level == "messages")
    if level not in _SOURCE_MESSAGES or options.decoded_messages is not None:
        return level_options
    # After a SaslHandshake v0 come tokens without headers, which must not be read as requests.
    decoded = topic_naming_messages(options.edition) | _SOURCE_MESSAGES[level] | {"SaslHandshakeRequest"}
    return replace(level_options, decoded_messages=decoded)


def options_for_columns(options: Options, names: Collection[str]) -> Options:
    """The options for rows of which only these columns are read."""
    bodies = options.bodies and not message_columns(Phase.JSON).isdisjoint(names)
    sessions = options.sessions and not message_columns(Phase.SESSION).isdisjoint(names)
    return replace(options, bodies=bodies, sessions=sessions)


@cache
def api_keys_of_level(level: str, edition: str) -> frozenset[int] | None:
    """The keys of the APIs that may have rows of a level; None for all."""
    if level not in _SOURCE_MESSAGES:
        return None
    return frozenset(MessageDecoder(edition, frozenset(_SOURCE_MESSAGES[level])).api_keys())


class LevelRowBuilder:
    """Builds the rows of one capture. It needs every exchange, since any of them may name a topic."""

    def __init__(self, file: str, options: Options, names: TopicNames) -> None:
        """`file` is the value of that column."""
        self._names = names
        self._edition = options.edition
        pairer = PartitionPairer(file, names)
        self._builders: dict[str, Callable[[Exchange], Iterator[Row]]] = {
            "partitions": partial(partition_rows, pairer),
            "share_acquired": partial(share_acquired_rows, pairer),
            "share_acks": partial(share_ack_rows, pairer),
            "records": partial(record_rows, pairer, payload=options.payload),
        }

    def build_rows(self, level: str, exchange: Exchange) -> Iterator[Row]:
        """The rows of the level for one exchange."""
        learn_topic_names(exchange, self._names, self._edition)
        return self._builders[level](exchange)
