"""Read the outcomes that match conditions as `FilteredReader`, many exchanges at once as lines of the default table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kwire.capture.columnar.body_columns import exchanges_by_version, has_tags, message_name
from kwire.capture.columnar.json_lines import time_texts
from kwire.capture.columnar.line_reader import LineReader
from kwire.capture.rows.exchange_summary import CELL_MAX, summarize_bodies
from kwire.capture.rows.message_rows import OK
from kwire.capture.rows.reorder_buffer import TableLine
from kwire.escape import escape
from kwire.registry import api_name, codec_of_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kwire.capture.columnar.filtered_reader import ColumnCondition
    from kwire.capture.columnar.span_data import SpanData
    from kwire.capture.columnar.streamed_lines import LineRows
    from kwire.capture.index import Index
    from kwire.capture.index.flows.pairing import ExchangeColumns
    from kwire.capture.kafka.fetch_sessions import FetchSession
    from kwire.capture.options import Options

# Only exchanges without issues are made to lines here; a code other than 0 is the result.
_COLUMNS = frozenset({"status", "issues", "error_code", "error_name"})
_NO_ERROR = "NONE"
_WAIT_FIELD = "max_wait_ms"
# The time of day in a quoted time: hours to microseconds or nanoseconds.
_TIME_OF_DAY = slice(12, -2)


class TableReader(LineReader):
    """Reads the matching outcomes of one capture; the caller closes it."""

    def __init__(
        self, index: Index, options: Options, conditions: Sequence[ColumnCondition], *, after: int = 0
    ) -> None:
        """Args: conditions, after: as for `FilteredReader`."""
        super().__init__(index, options, conditions, _COLUMNS, (), after=after)

    def _format_lines(self, rows: LineRows) -> Sequence[str | TableLine]:
        times = [text[_TIME_OF_DAY] for text in time_texts(rows.exchanges.request.frame.ts).to_pylist()]
        columns = (rows.build_column(name).to_pylist() for name in ("conn_id", "error_name", "latency_us"))
        connections, errors, latencies = columns
        max_wait_ms, apis, summaries = self._read_bodies(rows.exchanges, rows.span, rows.sessions)
        lines = []
        for time, connection, api, latency_us, error, summary, wait_ms in zip(
            times, connections, apis, latencies, errors, summaries, max_wait_ms, strict=True
        ):
            text = "" if latency_us is None else f"{latency_us / 1000:.3f} ms"
            result = OK if error is None or error == _NO_ERROR else error
            lines.append(TableLine(time, connection, api, text, result, summary, latency_us, wait_ms))
        return lines

    def _read_bodies(
        self, chosen: ExchangeColumns, span: SpanData, sessions: list[FetchSession | None]
    ) -> tuple[list[int], list[str], list[str]]:
        """The longest wait in milliseconds that each request allows, its API with the version, and the summary."""
        count, names, data = len(chosen), self._names, span.data
        waits, apis, summaries = [0] * count, [""] * count, [""] * count
        for api_key, version, is_member in exchanges_by_version(chosen):
            rows = np.nonzero(is_member)[0]
            api = f"{api_name(api_key)} v{version}"
            requests = codec_of_name(message_name(api_key, "Request"))
            read_request, has_wait = requests.readers[version], _WAIT_FIELD in requests.message.__struct_fields__
            read_response = codec_of_name(message_name(api_key, "Response")).readers[version]
            request_at = (span.positions(chosen.request.frame.at[rows]) + chosen.request.body[rows]).tolist()
            response = chosen.response.frame
            after_header = span.positions(response.at[rows]) + 4 + has_tags(api_key, version)
            response_at = np.where(response.size[rows] < 0, -1, after_header).tolist()
            for row, at, answer_at in zip(rows.tolist(), request_at, response_at, strict=True):
                request: Any = read_request(data, at)[0]
                answer = read_response(data, answer_at)[0] if answer_at >= 0 else None
                summaries[row] = escape(summarize_bodies(request, answer, sessions[row], names), limit=CELL_MAX)
                apis[row] = api
                if has_wait:
                    waits[row] = max(request.max_wait_ms, 0)
        return waits, apis, summaries
