"""Connections of simulated clients: requests as frames into the core, answers back to who asked, all bytes hashed."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from kwire import headers
from kwire.codec import decode
from mockbroker.core import Close, Core
from mockbroker.sim.speech import Back, Speech

Answered = Callable[[Any], None]


@dataclass(slots=True)
class _Asked:
    response: type[msgspec.Struct]
    api_key: int
    version: int
    back: Back
    done: Answered


@dataclass(slots=True)
class _Line:
    node_id: int
    client: str
    asked: deque[_Asked] = field(default_factory=deque)
    closed: Callable[[], None] = lambda: None


class Wire:
    """Drives a core as the socket shell does: submit, take what has to leave, disconnect what is closed."""

    def __init__(self, core: Core, speech: Speech) -> None:
        self.core = core
        self.speech = speech
        self._lines: dict[int, _Line] = {}
        self._correlation_id = 0
        self._digest = hashlib.sha256()

    @property
    def digest(self) -> str:
        """A hash of every frame so far, with its connection and time: equal for equal runs."""
        return self._digest.hexdigest()

    def connect(self, node_id: int, client: str, closed: Callable[[], None] = lambda: None) -> int:
        """Connect to a node; `closed` is called when the broker ends the connection."""
        number = self.core.connect(node_id, "127.0.0.1", 40_000 + self._correlation_id % 20_000)
        self._lines[number] = _Line(node_id, client, closed=closed)
        self._note(number, b"connect")
        return number

    def busy(self, connection: int) -> bool:
        """Whether an answer is awaited on this connection."""
        line = self._lines.get(connection)
        return line is not None and bool(line.asked)

    def node_of(self, connection: int) -> int:
        """Which node an open connection leads to."""
        return self._lines[connection].node_id

    def is_open(self, connection: int) -> bool:
        """Whether the connection still stands."""
        return connection in self._lines

    def ask(self, connection: int, request: msgspec.Struct, version: int, done: Answered) -> None:
        """Send a request; `done` gets the answer, at once or later, and never when the connection ends before."""
        line = self._lines[connection]
        api_key: int = type(request).API_KEY  # type: ignore[attr-defined]
        self._correlation_id += 1
        said, version, answers, back = self.speech.say(request, version)
        frame = headers.encode_request(said, version, self._correlation_id, line.client)
        line.asked.append(_Asked(answers, api_key, version, back, done))
        self._note(connection, frame)
        self.core.submit(connection, frame, self.core.now_ms)

    def hang_up(self, connection: int) -> None:
        """End the connection from the client's side."""
        self._note(connection, b"hang up")
        self._lines.pop(connection, None)
        self.core.disconnect(connection, self.core.now_ms)

    def deliver(self) -> None:
        """Hand out what the broker has answered, in order."""
        for output in self.core.take_output():
            line = self._lines.get(output.connection_id)
            if line is None:
                continue
            if isinstance(output, Close):
                self._note(output.connection_id, b"closed")
                self.lost(output.connection_id)
                self.core.disconnect(output.connection_id, self.core.now_ms)
                continue
            self._note(output.connection_id, output.body)
            asked = line.asked.popleft()
            _, body_at = headers.decode_response_header(output.body, asked.api_key, asked.version)
            answer = decode(asked.response, asked.version, memoryview(output.body)[body_at:])
            asked.done(asked.back(answer))

    def lost(self, connection: int) -> None:
        """The connection is gone without the client's doing."""
        line = self._lines.pop(connection, None)
        if line is not None:
            line.closed()

    def _note(self, connection: int, body: bytes) -> None:
        self._digest.update(b"%d %d " % (self.core.now_ms, connection))
        self._digest.update(body)
