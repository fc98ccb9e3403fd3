"""A broker for tests that runs a function for each connection, in a thread with a time limit."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable

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
        """The body of the next request; `last` is its header."""
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
        answer_version = self.last.request_api_version if version is None else version
        answer_id = self.last.correlation_id if correlation_id is None else correlation_id
        self.send(encode_response(response, answer_version, answer_id))

    def reply(self, response: msgspec.Struct) -> None:
        """Receive a request and answer it."""
        self.receive()
        self.answer(response)

    def send_body(self, body: bytes) -> None:
        """Answer the last request with any bytes behind a response header of version 0."""
        self.send(self.last.correlation_id.to_bytes(4, "big") + body)

    def send(self, frame: bytes) -> None:
        """Send a frame with its length."""
        self.socket.sendall(len(frame).to_bytes(4, "big") + frame)

    def welcome(self) -> None:
        """Answer the ApiVersions request at the start of a connection."""
        self.reply(OFFERED)

    def until_closed(self) -> bool:
        """Wait until the client closes the connection; False when it sends bytes instead."""
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
    """Listens on a free port and runs one script for each connection. An exception of a script fails the test."""

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

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
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
            return  # The client rejects the certificate and reports the reason.
        with secured:
            script(Peer(secured))
