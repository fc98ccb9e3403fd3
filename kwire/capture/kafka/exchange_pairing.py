"""Limits of messages that wait for their other half, what tokens of SASL become, and why a response is missing."""

from __future__ import annotations

from kwire.capture.kafka.message_decoder import API_VERSIONS, Request, Response
from kwire.capture.model import Frame

_SASL_HANDSHAKE, _SASL_AUTHENTICATE = 17, 36
IDENTIFYING_API_KEYS = (_SASL_HANDSHAKE, API_VERSIONS, _SASL_AUTHENTICATE)
"""The APIs whose exchanges show the software or the principal of a client: rows after them have these."""
# Limit of responses that wait for a request which the capture shows later; the oldest ones become `no_request`.
ORPHANS_MAX = 256
# Limit of open requests of one connection; the oldest ones become `no_response`. No client has so many in flight, but a
# capture of one direction has no responses.
PENDING_REQUESTS_MAX = 10_000
# Memory limit of all pending frames together; beyond it each connection drops its oldest request.
PENDING_SIZE_MAX = 512 * 1024 * 1024
# Memory of a frame in addition to its bytes.
FRAME_COST = 2_000
# A response may be captured this much before its request, if packets are out of order.
DISORDER_NS = 100_000_000


def make_token_request(frame: Frame, mechanism: str | None) -> Request:
    """The request of a SASL token without a header. Args: mechanism: of the SaslHandshake before it."""
    request = Request(frame, api_name="SaslToken", is_token=True)
    request.add_issue("sasl_token", f"a {mechanism or 'SASL'} token without a header, after SaslHandshake v0")
    return request


def make_token_response(frame: Frame) -> Response:
    """The response to a SASL token without a header."""
    response = Response(frame, order_ok=True)
    response.add_issue("sasl_token", "the broker's token, without a Kafka header")
    return response


def add_duplicate_issue(request: Request) -> None:
    """Add the issue of a request that came while another one of its correlation id had no response."""
    detail = f"correlation id {request.correlation_id} is still waiting for an answer"
    request.add_issue("duplicate_correlation", detail)


# The reason for a missing response, by the end of the connection.
NO_RESPONSE_REASONS = {
    "fin": "the connection was closed before an answer",
    "rst": "the connection was reset before an answer",
    "reuse": "another connection took the same ports before an answer",
    "end": "the capture ends before an answer",
    "many": "too many requests were waiting for answers, so this one was dropped",
    "expired": "no answer came within the time that open requests are stored",
    "quiet": "too many connections were open, so this one was dropped as the longest idle one before an answer",
}
