"""The gate of a SASL listener: what a connection may ask before it has authenticated, and when it has to do so again.

Source: Kafka's SaslServerAuthenticator and KafkaChannel; KIP-43, KIP-152, KIP-368. Pinned by the conversations
other-sasl-*, and by what a real broker was seen to do with tokens that have no header (tests/mockbroker/test_sasl.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from typing import TYPE_CHECKING, cast

from kwire.error_codes import ErrorCode
from mockbroker.dispatch import Incoming, Undispatchable, read, refuse
from mockbroker.kafka_error import KafkaError
from mockbroker.outcome import Farewell, Hangup, Outcome, Park, Reply, Token
from mockbroker.routes import Route
from mockbroker.state.login import BadCredentials, LoggedIn, Login, Refused

if TYPE_CHECKING:
    import msgspec

    from kwire.messages.sasl_authenticate import SaslAuthenticateRequest
    from kwire.messages.sasl_handshake import SaslHandshakeRequest
    from mockbroker.context import Context
    from mockbroker.security.rooms import Security

_HANDSHAKE, _API_VERSIONS, _AUTHENTICATE = 17, 18, 36
#: A client may not authenticate anew more often than this.
_REAUTH_PAUSE_MS = 1_000


class Step(Enum):
    """Where a connection stands."""

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


class Gate:
    """The gate that one connection has to pass. Until then its requests come here instead of to their handlers."""

    def __init__(self, security: Security, listener: str) -> None:
        self._security = security
        self._listener = listener
        self._demands = security.sasl(listener)
        self._step = Step.FIRST
        self._login: Login | None = None
        self._mechanism = ""
        # Tokens travel in SaslAuthenticate requests after a handshake of version 1, and bare after one of version 0.
        self._has_headers = False
        self._expires_ms: int | None = None
        self._reauth_began_ms: int | None = None
        self._former: tuple[str, str] | None = None

    def takes(self, size: int) -> bool:
        """Whether a frame may have so many bytes: `sasl.server.max.receive.size` until the gate is open."""
        return self._step is Step.OPEN or size <= self._demands.token_bytes_max

    def read(self, frame: bytes | memoryview, routes: Mapping[int, Route]) -> Incoming:
        """Decode a frame; one that is a bare token becomes a request of no API.

        Raises: Undispatchable, as `dispatch.read`.
        """
        if self._step is Step.OPEN:
            return read(frame, routes)
        if not self.takes(len(frame)):
            most = self._demands.token_bytes_max
            raise Undispatchable(f"{len(frame)} bytes before authentication; sasl.server.max.receive.size is {most}")
        if (self._step is Step.TOKENS and not self._has_headers) or self._step is Step.WRONG_MECHANISM:
            token = Token(bytes(frame))
            return Incoming(_BARE, 0, 0, 0, None, token, token, 0, ())
        return read(frame, routes)

    def handle(self, incoming: Incoming, ctx: Context) -> Outcome:
        """Answer a request: by its own handler once the gate is open. Raises: KafkaError, as a handler."""
        if self._step is Step.OPEN:
            return self._pass(incoming, ctx)
        if self._step is Step.WRONG_MECHANISM:
            return self._fail(None, "re-authentication by another mechanism", ctx)
        if self._step is Step.TOKENS:
            return self._token(incoming, ctx)
        if incoming.api_key == _API_VERSIONS and self._step is Step.FIRST:
            return self._versions(incoming, ctx)
        if incoming.api_key == _HANDSHAKE:
            return self._handshake(cast("SaslHandshakeRequest", incoming.request), ctx)
        self._move(Step.FAILED)
        return Hangup(f"{incoming.api_name} before authentication")

    def _pass(self, incoming: Incoming, ctx: Context) -> Outcome:
        if self._expires_ms is not None:
            if incoming.api_key == _HANDSHAKE and self._may_begin_again(ctx.now_ms):
                return self._begin_again(cast("SaslHandshakeRequest", incoming.request), ctx)
            # Kafka counts nanoseconds: what comes in the same millisecond comes later.
            if ctx.now_ms >= self._expires_ms:
                self._move(Step.FAILED)
                return Hangup(f"the session of {ctx.connection.principal} has ended")
        if incoming.refusal is not None:
            raise incoming.refusal
        return incoming.route.handler(incoming.asked, ctx)

    def _may_begin_again(self, now_ms: int) -> bool:
        return self._reauth_began_ms is None or now_ms - self._reauth_began_ms >= _REAUTH_PAUSE_MS

    def _begin_again(self, request: SaslHandshakeRequest, ctx: Context) -> Outcome:
        """KIP-368. Kafka closes at once where the first request of it fails."""
        self._reauth_began_ms = ctx.now_ms
        self._former = (ctx.connection.principal, self._mechanism)
        self._has_headers = False
        if request.mechanism not in self._demands.mechanisms:
            self._move(Step.FAILED)
            return Hangup(f"re-authentication by {request.mechanism!r}, which is not enabled")
        return self._handshake(request, ctx)

    def _versions(self, incoming: Incoming, ctx: Context) -> Outcome:
        if incoming.refusal is not None:
            raise incoming.refusal
        outcome = incoming.route.handler(incoming.asked, ctx)
        if isinstance(outcome, Reply) and getattr(outcome.response, "error_code", 0) == ErrorCode.NONE:
            self._move(Step.HANDSHAKE)
        return outcome

    def _handshake(self, request: SaslHandshakeRequest, ctx: Context) -> Outcome:
        from kwire.messages.sasl_handshake import SaslHandshakeResponse

        self._has_headers = self._has_headers or ctx.api_version >= 1
        response = SaslHandshakeResponse(mechanisms=_in_java_order(self._demands.mechanisms))
        if request.mechanism not in self._demands.mechanisms:
            response.error_code = ErrorCode.UNSUPPORTED_SASL_MECHANISM
            return self._fail(response, f"the mechanism {request.mechanism!r} is not enabled", ctx)
        if self._former is not None and request.mechanism != self._former[1]:
            self._move(Step.WRONG_MECHANISM)
        else:
            self._mechanism = request.mechanism
            self._login = self._security.begin(self._listener, request.mechanism, now_ms=ctx.now_ms)
            self._move(Step.TOKENS)
        return Reply(response)

    def _token(self, incoming: Incoming, ctx: Context) -> Outcome:
        if isinstance(incoming.request, Token):
            return self._bare_token(incoming.request.data, ctx)
        if incoming.api_key != _AUTHENTICATE:
            error = KafkaError(ErrorCode.ILLEGAL_SASL_STATE, f"{incoming.api_name} instead of SaslAuthenticate")
            return self._fail(refuse(incoming, error), str(error), ctx)
        from kwire.messages.sasl_authenticate import SaslAuthenticateResponse

        request = cast("SaslAuthenticateRequest", incoming.request)
        try:
            said, lifetime_ms = self._hear(bytes(request.auth_bytes), ctx)
        except (Refused, BadCredentials) as why:
            # Of bad credentials a client learns no more than that they are bad.
            message = str(why) if isinstance(why, Refused) else f"Authentication by {self._mechanism} failed"
            response = SaslAuthenticateResponse(
                error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=message, auth_bytes=b""
            )
            return self._fail(response, f"authentication by {self._mechanism} failed: {why}", ctx)
        return Reply(SaslAuthenticateResponse(auth_bytes=said, session_lifetime_ms=lifetime_ms))

    def _bare_token(self, data: bytes, ctx: Context) -> Outcome:
        try:
            said, _ = self._hear(data, ctx)
        except Refused as why:
            return self._fail(None, f"authentication by {self._mechanism} failed: {why}", ctx)
        except BadCredentials as why:
            self._move(Step.FAILED)
            return Hangup(f"authentication by {self._mechanism} failed: {why}")
        return Token(said)

    def _hear(self, token: bytes, ctx: Context) -> tuple[bytes, int]:
        """Give a token to the mechanism; its answer, and how long the session lasts (0: no end, or not yet begun).

        Raises: Refused, BadCredentials.
        """
        assert self._login is not None
        said, known = self._login.step(token)
        if known is None:
            return said, 0
        if self._former is not None and known.principal != self._former[0]:
            raise Refused(f"Re-authentication cannot make {known.principal} of {self._former[0]}")
        self._login = None
        ctx.connection.principal, ctx.connection.is_token = known.principal, known.is_token
        self._move(Step.OPEN)
        return said, self._begin_session(known, ctx.now_ms)

    def _begin_session(self, known: LoggedIn, now_ms: int) -> int:
        limit_ms = self._demands.max_reauth_ms[self._mechanism]
        limits = [limit_ms] if limit_ms > 0 else []
        if known.expires_ms is not None:
            limits.append(known.expires_ms - now_ms)
        if not limits:
            self._expires_ms = None
            return 0
        lifetime_ms = max(0, min(limits))
        self._expires_ms = now_ms + lifetime_ms
        return lifetime_ms

    def _fail(self, response: msgspec.Struct | None, reason: str, ctx: Context) -> Outcome:
        """Answer and close, both after `connection.failed.authentication.delay.ms`."""
        self._move(Step.FAILED)
        last: Outcome = Hangup(reason) if response is None else Farewell(response, reason)
        delay_ms = self._demands.failure_delay_ms
        return last if delay_ms == 0 else Park(ctx.now_ms + delay_ms, (), lambda _: last)

    def _move(self, to: Step) -> None:
        assert to in TRANSITIONS[self._step], f"{self._step.name} to {to.name}"
        self._step = to


#: Where a bare token goes in the journal: an exchange of no API, of which the content is not shown.
_BARE = Route(-1, "SaslToken", "sasl.bare", (0, 0), None)


def _in_java_order(mechanisms: tuple[str, ...]) -> tuple[str, ...]:
    """Kafka tells them as a set of Java's walks."""
    from mockbroker.state.java_order import JavaSet
    from mockbroker.state.topics import java_hash

    return tuple(JavaSet(java_hash, mechanisms))
