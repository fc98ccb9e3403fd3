"""A broker for tests that does what a list of functions says, one connection each, in a thread that always ends."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable
from types import TracebackType

import msgspec

from kwire.codec import decode
from kwire.headers import decode_request_header, encode_response
from kwire.messages.api_versions import ApiVersion, ApiVersionsResponse
from kwire.messages.header import RequestHeader
from kwire.registry import api_name

WAIT_S = 10.0
OFFERED = ApiVersionsResponse(
    api_keys=[ApiVersion(0, 0, 13), ApiVersion(3, 0, 12), ApiVersion(17, 0, 1), ApiVersion(18, 0, 4),
              ApiVersion(36, 0, 2)]
)  # fmt: skip


class Peer:
    """The broker's side of one connection."""

    def __init__(self, connected: socket.socket) -> None:
        self.socket = connected
        self.socket.settimeout(WAIT_S)
        self.last: RequestHeader = RequestHeader()

    def receive(self) -> bytes:
        """The next request's body; its header is kept as `last`."""
        frame = self._exactly(int.from_bytes(self._exactly(4), "big"))
        self.last, at = decode_request_header(frame)
        return frame[at:]

    def request(self) -> msgspec.Struct:
        """The next request, decoded."""
        body = self.receive()
        return decode(f"{api_name(self.last.request_api_key)}Request", self.last.request_api_version, body)

    def answer(
        self, response: msgspec.Struct, *, version: int | None = None, correlation_id: int | None = None
    ) -> None:
        """Answer the last request."""
        self.send(
            encode_response(
                response,
                self.last.request_api_version if version is None else version,
                self.last.correlation_id if correlation_id is None else correlation_id,
            )
        )

    def send(self, frame: bytes) -> None:
        """Send a frame with its length."""
        self.socket.sendall(len(frame).to_bytes(4, "big") + frame)

    def welcome(self) -> None:
        """Answer the ApiVersions request that every connection begins with."""
        self.request()
        self.answer(OFFERED)

    def until_closed(self) -> bool:
        """Whether the client has closed the connection, in time."""
        return self.socket.recv(1) == b""

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            chunk = self.socket.recv(size - len(data))
            if not chunk:
                raise ConnectionError("the client closed the connection")
            data += chunk
        return data


class ScriptedBroker:
    """Listens on a port of its own; the scripts get the connections in turn. What a script raises fails the test."""

    def __init__(self, *scripts: Callable[[Peer], None], tls: ssl.SSLContext | None = None) -> None:
        self._scripts = scripts
        self._tls = tls
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(WAIT_S)
        self._errors: list[BaseException] = []
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self.bootstrap = f"127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> ScriptedBroker:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._thread.join(WAIT_S)
        self._listener.close()
        assert not self._thread.is_alive()
        if kind is None and self._errors:
            raise self._errors[0]

    def _serve(self) -> None:
        try:
            for script in self._scripts:
                connected, _ = self._listener.accept()
                with connected:
                    if self._tls is None:
                        script(Peer(connected))
                    else:
                        self._serve_tls(script, connected)
        except BaseException as error:
            self._errors.append(error)

    def _serve_tls(self, script: Callable[[Peer], None], connected: socket.socket) -> None:
        assert self._tls is not None
        connected.settimeout(WAIT_S)
        try:
            secured = self._tls.wrap_socket(connected, server_side=True)
        except (ssl.SSLError, ConnectionError):
            return  # The client would not have us; it says why.
        with secured:
            script(Peer(secured))
