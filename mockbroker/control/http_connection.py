"""`HttpConnection`: uvicorn's protocol for HTTP/1.1, with limits for connections, and for requests that do not arrive.

uvicorn itself limits neither how long the head of a request may take, nor the connections of one client, and answers
503 to everybody while there are too many.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from mockbroker.control.connection_table import ConnectionTable
from mockbroker.control.problems import MEDIA_TYPE, ProblemKind, create_problem
from mockbroker.control.responses import problem_response
from mockbroker.log.subjects import CONTROL

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send


def limited_protocol(table: ConnectionTable) -> type[asyncio.Protocol]:
    """The class for `uvicorn.Config.http` of a server whose connections are in a table."""

    class LimitedConnection(HttpConnection):
        """A connection of that server."""

        _table = table

    return LimitedConnection


class HttpConnection(H11Protocol):
    """A connection of a client. Its class has the table that it belongs to."""

    _table: ConnectionTable

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._deadline: asyncio.TimerHandle | None = None
        self._awaited: str | None = None
        self._stall: asyncio.TimerHandle | None = None
        self._is_silent = True

    @property
    def has_request(self) -> bool:
        """Whether a request, of which the head has come, is being answered."""
        return self.cycle is not None and not self.cycle.response_complete

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for a request, or refuse all requests if there are too many connections."""
        super().connection_made(cast("asyncio.Transport", transport))
        if not self._table.add(self):
            self.app = _refuse
        self._expect("head")

    def data_received(self, data: bytes) -> None:
        """Handle the requests that are complete, and limit the time for the rest of the next one."""
        self._is_silent = False
        super().data_received(data)
        self._follow_request()

    def on_response_complete(self) -> None:
        """Go on with the next request, of which a part may have come."""
        super().on_response_complete()
        self._follow_request()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection has ended."""
        self._expect(None)
        self._end_stall()
        self._table.remove(self)
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """The client does not read: its connection ends if it goes on so."""
        super().pause_writing()
        if self._stall is None:
            self._stall = self.loop.call_later(self._table.limits.stalled_s, self.give_up)

    def resume_writing(self) -> None:
        """The client reads again."""
        self._end_stall()
        super().resume_writing()

    def timeout_keep_alive_handler(self) -> None:
        """Close an idle connection, also one whose client does not read the last response."""
        if self.transport.get_write_buffer_size():
            self.transport.abort()
        else:
            super().timeout_keep_alive_handler()

    def give_up(self) -> None:
        """Close the connection now, without what is unsent."""
        self._expect(None)
        self.transport.abort()

    def _end_stall(self) -> None:
        if self._stall is not None:
            self._stall.cancel()
            self._stall = None

    def _follow_request(self) -> None:
        """Set the limit of time for the part of a request that is missing."""
        if self.transport.is_closing():
            self._expect(None)
        elif self.conn.their_state is h11.SEND_BODY:
            self._expect("body")
        elif self.conn.their_state is h11.IDLE and self.conn.trailing_data[0]:
            self._expect("head")
        else:
            self._expect(None)

    def _expect(self, part: str | None) -> None:
        """Limit the time until this part of a request has come, unless it is limited already; None: no part."""
        if part == self._awaited:
            return
        if self._deadline is not None:
            self._deadline.cancel()
        self._awaited, self._deadline = part, None
        if part is not None:
            limits = self._table.limits
            seconds = limits.head_s if part == "head" else limits.body_s
            self._deadline = self.loop.call_later(seconds, self._end_late_request, part, seconds)

    def _end_late_request(self, part: str, seconds: float) -> None:
        """Answer 408 to a request of which a part is missing, if nothing was answered, and close the connection."""
        host, port = self.client or ("?", 0)
        CONTROL.debug(
            "closes %(client)s: no %(part)s of a request within %(seconds)g s",
            client=f"{host}:{port}",
            part=part,
            seconds=seconds,
        )
        if self._is_silent or self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.give_up()
            return
        self._awaited = None
        problem = create_problem(ProblemKind.REQUEST_TIMEOUT, f"the {part} did not come within {seconds:g} s")
        response = problem_response(problem)
        headers = [
            (b"content-type", MEDIA_TYPE.encode()),
            (b"content-length", str(len(response.body)).encode()),
            (b"connection", b"close"),
        ]
        status = problem.status
        for event in (
            h11.Response(status_code=status, headers=headers, reason=b"Request Timeout"),
            h11.Data(data=bytes(response.body)),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event) or b"")
        if self.cycle is not None:
            self.cycle.disconnected = True  # What the operation answers is not sent.
            self.cycle.message_event.set()
        self.transport.close()


async def _refuse(scope: Scope, receive: Receive, send: Send) -> None:
    """The application of connections that are too many."""
    problem = create_problem(ProblemKind.TOO_MANY_CONNECTIONS, "all connections have requests in progress")
    await problem_response(problem, {"Connection": "close", "Retry-After": "1"})(scope, receive, send)
