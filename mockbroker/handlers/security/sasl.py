"""SaslHandshake (17) and SaslAuthenticate (36) on a connection that needs no authentication or has finished it.

Before that, the authenticator of the listener handles them (`mockbroker/engine/sasl_authenticator.py`).
"""

from __future__ import annotations

from kwire.error_codes import ErrorCode
from kwire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kwire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from mockbroker.engine.context import Context
from mockbroker.engine.outcome import Outcome, Reply


def sasl_handshake(request: SaslHandshakeRequest, ctx: Context) -> Outcome:
    """Return ILLEGAL_SASL_STATE, as every listener without SASL. Pinned by other-sasl-on-plaintext."""
    return Reply(SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE))


def sasl_authenticate(request: SaslAuthenticateRequest, ctx: Context) -> Outcome:
    """Return ILLEGAL_SASL_STATE: this connection is already authenticated."""
    message = "SaslAuthenticate on a connection that is already authenticated or needs no authentication"
    return Reply(SaslAuthenticateResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message=message))
