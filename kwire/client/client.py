"""A blocking client for one broker: sends any message of any edition and returns its response."""

from __future__ import annotations

import ssl
from collections import deque
from typing import Any

import msgspec

from kwire.client.address import Address, parse_bootstrap
from kwire.client.errors import AuthenticationFailed, ConnectFailed, ConnectionClosed, ProtocolViolation
from kwire.client.handshake import PLAIN, Versions, authenticate_by_sasl, negotiate_versions
from kwire.client.pending import ExpectedResponse, NoResponse, PendingResponse
from kwire.client.transport import Deadline, Transport, open_transport
from kwire.codec import encode
from kwire.errors import UnsupportedVersion, WireError
from kwire.frames import encode_frame
from kwire.messages.header import RequestHeader
from kwire.registry import DEFAULT_EDITION, api_name, header_versions

MAX_RESPONSE_BYTES = 100 * 1024 * 1024
"""The default limit of a response: 100 MiB, as `socket.request.max.bytes`."""

_PRODUCE = 0
_CORRELATION_ID_MAX = (1 << 31) - 1


class Client:
    """A connection to the first broker of a bootstrap list that responds. Not for several threads at once.

    No call waits longer than `timeout_s`, or its own timeout. A request that has timed out does not end the connection;
    its response is dropped when it arrives.
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
        """Connect, negotiate versions and authenticate.

        Args: tls: True verifies the broker by the system's authorities; or an SSL context.
            sasl: user and password. sasl_mechanism: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512.
            negotiated: False requests no versions; a request without a version is then sent in the highest of kwire.
            edition: of responses; None means that of the request's class.
        Raises: ConnectFailed with the reasons; AuthenticationFailed; ValueError for an invalid bootstrap list.
        """
        self.timeout_s = timeout_s
        self.client_id = client_id
        self.versions: Versions = {}
        self._negotiated = negotiated
        self._edition = edition
        self._sasl_mechanism = sasl_mechanism
        self._max_response_bytes = max_response_bytes
        self._pending: deque[PendingResponse] = deque()
        self._correlation_id = 0
        self._transport: Transport | None = None
        context = ssl.create_default_context() if tls is True else (tls or None)
        self.address = self._connect(parse_bootstrap(bootstrap), context, sasl)

    # The class of the response depends on the request at run time, so it has no static type.
    def send(self, request: msgspec.Struct, version: int | None = None, *, timeout_s: float | None = None) -> Any:
        """Send a request and return its decoded response; None when it has no response (Produce with acks=0).

        Args: version: by default the highest that both sides support; a given one is sent without a check.
        Raises: RequestTimedOut, ConnectionClosed, ProtocolViolation; WireError, also UnsupportedVersion.
        """
        deadline = self._deadline(timeout_s)
        return self._submit(request, version, deadline).result(deadline.left_s())

    def submit(
        self, request: msgspec.Struct, version: int | None = None, *, timeout_s: float | None = None
    ) -> PendingResponse:
        """Send a request without waiting for its response; other requests may follow. Raises: as `send`."""
        return self._submit(request, version, self._deadline(timeout_s))

    def send_raw(
        self, api_key: int, version: int, body: bytes, *, timeout_s: float | None = None, answered: bool = True
    ) -> bytes:
        """Send any bytes as the body of any API and version, and return the body of the response.

        An unknown API has the old headers: request header version 1, response header version 0.
        Args: answered: False does not wait, and returns no bytes.
        Raises: RequestTimedOut, ConnectionClosed, ProtocolViolation.
        """
        deadline = self._deadline(timeout_s)
        expected = ExpectedResponse(api_key, version, "", DEFAULT_EDITION)
        pending = self._write(expected, body, deadline, answered=answered)
        return pending.body(deadline.left_s())

    def version_for(self, request: type[msgspec.Struct]) -> int:
        """The highest version of a request that both sides support; without negotiation the highest of kwire.

        Raises: UnsupportedVersion when there is none.
        """
        api_key = _api_key_of(request)
        low, high = getattr(request, "VERSIONS", (0, 0))
        if not self._negotiated:
            return int(high)
        offered = self.versions.get(api_key)
        if offered is None:
            raise UnsupportedVersion(request.__name__, f"the broker at {self.address} does not have API {api_key}")
        broker_low, broker_high = offered
        if max(low, broker_low) > min(high, broker_high):
            what = f"the broker has versions {broker_low} to {broker_high}, this message {low} to {high}"
            raise UnsupportedVersion(request.__name__, what)
        return int(min(high, broker_high))

    def close(self) -> None:
        """Close the connection; outstanding responses are lost."""
        if self._transport is not None:
            self._transport.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _deadline(self, timeout_s: float | None) -> Deadline:
        return Deadline(self.timeout_s if timeout_s is None else timeout_s)

    def _connect(self, addresses: list[Address], tls: ssl.SSLContext | None, sasl: tuple[str, str] | None) -> Address:
        """Try the addresses in order; each gets an equal share of the remaining time."""
        total = self._deadline(None)
        reasons: list[str] = []
        for index, address in enumerate(addresses):
            deadline = Deadline(total.left_s() / (len(addresses) - index))
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
        raise ConnectFailed(f"no broker responds: {'; '.join(reasons)}")

    def _open(
        self, address: Address, tls: ssl.SSLContext | None, sasl: tuple[str, str] | None, deadline: Deadline
    ) -> None:
        self._pending.clear()
        self._transport = open_transport(address, tls, self._max_response_bytes, self._on_response, deadline)

        def exchange(api_key: int, version: int, body: bytes) -> bytes:
            return self.send_raw(api_key, version, body, timeout_s=deadline.left_s())

        if self._negotiated:
            self.versions = negotiate_versions(exchange)
        if sasl is not None:
            authenticate_by_sasl(exchange, *sasl, mechanism=self._sasl_mechanism)

    def _submit(self, request: msgspec.Struct, version: int | None, deadline: Deadline) -> PendingResponse:
        kind = type(request)
        api_key = _api_key_of(kind)
        edition = str(self._edition or getattr(kind, "EDITION", DEFAULT_EDITION))
        if version is None:
            version = self.version_for(kind)
        expected = ExpectedResponse(api_key, version, f"{api_name(api_key, edition)}Response", edition)
        has_response = api_key != _PRODUCE or getattr(request, "acks", None) != 0
        return self._write(expected, encode(request, version), deadline, answered=has_response)

    def _write(self, expected: ExpectedResponse, body: bytes, deadline: Deadline, *, answered: bool) -> PendingResponse:
        assert self._transport is not None
        if self._transport.failure is not None:
            raise ConnectionClosed(f"the connection has ended: {self._transport.failure}")
        self._correlation_id = 0 if self._correlation_id == _CORRELATION_ID_MAX else self._correlation_id + 1
        header = RequestHeader(expected.api_key, expected.version, self._correlation_id, self.client_id)
        request = encode_frame((encode(header, _header_version(expected)), body))
        pending = (PendingResponse if answered else NoResponse)(self._correlation_id, expected, self._wait)
        if answered:
            self._pending.append(pending)
        self._transport.send(request, deadline)
        return pending

    def _wait(self, pending: PendingResponse, timeout_s: float | None) -> None:
        assert self._transport is not None
        self._transport.receive(lambda: pending.done, self._deadline(timeout_s))

    def _on_response(self, response: bytes) -> None:
        """Match a response with the oldest request: a broker responds in the order of the requests."""
        if not self._pending:
            raise ProtocolViolation(f"{len(response)} unexpected bytes received")
        pending = self._pending.popleft()
        if response[:4] != pending.correlation_id.to_bytes(4, "big"):
            got = int.from_bytes(response[:4], "big", signed=True)
            raise ProtocolViolation(f"correlation id {got} instead of {pending.correlation_id}")
        pending.set_frame(response)


def _api_key_of(request: type[msgspec.Struct]) -> int:
    api_key: int | None = getattr(request, "API_KEY", None)
    if api_key is None or not request.__name__.endswith("Request"):
        raise UnsupportedVersion(request.__name__, "is not a request")
    return api_key


def _header_version(expected: ExpectedResponse) -> int:
    try:
        return header_versions(expected.api_key, expected.version, expected.edition)[0]
    except UnsupportedVersion:
        return 1
