"""SaslHandshake (17) and SaslAuthenticate (36) where they have no place: on a connection that is let in already.

Before that they never get here but to the gate of their listener (`mockbroker/security/sasl.py`).
"""

from __future__ import annotations

from kwire.error_codes import ErrorCode
from kwire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kwire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from mockbroker.context import Context
from mockbroker.outcome import Outcome, Reply


def sasl_handshake(request: SaslHandshakeRequest, ctx: Context) -> Outcome:
    """ILLEGAL_SASL_STATE, as on every listener without SASL. Pinned by the conversation other-sasl-on-plaintext."""
    return Reply(SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE))


def sasl_authenticate(request: SaslAuthenticateRequest, ctx: Context) -> Outcome:
    """ILLEGAL_SASL_STATE: this connection has nothing to prove."""
    message = "SaslAuthenticate on a connection that is authenticated, or need not be"
    return Reply(SaslAuthenticateResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message=message))
