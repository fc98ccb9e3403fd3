"""Values that the layers of the capture reader exchange: packets, segments, flows, frames, and reports of damage."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import lru_cache
from typing import NamedTuple


class CaptureError(ValueError):
    """The input is not a capture. Damage inside a capture is a `CaptureIssue`, a `MissingBytes` or a `RowIssue`."""


class LiveError(CaptureError):
    """The interface cannot be read: it does not exist, permission is missing, or the system is not supported."""


class CaptureIssue(NamedTuple):
    """A problem of the file, or of `packets` packets, that belongs to no connection."""

    kind: str
    detail: str
    packet: int
    ts: int
    packets: int = 1


class Packet(NamedTuple):
    """One captured packet. `size` is its length on the wire; `data` may be only the beginning of it (snaplen)."""

    number: int
    ts: int
    link: int
    data: bytes
    size: int


class NoPacket(Enum):
    """What a reader of packets yields before it waits."""

    NO_PACKET = auto()
    """No packet is available at the moment: the next call waits."""


NO_PACKET = NoPacket.NO_PACKET

Endpoint = tuple[bytes, int]
"""Packed IP address and port."""

Row = dict[str, object]
"""A row of any level, by column name."""


class Segment(NamedTuple):
    """One TCP segment. `missing` counts the payload bytes at its end that the capture did not store (snaplen).

    `packet` is the number of the packet in its file, from 1; 0 where it is not known. Values made from the segment
    have the same number. `window` is as sent, before any scaling.
    """

    ts: int
    link: str
    source: Endpoint
    target: Endpoint
    seq: int
    ack: int
    flags: int
    payload: bytes
    missing: int
    packet: int = 0
    window: int = 0


@dataclass(slots=True, eq=False)
class Flow:
    """One TCP connection. Sides 0 and 1 index `ends`; `opener` is the side that sent the SYN, if it was captured.

    `starts_known` has for each side whether its first byte in the capture is the first byte of the connection.
    `starts` has the sequence number of that byte, from which offsets count.
    `pending_requests` counts the requests without a response by correlation id. Pairing updates it; the frame extractor
    reads it to find the next response after a gap.
    """

    ends: tuple[Endpoint, Endpoint]
    epoch: int
    link: str
    opener: int | None = None
    client: int | None = None
    starts_known: list[bool] = field(default_factory=lambda: [False, False])
    starts: list[int] = field(default_factory=lambda: [0, 0])
    pending_requests: dict[int, int] = field(default_factory=dict)
    is_tls: bool = False
    kind: str | None = None
    """`kafka`, `tls`, `not_kafka` or `no_data`; None until it is detected. It is set at the end of the connection."""

    @property
    def client_side(self) -> int:
        """The side that sends requests; while that is not known, the most probable one."""
        return self.client if self.client is not None else (self.opener or 0)


class StreamData(NamedTuple):
    """Bytes of one side of a connection, in order. `offset` counts from the first captured byte of that side."""

    flow: Flow
    side: int
    ts: int
    offset: int
    payload: bytes
    packet: int = 0


class MissingBytes(NamedTuple):
    """Bytes that the capture lacks. `cause`: `lost` (packet not captured) or `snaplen` (end of the packet not stored).

    In a TLS connection `cause` may also be `tls`: the bytes were captured, but cannot be decrypted.
    """

    flow: Flow
    side: int
    ts: int
    offset: int
    size: int
    cause: str


class FlowClosed(NamedTuple):
    """The end of a connection. `reason` is `fin`, `rst`, `reuse`, `quiet` or `end` (of the capture).

    `fin_side` is the side that sent the first FIN; None if neither did. `end_ts` is the time of the second FIN, or of
    the RST; `ts` may be later.
    """

    flow: Flow
    ts: int
    reason: str
    fin_side: int | None = None
    end_ts: int | None = None


StreamEvent = StreamData | MissingBytes | FlowClosed


class Frame(NamedTuple):
    """One Kafka frame without its length field.

    `data` is the frame, or the part before its first missing byte; `size` is the length that the frame states.
    `damage` is None for a complete frame, else `gap`, `snaplen`, `end` or `frame_limit`. `packet` is the one in which
    the frame begins.
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


class StreamGap(NamedTuple):
    """A stream range without a readable frame: `missing` bytes were not captured, `skipped` not readable."""

    flow: Flow
    is_request: bool
    ts: int
    offset: int
    missing: int
    skipped: int
    kind: str
    detail: str


class NonKafkaConnection(NamedTuple):
    """A connection that is not read: `kind` is `tls` or `not_kafka`. Its `size` bytes are skipped."""

    flow: Flow
    kind: str
    ts: int
    detail: str
    size: int


FrameEvent = Frame | StreamGap | NonKafkaConnection | FlowClosed


class RowIssue(NamedTuple):
    """A problem of one row. `side` is `request`, `response` or `capture`; `at` is a byte offset in that side."""

    kind: str
    side: str
    path: str
    at: int | None
    detail: str


@lru_cache(maxsize=4096)
def format_address(packed: bytes) -> str:
    """Return a packed IP address as text."""
    return str(ipaddress.ip_address(packed))


def connection_id(flow: Flow) -> str:
    """Return the value of the column `conn_id`: both endpoints as text, the client first."""
    side = flow.client_side
    return format_connection(flow.ends[side], flow.ends[1 - side])


CONNECTION_VALUES: dict[str, Callable[[Flow], object]] = {
    "conn_id": connection_id,
    "stream_epoch": lambda flow: flow.epoch,
    "client_ip": lambda flow: format_address(flow.ends[flow.client_side][0]),
    "client_port": lambda flow: flow.ends[flow.client_side][1],
    "broker_ip": lambda flow: format_address(flow.ends[1 - flow.client_side][0]),
    "broker_port": lambda flow: flow.ends[1 - flow.client_side][1],
    "link": lambda flow: flow.link,
    "tls": lambda flow: flow.is_tls,
}
"""The values of the columns of a connection, which the levels `messages` and `flows` have, without `file`."""


def connection_columns(file: str, flow: Flow) -> Row:
    """The columns of a connection. `file` is the value of that column."""
    return {"file": file, **{name: read_value(flow) for name, read_value in CONNECTION_VALUES.items()}}


@lru_cache(maxsize=4096)
def format_connection(client: Endpoint, broker: Endpoint) -> str:
    """Return both endpoints as text."""
    texts = (
        f"[{format_address(ip)}]:{port}" if len(ip) == 16 else f"{format_address(ip)}:{port}"
        for ip, port in (client, broker)
    )
    return ">".join(texts)
