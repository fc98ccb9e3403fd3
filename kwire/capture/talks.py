"""Which connections are Kafka, and which side of them is the client: their streams become frames."""

from __future__ import annotations

import ipaddress
from functools import lru_cache
from typing import TYPE_CHECKING

from kwire.capture.framing import Assembler
from kwire.capture.looking import REQUEST_HEAD, is_certain_request, is_request, is_tls
from kwire.capture.values import Closed, Data, Flow, Foreign, Frame, FrameEvent, Gap, Lost, StreamEvent, Trouble

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kwire.capture.options import Options

# A connection that has shown so many bytes without a plausible request is not Kafka.
UNDECIDED_SIZE_MAX = 4 * 1024 * 1024


def frames(events: Iterable[StreamEvent | Trouble], options: Options) -> Iterator[FrameEvent | Trouble]:
    """The frames of all Kafka connections; each connection ends with its `Closed`."""
    talks: dict[Flow, _Talk] = {}
    for event in events:
        if isinstance(event, Trouble):
            yield event
            continue
        talk = talks.get(event.flow)
        if talk is None:
            talk = talks[event.flow] = _Talk(event.flow, options)
        if isinstance(event, Closed):
            del talks[event.flow]
            yield from talk.close(event)
        else:
            yield from talk.take(event)


@lru_cache(maxsize=4096)
def address(packed: bytes) -> str:
    """An IP address as text."""
    return str(ipaddress.ip_address(packed))


class _Talk:
    """One connection: undecided until a side has shown a request, then two assemblers, or foreign."""

    def __init__(self, flow: Flow, options: Options) -> None:
        self._flow = flow
        self._options = options
        self._sides: list[Assembler | None] = [None, None]
        self._is_kafka = False
        self._client = _client_by_port(flow, options.ports)
        self._is_foreign = bool(options.ports) and not any(end[1] in options.ports for end in flow.ends)
        self._held: list[Data | Gap] = []
        self._held_size = 0
        self._first: list[bytes] = [b"", b""]

    def take(self, event: Data | Gap) -> Iterator[FrameEvent]:
        """One event of this connection."""
        if self._is_foreign:
            return
        if self._is_kafka:
            yield from self._pass_on(event)
            return
        self._held.append(event)
        if not isinstance(event, Data):
            return
        self._held_size += len(event.payload)
        foreign = self._decide(event)
        if foreign is not None:
            self._is_foreign = True
            self._held.clear()
            yield foreign
        elif self._flow.client is not None:
            yield from self._begin()

    def close(self, closed: Closed) -> Iterator[FrameEvent]:
        """The connection's end; one that never showed what it is, is not Kafka."""
        only_answers = self._client is not None and not self._first[self._client]
        if self._held_size and only_answers and not self._is_foreign:
            # Only the broker's side was captured: the port alone says what it is.
            self._flow.client = self._client
            yield from self._begin()
        if self._is_kafka:
            for side in self._sides:
                if side is not None:
                    yield from side.close(closed.ts)
        elif self._held_size and not self._is_foreign:
            yield Foreign(self._flow, "not_kafka", self._held[0].ts, "the connection shows no plausible request")
        yield closed

    def _decide(self, event: Data) -> Foreign | None:
        """Look at what just came: sets the flow's client, or says why it is foreign, or leaves it open."""
        flow, side = self._flow, event.side
        client = self._client if self._client is not None else flow.opener
        # The first bytes of each side, which may come in several packets.
        first = self._first[side]
        if len(first) < REQUEST_HEAD:
            first = self._first[side] = first + event.payload[: 4 * REQUEST_HEAD]
        if is_tls(first) or (flow.opener is None and is_tls(event.payload[:5])):
            return Foreign(flow, "tls", event.ts, "the connection speaks TLS; its content cannot be read")
        if client is None or not flow.starts_known[client] or isinstance(self._held[0], Gap):
            # Where the first frame begins is not known; a port that the user named needs no more evidence.
            if self._client is not None:
                flow.client = self._client
            elif client in {None, side} and is_certain_request(event.payload, 0, self._options.frame_size_max):
                flow.client = side
        elif side == client and len(first) >= REQUEST_HEAD:
            if not self._is_request(first, event.payload):
                return Foreign(flow, "not_kafka", event.ts, "its first bytes are no Kafka request")
            flow.client = client
        if flow.client is None and self._held_size > UNDECIDED_SIZE_MAX:
            return Foreign(flow, "not_kafka", event.ts, "the connection shows no plausible request")
        return None

    def _is_request(self, first: bytes, payload: bytes) -> bool:
        """A length is enough where the user named the port; else the client id must be text, or all of it decode."""
        size_max = self._options.frame_size_max
        if self._options.ports:
            return 0 <= int.from_bytes(first[:4], "big", signed=True) <= size_max
        return is_request(first, 0, size_max) or is_certain_request(payload, 0, size_max)

    def _begin(self) -> Iterator[FrameEvent]:
        self._is_kafka = True
        held, self._held, self._held_size = self._held, [], 0
        for event in held:
            yield from self._pass_on(event)

    def _pass_on(self, event: Data | Gap) -> Iterator[Frame | Lost]:
        side = self._sides[event.side]
        if side is None:
            # Made with the first bytes, for only then is it known where they began.
            side = self._sides[event.side] = Assembler(
                self._flow,
                is_request=event.side == self._flow.client,
                size_max=self._options.frame_size_max,
                is_start_known=self._flow.starts_known[event.side],
            )
        return side.data(event) if isinstance(event, Data) else side.gap(event)


def _client_by_port(flow: Flow, ports: frozenset[int]) -> int | None:
    """The client's side by the broker's port; None when that cannot tell."""
    is_broker = [end[1] in ports for end in flow.ends]
    return is_broker.index(False) if is_broker.count(True) == 1 else None
