"""Acknowledgement of acquired records: all or nothing for a partition (share-semantics 3)."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

import msgspec

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError
from mockbroker.state.share.in_flight_batch import NO_MEMBER, InFlightBatch, InFlightState, RecordEvent, RecordState
from mockbroker.state.share.pending_write import PendingWrite, StateChange
from mockbroker.state.share.share_history import HistoryEvent
from mockbroker.state.share.share_partition import ChangeReason, SharePartition


class AcknowledgeType(IntEnum):
    """Acknowledgement of a record; 0 stands for an offset at which the client found no record."""

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


class AcknowledgementBatch(NamedTuple):
    """A run of offsets with one type for all, or one for each."""

    first: int
    last: int
    types: Sequence[int]


class AcknowledgementResult(msgspec.Struct, frozen=True):
    """The result of an acknowledgement: an error, a write that must come first, or (neither) complete."""

    error: KafkaError | None = None
    write: PendingWrite | None = None


class BrokenRequestError(KafkaError):
    """Kafka 4.3.0 fails at this point, and the whole request is answered with an unknown server error."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.UNKNOWN_SERVER_ERROR)
        self.why = message


#: By number, which `check_structure` has checked.
_TYPES = tuple(AcknowledgeType)
_EVENTS = {
    AcknowledgeType.GAP: (RecordEvent.GAP, HistoryEvent.GAP),
    AcknowledgeType.ACCEPT: (RecordEvent.ACCEPT, HistoryEvent.ACCEPTED),
    AcknowledgeType.REJECT: (RecordEvent.REJECT, HistoryEvent.REJECTED),
}


def check_structure(batches: Sequence[AcknowledgementBatch], *, version: int, is_renewal: bool) -> ErrorCode | None:
    """Validate the batches of one partition before any state is read (3.1).

    Args: version: of the request; version 1 has no RENEW. is_renewal: the request's IsRenewAck.
    """
    previous_last = -1
    type_max = AcknowledgeType.RENEW if version >= 2 else AcknowledgeType.REJECT
    for first, last, types in batches:
        size = last - first + 1
        if size < 1 or first < previous_last:  # Sharing one offset with the previous batch is allowed here.
            return ErrorCode.INVALID_REQUEST
        if not types or (len(types) > 1 and len(types) != size):
            return ErrorCode.INVALID_REQUEST
        if min(types) < 0 or max(types) > type_max:
            return ErrorCode.INVALID_REQUEST
        if AcknowledgeType.RENEW in types and not is_renewal:
            return ErrorCode.INVALID_REQUEST
        previous_last = last
    return None


def acknowledge_records(
    partition: SharePartition, member_id: str, batches: Sequence[AcknowledgementBatch], *, now_ms: int
) -> AcknowledgementResult:
    """Acknowledge records that a member holds; the first batch that is refused undoes those before it (3.2, 3.3).

    Raises: BrokenRequestError where 4.3.0 fails the whole request.
    """
    changes: list[StateChange] = []
    for batch in batches:
        if batch.last < partition.window.start_offset:
            continue  # Complete long ago: no error.
        error = _acknowledge_batch(partition, member_id, batch, changes, now_ms)
        if error is not None:
            partition.roll_back(changes)
            return AcknowledgementResult(error=error)
    if not changes:
        return AcknowledgementResult()
    partition.history.record_changes(changes, member_id, now_ms=now_ms)
    return AcknowledgementResult(write=partition.prepare_write([change.written for change in changes], changes))


def _acknowledge_batch(
    partition: SharePartition, member_id: str, request: AcknowledgementBatch, changes: list[StateChange], now_ms: int
) -> KafkaError | None:
    """Start the transitions of one batch and add them to `changes`. Returns: the error, if it is refused."""
    window, (ack_first, ack_last, types) = partition.window, request
    batches = _find_batches(partition, request)
    if isinstance(batches, KafkaError):
        return batches
    for batch in batches:
        if batch.last < window.start_offset:
            continue
        whole = batch.batch_state
        if whole is not None:
            error = _check_holder(whole, member_id, f"batch {batch.first}-{batch.last}")
            if error is not None:
                return error
            is_full = ack_first <= batch.first and batch.last <= ack_last
            is_cut = batch.first < window.start_offset
            if not is_full or is_cut or len(types) > 1:
                window.split_batch(batch)
        for first, last, state in batch.entries(max(ack_first, window.start_offset), ack_last):
            error = None if state is whole else _check_holder(state, member_id, f"offset {first}")
            kind = _TYPES[types[first - ack_first if len(types) > 1 else 0]]
            if error is None and kind is AcknowledgeType.RENEW:
                error = _renew(partition, first, last, state, now_ms)
            elif error is None:
                reason = _event_for(partition, state, kind)
                changes.append(partition.start_change(batch, first, last, state, reason))
                if state.state.is_terminal:
                    window.delivery_complete_count += last - first + 1
            if error is not None:
                return error
    return None


def _find_batches(partition: SharePartition, request: AcknowledgementBatch) -> list[InFlightBatch] | KafkaError:
    window, (first, last, _) = partition.window, request
    floor = window.floor(first)
    if floor is None:
        if not first < window.start_offset <= last:
            return KafkaError(ErrorCode.INVALID_RECORD_STATE, f"nothing in flight at or below offset {first}")
        floor = window.floor(window.start_offset)
        if floor is None:
            raise BrokenRequestError(f"offsets {first}-{last} over an empty window")
    batches = window.starting_between(floor.first, last)
    if batches[-1].last < last:
        outside = first if batches[-1].last < first else last
        return KafkaError(ErrorCode.INVALID_REQUEST, f"offset {outside} is past the records acquired")
    return batches


def _check_holder(state: InFlightState, member_id: str, subject: str) -> KafkaError | None:
    """Only the member that holds a record may acknowledge it, and only once."""
    if state.state is not RecordState.ACQUIRED or state.member_id == NO_MEMBER:
        return KafkaError(ErrorCode.INVALID_RECORD_STATE, f"{subject} is {state.state.name}, not acquired")
    if state.is_in_transition:
        return KafkaError(ErrorCode.INVALID_RECORD_STATE, f"{subject} is being written")
    if state.member_id != member_id:
        return KafkaError(ErrorCode.INVALID_RECORD_STATE, f"{subject} is held by another member")
    return None


def _renew(partition: SharePartition, first: int, last: int, state: InFlightState, now_ms: int) -> KafkaError | None:
    """Start a lock of full duration; nothing is written, and no rollback undoes it (share-semantics 1.4)."""
    if not partition.allows_renewal:
        return KafkaError(ErrorCode.INVALID_RECORD_STATE, "the group does not allow to renew locks")
    state.cancel_lock()
    state.lock = partition.start_lock(first, last, now_ms=now_ms)
    partition.history.record_event(now_ms, HistoryEvent.RENEWED, first, last, state)
    return None


def _event_for(partition: SharePartition, state: InFlightState, kind: AcknowledgeType) -> ChangeReason:
    if kind is AcknowledgeType.REJECT and partition.has_queue:
        return RecordEvent.DEAD_LETTER, HistoryEvent.REJECTED
    if kind is not AcknowledgeType.RELEASE:
        return _EVENTS[kind]
    # An acknowledgement never reaches below the start, so only the delivery count decides.
    return partition.release_event(state, is_below_start=False), HistoryEvent.RELEASED
