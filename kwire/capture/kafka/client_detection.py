"""Detect by the first bytes of a connection whether it is Kafka, and which side is the client."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kwire.capture.kafka import heuristics
from kwire.capture.model import Flow, MissingBytes, NonKafkaConnection, StreamData
from kwire.capture.optional_dependencies import has_cryptography
from kwire.capture.options import FRAME_SIZE_MAX

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kwire.capture.model import Endpoint
    from kwire.capture.options import Options
    from kwire.capture.tls.key_log import KeyLog

# A connection with this many bytes and no plausible request is not Kafka.
UNDECIDED_SIZE_MAX = 4 * 1024 * 1024
# Limit for all undecided connections together. Beyond it the reduced size is the limit of each connection.
UNDECIDED_TOTAL_MAX = 64 * 1024 * 1024
_UNDECIDED_SIZE_REDUCED = 64 * 1024
# Limit of packets and gaps, which need memory even if they contain few bytes.
_UNDECIDED_COUNT_MAX = 65_536
# If requests do not begin where packets begin, requests are searched for at this size, and again each time that the
# size has grown by the factor.
_SEARCH_SIZE = 64 * 1024
_SEARCH_GROWTH = 4
NO_REQUEST = "the connection shows no plausible request"
TLS_NOT_READ = "the connection speaks TLS; its content cannot be read"
TLS_FAILED = "the connection speaks TLS and cannot be read: {}"


def describe_tls(detail: str, first_bytes: Iterable[bytes]) -> str:
    """The detail of a TLS connection that was not decrypted. Args: first_bytes: of each side."""
    is_half_tls = [heuristics.is_tls(first) for first in first_bytes].count(True) == 1
    return detail + (
        "; nothing answered in TLS, as where a TLS client speaks to a plaintext port" if is_half_tls else ""
    )


def is_excluded(ends: tuple[Endpoint, Endpoint], options: Options) -> bool:
    """Whether a connection has none of the ports that the user named; it has no rows at all."""
    return bool(options.ports) and not any(end[1] in options.ports for end in ends)


def may_decrypt(keys: KeyLog) -> bool:
    """Whether these are, or will be, secrets of TLS connections, and can be used."""
    return (len(keys) > 0 or keys.may_grow) and has_cryptography()


class DetectionSettings(NamedTuple):
    """What decides which connections are Kafka. ports: those of brokers that the user named. size_max: of a frame."""

    ports: frozenset[int] = frozenset()
    size_max: int = FRAME_SIZE_MAX


DEFAULT_SETTINGS = DetectionSettings()


class UndecidedBudget:
    """The bytes that all undecided connections hold."""

    def __init__(self) -> None:
        """There are none."""
        self.size = 0


class ClientDetection:
    """Holds what a connection sends until one side shows a request: then that is the client, `flow.client`."""

    def __init__(self, flow: Flow, settings: DetectionSettings, budget: UndecidedBudget) -> None:
        """`flow` receives the client."""
        self._flow = flow
        self._has_ports = bool(settings.ports)
        self._size_max = settings.size_max
        self._budget = budget
        self._client_by_port = find_client_by_port(flow.ends, settings.ports)
        self._events: list[StreamData | MissingBytes] = []
        self.held_size = 0
        """The bytes that it holds."""
        self.first_bytes = [b"", b""]
        """Of each side, as many as show whether it is Kafka or TLS."""
        self._next_search_size = _SEARCH_SIZE

    @property
    def first_ts(self) -> int:
        """The time of what it holds first, nanoseconds."""
        return self._events[0].ts

    def add(self, event: StreamData | MissingBytes, *, may_be_tls: bool) -> NonKafkaConnection | None:
        """Add the next bytes of the connection. Returns: what it is if it is not Kafka.

        Args: may_be_tls: whether the bytes are not those inside of TLS.
        """
        flow = self._flow
        self._events.append(event)
        size = len(event.payload) if isinstance(event, StreamData) else 0
        self.held_size += size
        self._budget.size += size
        non_kafka = self._classify(event) if isinstance(event, StreamData) else None
        if non_kafka is None and flow.client is None and self.held_size > self._next_search_size:
            self._next_search_size *= _SEARCH_GROWTH
            flow.client = self._search_client()
        if non_kafka is None and flow.client is None and self._is_over_limit():
            non_kafka = self.find_tls() if may_be_tls else None
            if non_kafka is None:
                flow.client = self.find_client()
            if non_kafka is None and flow.client is None:
                non_kafka = NonKafkaConnection(flow, "not_kafka", event.ts, NO_REQUEST, 0)
        return non_kafka

    def find_tls(self) -> NonKafkaConnection | None:
        """What the connection is if it holds TLS, as where its capture begins inside a record."""
        if self._flow.opener is not None:
            return None
        for side in (0, 1):
            payloads = [event.payload for event in self._events if isinstance(event, StreamData) and event.side == side]
            if heuristics.holds_tls(b"".join(payloads)):
                return NonKafkaConnection(self._flow, "tls", self.first_ts, TLS_NOT_READ, 0)
        return None

    def find_client(self) -> int | None:
        """The client's side when no more bytes are awaited."""
        by_port = self._client_by_port
        if by_port is not None and not self.first_bytes[by_port]:
            # Only the broker's side was captured, so the port is the only evidence.
            return by_port
        return self._search_client()

    def release(self) -> list[StreamData | MissingBytes]:
        """Drop what it holds, and return it."""
        events, self._events = self._events, []
        self._budget.size -= self.held_size
        self.held_size = 0
        return events

    def skip(self, event: StreamData | MissingBytes) -> None:
        """Note the first bytes of a connection that is not read."""
        if isinstance(event, StreamData):
            self.first_bytes[event.side] = self.first_bytes[event.side] or event.payload[: heuristics.TLS_HEADER_SIZE]

    def _search_client(self) -> int | None:
        """The side whose bytes contain whole requests, of a connection whose capture begins inside a request."""
        flow = self._flow
        begins_late = bool(self._events) and isinstance(self._events[0], MissingBytes)
        if flow.opener is not None and flow.starts_known[flow.opener] and not begins_late:
            return None
        # The larger port is more often the client's. Responses of a broker may contain requests too, in records.
        sides = (0, 1) if flow.ends[0][1] > flow.ends[1][1] else (1, 0)
        for side in sides if flow.opener is None else (flow.opener,):
            if any(heuristics.holds_requests(run, self._size_max) for run in self._runs_without_gaps(side)):
                return side
        return None

    def _classify(self, event: StreamData) -> NonKafkaConnection | None:
        """Classify by the latest bytes: set the client of the flow, or return why it is not Kafka, or do neither."""
        flow, side = self._flow, event.side
        client = self._client_by_port if self._client_by_port is not None else flow.opener
        # The first bytes of each side may be in several packets.
        first = self.first_bytes[side]
        if len(first) < heuristics.REQUEST_HEAD:
            first = self.first_bytes[side] = first + event.payload[: 4 * heuristics.REQUEST_HEAD]
        begins_record = flow.opener is None and heuristics.is_tls(event.payload[: heuristics.TLS_HEADER_SIZE])
        if heuristics.is_tls(first) or begins_record:
            return NonKafkaConnection(flow, "tls", event.ts, TLS_NOT_READ, 0)
        if client is None or not flow.starts_known[client] or isinstance(self._events[0], MissingBytes):
            # The position of the first frame is unknown. A port that the user named needs no more evidence.
            if self._client_by_port is not None:
                flow.client = self._client_by_port
            elif client in {None, side} and heuristics.is_certain_request(event.payload, 0, self._size_max):
                flow.client = side
        elif side == client and len(first) >= heuristics.REQUEST_HEAD:
            if not self._is_request(first, event.payload):
                return NonKafkaConnection(flow, "not_kafka", event.ts, "its first bytes are no Kafka request", 0)
            flow.client = client
        return None

    def _runs_without_gaps(self, side: int) -> Iterator[bytes]:
        """The bytes of a side, in pieces without gaps."""
        run: list[bytes] = []
        for event in self._events:
            if event.side == side and isinstance(event, StreamData):
                run.append(event.payload)
            elif event.side == side:
                yield b"".join(run)
                run = []
        yield b"".join(run)

    def _is_over_limit(self) -> bool:
        is_total_small = self._budget.size <= UNDECIDED_TOTAL_MAX
        size_max = UNDECIDED_SIZE_MAX if is_total_small else _UNDECIDED_SIZE_REDUCED
        return self.held_size > size_max or len(self._events) > _UNDECIDED_COUNT_MAX

    def _is_request(self, first: bytes, payload: bytes) -> bool:
        """With a port from the user only the length is checked. Else the client id must be text, or all must decode."""
        if self._has_ports:
            return 0 <= int.from_bytes(first[:4], "big", signed=True) <= self._size_max
        return heuristics.is_request(first, 0, self._size_max) or heuristics.is_certain_request(
            payload, 0, self._size_max
        )


def find_client_by_port(ends: tuple[Endpoint, Endpoint], ports: frozenset[int]) -> int | None:
    """The client's side by the broker's port; None if the ports do not decide it."""
    is_broker = [end[1] in ports for end in ends]
    return is_broker.index(False) if is_broker.count(True) == 1 else None
