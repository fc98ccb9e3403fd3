"""Write the results of phase 1 as the columns of an index, span by span."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kwire.capture.index import column_schema
from kwire.capture.index.arrays import Ints
from kwire.capture.index.column_schema import PACKET_TYPES, write_exchanges
from kwire.capture.index.columns import Column, Columns
from kwire.capture.index.flows.frame_columns import BodyFragments, StreamGapRow
from kwire.capture.index.flows.message_columns import ExchangeColumns
from kwire.capture.index.flows.other_connections import OtherConnection
from kwire.capture.index.stored_payload import StoredPayload
from kwire.capture.index.streams.stream_pieces import packet_numbers


class ClientIdNumbers:
    """The client ids of an index, numbered in the order of its exchanges, so that the index is always the same."""

    def __init__(self) -> None:
        """There are no ids yet."""
        self.texts: list[str] = []
        self._numbers: dict[str, int] = {}

    def renumber_ids(self, column: Ints, texts: Sequence[str]) -> Ints:
        """Convert a column of positions in `texts` to numbers of this list; -1, for no client id, is unchanged."""
        positions, first, inverse = np.unique(column, return_index=True, return_inverse=True)
        numbers = np.full(len(positions), -1, dtype=np.int64)
        for index in np.argsort(first).tolist():
            position = int(positions[index])
            if position < 0:
                numbers[index] = position
                continue
            text = texts[position]
            if text not in self._numbers:
                self._numbers[text] = len(self.texts)
                self.texts.append(text)
            numbers[index] = self._numbers[text]
        return numbers[inverse.reshape(-1)]


class IndexWriter:
    """Writes spans in their order, then the rest of the index."""

    def __init__(self, columns: Columns) -> None:
        """`columns` are empty."""
        self.columns = columns
        self.clients = ClientIdNumbers()
        self.stored = StoredPayload(columns, [])
        self._spans: list[tuple[int, int]] = []
        self._firsts = [0]
        self._lasts = [0]
        self._gaps: list[StreamGapRow] = []
        self._others: list[OtherConnection] = []

    def write_span(
        self, extent: tuple[int, int], packets: dict[str, Ints], exchanges: ExchangeColumns, fragments: BodyFragments
    ) -> None:
        """Write one span.

        Args: extent: offset and size in the file. packets: columns of its packets; `number` is required. exchanges:
        those that the span completes, with moments; client ids are numbers of `clients` already.
        """
        number = len(self._spans)
        self._spans.append(extent)
        for name, kind in PACKET_TYPES.items():
            if name in packets:
                self.columns.add_column(f"{number}.{name}", packets[name].astype(kind, copy=False))
        self._write_fragments(fragments, number)
        self._firsts.append(self._firsts[-1] + len(fragments.at))
        numbers = packets["number"]
        self._lasts.append(int(numbers[-1]) if len(numbers) else self._lasts[-1])
        write_exchanges(self.columns, number, _numbered(exchanges))

    def write_end(
        self,
        flows: dict[str, Column],
        unanswered: ExchangeColumns,
        fragments: BodyFragments,
        gaps: list[StreamGapRow],
        others: list[OtherConnection],
    ) -> None:
        """Write what is known at the end of the capture.

        Args: flows: the columns of all flows, and `words`. unanswered, fragments: what the end completes, as in
        `write_span`. gaps: of all flows. others: flows that are not read as Kafka.
        """
        self._gaps, self._others = gaps, others
        self._write_fragments(fragments, len(self._spans))
        write_exchanges(self.columns, column_schema.UNANSWERED_PART, _numbered(unanswered))
        self.columns.add_column("parts.last", np.array(self._lasts[1:], dtype="i8"))
        self.columns.add_column("fragments.first", np.array(self._firsts, dtype="i8"))
        self.columns.add_column("pair.words", flows["words"].astype("u8", copy=False).reshape(-1))
        for name in column_schema.FLOW_COLUMNS:
            self.columns.add_column(f"flow.{name}", flows[name])

    def write_metadata(self, metadata: dict[str, Any]) -> None:
        """Set the metadata of the index, with client ids, spans, stored payload, gaps and other connections added."""
        own = {
            "client_ids": self.clients.texts,
            "spans": self._spans,
            "stored": self.stored.extents,
            "gaps": self._gaps,
            "others": self._others,
        }
        self.columns.metadata = {**metadata, **own}

    def _write_fragments(self, fragments: BodyFragments, span: int) -> None:
        self.columns.add_column(f"{span}.fragments.at", fragments.at)
        self.columns.add_column(f"{span}.fragments.size", fragments.size)


def _numbered(exchanges: ExchangeColumns) -> ExchangeColumns:
    """The exchanges with packet numbers in place of moments."""
    request, response, moments = exchanges
    return ExchangeColumns(request, response, packet_numbers(moments))
