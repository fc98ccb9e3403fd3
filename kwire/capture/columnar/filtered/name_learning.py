"""Learn the names of topics from a stream, while its exchanges are formatted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kwire.capture.columnar.exchange_builder import ExchangeBuilder
from kwire.capture.index.flows.message_columns import body_offsets
from kwire.capture.kafka.message_decoder import MessageDecoder
from kwire.capture.kafka.topic_names import TopicNames
from kwire.capture.kafka.topic_naming import naming_bodies, topic_naming_messages

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kwire.capture.columnar.reader import ColumnarReader
    from kwire.capture.index.flows.message_columns import ExchangeColumns


class NameLearning:
    """The names of topics up to an exchange of a stream."""

    def __init__(self, reader: ColumnarReader) -> None:
        """At first they are those of the options."""
        self.names = TopicNames(reader.options.topics)
        self._edition = reader.options.edition
        decoder = MessageDecoder(self._edition, topic_naming_messages(self._edition))
        self._keys = decoder.api_keys()
        self._builder = ExchangeBuilder(reader.index, decoder, reader.bodies, reader.clients)

    def divide(self, exchanges: ExchangeColumns) -> Iterator[ExchangeColumns | None]:
        """The exchanges in pieces; None where `names` have changed."""
        request = exchanges.request
        rows = np.nonzero(np.isin(request.api_key, self._keys) | (body_offsets(request.body) < 0))[0]
        begin = 0
        for row, (_, exchange) in zip(
            rows.tolist(), self._builder.build_exchanges(exchanges.select(rows)), strict=True
        ):
            bodies = [body for body in naming_bodies(exchange, self._edition) if self.names.would_learn(body)]
            if not bodies:
                continue
            if row > begin:
                yield exchanges.select(np.arange(begin, row))
            for body in bodies:
                self.names.learn(body)
            yield None
            begin = row
        if begin < len(exchanges) or not len(exchanges):
            yield exchanges.select(np.arange(begin, len(exchanges)))
