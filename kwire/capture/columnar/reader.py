"""Read one capture with its index: exchanges in columns, part by part, and what is no exchange as outcomes.

Others are given the reader and make the output: `message_batches` and `levels` record batches, `filtered` what matches
conditions. `outcomes` has all exchanges as objects, for rows that columns cannot represent.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import cached_property
from heapq import merge
from operator import itemgetter
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from kwire import registry
from kwire.capture.columnar.body_reader import BodyReader
from kwire.capture.columnar.clients import ClientMap
from kwire.capture.columnar.exchange_builder import ExchangeBuilder
from kwire.capture.columnar.header_columns import HeaderColumns
from kwire.capture.columnar.span_data import SpanData, SpanReader
from kwire.capture.display_filter.exchange_filter import TIMES, condition_holds
from kwire.capture.index.flows.message_columns import ExchangeColumns
from kwire.capture.index.model import FlowKey
from kwire.capture.index.rebuilt import rebuild_flows
from kwire.capture.kafka.detection import is_excluded
from kwire.capture.kafka.exchange import Exchange, Outcome
from kwire.capture.kafka.message_decoder import MessageDecoder
from kwire.capture.kafka.session_tracker import SessionTracker
from kwire.capture.kafka.topic_naming import topic_naming_messages
from kwire.capture.model import Flow, NonKafkaConnection, StreamGap
from kwire.capture.optional_dependencies import require_cryptography
from kwire.capture.pipeline import make_row_builder, merge_issues, order_outcomes, order_rows
from kwire.capture.series.file_names import assign_file_names
from kwire.registry import DEFAULT_EDITION

if TYPE_CHECKING:
    from kwire.capture.index import Index
    from kwire.capture.index.arrays import Bools
    from kwire.capture.model import Row
    from kwire.capture.options import Options

# Above every packet number.
_LAST = 2**62


class ColumnarReader:
    """Reads one capture; the caller closes it."""

    def __init__(self, index: Index, flows: Collection[FlowKey] | None, options: Options) -> None:
        """Args: flows: those to read; None for all."""
        if options.has_key_logs:
            require_cryptography()
        self.options = options
        self.index = index = rebuild_flows(index, flows, options)
        self.file = options.name or index.file
        self._decoder = MessageDecoder(options.edition, options.decoded_messages)
        chosen = np.ones(len(index.flows), dtype=np.bool_)
        if flows is not None:
            chosen[:] = False
            chosen[[number for key in flows for number in index.flow_numbers.get(key, ())]] = True
        if options.ports:
            chosen &= np.array([not is_excluded(flow.key, options) for flow in index.flows], dtype=np.bool_)
        self._chosen = chosen

    @cached_property
    def bodies(self) -> BodyReader:
        """Reads the bodies of frames."""
        return BodyReader(self.index)

    @cached_property
    def _spans(self) -> SpanReader:
        return SpanReader(self.index, self.bodies.read_span)

    @cached_property
    def header_columns(self) -> HeaderColumns:
        """Builds the columns of headers."""
        return HeaderColumns(self.index, self.file, lambda: self.clients)

    @cached_property
    def clients(self) -> ClientMap:
        """The clients of the flows."""
        return ClientMap(self.index, self._chosen, self._decoder, self.bodies)

    @cached_property
    def exchange_builder(self) -> ExchangeBuilder:
        """Builds exchanges as objects."""
        return ExchangeBuilder(self.index, self._decoder, self.bodies, self.clients)

    def close(self) -> None:
        """Close the file."""
        if "bodies" in self.__dict__:
            self.bodies.close()

    def read_parts(self) -> Iterator[tuple[int, ExchangeColumns]]:
        """The exchanges, span by span in the order of the capture, each with the number of its span."""
        for part in (*range(len(self.index.spans)), -1):
            exchanges = self.read_exchanges(part)
            if len(exchanges):
                yield part, exchanges

    def read_exchanges(self, part: int) -> ExchangeColumns:
        """The exchanges of the chosen flows in one span."""
        exchanges = self.index.read_exchanges(part)
        exchanges = exchanges.select(np.nonzero(self._chosen[exchanges.flow])[0])
        if self.options.edition == DEFAULT_EDITION:
            return exchanges
        # Columns know the messages of one edition; those of others are built one by one.
        request = exchanges.request._replace(body=np.full(len(exchanges), -1, dtype=np.int64))
        return ExchangeColumns(request, exchanges.response, exchanges.completed_by)

    def outcomes(self, level: str, *, issues: bool) -> Iterator[Outcome]:
        """The outcomes of all flows, in the order of completion."""
        build = self.exchange_builder.build_exchanges
        columnar = (each for _, part in self.read_parts() for each in build(self._needed_exchanges(part)))
        sessions = SessionTracker() if self.options.sessions and level == "messages" else None
        for _, outcome in merge(columnar, self.numbered_outcomes(issues=issues), key=self._merge_key):
            if sessions is not None and isinstance(outcome, Exchange):
                outcome.session = sessions.follow(outcome)
            yield outcome

    def _merge_key(self, numbered: tuple[int, Outcome]) -> tuple[int, int]:
        """The sort key of an outcome. At the end, connections are closed in the order in which they began."""
        number, outcome = numbered
        if number < _LAST or not isinstance(outcome, Exchange | StreamGap | NonKafkaConnection):
            return number, _LAST
        return number, self.index.flow_numbers[outcome.flow.ends][-1]

    def numbered_outcomes(self, *, issues: bool) -> Iterator[tuple[int, Outcome]]:
        """What is no exchange, each with the number of its packet: gaps, connections that are not Kafka, and issues.

        Args: issues: whether those of the capture are included.
        """
        found = (issue for _, index in self.index.file_indexes for _, issue in index.issues)
        numbered_issues = ((_LAST, issue) for issue in (merge_issues(found) if issues else ()))
        return merge(self._numbered_gaps(), self._numbered_others(), numbered_issues, key=itemgetter(0))

    def _numbered_gaps(self) -> Iterator[tuple[int, Outcome]]:
        for row in self.index.gaps:
            if self._chosen[row.flow]:
                yield row.completed_by, row.to_gap(self.exchange_builder.build_flow(row.flow))

    def _numbered_others(self) -> Iterator[tuple[int, Outcome]]:
        for row in self.index.others:
            if self._chosen[row.flow]:
                info, opener = self.index.flows[row.flow], int(self.index.openers[row.flow])
                side, is_tls = opener if opener >= 0 else None, row.kind == "tls" or row.flow in self.index.tls_flows
                flow = Flow(info.key, info.epoch, info.link, side, is_tls=is_tls, kind=row.kind)
                yield row.completed_by, row.to_outcome(flow)

    def _needed_exchanges(self, exchanges: ExchangeColumns) -> ExchangeColumns:
        """The exchanges that match the options or may name topics, and those with unusual headers."""
        options = self.options
        if options.sessions:
            return exchanges
        is_needed = self.matches_options(exchanges)
        if options.decoded_messages is not None:
            is_needed &= np.isin(exchanges.request.api_key, self._decoder.api_keys())
        naming_decoder = MessageDecoder(options.edition, topic_naming_messages(options.edition))
        is_needed |= np.isin(exchanges.request.api_key, naming_decoder.api_keys())
        return exchanges.select(np.nonzero(is_needed | (exchanges.request.body < 0))[0])

    def rows(self, level: str, *, issues: bool) -> Iterator[Row]:
        """The rows of any level, built one by one."""
        build_rows = make_row_builder(level, self.file, self.options)
        return self.with_file_names(order_rows(self.outcomes(level, issues=issues), build_rows))

    def with_file_names(self, rows: Iterator[Row]) -> Iterator[Row]:
        """Set the column `file` of rows that were built one by one, for a series of files."""
        is_named = self.options.name is not None or not self.index.file_starts
        return rows if is_named else assign_file_names(rows, self.index.file_starts)

    def read_span_data(self, part: int, exchanges: ExchangeColumns) -> SpanData:
        """The data of the span that contains most of the exchanges of a part; what is far from all may be missing."""
        return self._spans.read_span(part, exchanges.request.frame, exchanges.response.frame)

    def ordered_outcomes(self, *, issues: bool) -> Iterator[Outcome]:
        """What is no exchange, in the order of the times."""
        return order_outcomes(outcome for _, outcome in self.numbered_outcomes(issues=issues))

    @property
    def selects_all(self) -> bool:
        """Whether all exchanges match the options."""
        return not self.options.apis and self.options.exchange_filter is None

    def matches_options(self, exchanges: ExchangeColumns) -> Bools:
        """Whether each exchange matches the options as in `pipeline`; those with unusual headers are checked later."""
        options, build_column = self.options, self.header_columns.build_column
        is_match = np.ones(len(exchanges), dtype=np.bool_)
        if options.apis:
            keys = [key for key in registry.known_api_keys() if registry.api_name(key) in options.apis]
            is_match &= np.isin(exchanges.request.api_key, keys)
        for condition in options.exchange_filter.conditions if options.exchange_filter is not None else ():
            if condition.column == TIMES:
                times = (build_column(name, exchanges).view(pa.int64()).to_pylist() for name in ("req_ts", "resp_ts"))
                holds = [condition_holds(condition, pair) for pair in zip(*times, strict=True)]
                is_match &= np.array(holds, dtype=np.bool_)
                continue
            column = build_column(condition.column, exchanges)
            if pa.types.is_timestamp(column.type):
                column = column.view(pa.int64())
            encoded = column.dictionary_encode(null_encoding="encode")
            holds = [condition_holds(condition, value) for value in encoded.dictionary.to_pylist()]
            is_match &= np.array(holds, dtype=np.bool_)[encoded.indices.to_numpy()]
        return is_match | (exchanges.request.body < 0)
