"""`TokenEndpoint`: gives out tokens over HTTP on the loopback address, and the keys that verify them.

Source: RFC 6749, sections 2.3.1, 4.4 and 5 (the client credentials grant). For tests: without encryption.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from typing import NamedTuple
from urllib.parse import parse_qs

from mockbroker.log.subjects import SERVER
from mockbroker.security.token_issuer import TokenIssuer

TOKEN_PATH, JWKS_PATH = "/token", "/jwks"
_HEAD_MAX, _BODY_MAX = 16 << 10, 64 << 10
_CONNECTIONS_MAX = 64
_FIELDS_MAX = 20
_TIMEOUT_S = 10.0
_GRANT = "client_credentials"


class _Request(NamedTuple):
    method: str
    path: str
    headers: dict[str, str]
    body: str


class _Refusal(Exception):
    """A request that is not answered with a token or keys. error: of RFC 6749, section 5.2."""

    def __init__(self, status: HTTPStatus, error: str) -> None:
        super().__init__(error)
        self.status = status


class TokenEndpoint:
    """Serves an issuer between `start` and `stop`. now_ms: the cluster's clock."""

    def __init__(self, issuer: TokenIssuer, now_ms: Callable[[], int]) -> None:
        self._issuer = issuer
        self._now_ms = now_ms
        self._server: asyncio.Server | None = None
        self._tasks: dict[asyncio.Task[None], None] = {}  # The oldest first.

    async def start(self) -> None:
        """Listen on a free port. Raises: OSError."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=_HEAD_MAX)

    @property
    def base_url(self) -> str:
        """The URL without a path."""
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def stop(self) -> None:
        """Close the socket and all connections."""
        if self._server is not None:
            self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._tasks) >= _CONNECTIONS_MAX:
            # Connections that send no request keep nobody out.
            oldest = next(iter(self._tasks))
            del self._tasks[oldest]
            oldest.cancel()
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._tasks[task] = None
        task.add_done_callback(partial(self._finish, writer))

    def _finish(self, writer: asyncio.StreamWriter, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task, None)
        writer.close()  # A task that is cancelled before it begins does not do it.

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request; the connection is closed at the end of the task."""
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                try:
                    answer = self._answer(await _read_request(reader))
                except _Refusal as refusal:
                    SERVER.info("the token endpoint refuses a request: %(error)s", error=str(refusal))
                    answer = _format_answer(refusal.status, {"error": str(refusal)})
                writer.write(answer)
                await writer.drain()
        except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError):
            SERVER.debug("a client of the token endpoint sent no request")
            writer.transport.abort()
        except asyncio.CancelledError:
            writer.transport.abort()  # A client that does not read its answer would keep the socket open.
            raise

    def _answer(self, request: _Request) -> bytes:
        if request.path == JWKS_PATH and request.method == "GET":
            return _format_answer(HTTPStatus.OK, json.loads(self._issuer.public_keys()))
        if request.path not in (TOKEN_PATH, JWKS_PATH):
            raise _Refusal(HTTPStatus.NOT_FOUND, "not_found")
        if request.path == JWKS_PATH or request.method != "POST":
            raise _Refusal(HTTPStatus.METHOD_NOT_ALLOWED, "invalid_request")
        return self._issue_token(request)

    def _issue_token(self, request: _Request) -> bytes:
        try:
            form = {name: values[0] for name, values in parse_qs(request.body, max_num_fields=_FIELDS_MAX).items()}
        except ValueError as error:
            raise _Refusal(HTTPStatus.BAD_REQUEST, "invalid_request") from error
        if form.get("grant_type") != _GRANT:
            raise _Refusal(HTTPStatus.BAD_REQUEST, "unsupported_grant_type")
        client_id, secret = _credentials(request.headers.get("authorization"), form)
        if not client_id or not self._issuer.accepts_client(client_id, secret):
            raise _Refusal(HTTPStatus.UNAUTHORIZED, "invalid_client")
        scope = form.get("scope")
        token = self._issuer.create_token(client_id, now_ms=self._now_ms(), scope=scope)
        SERVER.info("the token endpoint gives %(client)r a token", client=client_id)
        answer = {"access_token": token, "token_type": "Bearer", "expires_in": self._issuer.lifetime_s}
        return _format_answer(HTTPStatus.OK, answer if scope is None else {**answer, "scope": scope})


async def _read_request(reader: asyncio.StreamReader) -> _Request:
    """Read a request. Raises: _Refusal; errors of the stream."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    words = head[0].split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        raise _Refusal(HTTPStatus.BAD_REQUEST, "invalid_request")
    pairs = (line.partition(":") for line in head[1:] if line)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    length = headers.get("content-length", "0")
    if "transfer-encoding" in headers or not length.isdecimal() or len(length) > 9:
        raise _Refusal(HTTPStatus.LENGTH_REQUIRED, "invalid_request")
    if int(length) > _BODY_MAX:
        raise _Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "invalid_request")
    body = (await reader.readexactly(int(length))).decode(errors="replace")
    return _Request(words[0], words[1].partition("?")[0], headers, body)


def _credentials(authorization: str | None, form: dict[str, str]) -> tuple[str, str]:
    """The id and the secret of the client: of HTTP Basic, or of the form. Raises: _Refusal."""
    if authorization is None:
        return form.get("client_id", ""), form.get("client_secret", "")
    scheme, _, encoded = authorization.partition(" ")
    try:
        text = base64.b64decode(encoded.strip(), validate=True).decode()
    except (binascii.Error, ValueError):
        text = ""
    client_id, colon, secret = text.partition(":")
    if scheme.lower() != "basic" or not colon:
        raise _Refusal(HTTPStatus.UNAUTHORIZED, "invalid_client")
    return client_id, secret


def _format_answer(status: HTTPStatus, content: dict[str, object]) -> bytes:
    body = json.dumps(content).encode()
    lines = [f"HTTP/1.1 {status.value} {status.phrase}", "Content-Type: application/json", "Cache-Control: no-store"]
    if status is HTTPStatus.UNAUTHORIZED:
        lines.append('WWW-Authenticate: Basic realm="mockbroker"')
    lines += [f"Content-Length: {len(body)}", "Connection: close", "", ""]
    return "\r\n".join(lines).encode() + body
