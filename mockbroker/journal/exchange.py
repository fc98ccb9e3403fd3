"""`Exchange`: a request, its response or the reason that there is none, and their times."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, cast

import msgspec

from kwire.primitives import Part

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    #: The class of the request; of an exchange of any API, `Struct | None`.
    RequestT = TypeVar("RequestT", default=msgspec.Struct | None)
    #: The class of the response, with None for one that has not been sent.
    ResponseT = TypeVar("ResponseT", default=msgspec.Struct | None)
else:  # Defaults of type variables are new in Python 3.13.
    from typing import TypeVar

    RequestT = TypeVar("RequestT")
    ResponseT = TypeVar("ResponseT")


class Exchange(msgspec.Struct, Generic[RequestT, ResponseT], gc=False):
    """A request as it was decoded, and its response if there is one.

    number: from 1 on, in order of arrival; 0 until the journal has it.
    arrived_ms, answered_ms: the cluster's clock, milliseconds; None without an answer.
    arrived_ns, departed_ns: the wall clock when the last byte arrived and when the response was written to the socket,
    nanoseconds; 0 without a network server.
    request_bytes, response_bytes: frame bodies without the four bytes of length.
    decode_warnings: what Kafka accepts and the strict decoder would refuse, as sentences.
    closed: why the connection was closed, instead of an answer or after it; or None.
    principal: the client's principal when the request arrived.
    faults: the names of the faults that acted on this request (docs/faults.md).
    is_unread: it has arrived, and the broker has not read it: its connection is throttled, or an earlier request of it
    is not answered; it stays so if the connection ends before.
    request_frame, response_frame: the frame bodies, which may have secrets; None for raw SASL tokens. response_parts:
    the body of the response as it was sent, where record batches are views of the log.
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
    request: RequestT = cast("RequestT", None)
    response: ResponseT = cast("ResponseT", None)
    response_version: int = 0
    response_bytes: int = 0
    answered_ms: int | None = None
    departed_ns: int = 0
    decode_warnings: tuple[str, ...] = ()
    closed: str | None = None
    principal: str = "User:ANONYMOUS"
    faults: tuple[str, ...] = ()
    request_frame: bytes | memoryview | None = None
    response_parts: tuple[Part, ...] | None = None
    is_unread: bool = False

    @property
    def response_frame(self) -> bytes | None:
        """The body of the response as one object; joined for each call."""
        return None if self.response_parts is None else b"".join(self.response_parts)

    def __repr__(self) -> str:
        end = self.closed or (
            "not read"
            if self.is_unread
            else "no response yet"
            if self.answered_ms is None
            else f"{self.answered_ms - self.arrived_ms} ms"
        )
        client = f"client {self.client_id!r}" if self.client_id else self.client
        return (
            f"<Exchange {self.number}: {self.api_name} v{self.api_version} from {client} to node {self.node_id}, {end}>"
        )

    def to_json(self, *, show_secrets: bool = False, payload: bool = True) -> dict[str, Any]:
        """The exchange in Kafka's own JSON form; secrets are `***` unless `show_secrets`.

        payload: with the records in messages, as base64; otherwise with their count, size and compression instead.
        """
        from kwire.redact import redacted_json

        def message_json(message: msgspec.Struct | None, version: int) -> dict[str, object] | None:
            if message is None:
                return None
            return redacted_json(message, version, show_secrets=show_secrets, payload=payload)

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
            "request": message_json(cast("msgspec.Struct | None", self.request), self.api_version),
            "response": message_json(cast("msgspec.Struct | None", self.response), self.response_version),
            "decodeWarnings": list(self.decode_warnings),
            "closed": self.closed,
            "unread": self.is_unread,
            "faults": list(self.faults),
        }
