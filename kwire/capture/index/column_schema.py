"""The columns of an index: their names and types, and the exchanges of a span written to them and read from them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kwire.capture.index.arrays import Ints
from kwire.capture.index.columns import Columns
from kwire.capture.index.flows.frame_columns import FrameColumns
from kwire.capture.index.flows.message_columns import ExchangeColumns, RequestColumns, ResponseColumns


class PacketColumns(NamedTuple):
    """The TCP packets of one span, in packet order.

    at: offset of the payload in the file, or its position in `stored_payload`. pair: the number of its endpoints.
    """

    number: Ints
    ts: Ints
    link: Ints
    side: Ints
    seq: Ints
    ack: Ints
    flags: Ints
    window: Ints
    at: Ints
    captured: Ints
    missing: Ints
    pair: Ints


# The narrowest types that hold each column.
PACKET_TYPES = {
    "number": "i8",
    "ts": "i8",
    "link": "u1",
    "side": "u1",
    "seq": "u4",
    "ack": "u4",
    "flags": "u1",
    "window": "u2",
    "at": "i8",
    "captured": "i4",
    "missing": "i4",
    "pair": "i4",
}
FRAME_TYPES = dict(zip(FrameColumns._fields, ("i4", "i8", "i8", "i8", "i8", "i4", "i8", "i4", "i8"), strict=True))
REQUEST_TYPES = dict(
    zip(RequestColumns._fields[1:], ("i2", "i2", "i4", "i4", "i4", "i1", "i8", "i4", "i1"), strict=True)
)
RESPONSE_TYPES = dict(zip(ResponseColumns._fields[1:], ("i4", "i1"), strict=True))
FLOW_COLUMNS = (
    "pair",
    "epoch",
    "first_ts",
    "last_ts",
    "packets",
    "size",
    "link",
    "opener",
    "end_reason",
)
# The parts of an index are its spans, by number, and what only the end of the capture completes.
UNANSWERED_PART = -1


def write_exchanges(columns: Columns, part: int, exchanges: ExchangeColumns) -> None:
    """Write the exchanges of a part."""
    request, response = exchanges.request, exchanges.response
    for name, rows, types in (
        ("request", request.frame, FRAME_TYPES),
        ("response", response.frame, FRAME_TYPES),
        ("request", request, REQUEST_TYPES),
        ("response", response, RESPONSE_TYPES),
    ):
        for field, kind in types.items():
            columns.add_column(f"{part}.{name}.{field}", getattr(rows, field).astype(kind))
    columns.add_column(f"{part}.completed_by", exchanges.completed_by)


def read_exchanges(columns: Columns, part: int) -> ExchangeColumns:
    """Read the exchanges of a part."""

    def read(name: str) -> Ints:
        return columns[f"{part}.{name}"].astype(np.int64)

    request_frame = FrameColumns(*(read(f"request.{field}") for field in FRAME_TYPES))
    response_frame = FrameColumns(*(read(f"response.{field}") for field in FRAME_TYPES))
    request = RequestColumns(request_frame, *(read(f"request.{field}") for field in REQUEST_TYPES))
    response = ResponseColumns(response_frame, *(read(f"response.{field}") for field in RESPONSE_TYPES))
    return ExchangeColumns(request, response, read("completed_by"))
