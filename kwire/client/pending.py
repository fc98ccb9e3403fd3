"""The answer to a request that has been sent: there already, or still on its way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from kwire.codec import decode
from kwire.headers import decode_response_header
from kwire.registry import API_KEYS


class Expected(NamedTuple):
    """What answer a request gets; `response` is the name of its message."""

    api_key: int
    version: int
    response: str
    edition: str


class Pending:
    """One answer to come. `result` waits for it, and may be asked again."""

    def __init__(self, correlation_id: int, expected: Expected, wait: Callable[[Pending, float | None], None]) -> None:
        self.correlation_id = correlation_id
        self.expected = expected
        self._wait = wait
        self._frame: bytes | None = None

    @property
    def done(self) -> bool:
        """Whether the answer has been received."""
        return self._frame is not None

    def fulfil(self, frame: bytes) -> None:
        """Take the frame that answers the request."""
        self._frame = frame

    # The class follows from the request's at run time, which no type can say.
    def result(self, timeout_s: float | None = None) -> Any:
        """The response, decoded; None when the request wants no answer (Produce with acks=0).

        Args: timeout_s: how long to wait from now, by default the client's own time.
        Raises: RequestTimedOut (ask again later, if you like), ConnectionClosed, ProtocolViolation; WireError.
        """
        body = self.body(timeout_s)
        expected = self.expected
        return decode(expected.response, expected.version, body, edition=expected.edition)

    def body(self, timeout_s: float | None = None) -> bytes:
        """The response's bytes behind its header. Raises: as `result`."""
        if self._frame is None:
            self._wait(self, timeout_s)
        assert self._frame is not None
        return self._frame[self._body_at(self._frame) :]

    def _body_at(self, frame: bytes) -> int:
        if self.expected.api_key not in API_KEYS:
            return 4  # Nobody knows its header; the first version has the correlation id alone.
        return decode_response_header(
            frame, self.expected.api_key, self.expected.version, edition=self.expected.edition
        )[1]


class NoAnswer(Pending):
    """What stands for the answer to a request that wants none."""

    @property
    def done(self) -> bool:
        """Always: nothing is to come."""
        return True

    def result(self, timeout_s: float | None = None) -> None:
        """None, at once."""

    def body(self, timeout_s: float | None = None) -> bytes:
        """Nothing, at once."""
        return b""
