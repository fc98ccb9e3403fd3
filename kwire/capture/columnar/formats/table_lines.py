"""Format exchanges in columns as lines of the default table."""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from kwire.capture.columnar.body_columns import exchanges_by_version, has_tags, message_name
from kwire.capture.columnar.formats.json_lines import times_of_day
from kwire.capture.columnar.summary_reader import SummaryReader
from kwire.capture.kafka.session_tracker import SESSION_API_KEYS
from kwire.capture.rows.exchange_summary import CELL_MAX, summarize_bodies, summarize_session_partitions
from kwire.capture.rows.message_rows import OK
from kwire.capture.rows.reorder_buffer import TableLine
from kwire.escape import escape
from kwire.registry import api_name, codec_of_version

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    import pyarrow as pa

    from kwire.capture.columnar.formats.exchange_rows import ExchangeRows
    from kwire.capture.columnar.span_data import SpanData
    from kwire.capture.index.flows.message_columns import ExchangeColumns
    from kwire.capture.kafka.fetch_sessions import FetchSession, SessionPartitions
    from kwire.capture.kafka.topic_names import TopicNames

_NO_ERROR = "NONE"
# Limit of the stored texts of partitions of sessions.
_STORED_MAX = 4096
_make_line = cast("Callable[[type[TableLine], tuple[Any, ...]], TableLine]", tuple.__new__)


class TableLineFormatter:
    """Formats complete exchanges; the summary of an incomplete one has its issues."""

    columns: Collection[str] = frozenset({"status", "issues", "error_code", "error_name"})
    formats_damaged = False

    def __init__(self, names: TopicNames) -> None:
        """`names`: of all topics."""
        self._names = names
        self._summary_readers: dict[tuple[int, int], SummaryReader] = {}
        self._partition_texts: dict[SessionPartitions, str] = {}

    def format_rows(self, rows: ExchangeRows) -> list[TableLine]:
        """The lines of these exchanges."""
        times = times_of_day(rows.exchanges.request.frame.ts)
        connections = _texts_of(rows.build_column("conn_id"), str)
        latencies = rows.build_column("latency_us")
        texts = _texts_of(latencies, lambda latency_us: f"{latency_us / 1000:.3f} ms")
        results = _texts_of(rows.build_column("error_name"), lambda name: OK if name == _NO_ERROR else name, OK)
        apis, summaries, max_wait_ms = self._read_bodies(rows.exchanges, rows.span, rows.sessions)
        columns = (times, connections, apis, texts, results, summaries, latencies.to_pylist(), max_wait_ms)
        return list(map(_make_line, repeat(TableLine), zip(*columns, strict=True)))

    def _read_bodies(
        self, chosen: ExchangeColumns, span: SpanData, sessions: list[FetchSession | None]
    ) -> tuple[list[str], list[str], list[int]]:
        """The API of each exchange with the version, the summary, and the longest wait that its request allows."""
        apis, summaries = np.empty(len(chosen), dtype=np.object_), np.empty(len(chosen), dtype=np.object_)
        waits = np.zeros(len(chosen), dtype=np.int64)
        for api_key, version, is_member in exchanges_by_version(chosen):
            rows = np.nonzero(is_member)[0]
            request_at = (span.positions(chosen.request.frame.at[rows]) + chosen.request.body[rows]).tolist()
            response = chosen.response.frame
            after_header = span.positions(response.at[rows]) + 4 + has_tags(api_key, version)
            response_at = np.where(response.size[rows] < 0, -1, after_header).tolist()
            found = self._summary_reader(api_key, version).read(span.data, request_at, response_at)
            texts = found.texts
            if api_key in SESSION_API_KEYS:
                of_rows = map(sessions.__getitem__, rows.tolist())
                texts = list(map(self._add_session, texts, of_rows))
            for at in [at for at, text in enumerate(texts) if text is None or not _is_shown(text)]:
                text, max_wait_ms = texts[at], found.max_wait_ms[at]
                if text is None:
                    place, session = (request_at[at], response_at[at]), sessions[rows[at]]
                    text, max_wait_ms = self._summarize(api_key, version, span.data, place, session)
                texts[at], found.max_wait_ms[at] = escape(text, limit=CELL_MAX), max_wait_ms
            apis[rows], summaries[rows] = f"{api_name(api_key)} v{version}", texts
            waits[rows] = found.max_wait_ms
        return apis.tolist(), summaries.tolist(), waits.tolist()

    def _summary_reader(self, api_key: int, version: int) -> SummaryReader:
        reader = self._summary_readers.get((api_key, version))
        if reader is None:
            names = message_name(api_key, "Request"), message_name(api_key, "Response")
            reader = self._summary_readers[api_key, version] = SummaryReader(*names, version, self._names)
        return reader

    def _add_session(self, text: str | None, session: FetchSession | None) -> str | None:
        """A summary with that of its session; None if this depends on the response."""
        if text is None or session is None or not session.is_incremental:
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
        request: Any = codec_of_version(message_name(api_key, "Request"), version).readers[version](data, at[0])[0]
        answer = None
        if at[1] >= 0:
            answer = codec_of_version(message_name(api_key, "Response"), version).readers[version](data, at[1])[0]
        text = summarize_bodies(request, answer, session, self._names)
        return text, max(getattr(request, "max_wait_ms", 0), 0)


def _is_shown(text: str) -> bool:
    """Whether a text is shown unchanged."""
    return len(text) <= CELL_MAX and text.isprintable() and "\\" not in text


def _texts_of(values: pa.Array, make_text: Callable[[Any], str], missing: str = "") -> list[str]:
    """A text for each value, of which many occur more than once."""
    encoded = values.dictionary_encode()
    texts = np.array([*map(make_text, encoded.dictionary.to_pylist()), missing], dtype=np.object_)
    which = encoded.indices.fill_null(len(texts) - 1).to_numpy()
    out: list[str] = texts[which].tolist()
    return out
