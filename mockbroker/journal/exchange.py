"""One exchange: a request, what became of it, and when."""

from __future__ import annotations

from typing import Any

import msgspec


class Exchange(msgspec.Struct):
    """A request as it was decoded, and its response when there is one.

    arrived_ms, answered_ms: the cluster's clock, milliseconds; None while there is no answer.
    arrived_ns, departed_ns: the shell's wall clock when the last byte came in and when the answer was handed to the
    operating system, nanoseconds; 0 where no shell was involved.
    request_bytes, response_bytes: frame bodies without the four bytes of length.
    oddities: what Kafka tolerates and the strict decoder would refuse, as sentences.
    closed: why the connection was closed instead of an answer, or behind it; or None.
    principal: who asked, as far as it was known when the request came.
    """

    number: int
    node_id: int
    connection_id: int
    client: str
    api_key: int
    api_name: str
    api_version: int
    correlation_id: int
    client_id: str | None
    arrived_ms: int
    arrived_ns: int = 0
    request_bytes: int = 0
    request: msgspec.Struct | None = None
    response: msgspec.Struct | None = None
    response_version: int = 0
    response_bytes: int = 0
    answered_ms: int | None = None
    departed_ns: int = 0
    oddities: tuple[str, ...] = ()
    closed: str | None = None
    principal: str = "User:ANONYMOUS"

    def to_json(self, *, show_secrets: bool = False) -> dict[str, Any]:
        """The exchange in Kafka's own JSON form, with secrets as `***` unless they are asked for."""
        from kwire.codec import to_json
        from kwire.redact import redact

        def tree(message: msgspec.Struct | None, version: int) -> dict[str, Any] | None:
            if message is None:
                return None
            shown = to_json(message, version)
            return shown if show_secrets else redact(shown, type(message).__name__)

        return {
            "number": self.number,
            "node": self.node_id,
            "connection": self.connection_id,
            "client": self.client,
            "principal": self.principal,
            "apiKey": self.api_key,
            "api": self.api_name,
            "version": self.api_version,
            "correlationId": self.correlation_id,
            "clientId": self.client_id,
            "arrivedMs": self.arrived_ms,
            "answeredMs": self.answered_ms,
            "request": tree(self.request, self.api_version),
            "response": tree(self.response, self.response_version),
            "oddities": list(self.oddities),
            "closed": self.closed,
        }
