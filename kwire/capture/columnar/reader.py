"""Read the rows of a level with an index: clean flows column by column, other flows with the streaming pipeline.

For messages, only exchanges that columns cannot represent are built as objects. For other levels, and for sessions if
some flows are not clean, the exchanges of all flows are processed by the same row builders in the order of completion,
because topic names and sessions of one exchange are needed for others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from heapq import merge
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from kwire import registry
from kwire.capture.columnar import body_columns, json_columns, session_columns
from kwire.capture.columnar.batch_merge import NO_TIME_LIMIT, BatchSorter, PendingOutcomes, RowBatch, row_batch
from kwire.capture.columnar.body_reader import BodyReader
from kwire.capture.columnar.clients import ClientMap
from kwire.capture.columnar.damaged_rows import DamagedRows
from kwire.capture.columnar.exchange_builder import ExchangeBuilder
from kwire.capture.columnar.header_columns import HeaderColumns
from kwire.capture.columnar.numbered_segments import NumberedSegments
from kwire.capture.columnar.span_data import NO_DATA, SpanData, SpanReader
from kwire.capture.columnar.streamed_batches import StreamedBatches
from kwire.capture.display_filter.exchange_filter import TIMES, condition_holds
from kwire.capture.index.segments import read_segments
from kwire.capture.kafka.deferred_decoder import DeferredDecoder
from kwire.capture.kafka.exchange import Exchange, Outcome
from kwire.capture.kafka.message_decoder import MessageDecoder
from kwire.capture.kafka.session_tracker import SessionTracker
from kwire.capture.kafka.topic_naming import topic_naming_messages
from kwire.capture.model import CaptureIssue, Segment
from kwire.capture.options import FRAME_SIZE_MAX
from kwire.capture.pipeline import make_row_builder, order_outcomes, order_rows, outcomes_from_segments
from kwire.capture.rows.columns import arrow_schema
from kwire.capture.series.file_names import assign_file_names
from kwire.capture.tcp.tcp_analysis import FlowSummary, PacketSummary
from kwire.registry import DEFAULT_EDITION

if TYPE_CHECKING:
    from kwire.capture.columnar.session_columns import SessionValues
    from kwire.capture.index import FlowKey, Index
    from kwire.capture.index.arrays import Bools, Ints
    from kwire.capture.index.flows.message_columns import ExchangeColumns
    from kwire.capture.model import Row
    from kwire.capture.options import Options

# Above every packet number.
_LAST = 2**62


class DecodedPart(NamedTuple):
    """Which exchanges of a part may match all conditions, and which have valid bodies.

    plain: the exchanges that were decoded in columns, as rows of `decoded`. damaged: incomplete ones that are read in
    columns too.
    """

    is_wanted: Bools
    is_good: Bools
    plain: Ints
    decoded: body_columns.BodyColumns | None
    span: SpanData
    damaged: DamagedRows | None = None


class ColumnarReader:
    """Reads one capture; the caller closes it."""

    def __init__(self, index: Index, flows: Collection[FlowKey] | None, options: Options) -> None:
        """Args: flows: those to read; None for all."""
        self._index = index
        self._options = options
        self._file = options.name or index.file
        self._decoder = MessageDecoder(options.edition, options.decoded_messages)
        chosen = np.ones(len(index.flows), dtype=np.bool_)
        if flows is not None:
            chosen[:] = False
            chosen[[index.flow_numbers[key] for key in flows if key in index.flow_numbers]] = True
        self.is_columnar, is_streamed = self._divide_flows(chosen)
        self.streamed_flows = [index.flows[number].key for number in np.nonzero(is_streamed)[0].tolist()]

    @property
    def _has_default_frames(self) -> bool:
        """Whether frames are those for which indexes are built."""
        return self._options.edition == DEFAULT_EDITION and self._options.frame_size_max == FRAME_SIZE_MAX

    @cached_property
    def bodies(self) -> BodyReader:
        """Reads the bodies of frames."""
        return BodyReader(self._index)

    @cached_property
    def _spans(self) -> SpanReader:
        return SpanReader(self._index, self.bodies.read_span)

    @cached_property
    def _header_columns(self) -> HeaderColumns:
        return HeaderColumns(self._index, self._file, lambda: self.clients)

    @cached_property
    def clients(self) -> ClientMap:
        """The clients of the clean flows."""
        return ClientMap(self._index, self.is_columnar, self._decoder, self.bodies)

    @cached_property
    def _exchange_builder(self) -> ExchangeBuilder:
        return ExchangeBuilder(self._index, self._decoder, self.bodies, self.clients)

    @property
    def _empty_columns(self) -> set[str]:
        """The columns that the options leave empty."""
        bodies = () if self._options.bodies else json_columns.COLUMNS
        return {*bodies, *(() if self._options.sessions else session_columns.COLUMNS)}

    def close(self) -> None:
        """Close the file."""
        if "bodies" in self.__dict__:
            self.bodies.close()

    def read_parts(self) -> Iterator[tuple[int, ExchangeColumns]]:
        """The exchanges of clean flows, span by span in the order of the capture, each with the number of its span."""
        for part in (*range(len(self._index.spans)), -1):
            exchanges = self._clean_exchanges(part)
            if len(exchanges):
                yield part, exchanges

    def _clean_exchanges(self, part: int) -> ExchangeColumns:
        exchanges = self._index.read_exchanges(part)
        return exchanges.select(np.nonzero(self.is_columnar[exchanges.flow])[0])

    def outcomes(self, level: str, *, issues: bool) -> Iterator[Outcome]:
        """The outcomes of all flows, in the order of completion."""
        streamed = self._numbered_outcomes(level, issues=issues)
        build = self._exchange_builder.build_exchanges
        columnar = (each for _, part in self.read_parts() for each in build(self._needed_exchanges(part)))
        sessions = SessionTracker() if self._options.sessions and level == "messages" else None
        for _, outcome in merge(columnar, streamed, key=self._merge_key):
            if sessions is not None and isinstance(outcome, Exchange):
                outcome.session = sessions.follow(outcome)
            yield outcome

    def _merge_key(self, numbered: tuple[int, Outcome]) -> tuple[int, int]:
        """The sort key of an outcome. At the end, connections are closed in the order in which they began."""
        number, outcome = numbered
        if isinstance(outcome, CaptureIssue | FlowSummary | PacketSummary):
            return number, _LAST
        return self._exchange_key(number, self._index.flow_numbers[outcome.flow.ends])

    def _exchange_key(self, completed_by: int, flow: int) -> tuple[int, int]:
        return completed_by, _LAST if completed_by < _LAST else flow

    def _numbered_outcomes(
        self, level: str, *, issues: bool, decoder: DeferredDecoder | None = None
    ) -> Iterator[tuple[int, Outcome]]:
        """The outcomes of the streaming pipeline for flows that are not clean, each with the number of its packet.

        The gaps of clean flows, where the capture began inside a frame, are included.
        """
        options = replace(self._options, sessions=False)
        numbered = NumberedSegments(self._numbered_segments(issues=issues))
        outcomes = outcomes_from_segments(numbered, options, self._index.key_log(options.tls_keylog), level, decoder)
        return merge(numbered.with_numbers(outcomes), self._numbered_gaps(), key=itemgetter(0))

    def _numbered_segments(self, *, issues: bool) -> Iterator[tuple[int, Segment | CaptureIssue]]:
        """The segments for the streaming pipeline, each with its packet number in the index."""
        for before, index in self._index.file_indexes:
            for segment in read_segments([index], self.streamed_flows, issues=issues):
                yield before + segment.packet, segment

    def _numbered_gaps(self) -> Iterator[tuple[int, Outcome]]:
        for row in self._index.gaps:
            if self.is_columnar[row.flow]:
                yield row.completed_by, row.to_gap(self._exchange_builder.build_flow(row.flow))

    def _needed_exchanges(self, exchanges: ExchangeColumns) -> ExchangeColumns:
        """The exchanges that match the options or may name topics, and those with unusual headers."""
        options = self._options
        if options.sessions:
            return exchanges
        is_needed = self._matches_options(exchanges)
        if options.decoded_messages is not None:
            is_needed &= np.isin(exchanges.request.api_key, self._decoder.api_keys())
        naming_decoder = MessageDecoder(options.edition, topic_naming_messages(options.edition))
        is_needed |= np.isin(exchanges.request.api_key, naming_decoder.api_keys())
        return exchanges.select(np.nonzero(is_needed | (exchanges.request.body < 0))[0])

    def rows(self, level: str, *, issues: bool) -> Iterator[Row]:
        """The rows of any level, built one by one."""
        build_rows = make_row_builder(level, self._file, self._options)
        return self._with_file_names(order_rows(self.outcomes(level, issues=issues), build_rows))

    def _with_file_names(self, rows: Iterator[Row]) -> Iterator[Row]:
        """Set the column `file` of rows that were built one by one, for a series of files."""
        is_named = self._options.name is not None or not self._index.file_starts
        return rows if is_named else assign_file_names(rows, self._index.file_starts)

    def message_batches(self, columns: Sequence[str], *, issues: bool) -> Iterator[pa.RecordBatch]:
        """The rows of messages; those of clean flows column by column. For session columns all flows must be clean."""
        streamed = PendingOutcomes(self._ordered_outcomes(issues=issues))
        sorter, row_count, streamed_batches = BatchSorter(), 0, self._streamed_batches(columns)
        sessions = None
        if self._options.sessions and not session_columns.COLUMNS.isdisjoint(columns):
            sessions = session_columns.SessionColumns(self._exchange_builder, self._options.topics)
        for part, exchanges in self.read_parts():
            decoded = self._decode_part(part, exchanges, columns, whole=sessions is not None)
            session_values = None
            if sessions is not None:
                session_values = sessions.build_values(exchanges, decoded.is_good, decoded.span)
            batch, unusual = self._row_batch(exchanges, decoded, columns, session_values)
            batches = [batch]
            if session_values is None and self._can_build_damaged(columns):
                damaged, unusual = self._build_damaged(part, exchanges, unusual, columns)
                batches += damaged
            other_rows = self._build_rows(exchanges, unusual, session_values)
            for outcomes, until in streamed.outcomes_until(int(exchanges.request.frame.ts.max())):
                built, rows = streamed_batches.build(outcomes)
                other_rows += self._with_file_names(iter(rows))
                batches += [*built, row_batch(other_rows, columns, row_count)]
                yield from sorter.add_batches(batches, until=until)
                row_count += len(other_rows)
                batches, other_rows = [], []
        for outcomes, until in streamed.outcomes_until(NO_TIME_LIMIT):
            built, rows = streamed_batches.build(outcomes)
            other_rows = list(self._with_file_names(iter(rows)))
            yield from sorter.add_batches([*built, row_batch(other_rows, columns, row_count)], until=until)
            row_count += len(other_rows)
        yield from sorter.add_batches([], window=0)

    def _decode_part(
        self, part: int, exchanges: ExchangeColumns, columns: Sequence[str], *, whole: bool
    ) -> DecodedPart:
        """Decode what the columns need of a part. Args: whole: also of exchanges that do not match the options."""
        is_wanted = self._matches_options(exchanges)
        # Only bodies that were decoded in columns are known to be valid; the JSON columns need that.
        needed = body_columns.COLUMNS.intersection(columns)
        if whole or (self._options.bodies and not json_columns.COLUMNS.isdisjoint(columns)):
            needed |= {"status"}
        is_good = exchanges.request.body >= 0
        plain = np.nonzero(is_good if whole else is_good & is_wanted)[0]
        if not needed:
            return DecodedPart(is_wanted, is_good, plain, None, NO_DATA)
        plain_exchanges = exchanges.select(plain)
        span = self._read_span_data(part, plain_exchanges)
        decoded = body_columns.BodyColumns(span, plain_exchanges, needed)
        is_good = np.zeros(len(exchanges), dtype=np.bool_)
        is_good[plain] = decoded.is_good
        return DecodedPart(is_wanted, is_good, plain, decoded, span)

    def _row_batch(
        self,
        exchanges: ExchangeColumns,
        part: DecodedPart,
        columns: Sequence[str],
        session_values: SessionValues | None,
    ) -> tuple[RowBatch, Ints]:
        """The rows that can be built column by column, and which exchanges must be built one by one."""
        empty, decoded = self._empty_columns, part.decoded
        plain = np.nonzero(part.is_wanted & part.is_good)[0]
        good = np.searchsorted(part.plain, plain)
        chosen = exchanges.select(plain)
        schema = arrow_schema("messages")
        arrays = []
        for name in columns:
            if name in empty:
                arrays.append(pa.nulls(len(chosen), schema.field(name).type))
            elif decoded is not None and name in body_columns.COLUMNS:
                arrays.append(decoded.build_column(name, good))
            elif name in json_columns.COLUMNS:
                texts = json_columns.json_texts(name, part.span, chosen, self._options)
                arrays.append(pa.array(texts, type=pa.string()))
            elif session_values is not None and name in session_columns.COLUMNS:
                values = getattr(session_values, name)
                arrays.append(pa.array([values[row] for row in plain.tolist()], type=schema.field(name).type))
            else:
                arrays.append(self._header_columns.build_column(name, chosen))
        batch = pa.RecordBatch.from_arrays(arrays, schema=pa.schema([schema.field(name) for name in columns]))
        unusual = np.nonzero(part.is_wanted & ~part.is_good)[0]
        return RowBatch(batch, chosen.request.frame.ts, chosen.request.frame.offset), unusual

    def _can_build_damaged(self, columns: Sequence[str]) -> bool:
        """Whether the columns of incomplete exchanges can be built, and all of them match the options."""
        options = self._options
        has_json = options.bodies and not json_columns.COLUMNS.isdisjoint(columns)
        return not (has_json or options.apis or options.exchange_filter or options.decoded_messages is not None)

    def _build_damaged(
        self, part: int, exchanges: ExchangeColumns, unusual: Ints, columns: Sequence[str]
    ) -> tuple[list[RowBatch], Ints]:
        """The rows of incomplete exchanges that can be built column by column, and the numbers of the others."""
        incomplete = unusual[exchanges.request.body[unusual] < -1]
        if not len(incomplete):
            return [], unusual
        span = self._read_span_data(part, exchanges.select(incomplete))
        rows = DamagedRows(self.bodies, span, exchanges, incomplete, columns)
        return [rows.build_batch(columns, self._build_header_column)], np.setdiff1d(unusual, rows.chosen)

    def _build_header_column(self, name: str, exchanges: ExchangeColumns) -> pa.Array:
        if name in self._empty_columns:
            return pa.nulls(len(exchanges), arrow_schema("messages").field(name).type)
        return self._header_columns.build_column(name, exchanges)

    def _read_span_data(self, part: int, exchanges: ExchangeColumns) -> SpanData:
        """The data of the span that contains most of the exchanges of a part; what is far from all may be missing."""
        return self._spans.read_span(part, exchanges.request.frame, exchanges.response.frame)

    def _ordered_outcomes(self, *, issues: bool) -> Iterator[Outcome]:
        """The outcomes of the streaming pipeline in the order of their times; exchanges are deferred if all match."""
        is_selected = not self._options.apis and self._options.exchange_filter is None
        decoder = self._deferred_decoder if is_selected and self._options.edition == DEFAULT_EDITION else None
        numbered = self._numbered_outcomes("messages", issues=issues, decoder=decoder)
        return order_outcomes(outcome for _, outcome in numbered)

    @cached_property
    def _deferred_decoder(self) -> DeferredDecoder:
        return DeferredDecoder(self._decoder)

    def _streamed_batches(self, columns: Sequence[str]) -> StreamedBatches:
        build_rows = make_row_builder("messages", self._file, replace(self._options, sessions=False))
        return StreamedBatches(
            columns,
            self._options,
            empty=self._empty_columns,
            headers=self._header_columns,
            decoder=self._deferred_decoder,
            build_rows=build_rows,
        )

    def _build_rows(self, exchanges: ExchangeColumns, unusual: Ints, session_values: SessionValues | None) -> list[Row]:
        """The rows of exchanges that are built one by one."""
        if not len(unusual):
            return []
        build_rows = make_row_builder("messages", self._file, replace(self._options, sessions=False))
        rows = []
        exchanges_of_rows = self._exchange_builder.build_exchanges(exchanges.select(unusual))
        for row_number, (_, exchange) in zip(unusual.tolist(), exchanges_of_rows, strict=True):
            for row in build_rows(exchange):
                if session_values is not None:
                    row |= {name: getattr(session_values, name)[row_number] for name in session_columns.COLUMNS}
                rows.append(row)
        return list(self._with_file_names(iter(rows)))

    def _matches_options(self, exchanges: ExchangeColumns) -> Bools:
        """Whether each exchange matches the options as in `pipeline`; those with unusual headers are checked later."""
        options, build_column = self._options, self._header_columns.build_column
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

    def _divide_flows(self, chosen: Bools) -> tuple[Bools, Bools]:
        """Which flows are read by columns, and which by the streaming pipeline."""
        index, ports = self._index, self._options.ports
        if not self._has_default_frames:
            return np.zeros(len(chosen), dtype=np.bool_), chosen
        is_columnar = chosen & index.is_clean
        is_streamed = chosen & ~is_columnar
        for number in np.nonzero(chosen)[0].tolist() if ports else ():
            is_broker = [endpoint[1] in ports for endpoint in index.flows[number].key]
            if True not in is_broker:
                # The user has named other broker ports: the flow has no rows.
                is_columnar[number] = is_streamed[number] = False
            elif is_columnar[number] and is_broker.count(True) == 1:
                # A broker port determines the client, even against the SYN.
                is_columnar[number] = is_broker.index(False) == int(index.openers[number])
                is_streamed[number] = not is_columnar[number]
        return is_columnar, is_streamed
