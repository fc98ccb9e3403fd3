"""A small blocking client: any message of any edition to one broker, and its answer."""

from __future__ import annotations

import ssl
from collections import deque
from types import TracebackType
from typing import Any

import msgspec

from kwire.client.address import Address, parse_bootstrap
from kwire.client.errors import AuthenticationFailed, ConnectFailed, ConnectionClosed, ProtocolViolation
from kwire.client.handshake import PLAIN, Versions, authenticate, negotiate
from kwire.client.pending import Expected, NoAnswer, Pending
from kwire.client.transport import Deadline, Transport, connect
from kwire.codec import encode
from kwire.errors import UnsupportedVersion, WireError
from kwire.frames import frame
from kwire.messages.header import RequestHeader
from kwire.registry import DEFAULT_EDITION, api_name, header_versions

MAX_RESPONSE_BYTES = 100 * 1024 * 1024
"""The largest response that is taken unless the caller says otherwise: 100 MiB, as `socket.request.max.bytes`."""

_PRODUCE = 0
_CORRELATION_ID_MAX = (1 << 31) - 1


class Client:
    """A connection to the first broker of a bootstrap list that answers. Not for several threads at once.

    Nothing waits longer than `timeout_s`, or what a call says instead; a request that timed out does not end the
    connection, its answer is dropped when it comes.
    """

    def __init__(
        self,
        bootstrap: str,
        *,
        timeout_s: float = 30.0,
        client_id: str | None = "kwire",
        tls: ssl.SSLContext | bool | None = None,
        sasl: tuple[str, str] | None = None,
        sasl_mechanism: str = PLAIN,
        negotiated: bool = True,
        edition: str | None = None,
        max_response_bytes: int = MAX_RESPONSE_BYTES,
    ) -> None:
        """Connect, agree on versions and authenticate.

        Args: tls: True verifies the broker by the system's authorities; a context does what it says.
            sasl: user and password. sasl_mechanism: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512.
            negotiated: False asks for no versions; every request then needs its own or goes out in our highest.
            edition: in which responses are read; None reads each in that of its request's class.
        Raises: ConnectFailed with each address's reason; AuthenticationFailed; ValueError for no bootstrap list.
        """
        self.timeout_s = timeout_s
        self.client_id = client_id
        self.versions: Versions = {}
        self._negotiated = negotiated
        self._edition = edition
        self._sasl_mechanism = sasl_mechanism
        self._max_response_bytes = max_response_bytes
        self._pending: deque[Pending] = deque()
        self._correlation_id = 0
        self._transport: Transport | None = None
        context = ssl.create_default_context() if tls is True else (tls or None)
        self.address = self._connect(parse_bootstrap(bootstrap), context, sasl)

    # The response's class follows from the request's at run time, which no type can say.
    def send(self, request: msgspec.Struct, version: int | None = None, *, timeout_s: float | None = None) -> Any:
        """Send a request and wait for its response, decoded; None when the request wants none (Produce with acks=0).

        Args: version: by default the highest that both sides have; a given one goes out whatever the broker offers.
        Raises: RequestTimedOut, ConnectionClosed, ProtocolViolation; WireError, also UnsupportedVersion.
        """
        deadline = self._deadline(timeout_s)
        return self._submit(request, version, deadline).result(deadline.left_s())

    def submit(self, request: msgspec.Struct, version: int | None = None, *, timeout_s: float | None = None) -> Pending:
        """Send a request and wait only for its sending; others may follow before its answer. Raises: as `send`."""
        return self._submit(request, version, self._deadline(timeout_s))

    def send_raw(
        self, api_key: int, version: int, body: bytes, *, timeout_s: float | None = None, answered: bool = True
    ) -> bytes:
        """Send any bytes as the body of any API and version, and return the body of what comes back.

        An API that kwire does not know has the old headers: version 1 there, version 0 back.
        Args: answered: False waits for nothing and returns nothing.
        Raises: RequestTimedOut, ConnectionClosed, ProtocolViolation.
        """
        deadline = self._deadline(timeout_s)
        expected = Expected(api_key, version, "", DEFAULT_EDITION)
        pending = self._write(expected, body, deadline, answered=answered)
        return pending.body(deadline.left_s())

    def version_for(self, request: type[msgspec.Struct]) -> int:
        """The highest version of a request that both sides have; without negotiation our own highest.

        Raises: UnsupportedVersion when there is none.
        """
        api_key = _api_key(request)
        low, high = getattr(request, "VERSIONS", (0, 0))
        if not self._negotiated:
            return int(high)
        offered = self.versions.get(api_key)
        if offered is None:
            raise UnsupportedVersion(request.__name__, f"the broker at {self.address} does not have API {api_key}")
        if max(low, offered[0]) > min(high, offered[1]):
            theirs = f"{offered[0]} to {offered[1]}"
            raise UnsupportedVersion(
                request.__name__, f"the broker has versions {theirs}, this message {low} to {high}"
            )
        return int(min(high, offered[1]))

    def close(self) -> None:
        """End the connection; answers that have not come will not come."""
        if self._transport is not None:
            self._transport.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _deadline(self, timeout_s: float | None) -> Deadline:
        return Deadline(self.timeout_s if timeout_s is None else timeout_s)

    def _connect(self, addresses: list[Address], tls: ssl.SSLContext | None, sasl: tuple[str, str] | None) -> Address:
        """Try the addresses in turn; each has its share of the time that is left."""
        whole = self._deadline(None)
        reasons: list[str] = []
        for index, address in enumerate(addresses):
            deadline = Deadline(whole.left_s() / (len(addresses) - index))
            try:
                self._open(address, tls, sasl, deadline)
            except AuthenticationFailed:
                self.close()
                raise
            except (OSError, UnicodeError, WireError) as error:
                self.close()
                reasons.append(f"{address}: {error}")
            except BaseException:
                self.close()
                raise
            else:
                return address
        raise ConnectFailed(f"no broker answers: {'; '.join(reasons)}")

    def _open(
        self, address: Address, tls: ssl.SSLContext | None, sasl: tuple[str, str] | None, deadline: Deadline
    ) -> None:
        self._pending.clear()
        self._transport = connect(address, tls, self._max_response_bytes, self._take, deadline)

        def exchange(api_key: int, version: int, body: bytes) -> bytes:
            """Send, and wait for the answer."""
            return self.send_raw(api_key, version, body, timeout_s=deadline.left_s())

        if self._negotiated:
            self.versions = negotiate(exchange)
        if sasl is not None:
            authenticate(exchange, *sasl, mechanism=self._sasl_mechanism)

    def _submit(self, request: msgspec.Struct, version: int | None, deadline: Deadline) -> Pending:
        kind = type(request)
        api_key = _api_key(kind)
        edition = str(self._edition or getattr(kind, "EDITION", DEFAULT_EDITION))
        if version is None:
            version = self.version_for(kind)
        expected = Expected(api_key, version, f"{api_name(api_key, edition)}Response", edition)
        wants_answer = api_key != _PRODUCE or getattr(request, "acks", None) != 0
        return self._write(expected, encode(request, version), deadline, answered=wants_answer)

    def _write(self, expected: Expected, body: bytes, deadline: Deadline, *, answered: bool) -> Pending:
        assert self._transport is not None
        if self._transport.failure is not None:
            raise ConnectionClosed(f"the connection has ended: {self._transport.failure}")
        self._correlation_id = 0 if self._correlation_id == _CORRELATION_ID_MAX else self._correlation_id + 1
        header = RequestHeader(expected.api_key, expected.version, self._correlation_id, self.client_id)
        request = frame((encode(header, _header_version(expected)), body))
        pending = (Pending if answered else NoAnswer)(self._correlation_id, expected, self._wait)
        if answered:
            self._pending.append(pending)
        self._transport.send(request, deadline)
        return pending

    def _wait(self, pending: Pending, timeout_s: float | None) -> None:
        assert self._transport is not None
        self._transport.receive(lambda: pending.done, self._deadline(timeout_s))

    def _take(self, response: bytes) -> None:
        """A broker answers in the order in which it was asked."""
        if not self._pending:
            raise ProtocolViolation(f"{len(response)} bytes came that nobody asked for")
        pending = self._pending.popleft()
        if response[:4] != pending.correlation_id.to_bytes(4, "big"):
            got = int.from_bytes(response[:4], "big", signed=True)
            raise ProtocolViolation(f"correlation id {got} where {pending.correlation_id} is due")
        pending.fulfil(response)


def _api_key(request: type[msgspec.Struct]) -> int:
    api_key: int | None = getattr(request, "API_KEY", None)
    if api_key is None or not request.__name__.endswith("Request"):
        raise UnsupportedVersion(request.__name__, "is not a request")
    return api_key


def _header_version(expected: Expected) -> int:
    try:
        return header_versions(expected.api_key, expected.version, expected.edition)[0]
    except UnsupportedVersion:
        return 1
