"""Detect which connections are Kafka and which side is the client, and extract their frames."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.capture.kafka import heuristics
from kwire.capture.kafka.frame_extractor import FrameExtractor
from kwire.capture.kafka.frame_resync import PartialFrameBudget
from kwire.capture.model import CaptureIssue, FlowClosed, MissingBytes, NonKafkaConnection, StreamData
from kwire.capture.optional_dependencies import has_cryptography

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kwire.capture.model import Flow, Frame, FrameEvent, StreamEvent, StreamGap
    from kwire.capture.options import Options
    from kwire.capture.tls.key_log import KeyLog
    from kwire.capture.tls.tls_session import TlsSession

# A connection with this many bytes and no plausible request is not Kafka.
UNDECIDED_SIZE_MAX = 4 * 1024 * 1024
# Limit for all undecided connections together. Beyond it the reduced size is the limit of each connection.
UNDECIDED_TOTAL_MAX = 256 * 1024 * 1024
_UNDECIDED_SIZE_REDUCED = 64 * 1024
# Limit of packets and gaps, which need memory even if they contain few bytes.
_UNDECIDED_COUNT_MAX = 65_536
# If requests do not begin where packets begin, requests are searched for at this size, and again each time that the
# size has grown by the factor.
_SEARCH_SIZE = 64 * 1024
_SEARCH_GROWTH = 4
_TLS_HEADER_SIZE = 5
_NO_REQUEST = "the connection shows no plausible request"
_TLS_NOT_READ = "the connection speaks TLS; its content cannot be read"


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

    def frame_extractors(self, flow: Flow) -> list[FrameExtractor | None]:
        """The frame extractors of both sides of a connection; None for a side without frames, or without frames yet."""
        connection = self._connections.get(flow)
        return [None, None] if connection is None else connection.extractors

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


def is_excluded(flow: Flow, options: Options) -> bool:
    """Whether the connection has none of the ports that the user named; it has no rows at all."""
    return bool(options.ports) and not any(end[1] in options.ports for end in flow.ends)


class _MemoryBudget:
    """Bytes that all undecided connections hold, and those of incomplete frames of the others."""

    def __init__(self) -> None:
        self.undecided_size = 0
        self.partial_frames = PartialFrameBudget()


class _Connection:
    """One connection: undecided until one side shows a request. Then it has two frame extractors, or is not Kafka."""

    def __init__(self, flow: Flow, options: Options, keys: KeyLog | None, budget: _MemoryBudget) -> None:
        self._flow = flow
        self._budget = budget
        self._options = options
        self._keys = keys
        self._tls: TlsSession | None = None
        self.extractors: list[FrameExtractor | None] = [None, None]
        self._is_kafka = False
        self._client_by_port = _find_client_by_port(flow, options.ports)
        self._non_kafka: NonKafkaConnection | None = None
        self._is_excluded = is_excluded(flow, options)
        self._captured_size = 0
        self._buffer: list[StreamData | MissingBytes] = []
        self._buffer_size = 0
        self._next_search_size = _SEARCH_SIZE
        self._first_bytes: list[bytes] = [b"", b""]

    def take_event(self, event: StreamData | MissingBytes) -> Iterator[FrameEvent]:
        """The frames that one event of this connection completes."""
        if self._is_excluded:
            return
        if isinstance(event, StreamData):
            self._captured_size += len(event.payload)
        yield from self._read_event(event)

    def _read_event(self, event: StreamData | MissingBytes) -> Iterator[FrameEvent]:
        if self._non_kafka is not None:
            self._skip(event)
        elif self._tls is not None:
            for plain_event in self._tls.process_event(event):
                yield from self._take_plain_event(plain_event)
            if self._tls.failure is not None and not self._is_kafka:
                self._stop_tls(event.ts, self._tls.failure)
        else:
            yield from self._take_plain_event(event)

    def close(self, closed: FlowClosed) -> Iterator[FrameEvent]:
        """The last frames of the connection. A connection that is still undecided is not Kafka."""
        late_tls = self._detect_late_tls() if self._buffer_size and self._flow.client is None else None
        if late_tls is not None:
            yield from self._start_tls(late_tls)
        if self._tls is not None and self._non_kafka is None:
            for plain_event in self._tls.close():
                yield from self._take_plain_event(plain_event)
            if not self._is_kafka and self._non_kafka is None and not self._buffer_size:
                self._stop_tls(closed.ts, self._tls.failure or "it carries no data")
        if self._buffer_size and self._non_kafka is None:
            self._flow.client = self._find_client_finally()
            yield from self._start_kafka() if self._flow.client is not None else ()
        if self._is_kafka:
            for extractor in self.extractors:
                if extractor is not None:
                    yield from extractor.close(closed.ts)
        elif self._non_kafka is not None:
            yield self._final_description(self._non_kafka)
        elif self._buffer_size:
            ts = self._buffer[0].ts
            self._flow.kind = "not_kafka"
            yield NonKafkaConnection(self._flow, "not_kafka", ts, _NO_REQUEST, self._captured_size)
            self._release_buffer()
        if self._flow.kind is None:
            self._flow.kind = "no_data"
        yield closed

    def _take_plain_event(self, event: StreamData | MissingBytes) -> Iterator[FrameEvent]:
        """Bytes without TLS, or decrypted."""
        if self._is_kafka:
            yield from self._extract(event)
            return
        if self._non_kafka is not None:
            self._skip(event)
            return
        self._buffer.append(event)
        size = len(event.payload) if isinstance(event, StreamData) else 0
        self._buffer_size += size
        self._budget.undecided_size += size
        non_kafka = self._classify(event) if isinstance(event, StreamData) else None
        if non_kafka is None and self._flow.client is None and self._buffer_size > self._next_search_size:
            self._next_search_size *= _SEARCH_GROWTH
            self._flow.client = self._find_client_in_buffer()
        if non_kafka is None and self._flow.client is None and self._is_over_limit():
            non_kafka = self._detect_late_tls()
            if non_kafka is None:
                self._flow.client = self._find_client_finally()
            if non_kafka is None and self._flow.client is None:
                non_kafka = NonKafkaConnection(self._flow, "not_kafka", event.ts, _NO_REQUEST, 0)
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
        if keys is None or not (len(keys) or keys.may_grow) or not has_cryptography():
            self._stop(non_kafka)
            return
        from kwire.capture.tls.tls_session import TlsSession

        self._tls = TlsSession(self._flow, keys)
        buffered, self._first_bytes = self._release_buffer(), [b"", b""]
        for event in buffered:
            yield from self._read_event(event)

    def _stop_tls(self, ts: int, why: str) -> None:
        detail = f"the connection speaks TLS and cannot be read: {why}"
        self._stop(NonKafkaConnection(self._flow, "tls", ts, detail, 0))

    def _stop(self, non_kafka: NonKafkaConnection) -> None:
        """Skip the rest of this connection; its end has one outcome with its size."""
        self._non_kafka = non_kafka
        self._flow.kind = non_kafka.kind
        for event in self._release_buffer():
            self._skip(event)

    def _release_buffer(self) -> list[StreamData | MissingBytes]:
        """Empty the buffer of events that came before the connection was classified, and return them."""
        events, self._buffer = self._buffer, []
        self._budget.undecided_size -= self._buffer_size
        self._buffer_size = 0
        return events

    def _skip(self, event: StreamData | MissingBytes) -> None:
        if isinstance(event, StreamData):
            self._first_bytes[event.side] = self._first_bytes[event.side] or event.payload[:_TLS_HEADER_SIZE]

    def _final_description(self, non_kafka: NonKafkaConnection) -> NonKafkaConnection:
        """The outcome of a connection that is not read, with the size of the whole connection."""
        detail = non_kafka.detail
        is_half_tls = [heuristics.is_tls(first) for first in self._first_bytes].count(True) == 1
        if non_kafka.kind == "tls" and self._tls is None and is_half_tls:
            detail += "; nothing answered in TLS, as where a TLS client speaks to a plaintext port"
        return non_kafka._replace(detail=detail, size=self._captured_size)

    def _classify(self, event: StreamData) -> NonKafkaConnection | None:
        """Classify by the latest bytes: set the client of the flow, or return why it is not Kafka, or do neither."""
        flow, side = self._flow, event.side
        size_max = self._options.frame_size_max
        client = self._client_by_port if self._client_by_port is not None else flow.opener
        # The first bytes of each side may be in several packets.
        first = self._first_bytes[side]
        if len(first) < heuristics.REQUEST_HEAD:
            first = self._first_bytes[side] = first + event.payload[: 4 * heuristics.REQUEST_HEAD]
        if heuristics.is_tls(first) or (flow.opener is None and heuristics.is_tls(event.payload[:_TLS_HEADER_SIZE])):
            return NonKafkaConnection(flow, "tls", event.ts, _TLS_NOT_READ, 0)
        if client is None or not flow.starts_known[client] or isinstance(self._buffer[0], MissingBytes):
            # The position of the first frame is unknown. A port that the user named needs no more evidence.
            if self._client_by_port is not None:
                flow.client = self._client_by_port
            elif client in {None, side} and heuristics.is_certain_request(event.payload, 0, size_max):
                flow.client = side
        elif side == client and len(first) >= heuristics.REQUEST_HEAD:
            if not self._is_request(first, event.payload):
                return NonKafkaConnection(flow, "not_kafka", event.ts, "its first bytes are no Kafka request", 0)
            flow.client = client
        return None

    def _find_client_finally(self) -> int | None:
        """The client's side when no more bytes are awaited."""
        # If only the broker's side was captured, the port is the only evidence.
        return self._client_by_port if self._has_only_responses else self._find_client_in_buffer()

    @property
    def _has_only_responses(self) -> bool:
        """Whether the broker is known by its port, and no bytes of the client were captured."""
        return self._client_by_port is not None and not self._first_bytes[self._client_by_port]

    def _detect_late_tls(self) -> NonKafkaConnection | None:
        """Whether the buffer contains TLS, of a connection whose capture begins inside a record."""
        if self._tls is not None or self._flow.opener is not None:
            return None
        for side in (0, 1):
            payloads = [event.payload for event in self._buffer if isinstance(event, StreamData) and event.side == side]
            if heuristics.holds_tls(b"".join(payloads)):
                return NonKafkaConnection(self._flow, "tls", self._buffer[0].ts, _TLS_NOT_READ, 0)
        return None

    def _find_client_in_buffer(self) -> int | None:
        """The side whose bytes contain whole requests, of a connection whose capture begins inside a request."""
        flow = self._flow
        size_max = self._options.frame_size_max
        begins_late = bool(self._buffer) and isinstance(self._buffer[0], MissingBytes)
        if flow.opener is not None and flow.starts_known[flow.opener] and not begins_late:
            return None
        # The larger port is more often the client's. Responses of a broker may contain requests too, in records.
        sides = (0, 1) if flow.ends[0][1] > flow.ends[1][1] else (1, 0)
        for side in sides if flow.opener is None else (flow.opener,):
            if any(heuristics.holds_requests(run, size_max) for run in self._runs_without_gaps(side)):
                return side
        return None

    def _runs_without_gaps(self, side: int) -> Iterator[bytes]:
        """The buffered bytes of a side, in pieces without gaps."""
        run: list[bytes] = []
        for event in self._buffer:
            if event.side == side and isinstance(event, StreamData):
                run.append(event.payload)
            elif event.side == side:
                yield b"".join(run)
                run = []
        yield b"".join(run)

    def _is_over_limit(self) -> bool:
        is_total_small = self._budget.undecided_size <= UNDECIDED_TOTAL_MAX
        size_max = UNDECIDED_SIZE_MAX if is_total_small else _UNDECIDED_SIZE_REDUCED
        return self._buffer_size > size_max or len(self._buffer) > _UNDECIDED_COUNT_MAX

    def _is_request(self, first: bytes, payload: bytes) -> bool:
        """With a port from the user only the length is checked. Else the client id must be text, or all must decode."""
        size_max = self._options.frame_size_max
        if self._options.ports:
            return 0 <= int.from_bytes(first[:4], "big", signed=True) <= size_max
        return heuristics.is_request(first, 0, size_max) or heuristics.is_certain_request(payload, 0, size_max)

    def _start_kafka(self) -> Iterator[FrameEvent]:
        self._is_kafka = True
        self._flow.kind = "kafka"
        for event in self._release_buffer():
            yield from self._extract(event)

    def _extract(self, event: StreamData | MissingBytes) -> Iterator[Frame | StreamGap]:
        extractor = self.extractors[event.side]
        if extractor is None:
            # Created with the first bytes, since their position is not known earlier.
            extractor = self.extractors[event.side] = FrameExtractor(
                self._flow,
                self._budget.partial_frames,
                is_request=event.side == self._flow.client,
                size_max=self._options.frame_size_max,
                is_start_known=self._flow.starts_known[event.side],
            )
        return extractor.take_data(event) if isinstance(event, StreamData) else extractor.take_gap(event)


def _find_client_by_port(flow: Flow, ports: frozenset[int]) -> int | None:
    """The client's side by the broker's port; None if the ports do not decide it."""
    is_broker = [end[1] in ports for end in flow.ends]
    return is_broker.index(False) if is_broker.count(True) == 1 else None
