"""The row columns known from the headers of an exchange: sufficient for many filters, before bodies are read."""

from __future__ import annotations

from kwire.capture.kafka.exchange import Exchange
from kwire.capture.model import Row, connection_id
from kwire.capture.rows.column import Phase
from kwire.capture.rows.columns import message_columns
from kwire.capture.rows.header_values import header_values

#: The columns of `messages` that are set.
COLUMNS = message_columns(Phase.REQUEST, Phase.RESPONSE) | {"conn_id"}


def build_header_row(exchange: Exchange) -> Row:
    """These columns, with the values of the exchange's row."""
    return {"conn_id": connection_id(exchange.flow), **header_values(exchange)}
