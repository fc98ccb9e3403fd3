"""Whether the answer of a version has a place for an error: old versions lack fields that the classes have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.codec import decode, encode
from kwire.errors import WireError
from mockbroker.engine.dispatch import build_error_response
from mockbroker.faults.responses.error_rows import build_topic_rows, has_topic_rows, named_topics, top_error_response
from mockbroker.journal.message_values import failure_codes

if TYPE_CHECKING:
    import msgspec

    from mockbroker.engine.dispatch import IncomingRequest
    from mockbroker.kafka_error import KafkaError


def carried_codes(response: msgspec.Struct, version: int) -> set[int]:
    """The error codes that are left when a response is encoded in a version."""
    if not failure_codes(response):
        return set()
    return set(failure_codes(decode(type(response), version, encode(response, version))))


def build_refusal(incoming: IncomingRequest, error: KafkaError, *, at_top: bool) -> msgspec.Struct | None:
    """A response with this error for the whole request, in the rows of its topics if the version has no other place.

    at_top: only at the top. Returns: None if no answer of this version to this request can have the error.
    """
    response = top_error_response(incoming, error) if at_top else build_error_response(incoming, error)
    if _carries(incoming, response, error):
        return response
    if at_top or not has_topic_rows(type(response)):
        return None
    rows = build_topic_rows(incoming, named_topics(incoming.handler_request), error)
    return rows if _carries(incoming, rows, error) else None


def _carries(incoming: IncomingRequest, response: msgspec.Struct, error: KafkaError) -> bool:
    wire_response = incoming.route.to_wire(response, incoming.request)
    try:
        return error.code in carried_codes(wire_response, incoming.response_version)
    except WireError:  # A field that the version lacks, and that must not be left out silently.
        return False
