"""The model of a series of captures: the generators from TCP segments to outcomes, one object after another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from kwire.capture.kafka.exchange import Outcome
from kwire.capture.kafka.topic_names import TopicNames
from kwire.capture.model import CaptureIssue, FlowClosed, Frame, FrameEvent, Row, Segment, StreamEvent
from kwire.capture.options import Options
from kwire.capture.pipeline import make_row_builder, merge_issues, order_rows
from kwire.capture.rows.file_names import assign_file_names
from kwire.capture.tls.key_log import KeyLog
from tests.support.capture_model.detection import ConnectionClassifier
from tests.support.capture_model.exchange_pairing import ExchangePairer
from tests.support.capture_model.reassembly import ConnectionTable


class PipelineState:
    """The components from TCP segments to outcomes, with the topic names."""

    def __init__(self, level: str, options: Options, keys: KeyLog) -> None:
        """For rows of one level of exchanges. `keys` are the secrets of TLS connections."""
        self.names = TopicNames(options.topics)
        self.files: list[tuple[int, str]] = []
        self._level = level
        self._options = options
        self._connections = ConnectionTable()
        self._classifier = ConnectionClassifier(options, keys)
        self._pairer = ExchangePairer(replace(options, sessions=options.sessions and level == "messages"))

    def outcomes(self, segments: Iterable[Segment | CaptureIssue]) -> Iterator[Outcome]:
        """The outcomes that more segments complete. Open connections remain open after the last one."""
        for segment in segments:
            if isinstance(segment, CaptureIssue):
                yield segment
            else:
                yield from self._extract_and_pair(self._connections.process_segment(segment))

    def expire(self, before_ts: int) -> Iterator[Outcome]:
        """Close connections without a packet since this time (nanoseconds), and return older requests."""
        yield from self._extract_and_pair(self._connections.close_quiet_connections(before_ts))
        yield from self._pairer.expire(before_ts)

    def close(self) -> Iterator[Outcome]:
        """The outcomes at the end of the series."""
        yield from self._extract_and_pair(self._connections.close())

    def rows(self, file: str, outcomes: Iterable[Outcome]) -> Iterator[Row]:
        """The rows of outcomes, as `read_series_rows` makes them."""
        make_rows = make_row_builder(self._level, file, self._options, self.names)
        return assign_file_names(order_rows(merge_issues(outcomes), make_rows), self.files)

    def _extract_and_pair(self, events: Iterable[StreamEvent]) -> Iterator[Outcome]:
        for event in events:
            for frame_event in self._classifier.take_event(event):
                yield from self._pair(frame_event)

    def _pair(self, event: FrameEvent) -> Iterator[Outcome]:
        return self._pairer.take_event(event) if isinstance(event, Frame | FlowClosed) else iter((event,))
