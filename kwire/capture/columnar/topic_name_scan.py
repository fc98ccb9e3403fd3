"""Find the topic names in a capture with its index: only messages that name topics are decoded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kwire.capture.columnar.exchange_builder import ExchangeBuilder
from kwire.capture.columnar.reader import ColumnarReader
from kwire.capture.index.flows.message_columns import body_offsets
from kwire.capture.kafka.message_decoder import MessageDecoder
from kwire.capture.kafka.topic_names import TopicNames
from kwire.capture.kafka.topic_naming import learn_topic_names, options_for_topic_names, topic_naming_messages

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kwire.capture.index import Index
    from kwire.capture.kafka.exchange import Exchange
    from kwire.capture.options import Options


def find_topic_names(index: Index, options: Options) -> dict[str, str]:
    """The topic names by id, with those of the options."""
    names = TopicNames(options.topics)
    naming_options = options_for_topic_names(options)
    reader = ColumnarReader(index, None, naming_options)
    try:
        for exchange in _naming_exchanges(reader):
            learn_topic_names(exchange, names, options.edition)
    finally:
        reader.close()
    return names.names_by_id()


def _naming_exchanges(reader: ColumnarReader) -> Iterator[Exchange]:
    edition = reader.options.edition
    decoder = MessageDecoder(edition, topic_naming_messages(edition))
    builder = ExchangeBuilder(reader.index, decoder, reader.bodies, reader.clients)
    keys = decoder.api_keys()
    for _, exchanges in reader.read_parts():
        # The API of a request with an unusual header is not known yet.
        chosen = np.isin(exchanges.request.api_key, keys) | (body_offsets(exchanges.request.body) < 0)
        rows = np.nonzero(chosen)[0]
        yield from (exchange for _, exchange in builder.build_exchanges(exchanges.select(rows)))
