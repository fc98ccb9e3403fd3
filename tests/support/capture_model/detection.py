"""Detect which connections are Kafka and which side is the client, and extract their frames."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.capture.kafka.client_detection import (
    NO_REQUEST,
    TLS_FAILED,
    ClientDetection,
    DetectionSettings,
    UndecidedBudget,
    describe_tls,
    is_excluded,
    may_decrypt,
)
from kwire.capture.kafka.frame_resync import PartialFrameBudget
from kwire.capture.model import CaptureIssue, FlowClosed, MissingBytes, NonKafkaConnection, StreamData
from tests.support.capture_model.frame_extractor import FrameExtractor

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kwire.capture.model import Flow, Frame, FrameEvent, StreamEvent, StreamGap
    from kwire.capture.options import Options
    from kwire.capture.tls.key_log import KeyLog
    from kwire.capture.tls.tls_session import TlsSession


def extract_frames(
    events: Iterable[StreamEvent | CaptureIssue], options: Options, keys: KeyLog | None = None
) -> Iterator[FrameEvent | CaptureIssue]:
    """The frames of all Kafka connections; each connection ends with its `FlowClosed`.

    Args: keys: the secrets of TLS connections.
    """
    classifier = ConnectionClassifier(options, keys)
    for event in events:
        if isinstance(event, CaptureIssue):
            yield event
        else:
            yield from classifier.take_event(event)


class ConnectionClassifier:
    """Classifies the open connections as Kafka, TLS or other, and extracts frames of Kafka connections."""

    def __init__(self, options: Options, keys: KeyLog | None = None) -> None:
        """`keys` are the secrets of TLS connections."""
        self._options = options
        self._keys = keys
        self._connections: dict[Flow, _Connection] = {}
        self._budget = _MemoryBudget()

    def take_event(self, event: StreamEvent) -> Iterator[FrameEvent]:
        """The frames that the next event of any connection completes. A closed connection has its `kind`."""
        connection = self._connections.get(event.flow)
        if connection is None:
            connection = _Connection(event.flow, self._options, self._keys, self._budget)
            self._connections[event.flow] = connection
        if isinstance(event, FlowClosed):
            del self._connections[event.flow]
            yield from connection.close(event)
        else:
            yield from connection.take_event(event)


class _MemoryBudget:
    """Bytes that all undecided connections hold, and those of incomplete frames of the others."""

    def __init__(self) -> None:
        self.undecided = UndecidedBudget()
        self.partial_frames = PartialFrameBudget()


class _Connection:
    """One connection: undecided until one side shows a request. Then it has two frame extractors, or is not Kafka."""

    def __init__(self, flow: Flow, options: Options, keys: KeyLog | None, budget: _MemoryBudget) -> None:
        self._flow = flow
        self._budget = budget
        self._options = options
        self._keys = keys
        self._tls: TlsSession | None = None
        self._extractors: list[FrameExtractor | None] = [None, None]
        self._is_kafka = False
        self._detection = ClientDetection(
            flow, DetectionSettings(options.ports, options.frame_size_max), budget.undecided
        )
        self._non_kafka: NonKafkaConnection | None = None
        self._is_excluded = is_excluded(flow.ends, options)
        self._captured_size = 0

    def take_event(self, event: StreamData | MissingBytes) -> Iterator[FrameEvent]:
        """The frames that one event of this connection completes."""
        if self._is_excluded:
            return
        if isinstance(event, StreamData):
            self._captured_size += len(event.payload)
        yield from self._read_event(event)

    def _read_event(self, event: StreamData | MissingBytes) -> Iterator[FrameEvent]:
        if self._non_kafka is not None:
            self._detection.skip(event)
        elif self._tls is not None:
            for plain_event in self._tls.process_event(event):
                yield from self._take_plain_event(plain_event)
            if self._tls.failure is not None and not self._is_kafka:
                self._stop_tls(event.ts, self._tls.failure)
        else:
            yield from self._take_plain_event(event)

    def close(self, closed: FlowClosed) -> Iterator[FrameEvent]:
        """The last frames of the connection. A connection that is still undecided is not Kafka."""
        detection = self._detection
        if detection.held_size and self._flow.client is None and self._tls is None:
            tls = detection.find_tls()
            yield from self._start_tls(tls) if tls is not None else ()
        if self._tls is not None and self._non_kafka is None:
            for plain_event in self._tls.close():
                yield from self._take_plain_event(plain_event)
            if not self._is_kafka and self._non_kafka is None and not detection.held_size:
                self._stop_tls(closed.ts, self._tls.failure or "it carries no data")
        if detection.held_size and self._non_kafka is None:
            self._flow.client = detection.find_client()
            yield from self._start_kafka() if self._flow.client is not None else ()
        if self._is_kafka:
            for extractor in self._extractors:
                if extractor is not None:
                    yield from extractor.close(closed.ts)
        elif self._non_kafka is not None:
            yield self._final_description(self._non_kafka)
        elif detection.held_size:
            self._flow.kind = "not_kafka"
            yield NonKafkaConnection(self._flow, "not_kafka", detection.first_ts, NO_REQUEST, self._captured_size)
            detection.release()
        if self._flow.kind is None:
            self._flow.kind = "no_data"
        yield closed

    def _take_plain_event(self, event: StreamData | MissingBytes) -> Iterator[FrameEvent]:
        """Bytes without TLS, or decrypted."""
        if self._is_kafka:
            yield from self._extract(event)
            return
        if self._non_kafka is not None:
            self._detection.skip(event)
            return
        non_kafka = self._detection.add(event, may_be_tls=self._tls is None)
        if non_kafka is not None and non_kafka.kind == "tls" and self._tls is None:
            yield from self._start_tls(non_kafka)
        elif non_kafka is not None:
            self._stop(non_kafka)
        elif self._flow.client is not None:
            yield from self._start_kafka()

    def _start_tls(self, non_kafka: NonKafkaConnection) -> Iterator[FrameEvent]:
        """Decrypt the connection if there may be secrets for it; otherwise it is not read."""
        self._flow.is_tls = True
        keys = self._keys
        if keys is None or not may_decrypt(keys):
            self._stop(non_kafka)
            return
        from kwire.capture.tls.tls_session import TlsSession

        self._tls = TlsSession(self._flow, keys)
        held, self._detection.first_bytes = self._detection.release(), [b"", b""]
        for event in held:
            yield from self._read_event(event)

    def _stop_tls(self, ts: int, why: str) -> None:
        self._stop(NonKafkaConnection(self._flow, "tls", ts, TLS_FAILED.format(why), 0))

    def _stop(self, non_kafka: NonKafkaConnection) -> None:
        """Skip the rest of this connection; its end has one outcome with its size."""
        self._non_kafka = non_kafka
        self._flow.kind = non_kafka.kind
        for event in self._detection.release():
            self._detection.skip(event)

    def _final_description(self, non_kafka: NonKafkaConnection) -> NonKafkaConnection:
        """The outcome of a connection that is not read, with the size of the whole connection."""
        detail = non_kafka.detail
        if non_kafka.kind == "tls" and self._tls is None:
            detail = describe_tls(detail, self._detection.first_bytes)
        return non_kafka._replace(detail=detail, size=self._captured_size)

    def _start_kafka(self) -> Iterator[FrameEvent]:
        self._is_kafka = True
        self._flow.kind = "kafka"
        for event in self._detection.release():
            yield from self._extract(event)

    def _extract(self, event: StreamData | MissingBytes) -> Iterator[Frame | StreamGap]:
        extractor = self._extractors[event.side]
        if extractor is None:
            # Created with the first bytes, since their position is not known earlier.
            extractor = self._extractors[event.side] = FrameExtractor(
                self._flow,
                self._budget.partial_frames,
                is_request=event.side == self._flow.client,
                size_max=self._options.frame_size_max,
                is_start_known=self._flow.starts_known[event.side],
            )
        return extractor.take_data(event) if isinstance(event, StreamData) else extractor.take_gap(event)
