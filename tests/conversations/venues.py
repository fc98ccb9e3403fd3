"""Where a conversation takes place, and a place for it: a cluster on virtual time, without sockets."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from kwire import headers
from kwire.codec import decode, encode
from kwire.codec_table import Codec
from kwire.messages.header import RequestHeader
from kwire.registry import codec_of_class, header_versions
from mockbroker.build import build_core
from mockbroker.cluster import config_dialect
from mockbroker.config import BrokerConfig
from mockbroker.core import Close, Send
from mockbroker.features import finalize
from mockbroker.state.share_rules import RELEASED_EDITION

#: How long an answer may take by the venue's own time.
ANSWER_MS = 40_000


class Line(Protocol):
    """One connection."""

    def submit(self, request: msgspec.Struct, version: int, wire_version: int, answer: tuple[str, int] | None) -> None:
        """Send a request; `answer` is the response's name and version, None when none comes."""

    def receive(self) -> tuple[msgspec.Struct | None, int]:
        """The next answer, None when the connection is closed, and how many ms it took since the request."""

    def close(self) -> None:
        """Hang up."""


class Venue(Protocol):
    """A broker, and the time that it lives in."""

    def connect(self, client_id: str, listener: str = "PLAINTEXT") -> Line:
        """A new connection, by a listener of this name."""

    def now_ms(self) -> int:
        """The time."""

    def sleep(self, duration_ms: int) -> None:
        """Let time pass."""


class VirtualVenue:
    """A cluster of one node whose clock moves only when somebody waits."""

    def __init__(
        self, properties: Mapping[str, str], features: tuple[str, ...] = (), *, share_edition: str = RELEASED_EDITION
    ) -> None:
        self._now_ms = 1_700_000_000_000
        self.core = build_core(
            config=BrokerConfig(properties, dialect=config_dialect(share_edition)),
            node_count=1,
            features=finalize(features),
            topics={},
            rng=random.Random(7),
            now_ms=self._now_ms,
            share_edition=share_edition,
        )
        for node in self.core.state.nodes.values():
            node.listen("PLAINTEXT", "127.0.0.1", 9092)
        self.lines: dict[int, VirtualLine] = {}

    def connect(self, client_id: str, listener: str = "PLAINTEXT") -> VirtualLine:
        number = self.core.connect(0, "127.0.0.1", 40_000 + len(self.lines), listener=listener)
        line = self.lines[number] = VirtualLine(self, number, client_id)
        return line

    def now_ms(self) -> int:
        return self._now_ms

    def sleep(self, duration_ms: int) -> None:
        self._now_ms += duration_ms
        self.core.advance(self._now_ms)
        self.deliver()

    def step(self, until_ms: int) -> None:
        """Move on to the next thing that happens, no further than `until_ms`."""
        due_ms = self.core.next_deadline_ms()
        self.sleep(max(0, min(until_ms, until_ms if due_ms is None else due_ms) - self._now_ms))

    def deliver(self) -> None:
        """Hand out what the cluster has sent."""
        for output in self.core.take_output():
            line = self.lines[output.connection_id]
            if isinstance(output, Close):
                line.is_closed = True
                self.core.disconnect(output.connection_id, self._now_ms)
            elif isinstance(output, Send):
                line.bodies.append(output.body)


class VirtualLine:
    """A connection to a `VirtualVenue`."""

    def __init__(self, venue: VirtualVenue, number: int, client_id: str) -> None:
        self.venue = venue
        self.number = number
        self.client_id = client_id
        self.is_closed = False
        self.bodies: list[bytes] = []
        self._expected: list[tuple[Codec, tuple[str, int], int]] = []
        self._correlation_id = 0

    def submit(self, request: msgspec.Struct, version: int, wire_version: int, answer: tuple[str, int] | None) -> None:
        self._correlation_id += 1
        asked = codec_of_class(type(request))
        header = RequestHeader(asked.api_key, wire_version, self._correlation_id, self.client_id)
        frame = encode(header, header_versions(asked.api_key, version)[0]) + encode(request, version)
        if answer is not None:
            self._expected.append((asked, answer, self.venue.now_ms()))
        self.venue.core.submit(self.number, frame, self.venue.now_ms())
        self.venue.sleep(0)

    def receive(self) -> tuple[msgspec.Struct | None, int]:
        asked, (name, version), sent_ms = self._expected.pop(0)
        while not self.bodies and not self.is_closed:
            assert self.venue.now_ms() < sent_ms + ANSWER_MS, f"no {name} within {ANSWER_MS} ms"
            self.venue.step(sent_ms + ANSWER_MS)
        took_ms = self.venue.now_ms() - sent_ms
        if not self.bodies:
            return None, took_ms
        body = self.bodies.pop(0)
        _, body_at = headers.decode_response_header(body, asked.api_key, version, edition=asked.edition)
        message: Any = decode(name, version, memoryview(body)[body_at:], edition=asked.edition)
        return message, took_ms

    def close(self) -> None:
        self.venue.core.disconnect(self.number, self.venue.now_ms())
        self.venue.sleep(0)
