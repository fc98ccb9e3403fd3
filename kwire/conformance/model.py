"""The values that conformance rules read, and the notes that they write."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

import msgspec

from kwire import uuids

ConnectionKey = int | str

#: Sequences wrap from the largest int32 to 0.
SEQUENCES = 1 << 31


class Level(StrEnum):
    """How bad a breach of a rule is."""

    ERROR = "error"
    """Another broker, or this one in another state, refuses the request or closes the connection."""
    WARNING = "warning"
    """The request is answered, but work is lost, repeated or refused, or the load is higher than the broker allowed."""
    INFO = "info"
    """The broker has to wait for a timeout, which the client could have avoided."""


#: Producer id and epoch, topic (name, or id where the request has none), partition, first sequence, checksum.
BatchKey = tuple[int, int, str | bytes, int, int, int]


class ProducedBatch(NamedTuple):
    """A batch of an idempotent producer. topic: its name, or its id where the request has no name."""

    producer_id: int
    producer_epoch: int
    topic: str | bytes
    partition: int
    sequence: int
    record_count: int
    crc: int

    @property
    def key(self) -> BatchKey:
        """Equal for a batch that is sent again unchanged."""
        return (self.producer_id, self.producer_epoch, self.topic, self.partition, self.sequence, self.crc)

    @property
    def next_sequence(self) -> int:
        """The sequence of the record behind it."""
        return (self.sequence + self.record_count) % SEQUENCES

    def __str__(self) -> str:
        topic = self.topic if isinstance(self.topic, str) else uuids.to_text(self.topic)
        return f"sequence {self.sequence} of producer {self.producer_id} to {topic}-{self.partition}"


class ObservedExchange(msgspec.Struct, gc=False):
    """A request as it was decoded, with its response if one was sent.

    number: the place of the request in the journal or capture, from 1. connection: of any type that identifies it.
    node: the broker, the same for all its connections. client: HOST:PORT.
    sent_ns, answered_ns: when the request arrived and the response was sent, of one clock that never jumps, in
    nanoseconds; answered_ns is None without a response. sent_ms, answered_ms: the same by the broker's clock, in
    milliseconds, which tests may move.
    request, response: None if they were not decoded. packet: of the request in its capture, else None.
    expects_response: False where a request has none by its nature, as Produce with acks=0.
    decode_warnings: what a lenient broker accepts in the request, as sentences. batches: of a Produce request, if its
    records were removed. size: the bytes of both messages that are kept in memory.
    """

    number: int
    connection: ConnectionKey
    node: str
    client: str
    client_id: str | None
    api_key: int
    api_name: str
    api_version: int
    correlation_id: int
    sent_ns: int
    sent_ms: float
    request: msgspec.Struct | None = None
    response: msgspec.Struct | None = None
    answered_ns: int | None = None
    answered_ms: float | None = None
    packet: int | None = None
    expects_response: bool = True
    decode_warnings: tuple[str, ...] = ()
    batches: tuple[ProducedBatch, ...] | None = None
    size: int = 0


class ConnectionEnd(NamedTuple):
    """The end of a connection. is_clean: by a FIN that the client sent first, without a reset by either side."""

    connection: ConnectionKey
    at_ns: int
    is_clean: bool


class ConnectionGap(NamedTuple):
    """A part of a connection is missing or unreadable: rules are silent about what they would need it for.

    is_open: more is missing until `ConnectionGapEnd`, if there is one; else it is a single message of this time.
    """

    connection: ConnectionKey
    at_ns: int
    is_open: bool = False


class ConnectionGapEnd(NamedTuple):
    """The first message after a `ConnectionGap` that is open."""

    connection: ConnectionKey
    at_ns: int


class Note(msgspec.Struct, frozen=True):
    """A breach of a rule by a client.

    rule: its id, as in docs/conformance.md. text: what happened, one sentence. source: what the rule is based on.
    exchanges: the numbers of the requests that it rests on, the breach last. packets: of these requests in the capture;
    empty for a journal. connection: of the breach. at_ns: when its request arrived, or its connection ended, in
    nanoseconds since 1970.
    """

    rule: str
    level: Level
    text: str
    source: str
    exchanges: tuple[int, ...]
    packets: tuple[int, ...]
    client_id: str | None
    client: str
    connection: ConnectionKey
    node: str
    at_ns: int

    def __str__(self) -> str:
        numbers = ", ".join(f"#{number}" for number in self.exchanges)
        client = f"client {self.client_id!r} ({self.client})" if self.client_id else f"client {self.client}"
        return f"{self.level} {self.rule}: {self.text} [{client} at {self.node}, {numbers}; {self.source}]"
