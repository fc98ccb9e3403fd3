"""The response to a request that has been sent, received or outstanding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from kwire.codec import decode
from kwire.error_codes import ErrorCode
from kwire.errors import WireError
from kwire.headers import decode_response_header
from kwire.messages.api_versions import ApiVersionsResponse
from kwire.registry import API_KEYS

_API_VERSIONS = 18
_UNSUPPORTED_VERSION = ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big")


class ExpectedResponse(NamedTuple):
    """The response that a request gets; `response` is the name of its message."""

    api_key: int
    version: int
    response: str
    edition: str


class PendingResponse:
    """An outstanding response. `result` waits for it, and may be called again after a timeout."""

    def __init__(
        self, correlation_id: int, expected: ExpectedResponse, wait: Callable[[PendingResponse, float | None], None]
    ) -> None:
        self.correlation_id = correlation_id
        self.expected = expected
        self._wait = wait
        self._frame: bytes | None = None

    @property
    def done(self) -> bool:
        """Whether the response has been received."""
        return self._frame is not None

    def set_frame(self, frame: bytes) -> None:
        """Set the frame of the response."""
        self._frame = frame

    # The class depends on the request at run time, so it has no static type.
    def result(self, timeout_s: float | None = None) -> Any:
        """The response, decoded; None when the request has no response (Produce with acks=0).

        Args: timeout_s: how long to wait from now, by default the timeout of the client.
        Raises: RequestTimedOut (the call may be repeated), ConnectionClosed, ProtocolViolation; WireError.
        """
        body = self.body(timeout_s)
        expected = self.expected
        if expected.api_key == _API_VERSIONS and body[:2] == _UNSUPPORTED_VERSION:
            refusal = _decode_refusal(body)
            if refusal is not None:
                return refusal
        return decode(expected.response, expected.version, body, edition=expected.edition)

    def body(self, timeout_s: float | None = None) -> bytes:
        """The response's bytes behind its header. Raises: as `result`."""
        if self._frame is None:
            self._wait(self, timeout_s)
        assert self._frame is not None
        api_key, version, _, edition = self.expected
        if api_key not in API_KEYS:
            return self._frame[4:]  # The header is unknown; its first version has only the correlation id.
        _, body_at = decode_response_header(self._frame, api_key, version, edition=edition)
        return self._frame[body_at:]


class NoResponse(PendingResponse):
    """The result of a request that has no response."""

    @property
    def done(self) -> bool:
        """Always true."""
        return True

    def result(self, timeout_s: float | None = None) -> None:
        """None, at once."""

    def body(self, timeout_s: float | None = None) -> bytes:
        """Nothing, at once."""
        return b""


def _decode_refusal(body: bytes) -> msgspec.Struct | None:
    """The response of a broker that does not know the version of an ApiVersions request, which is one of version 0.

    Returns: None for a response in the version of the request. No response can be both: in version 0 the count of the
    APIs follows the error code, and nothing follows the APIs. Source: KIP-511; before it (2.3) there are no APIs.
    """
    try:
        return decode(ApiVersionsResponse, 0, body)
    except WireError:
        return None
