"""Read one capture with its index: exchanges in columns, part by part, and what is no exchange as outcomes.

Others are given the reader and make the output: `message_batches` and `levels` record batches, `filtered` what matches
conditions. `outcomes` has all exchanges as objects, for rows that columns cannot represent.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from functools import cached_property
from heapq import merge
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import pyarrow as pa

from kwire import registry
from kwire.capture.columnar.body_reader import BodyReader
from kwire.capture.columnar.clients import ClientMap
from kwire.capture.columnar.exchange_builder import ExchangeBuilder
from kwire.capture.columnar.flow_selection import FlowSelection
from kwire.capture.columnar.header_columns import HeaderColumns
from kwire.capture.columnar.span_data import SpanData, SpanReader
from kwire.capture.display_filter.exchange_filter import TIMES, condition_holds
from kwire.capture.index.column_schema import UNANSWERED_PART
from kwire.capture.index.flows.frame_columns import StreamGapRow
from kwire.capture.index.flows.message_columns import ExchangeColumns, missing_responses
from kwire.capture.index.flows.other_connections import OtherConnection
from kwire.capture.index.model import FlowKey
from kwire.capture.index.rebuilt import rebuild_flows
from kwire.capture.index.stream_index import StreamIndex
from kwire.capture.index.streams.stream_pieces import AFTER_CAPTURE
from kwire.capture.kafka.exchange import Exchange, Outcome
from kwire.capture.kafka.message_decoder import MessageDecoder
from kwire.capture.kafka.session_tracker import SessionTracker
from kwire.capture.kafka.topic_naming import topic_naming_messages
from kwire.capture.model import Flow, FlowClosed, NonKafkaConnection, StreamGap
from kwire.capture.optional_dependencies import require_cryptography
from kwire.capture.pipeline import make_row_builder, merge_issues, order_outcomes, order_rows
from kwire.capture.rows.file_names import assign_file_names
from kwire.registry import DEFAULT_EDITION

if TYPE_CHECKING:
    from kwire.capture.index import Index
    from kwire.capture.index.arrays import Bools
    from kwire.capture.model import Row
    from kwire.capture.options import Options

_Result = TypeVar("_Result")


class ColumnarReader:
    """Reads one capture; the caller closes it."""

    def __init__(self, index: Index, flows: Collection[FlowKey] | None, options: Options) -> None:
        """Args: flows: those to read; None for all."""
        if options.has_key_logs:
            require_cryptography()
        self.options = options
        self.index = index = index if index.is_built_for_reader else rebuild_flows(index, flows, options)
        self.file = options.name or index.file
        self._decoder = MessageDecoder(options.edition, options.decoded_messages)
        self._selection = FlowSelection(index, flows, options)

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
        return HeaderColumns(self.index, self.file, lambda: self.clients, self.exchange_builder.build_flow)

    @cached_property
    def clients(self) -> ClientMap:
        """The clients of the flows; of a stream, those that its parts so far show."""
        clients = ClientMap(self._selection, self._decoder, self.bodies)
        if not self.index.is_stream:
            clients.add_exchanges(map(self.index.read_exchanges, self.index.parts()))
        return clients

    @cached_property
    def exchange_builder(self) -> ExchangeBuilder:
        """Builds exchanges as objects."""
        return ExchangeBuilder(self.index, self._decoder, self.bodies, self.clients)

    def close(self) -> None:
        """Close the file."""
        if "bodies" in self.__dict__:
            self.bodies.close()

    def read_parts(self, parts: Iterable[int] | None = None) -> Iterator[tuple[int, ExchangeColumns]]:
        """The exchanges of all parts, or of these, each with the number of its part."""
        for part in self.index.parts() if parts is None else parts:
            if self.index.is_stream:
                waiting = self.index.waiting_requests()
                missing = missing_responses(len(waiting.number))
                pending = ExchangeColumns(waiting, missing, missing.correlation_id)
                self.clients.add_exchanges((self.index.read_exchanges(part), pending))
            yield part, self.read_exchanges(part)
            if isinstance(self.index, StreamIndex):
                closed = self.index.latest.closing
                self.clients.known.forget(closed)
                self.exchange_builder.forget(closed)

    def read_exchanges(self, part: int) -> ExchangeColumns:
        """The exchanges of the chosen flows in one part."""
        exchanges = self.index.read_exchanges(part)
        exchanges = exchanges.select(np.nonzero(self._selection.includes(exchanges.flow))[0])
        if self.options.edition == DEFAULT_EDITION:
            return exchanges
        # Columns know the messages of one edition; those of others are built one by one.
        request = exchanges.request._replace(body=np.full(len(exchanges), -1, dtype=np.int64))
        return ExchangeColumns(request, exchanges.response, exchanges.completed_by)

    def outcomes(self, level: str, *, issues: bool, selects: bool = True) -> Iterator[Outcome]:
        """The outcomes of all flows, in the order of completion.

        Args: issues: whether those of the capture are included. selects: whether exchanges are left out that the
        options exclude, if they are not needed otherwise.
        """
        found = self.outcomes_of_parts(self.new_sessions(level), None, issues=issues, selects=selects)
        return map(itemgetter(1), found)

    def completed_outcomes(self, level: str, *, issues: bool, selects: bool = True) -> Iterator[tuple[int, Outcome]]:
        """The same, each with the packet that completed it."""
        return self.outcomes_of_parts(self.new_sessions(level), None, issues=issues, selects=selects)

    def new_sessions(self, level: str) -> SessionTracker | None:
        """Tracks the sessions for a level whose rows have them."""
        return SessionTracker() if self.options.sessions and level == "messages" else None

    def outcomes_of_parts(
        self, sessions: SessionTracker | None, parts: Iterable[int] | None, *, issues: bool, selects: bool = True
    ) -> Iterator[tuple[int, Outcome]]:
        """As `completed_outcomes`. Args: parts: None for all. sessions: those of earlier parts."""
        for part, exchanges in self.read_parts(parts):
            built = self.exchange_builder.build_exchanges(self._needed_exchanges(exchanges) if selects else exchanges)
            for number, outcome in self._merge_numbered(part, built, issues=issues):
                if sessions is not None and isinstance(outcome, Exchange):
                    outcome.session = sessions.follow(outcome)
                yield number, outcome

    def outcomes_with_ends(self) -> Iterator[Outcome | FlowClosed]:
        """The outcomes of a stream, and the end of each connection behind its exchanges."""
        assert isinstance(self.index, StreamIndex)
        for part, exchanges in self.read_parts():
            found = merge(
                self.numbered_outcomes(part, issues=True),
                self.exchange_builder.build_exchanges(exchanges),
                self._numbered_ends(self.index),
                key=itemgetter(0),
            )
            yield from (outcome for _, outcome in found)

    def _numbered_ends(self, index: StreamIndex) -> Iterator[tuple[int, FlowClosed]]:
        """The ends of connections in the latest part of a stream, each with the number of its packet."""
        for number, end in index.latest.closing.items():
            reason, fin_side, end_ts = index.describe_end(number)
            yield end.number, FlowClosed(self.exchange_builder.build_flow(number), end.ts, reason, fin_side, end_ts)

    def merge_outcomes(
        self, part: int, exchanges: Iterator[tuple[int, _Result]], *, issues: bool
    ) -> Iterator[_Result | Outcome]:
        """The outcomes of a part in the order of completion.

        Args: exchanges: what was made of its exchanges, each with the packet that completed it. issues: whether those
        of the capture are included, at its end.
        """
        return map(itemgetter(1), self._merge_numbered(part, exchanges, issues=issues))

    def _merge_numbered(
        self, part: int, exchanges: Iterator[tuple[int, _Result]], *, issues: bool
    ) -> Iterator[tuple[int, _Result | Outcome]]:
        # Of one packet, bytes that are skipped precede the frame behind them.
        return merge(self.numbered_outcomes(part, issues=issues), exchanges, key=self._merge_key)

    def _merge_key(self, numbered: tuple[int, object]) -> tuple[int, int]:
        """The sort key of an outcome. At the end, connections are closed in the order in which they began."""
        number, outcome = numbered
        if number < AFTER_CAPTURE or not isinstance(outcome, Exchange | StreamGap | NonKafkaConnection):
            return number, AFTER_CAPTURE
        return number, self.index.flow_rank(outcome.flow.ends)

    def numbered_outcomes(self, part: int, *, issues: bool) -> Iterator[tuple[int, Outcome]]:
        """What is no exchange, each with the number of its packet: gaps, connections that are not Kafka, and issues.

        Args: issues: whether those of the capture are included, at its end.
        """
        index, rows = self.index, list[StreamGapRow | OtherConnection]()
        rows += merge(index.part_gaps(part), index.part_others(part), key=attrgetter("completed_by"))
        flows = np.array([row.flow for row in rows], dtype=np.int64)
        for row, is_chosen in zip(rows, self._selection.includes(flows).tolist(), strict=True):
            if not is_chosen:
                continue
            if isinstance(row, StreamGapRow):
                yield row.completed_by, row.to_gap(self.exchange_builder.build_flow(row.flow))
            else:
                yield row.completed_by, row.to_outcome(self._build_other_flow(row))
        if issues and part == UNANSWERED_PART:
            yield from ((AFTER_CAPTURE, issue) for issue in merge_issues(index.found_issues()))

    def _build_other_flow(self, row: OtherConnection) -> Flow:
        info, opener = self.index.flow(row.flow), self.index.opener(row.flow)
        side, is_tls = opener if opener >= 0 else None, row.kind == "tls" or row.flow in self.index.tls_flows
        return Flow(info.key, info.epoch, info.link, side, is_tls=is_tls, kind=row.kind)

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

    def ordered_outcomes(self, part: int, *, issues: bool) -> Iterator[Outcome]:
        """What is no exchange of a part, in the order of the times."""
        return order_outcomes(outcome for _, outcome in self.numbered_outcomes(part, issues=issues))

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
