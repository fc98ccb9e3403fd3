"""Read the outcomes that match conditions as `FilteredReader`, many exchanges at once as lines of the default table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kwire.capture.columnar.body_columns import exchanges_by_version, has_tags, message_name
from kwire.capture.columnar.lines.json_lines import time_texts
from kwire.capture.columnar.lines.line_reader import LineReader
from kwire.capture.columnar.summary_reader import SummaryReader
from kwire.capture.rows.exchange_summary import CELL_MAX, summarize_bodies, summarize_session_partitions
from kwire.capture.rows.message_rows import OK
from kwire.capture.rows.reorder_buffer import TableLine
from kwire.escape import escape
from kwire.registry import api_name, codec_of_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kwire.capture.columnar.filtered_reader import ColumnCondition
    from kwire.capture.columnar.lines.streamed_lines import LineRows
    from kwire.capture.columnar.span_data import SpanData
    from kwire.capture.index import Index
    from kwire.capture.index.flows.pairing import ExchangeColumns
    from kwire.capture.kafka.fetch_sessions import FetchSession, SessionPartitions
    from kwire.capture.options import Options

# Only exchanges without issues are made to lines here; a code other than 0 is the result.
_COLUMNS = frozenset({"status", "issues", "error_code", "error_name"})
_NO_ERROR = "NONE"
# Limit of the stored texts of partitions of sessions.
_STORED_MAX = 4096
# The time of day in a quoted time: hours to microseconds or nanoseconds.
_TIME_OF_DAY = slice(12, -2)


class TableReader(LineReader):
    """Reads the matching outcomes of one capture; the caller closes it."""

    def __init__(
        self, index: Index, options: Options, conditions: Sequence[ColumnCondition], *, after: int = 0
    ) -> None:
        """Args: conditions, after: as for `FilteredReader`."""
        super().__init__(index, options, conditions, _COLUMNS, (), after=after)
        self._summary_readers: dict[tuple[int, int], SummaryReader] = {}
        self._partition_texts: dict[SessionPartitions, str] = {}

    def _format_lines(self, rows: LineRows) -> Sequence[str | TableLine]:
        times = [text[_TIME_OF_DAY] for text in time_texts(rows.exchanges.request.frame.ts).to_pylist()]
        columns = (rows.build_column(name).to_pylist() for name in ("conn_id", "error_name", "latency_us"))
        connections, errors, latencies = columns
        texts = ["" if latency_us is None else f"{latency_us / 1000:.3f} ms" for latency_us in latencies]
        results = [OK if error is None or error == _NO_ERROR else error for error in errors]
        apis, summaries, max_wait_ms = self._read_bodies(rows.exchanges, rows.span, rows.sessions)
        columns_of_lines = (times, connections, apis, texts, results, summaries, latencies, max_wait_ms)
        return list(map(TableLine._make, zip(*columns_of_lines, strict=True)))

    def _read_bodies(
        self, chosen: ExchangeColumns, span: SpanData, sessions: list[FetchSession | None]
    ) -> tuple[list[str], list[str], list[int]]:
        """The API of each exchange with the version, the summary, and the longest wait that its request allows."""
        count = len(chosen)
        apis, summaries, waits = [""] * count, [""] * count, [0] * count
        for api_key, version, is_member in exchanges_by_version(chosen):
            rows = np.nonzero(is_member)[0]
            api, reader = f"{api_name(api_key)} v{version}", self._summary_reader(api_key, version)
            request_at = (span.positions(chosen.request.frame.at[rows]) + chosen.request.body[rows]).tolist()
            response = chosen.response.frame
            after_header = span.positions(response.at[rows]) + 4 + has_tags(api_key, version)
            response_at = np.where(response.size[rows] < 0, -1, after_header).tolist()
            found = reader.read(span.data, request_at, response_at)
            for row, summary, at, answer_at in zip(rows.tolist(), found, request_at, response_at, strict=True):
                session, apis[row] = sessions[row], api
                text = "" if summary is None else self._add_session(summary.text, session)
                if summary is None or text is None:
                    text, waits[row] = self._summarize(api_key, version, span.data, (at, answer_at), session)
                else:
                    waits[row] = summary.max_wait_ms
                summaries[row] = escape(text, limit=CELL_MAX)
        return apis, summaries, waits

    def _summary_reader(self, api_key: int, version: int) -> SummaryReader:
        reader = self._summary_readers.get((api_key, version))
        if reader is None:
            names = message_name(api_key, "Request"), message_name(api_key, "Response")
            reader = self._summary_readers[api_key, version] = SummaryReader(*names, version, self._names)
        return reader

    def _add_session(self, text: str, session: FetchSession | None) -> str | None:
        """A summary with that of its session; None if this depends on the response."""
        if session is None or not session.is_incremental:
            return text
        partitions = session.partitions
        if partitions is None:
            return None
        shown = self._partition_texts.get(partitions)
        if shown is None:
            if len(self._partition_texts) >= _STORED_MAX:
                self._partition_texts.clear()
            shown = self._partition_texts[partitions] = summarize_session_partitions(partitions, self._names)
        if session.id is not None:
            shown = f"session {session.id} epoch {session.epoch}  {shown}"
        return f"{text}  {shown}" if text else shown

    def _summarize(
        self, api_key: int, version: int, data: bytes, at: tuple[int, int], session: FetchSession | None
    ) -> tuple[str, int]:
        """The summary and the longest wait of an exchange whose bodies, at these offsets, are decoded."""
        request: Any = codec_of_name(message_name(api_key, "Request")).readers[version](data, at[0])[0]
        answer = None
        if at[1] >= 0:
            answer = codec_of_name(message_name(api_key, "Response")).readers[version](data, at[1])[0]
        text = summarize_bodies(request, answer, session, self._names)
        return text, max(getattr(request, "max_wait_ms", 0), 0)
