"""The rule about requests that are sent again after an error that no retry can change."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import msgspec

from kwire.conformance.limited_dict import LimitedDict
from kwire.conformance.model import BatchKey, ConnectionKey, Note, ObservedExchange
from kwire.conformance.produced_batches import batches_of
from kwire.conformance.response_errors import error_codes
from kwire.conformance.traffic import TRACKED_MAX, Seen, SilentChecker, Traffic, make_note
from kwire.error_codes import ErrorCode, name_of

_PRODUCE = 0
#: Requests in which a member or a producer names itself. Others may be repeated because a user asks again.
_CHECKED_APIS = frozenset({8, 11, 12, 13, 14, 24, 25, 26, 28, 68, 76, 88})
#: Errors that say that the member or the producer, as it names itself, does not exist any more.
_FATAL_CODES = frozenset(
    {
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    }
)
#: Errors of a batch that stay whatever else changes.
_FATAL_BATCH_CODES = frozenset(
    {
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.INVALID_RECORD,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
    }
)


class RetryChecker(SilentChecker):
    """Equal requests, and equal batches of idempotent producers, after a fatal error that the client has seen."""

    def __init__(self, traffic: Traffic) -> None:
        self._traffic = traffic
        self._failed: LimitedDict[tuple[ConnectionKey, int], tuple[msgspec.Struct, int, Seen]]
        self._failed = LimitedDict(TRACKED_MAX)
        self._failed_batches: LimitedDict[BatchKey, tuple[int, Seen]] = LimitedDict(TRACKED_MAX)

    def take_request(self, exchange: ObservedExchange) -> Iterator[Note]:
        """A request arrives."""
        if exchange.api_key == _PRODUCE:
            yield from self._check_batches(exchange)
        elif exchange.api_key in _CHECKED_APIS:
            failed = self._failed.get((exchange.connection, exchange.api_key))
            if failed is None or exchange.request != failed[0] or not self._traffic.has_seen(failed[2], exchange):
                return
            # The member may have joined again, or succeeded, in what is missing.
            if not self._traffic.is_complete_since(exchange.connection, failed[2].answered_ns):
                return
            text = f"sent {exchange.api_name} again unchanged after {name_of(failed[1])}"
            yield make_note("retry-after-fatal-error", text, exchange, [failed[2]])

    def _check_batches(self, exchange: ObservedExchange) -> Iterator[Note]:
        for batch in batches_of(exchange):
            failed = self._failed_batches.get(batch.key)
            if failed is not None and self._traffic.has_seen(failed[1], exchange):
                text = f"produced {batch} again unchanged after {name_of(failed[0])}"
                yield make_note("retry-after-fatal-error", text, exchange, [failed[1]])

    def take_response(self, exchange: ObservedExchange) -> Iterator[Note]:
        """A response is sent."""
        if exchange.request is None or exchange.response is None:
            return iter(())
        if exchange.api_key == _PRODUCE:
            codes = _partition_errors(exchange.response)
            for batch in batches_of(exchange):
                code = codes.get((batch.topic, batch.partition), 0)
                if code in _FATAL_BATCH_CODES:
                    self._failed_batches[batch.key] = (code, Seen.of(exchange))
        elif exchange.api_key in _CHECKED_APIS:
            errors = list(error_codes(exchange.response))
            key = (exchange.connection, exchange.api_key)
            self._failed.pop(key, None)
            if errors and all(code in _FATAL_CODES for code in errors):
                self._failed[key] = (exchange.request, errors[0], Seen.of(exchange))
        return iter(())


def _partition_errors(response: msgspec.Struct) -> dict[tuple[str | bytes, int], int]:
    """The error codes of a Produce response by topic, name or id, and partition."""
    return {
        (topic.name or topic.topic_id, partition.index): partition.error_code
        for topic in cast("Any", response).responses
        for partition in topic.partition_responses
    }
