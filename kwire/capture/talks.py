"""Which connections are Kafka, and which side of them is the client: their streams become frames."""

from __future__ import annotations

import ipaddress
from functools import lru_cache
from typing import TYPE_CHECKING

from kwire.capture.extras import has_cryptography
from kwire.capture.framing import Assembler
from kwire.capture.looking import REQUEST_HEAD, holds_requests, holds_tls, is_certain_request, is_request, is_tls
from kwire.capture.search import Begun
from kwire.capture.values import Closed, Data, Flow, Foreign, Frame, FrameEvent, Gap, Lost, StreamEvent, Trouble

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kwire.capture.keylog import KeyLog
    from kwire.capture.options import Options
    from kwire.capture.tls import Session

# A connection that has shown so many bytes without a plausible request is not Kafka.
UNDECIDED_SIZE_MAX = 4 * 1024 * 1024
# What all undecided connections may hold together; beyond it, each no more than the lesser size.
UNDECIDED_TOTAL_MAX = 256 * 1024 * 1024
_UNDECIDED_SIZE_LESSER = 64 * 1024
# The same in packets and gaps, which take memory even where they bring few bytes.
_UNDECIDED_COUNT_MAX = 65_536
# Where packets and requests do not begin together, requests are sought when so much has come, and each time that it has
# become so many times as much.
_SOUGHT_SIZE = 64 * 1024
_SOUGHT_AGAIN = 4
_TLS_HEAD = 5
_NO_REQUEST = "the connection shows no plausible request"
_TLS_CLOSED = "the connection speaks TLS; its content cannot be read"


def frames(
    events: Iterable[StreamEvent | Trouble], options: Options, keys: KeyLog | None = None
) -> Iterator[FrameEvent | Trouble]:
    """The frames of all Kafka connections; each connection ends with its `Closed`.

    Args: keys: the secrets of connections that speak TLS.
    """
    talks = Talks(options, keys)
    for event in events:
        if isinstance(event, Trouble):
            yield event
        else:
            yield from talks.take(event)


@lru_cache(maxsize=4096)
def address(packed: bytes) -> str:
    """An IP address as text."""
    return str(ipaddress.ip_address(packed))


class Talks:
    """All connections that are open."""

    def __init__(self, options: Options, keys: KeyLog | None = None) -> None:
        """`keys` are the secrets of connections that speak TLS."""
        self._options = options
        self._keys = keys
        self._talks: dict[Flow, _Talk] = {}
        self._budget = _Budget()

    def sides(self, flow: Flow) -> list[Assembler | None]:
        """What cuts the two sides of a connection into frames; None for a side whose bytes are not cut, or not yet."""
        talk = self._talks.get(flow)
        return [None, None] if talk is None else talk.sides

    def take(self, event: StreamEvent) -> Iterator[FrameEvent]:
        """What the next event of any connection completes. A connection that has closed knows its `kind`."""
        talk = self._talks.get(event.flow)
        if talk is None:
            talk = self._talks[event.flow] = _Talk(event.flow, self._options, self._keys, self._budget)
        if isinstance(event, Closed):
            del self._talks[event.flow]
            yield from talk.close(event)
        else:
            yield from talk.take(event)


def is_excluded(flow: Flow, options: Options) -> bool:
    """Whether the user named ports, and the connection has none of them: then it is not even told."""
    return bool(options.ports) and not any(end[1] in options.ports for end in flow.ends)


class _Budget:
    """How much all undecided connections hold; and the others, of frames that are not whole."""

    def __init__(self) -> None:
        self.size = 0
        self.begun = Begun()


class _Talk:
    """One connection: undecided until a side has shown a request, then two assemblers, or foreign."""

    def __init__(self, flow: Flow, options: Options, keys: KeyLog | None, budget: _Budget) -> None:
        self._flow = flow
        self._budget = budget
        self._options = options
        self._keys = keys
        self._tls: Session | None = None
        self.sides: list[Assembler | None] = [None, None]
        self._is_kafka = False
        self._client = _client_by_port(flow, options.ports)
        self._foreign: Foreign | None = None
        self._is_excluded = is_excluded(flow, options)
        self._passed_over = 0
        self._held: list[Data | Gap] = []
        self._held_size = 0
        self._seek_at = _SOUGHT_SIZE
        self._first: list[bytes] = [b"", b""]

    def take(self, event: Data | Gap) -> Iterator[FrameEvent]:
        """One event of this connection."""
        if self._is_excluded:
            return
        if self._foreign is not None:
            self._pass_over(event)
        elif self._tls is not None:
            for each in self._tls.take(event):
                yield from self._read(each)
            if self._tls.failure is not None and not self._is_kafka:
                self._give_up_tls(event.ts, self._tls.failure)
        else:
            yield from self._read(event)

    def close(self, closed: Closed) -> Iterator[FrameEvent]:
        """The connection's end; one that never showed what it is, is not Kafka."""
        within = self._tls_within() if self._held_size and self._flow.client is None else None
        if within is not None:
            yield from self._begin_tls(within)
        if self._tls is not None and self._foreign is None:
            for each in self._tls.close():
                yield from self._read(each)
            if not self._is_kafka and self._foreign is None and not self._held_size:
                self._give_up_tls(closed.ts, self._tls.failure or "it carries no data")
        if self._held_size and self._foreign is None:
            self._flow.client = self._client_at_last()
            yield from self._begin() if self._flow.client is not None else ()
        if self._is_kafka:
            for side in self.sides:
                if side is not None:
                    yield from side.close(closed.ts)
        elif self._foreign is not None:
            yield self._told(self._foreign)
        elif self._held_size:
            ts = self._held[0].ts
            self._flow.kind = "not_kafka"
            yield Foreign(self._flow, "not_kafka", ts, _NO_REQUEST, self._held_size)
            self._release()
        if self._flow.kind is None:
            self._flow.kind = "no_data"
        yield closed

    def _read(self, event: Data | Gap) -> Iterator[FrameEvent]:
        """An event of bytes that are not TLS, or not any more."""
        if self._is_kafka:
            yield from self._pass_on(event)
            return
        if self._foreign is not None:
            self._pass_over(event)
            return
        self._held.append(event)
        size = len(event.payload) if isinstance(event, Data) else 0
        self._held_size += size
        self._budget.size += size
        foreign = self._decide(event) if isinstance(event, Data) else None
        if foreign is None and self._flow.client is None and self._held_size > self._seek_at:
            self._seek_at *= _SOUGHT_AGAIN
            self._flow.client = self._client_within()
        if foreign is None and self._flow.client is None and self._is_undecided_for_long():
            foreign = self._tls_within()
            if foreign is None:
                self._flow.client = self._client_at_last()
            if foreign is None and self._flow.client is None:
                foreign = Foreign(self._flow, "not_kafka", event.ts, _NO_REQUEST, 0)
        if foreign is not None and foreign.kind == "tls" and self._tls is None:
            yield from self._begin_tls(foreign)
        elif foreign is not None:
            self._leave(foreign)
        elif self._flow.client is not None:
            yield from self._begin()

    def _begin_tls(self, foreign: Foreign) -> Iterator[FrameEvent]:
        """Open the connection where there may be secrets for it; else it stays closed."""
        self._flow.is_tls = True
        keys = self._keys
        if keys is None or not (len(keys) or keys.may_grow) or not has_cryptography():
            self._leave(foreign)
            return
        from kwire.capture.tls import Session

        self._tls = Session(self._flow, keys)
        held, self._first = self._release(), [b"", b""]
        for event in held:
            yield from self.take(event)

    def _give_up_tls(self, ts: int, why: str) -> None:
        size = self._tls.size if self._tls is not None else 0
        self._leave(Foreign(self._flow, "tls", ts, f"the connection speaks TLS and cannot be read: {why}", size))

    def _leave(self, foreign: Foreign) -> None:
        """Nothing of this connection is read; it is told at its end, with its size."""
        self._foreign = foreign
        self._flow.kind = foreign.kind
        for event in self._release():
            self._pass_over(event)

    def _release(self) -> list[Data | Gap]:
        """What was held until it was known what the connection is."""
        held, self._held = self._held, []
        self._budget.size -= self._held_size
        self._held_size = 0
        return held

    def _pass_over(self, event: Data | Gap) -> None:
        if isinstance(event, Data):
            self._passed_over += len(event.payload)
            self._first[event.side] = self._first[event.side] or event.payload[:_TLS_HEAD]

    def _told(self, foreign: Foreign) -> Foreign:
        """What there is to say of the connection at its end."""
        detail = foreign.detail
        if foreign.kind == "tls" and self._tls is None and [is_tls(each) for each in self._first].count(True) == 1:
            detail += "; nothing answered in TLS, as where a TLS client speaks to a plaintext port"
        return foreign._replace(detail=detail, size=foreign.size + self._passed_over)

    def _decide(self, event: Data) -> Foreign | None:
        """Look at what just came: sets the flow's client, or says why it is foreign, or leaves it open."""
        flow, side = self._flow, event.side
        client = self._client if self._client is not None else flow.opener
        # The first bytes of each side, which may come in several packets.
        first = self._first[side]
        if len(first) < REQUEST_HEAD:
            first = self._first[side] = first + event.payload[: 4 * REQUEST_HEAD]
        if is_tls(first) or (flow.opener is None and is_tls(event.payload[:5])):
            return Foreign(flow, "tls", event.ts, _TLS_CLOSED, 0)
        if client is None or not flow.starts_known[client] or isinstance(self._held[0], Gap):
            # Where the first frame begins is not known; a port that the user named needs no more evidence.
            if self._client is not None:
                flow.client = self._client
            elif client in {None, side} and is_certain_request(event.payload, 0, self._options.frame_size_max):
                flow.client = side
        elif side == client and len(first) >= REQUEST_HEAD:
            if not self._is_request(first, event.payload):
                return Foreign(flow, "not_kafka", event.ts, "its first bytes are no Kafka request", 0)
            flow.client = client
        return None

    def _client_at_last(self) -> int | None:
        """The client's side, now that nothing shows it in time."""
        # Where only the broker's side was captured, the port alone says what it is.
        return self._client if self._has_only_answers else self._client_within()

    @property
    def _has_only_answers(self) -> bool:
        """Whether the port says who the broker is, and nothing of the client was seen."""
        return self._client is not None and not self._first[self._client]

    def _tls_within(self) -> Foreign | None:
        """Whether what is held is TLS after all, of a connection that was captured from the middle of a record on."""
        if self._tls is not None or self._flow.opener is not None:
            return None
        for side in (0, 1):
            pieces = [each.payload for each in self._held if isinstance(each, Data) and each.side == side]
            if holds_tls(b"".join(pieces)):
                return Foreign(self._flow, "tls", self._held[0].ts, _TLS_CLOSED, 0)
        return None

    def _client_within(self) -> int | None:
        """The side whose bytes hold whole requests, of a connection that was captured from the middle of one on."""
        flow = self._flow
        begins_late = bool(self._held) and isinstance(self._held[0], Gap)
        if flow.opener is not None and flow.starts_known[flow.opener] and not begins_late:
            return None
        # The larger port is more often the client's; a broker's answers may hold requests as well, in their records.
        sides = (0, 1) if flow.ends[0][1] > flow.ends[1][1] else (1, 0)
        for side in sides if flow.opener is None else (flow.opener,):
            if any(holds_requests(run, self._options.frame_size_max) for run in self._runs(side)):
                return side
        return None

    def _runs(self, side: int) -> Iterator[bytes]:
        """What is held of a side, in pieces without gaps."""
        run: list[bytes] = []
        for each in self._held:
            if each.side == side and isinstance(each, Data):
                run.append(each.payload)
            elif each.side == side:
                yield b"".join(run)
                run = []
        yield b"".join(run)

    def _is_undecided_for_long(self) -> bool:
        size_max = UNDECIDED_SIZE_MAX if self._budget.size <= UNDECIDED_TOTAL_MAX else _UNDECIDED_SIZE_LESSER
        return self._held_size > size_max or len(self._held) > _UNDECIDED_COUNT_MAX

    def _is_request(self, first: bytes, payload: bytes) -> bool:
        """A length is enough where the user named the port; else the client id must be text, or all of it decode."""
        size_max = self._options.frame_size_max
        if self._options.ports:
            return 0 <= int.from_bytes(first[:4], "big", signed=True) <= size_max
        return is_request(first, 0, size_max) or is_certain_request(payload, 0, size_max)

    def _begin(self) -> Iterator[FrameEvent]:
        self._is_kafka = True
        self._flow.kind = "kafka"
        for event in self._release():
            yield from self._pass_on(event)

    def _pass_on(self, event: Data | Gap) -> Iterator[Frame | Lost]:
        side = self.sides[event.side]
        if side is None:
            # Made with the first bytes, for only then is it known where they began.
            side = self.sides[event.side] = Assembler(
                self._flow,
                self._budget.begun,
                is_request=event.side == self._flow.client,
                size_max=self._options.frame_size_max,
                is_start_known=self._flow.starts_known[event.side],
            )
        return side.data(event) if isinstance(event, Data) else side.gap(event)


def _client_by_port(flow: Flow, ports: frozenset[int]) -> int | None:
    """The client's side by the broker's port; None when that cannot tell."""
    is_broker = [end[1] in ports for end in flow.ends]
    return is_broker.index(False) if is_broker.count(True) == 1 else None
