"""The values that travel from room to room, the damaged ones included."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple


class CaptureError(ValueError):
    """The input is no capture at all. Damage inside a capture is a `Trouble`, a `Gap` or an issue of a row instead."""


class LiveError(CaptureError):
    """The interface cannot be read: there is none, it is not allowed, or not on this system. The message helps on."""


class Trouble(NamedTuple):
    """Something about the file or a packet that concerns no connection; `packets` have it."""

    kind: str
    detail: str
    packet: int
    ts: int
    packets: int = 1


class Packet(NamedTuple):
    """One captured packet. `size` is its length on the wire, of which `data` may be only the beginning."""

    number: int
    ts: int
    link: int
    data: bytes
    size: int


End = tuple[bytes, int]
"""Packed address and port."""


class Segment(NamedTuple):
    """One TCP segment. `missing` counts the payload bytes at its end that the capture did not keep (snaplen).

    `packet` is the number of the packet in its file, from 1; 0 where it is not known. What is made of it carries it on.
    `window` is as sent, before any scaling.
    """

    ts: int
    link: str
    source: End
    target: End
    seq: int
    ack: int
    flags: int
    payload: bytes
    missing: int
    packet: int = 0
    window: int = 0


@dataclass(slots=True, eq=False)
class Flow:
    """One TCP connection. Side 0 and 1 index `ends`; `opener` is the side that sent the SYN, where that was seen.

    `starts_known` tells for each side whether its first byte is really its first, `starts` the sequence number of that
    byte, from which offsets count.
    `awaited` counts, by correlation id, the requests without an answer yet: pairing writes it, and framing looks there
    when it must find the next response behind a gap.
    """

    ends: tuple[End, End]
    epoch: int
    link: str
    opener: int | None = None
    client: int | None = None
    starts_known: list[bool] = field(default_factory=lambda: [False, False])
    starts: list[int] = field(default_factory=lambda: [0, 0])
    awaited: dict[int, int] = field(default_factory=dict)
    is_tls: bool = False
    kind: str | None = None
    """`kafka`, `tls`, `not_kafka` or `no_data`, once that is settled; at the end of the connection it always is."""

    @property
    def client_side(self) -> int:
        """The side that sends requests, or that seems to, as long as nobody knows."""
        return self.client if self.client is not None else (self.opener or 0)


class Data(NamedTuple):
    """Bytes of one side of a connection, in order. `offset` counts from the first byte of that side that was seen."""

    flow: Flow
    side: int
    ts: int
    offset: int
    payload: bytes
    packet: int = 0


class Gap(NamedTuple):
    """Bytes that the capture lacks: `why` is `lost` (the packet was not captured) or `snaplen` (its end was cut).

    Inside TLS it may also be `tls`: the bytes are there, and do not open.
    """

    flow: Flow
    side: int
    ts: int
    offset: int
    size: int
    why: str


class Closed(NamedTuple):
    """Nothing more will come of this connection: `why` is `fin`, `rst`, `reuse`, `quiet` or `end` (of the capture)."""

    flow: Flow
    ts: int
    why: str


StreamEvent = Data | Gap | Closed


class Frame(NamedTuple):
    """One Kafka frame without its length field.

    `data` is the frame, or what precedes the first missing byte of it; `size` is the length that the frame states.
    `damage` is None for a whole frame, else `gap`, `snaplen`, `end` or `much`. `packet` is the one in which it begins.
    """

    flow: Flow
    is_request: bool
    ts: int
    end_ts: int
    offset: int
    size: int
    data: bytes
    damage: str | None
    packet: int = 0


class Lost(NamedTuple):
    """A stretch of a stream that no frame could be read from, and why."""

    flow: Flow
    is_request: bool
    ts: int
    offset: int
    missing: int
    skipped: int
    kind: str
    detail: str


class Foreign(NamedTuple):
    """A connection that is not read: `kind` is `tls` or `not_kafka`. Its `size` bytes were passed over."""

    flow: Flow
    kind: str
    ts: int
    detail: str
    size: int


FrameEvent = Frame | Lost | Foreign | Closed


class Issue(NamedTuple):
    """One odd thing about a row. `side` is `request`, `response` or `capture`; `at` a byte offset in that side."""

    kind: str
    side: str
    path: str
    at: int | None
    detail: str

    def as_dict(self) -> dict[str, object]:
        """The issue as rows carry it."""
        return self._asdict()
