"""SASL authentication of one connection: its state machine, and the requests that it allows before and after login.

Source: Kafka's SaslServerAuthenticator and KafkaChannel; KIP-43, KIP-152, KIP-368. Pinned by the conversations
other-sasl-*, for tokens without a header by tests/mockbroker/engine/test_sasl_authenticator.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from typing import TYPE_CHECKING, cast

from kwire.error_codes import ErrorCode
from mockbroker.engine.dispatch import IncomingRequest, Undispatchable, build_error_response, decode_request
from mockbroker.engine.outcome import CloseConnection, Outcome, Park, RawSaslToken, Reply, ReplyAndClose
from mockbroker.engine.routes import Route
from mockbroker.kafka_error import KafkaError
from mockbroker.log.closed_connections import log_refused_token
from mockbroker.state.security.login import (
    AuthenticatedPrincipal,
    DefectiveClient,
    InvalidCredentials,
    Login,
    LoginAborted,
    LoginRefused,
)

if TYPE_CHECKING:
    import msgspec

    from kwire.messages.sasl_authenticate import SaslAuthenticateRequest
    from kwire.messages.sasl_handshake import SaslHandshakeRequest
    from mockbroker.engine.context import Context
    from mockbroker.security.state import Security

_HANDSHAKE, _API_VERSIONS, _AUTHENTICATE = 17, 18, 36
#: The minimum interval between re-authentications of a client.
_REAUTH_PAUSE_MS = 1_000
#: Kafka adds the lifetime of a session in nanoseconds to a clock of 64 bits, and fails on an overflow.
_LIFETIME_MAX_MS = (2**63 - 1) // 1_000_000


class Step(Enum):
    """The authentication state of a connection."""

    FIRST = auto()
    HANDSHAKE = auto()
    TOKENS = auto()
    WRONG_MECHANISM = auto()
    OPEN = auto()
    FAILED = auto()


#: What may follow a step; FAILED ends the connection.
TRANSITIONS: dict[Step, tuple[Step, ...]] = {
    Step.FIRST: (Step.HANDSHAKE, Step.TOKENS, Step.FAILED),
    Step.HANDSHAKE: (Step.TOKENS, Step.FAILED),
    Step.TOKENS: (Step.OPEN, Step.FAILED),
    Step.WRONG_MECHANISM: (Step.FAILED,),
    Step.OPEN: (Step.TOKENS, Step.WRONG_MECHANISM, Step.FAILED),
    Step.FAILED: (),
}


class SaslAuthenticator:
    """The authenticator of one connection. Before authentication it handles the requests instead of their handlers."""

    def __init__(self, security: Security, listener: str) -> None:
        self._security = security
        self._listener = listener
        self._settings = security.sasl_listener(listener)
        self._step = Step.FIRST
        self._login: Login | None = None
        self._mechanism = ""
        # Tokens are in SaslAuthenticate requests after a handshake of version 1, and without a header after version 0.
        self._has_headers = False
        self._expires_ms: int | None = None
        self._reauth_began_ms: int | None = None
        self._previous_identity: tuple[str, str] | None = None

    @property
    def is_open(self) -> bool:
        """Whether the client is authenticated."""
        return self._step is Step.OPEN

    def accepts_frame_size(self, size: int) -> bool:
        """Whether a frame may have this size: at most `sasl.server.max.receive.size` before authentication."""
        return self._step is Step.OPEN or size <= self._settings.token_bytes_max

    def expire_session(self, now_ms: int) -> bool:
        """End the session now, as if its lifetime were over. Returns: whether there is one."""
        if self._step is Step.OPEN:
            self._expires_ms = now_ms
        return self._step is Step.OPEN

    def decode_request(self, frame: bytes | memoryview, routes: Mapping[int, Route]) -> IncomingRequest:
        """Decode a frame; a token without a header becomes a request of no API.

        Raises: Undispatchable, as `dispatch.decode_request`.
        """
        if self._step is Step.OPEN:
            return decode_request(frame, routes)
        if not self.accepts_frame_size(len(frame)):
            limit = self._settings.token_bytes_max
            raise Undispatchable(f"{len(frame)} bytes before authentication; sasl.server.max.receive.size is {limit}")
        if (self._step is Step.TOKENS and not self._has_headers) or self._step is Step.WRONG_MECHANISM:
            token = RawSaslToken(bytes(frame))
            return IncomingRequest(_RAW_TOKEN_ROUTE, 0, 0, 0, None, token, token, 0, ())
        return decode_request(frame, routes)

    def handle_request(self, incoming: IncomingRequest, ctx: Context) -> Outcome:
        """Handle a request: with its own handler after authentication. Raises: KafkaError, as a handler."""
        if self._step is Step.OPEN:
            return self._handle_authenticated(incoming, ctx)
        if self._step is Step.WRONG_MECHANISM:
            return self._fail(None, "re-authentication by another mechanism", ctx)
        if self._step is Step.TOKENS:
            return self._handle_token(incoming, ctx)
        if incoming.api_key == _API_VERSIONS and self._step is Step.FIRST:
            return self._handle_api_versions(incoming, ctx)
        if incoming.api_key == _HANDSHAKE:
            return self._handle_handshake(cast("SaslHandshakeRequest", incoming.request), ctx)
        self._move_to(Step.FAILED)
        return CloseConnection(f"{incoming.api_name} before authentication")

    def _handle_authenticated(self, incoming: IncomingRequest, ctx: Context) -> Outcome:
        if self._expires_ms is not None:
            if incoming.api_key == _HANDSHAKE and self._may_reauthenticate(ctx.now_ms):
                return self._start_reauthentication(cast("SaslHandshakeRequest", incoming.request), ctx)
            # Kafka counts nanoseconds: a request in the same millisecond arrives later.
            if ctx.now_ms >= self._expires_ms:
                self._move_to(Step.FAILED)
                return CloseConnection(f"the session of {ctx.connection.principal} has ended")
        if incoming.refusal is not None:
            raise incoming.refusal
        return incoming.route.handler(incoming.handler_request, ctx)

    def _may_reauthenticate(self, now_ms: int) -> bool:
        return self._reauth_began_ms is None or now_ms - self._reauth_began_ms >= _REAUTH_PAUSE_MS

    def _start_reauthentication(self, request: SaslHandshakeRequest, ctx: Context) -> Outcome:
        """KIP-368. Kafka closes the connection at once if the first request fails."""
        self._reauth_began_ms = ctx.now_ms
        self._previous_identity = (ctx.connection.principal, self._mechanism)
        self._has_headers = False
        if request.mechanism not in self._settings.mechanisms:
            self._move_to(Step.FAILED)
            return CloseConnection(f"re-authentication by {request.mechanism!r}, which is not enabled")
        return self._handle_handshake(request, ctx)

    def _handle_api_versions(self, incoming: IncomingRequest, ctx: Context) -> Outcome:
        if incoming.refusal is not None:
            raise incoming.refusal
        outcome = incoming.route.handler(incoming.handler_request, ctx)
        if isinstance(outcome, Reply) and getattr(outcome.response, "error_code", 0) == ErrorCode.NONE:
            self._move_to(Step.HANDSHAKE)
        return outcome

    def _handle_handshake(self, request: SaslHandshakeRequest, ctx: Context) -> Outcome:
        from kwire.messages.sasl_handshake import SaslHandshakeResponse

        self._has_headers = self._has_headers or ctx.api_version >= 1
        response = SaslHandshakeResponse(mechanisms=_sort_as_java_set(self._settings.mechanisms))
        if request.mechanism not in self._settings.mechanisms:
            response.error_code = ErrorCode.UNSUPPORTED_SASL_MECHANISM
            return self._fail(response, f"the mechanism {request.mechanism!r} is not enabled", ctx)
        if self._previous_identity is not None and request.mechanism != self._previous_identity[1]:
            self._move_to(Step.WRONG_MECHANISM)
        else:
            self._mechanism = request.mechanism
            self._login = self._security.start_login(self._listener, request.mechanism, now_ms=ctx.now_ms)
            self._move_to(Step.TOKENS)
        return Reply(response)

    def _handle_token(self, incoming: IncomingRequest, ctx: Context) -> Outcome:
        if isinstance(incoming.request, RawSaslToken):
            return self._handle_raw_token(incoming.request.data, ctx)
        if incoming.api_key != _AUTHENTICATE:
            error = KafkaError(ErrorCode.ILLEGAL_SASL_STATE, f"{incoming.api_name} instead of SaslAuthenticate")
            return self._fail(build_error_response(incoming, error), str(error), ctx)
        from kwire.messages.sasl_authenticate import SaslAuthenticateResponse

        request = cast("SaslAuthenticateRequest", incoming.request)
        try:
            challenge, lifetime_ms = self._evaluate_token(bytes(request.auth_bytes), ctx)
        except (LoginRefused, InvalidCredentials) as error:
            # The response contains no details about bad credentials.
            message = str(error) if isinstance(error, LoginRefused) else f"Authentication by {self._mechanism} failed"
            code = ErrorCode.SASL_AUTHENTICATION_FAILED
            response = SaslAuthenticateResponse(error_code=code, error_message=message, auth_bytes=b"")
            return self._fail(response, self._describe_failure(error, ctx), ctx)
        except LoginAborted as error:
            self._move_to(Step.FAILED)
            return CloseConnection(f"authentication by {self._mechanism} failed: {error}")
        return Reply(SaslAuthenticateResponse(auth_bytes=challenge, session_lifetime_ms=lifetime_ms))

    def _handle_raw_token(self, data: bytes, ctx: Context) -> Outcome:
        try:
            challenge, _ = self._evaluate_token(data, ctx)
        except LoginRefused as error:
            return self._fail(None, f"authentication by {self._mechanism} failed: {error}", ctx)
        except (InvalidCredentials, LoginAborted) as error:
            self._move_to(Step.FAILED)
            return CloseConnection(self._describe_failure(error, ctx))
        return RawSaslToken(challenge)

    def _describe_failure(self, error: Exception, ctx: Context) -> str:
        """The reason for the log; of a known defect with the software of the client, if ApiVersions has named it."""
        text, peer = f"authentication by {self._mechanism} failed: {error}", ctx.connection
        if not isinstance(error, DefectiveClient) or not peer.software_name:
            return text
        return f"{text} (this client is {peer.software_name} {peer.software_version})"

    def _evaluate_token(self, token: bytes, ctx: Context) -> tuple[bytes, int]:
        """Evaluate a token. Returns: the next challenge, and the session lifetime (0: unlimited, or no session yet).

        Raises: LoginRefused, InvalidCredentials, LoginAborted.
        """
        assert self._login is not None
        challenge, login, refusal = self._login.handle_message(token, now_ms=ctx.now_ms)
        if refusal is not None:
            peer = ctx.connection
            log_refused_token(peer.node_id, peer.host, peer.port, refusal)
        if login is None:
            return challenge, 0
        if self._previous_identity is not None and login.principal != self._previous_identity[0]:
            raise LoginRefused(f"Re-authentication cannot make {login.principal} of {self._previous_identity[0]}")
        self._login = None
        lifetime_ms = self._start_session(login, ctx.now_ms)
        ctx.connection.principal, ctx.connection.is_token = login.principal, login.is_token
        self._move_to(Step.OPEN)
        return challenge, lifetime_ms

    def _start_session(self, login: AuthenticatedPrincipal, now_ms: int) -> int:
        limit_ms = self._settings.max_reauth_ms[self._mechanism]
        limits = [limit_ms] if limit_ms > 0 else []
        if login.expires_ms is not None:
            limits.append(login.expires_ms - now_ms)
        if not limits:
            self._expires_ms = None
            return 0
        lifetime_ms = max(0, min(limits))
        if lifetime_ms > _LIFETIME_MAX_MS:
            raise LoginAborted(f"a session of {lifetime_ms} ms is longer than Kafka's clock counts")
        self._expires_ms = now_ms + lifetime_ms
        return lifetime_ms

    def _fail(self, response: msgspec.Struct | None, reason: str, ctx: Context) -> Outcome:
        """Answer and close, both after `connection.failed.authentication.delay.ms`."""
        self._move_to(Step.FAILED)
        last: Outcome = CloseConnection(reason) if response is None else ReplyAndClose(response, reason)
        delay_ms = self._settings.failure_delay_ms
        return last if delay_ms == 0 else Park(ctx.now_ms + delay_ms, (), lambda _: last)

    def _move_to(self, to: Step) -> None:
        assert to in TRANSITIONS[self._step], f"{self._step.name} to {to.name}"
        self._step = to


#: The route of a token without a header in the journal: an exchange of no API, whose content is not shown.
_RAW_TOKEN_ROUTE = Route(-1, "SaslToken", "sasl.bare", (0, 0), None)


def _sort_as_java_set(mechanisms: tuple[str, ...]) -> tuple[str, ...]:
    """The order of a Java HashSet, in which Kafka lists them."""
    from mockbroker.state.java.hash_order import JavaSet
    from mockbroker.state.metadata.topics import java_hash

    return tuple(JavaSet(java_hash, mechanisms))
