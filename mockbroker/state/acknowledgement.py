"""Acknowledging: what a member says of the records it holds, all or nothing for a partition (share-semantics 3)."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError
from mockbroker.state.in_flight import NOBODY, Event, InFlight, InFlightBatch, State
from mockbroker.state.share_history import Happening
from mockbroker.state.share_partition import Change, PendingWrite, SharePartition


class AcknowledgeType(IntEnum):
    """What can be said of a record; 0 stands for an offset where the client found none."""

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


class Settlement(NamedTuple):
    """How an acknowledgement went: refused, to be written first, or (neither) done."""

    error: KafkaError | None = None
    write: PendingWrite | None = None


class BrokenRequestError(KafkaError):
    """Kafka 4.3.0 breaks at this point, and the whole request is answered with an unknown server error."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.UNKNOWN_SERVER_ERROR)
        self.why = message


_MOVES = {
    AcknowledgeType.GAP: (Event.GAP, Happening.GAP),
    AcknowledgeType.ACCEPT: (Event.ACCEPT, Happening.ACCEPTED),
    AcknowledgeType.REJECT: (Event.REJECT, Happening.REJECTED),
}


def check_structure(batches: Sequence[AcknowledgementBatch], *, version: int, is_renewal: bool) -> ErrorCode | None:
    """What is wrong with the batches of one partition in themselves, before any state is asked (3.1).

    Args: version: of the request, 1 knows no RENEW. is_renewal: the request's IsRenewAck.
    """
    previous_last = -1
    type_max = AcknowledgeType.RENEW if version >= 2 else AcknowledgeType.REJECT
    for first, last, types in batches:
        size = last - first + 1
        if size < 1 or first < previous_last:  # Touching the batch before in one offset passes here.
            return ErrorCode.INVALID_REQUEST
        if not types or (len(types) > 1 and len(types) != size):
            return ErrorCode.INVALID_REQUEST
        if min(types) < 0 or max(types) > type_max:
            return ErrorCode.INVALID_REQUEST
        if AcknowledgeType.RENEW in types and not is_renewal:
            return ErrorCode.INVALID_REQUEST
        previous_last = last
    return None


def acknowledge(
    partition: SharePartition, member_id: str, batches: Sequence[AcknowledgementBatch], *, now_ms: int
) -> Settlement:
    """Settle records that a member holds; the first batch that cannot be settled undoes those before it (3.2, 3.3).

    Raises: BrokenRequestError where 4.3.0 fails the whole request.
    """
    changes: list[Change] = []
    for batch in batches:
        if batch.last < partition.start_offset:
            continue  # Settled long ago: silently good.
        refusal = _settle(partition, member_id, batch, changes, now_ms)
        if refusal is not None:
            partition.undo(changes)
            return Settlement(error=refusal)
    if not changes:
        return Settlement()
    partition.notes.changed(changes, member_id, now_ms=now_ms)
    return Settlement(write=partition.prepare([change.batch for change in changes], changes))


def _settle(
    partition: SharePartition, member_id: str, batch: AcknowledgementBatch, changes: list[Change], now_ms: int
) -> KafkaError | None:
    """Begin the moves of one batch, adding them to `changes`; what stands in the way, if anything."""
    homes = _covering(partition, batch)
    if isinstance(homes, KafkaError):
        return homes
    for home in homes:
        if home.last < partition.start_offset:
            continue
        whole = home.whole
        if whole is not None:
            refusal = _refuse(whole, member_id, f"batch {home.first}-{home.last}")
            if refusal is not None:
                return refusal
            is_full = batch.first <= home.first and home.last <= batch.last
            is_cut = home.first < partition.start_offset
            if not is_full or is_cut or len(batch.types) > 1:
                partition.split(home)
        for first, last, entry in _entries(partition, home, batch):
            refusal = _refuse(entry, member_id, f"offset {first}")
            kind = AcknowledgeType(batch.types[first - batch.first if len(batch.types) > 1 else 0])
            if refusal is None and kind is AcknowledgeType.RENEW:
                refusal = _renew(partition, first, last, entry, now_ms)
            elif refusal is None:
                changes.append(partition.begin(home, first, last, entry, _move(partition, entry, kind)))
                if entry.state.is_terminal:
                    partition.delivery_complete_count += last - first + 1
            if refusal is not None:
                return refusal
    return None


def _covering(partition: SharePartition, batch: AcknowledgementBatch) -> list[InFlightBatch] | KafkaError:
    """The in-flight batches that an acknowledgement is about."""
    floor = partition.window.floor(batch.first)
    if floor is None:
        if not batch.first < partition.start_offset <= batch.last:
            return KafkaError(ErrorCode.INVALID_RECORD_STATE, f"nothing in flight at or below offset {batch.first}")
        floor = partition.window.floor(partition.start_offset)
        if floor is None:
            raise BrokenRequestError(f"offsets {batch.first}-{batch.last} over an empty window")
    homes = partition.window.starting(floor.first, batch.last)
    if homes[-1].last < batch.first:
        return KafkaError(ErrorCode.INVALID_REQUEST, f"offset {batch.first} is past the records acquired")
    if homes[-1].last < batch.last:
        return KafkaError(ErrorCode.INVALID_REQUEST, f"offset {batch.last} is past the records acquired")
    return homes


def _entries(
    partition: SharePartition, home: InFlightBatch, batch: AcknowledgementBatch
) -> list[tuple[int, int, InFlight]]:
    if home.whole is not None:
        return [(home.first, home.last, home.whole)]
    low = max(batch.first, partition.start_offset)
    return [(offset, offset, entry) for offset, entry in home.within(low, batch.last)]


def _refuse(entry: InFlight, member_id: str, what: str) -> KafkaError | None:
    """Only the holder may speak of a record, and only once."""
    if entry.state is not State.ACQUIRED or entry.member_id == NOBODY:
        return KafkaError(ErrorCode.INVALID_RECORD_STATE, f"{what} is {entry.state.name}, not acquired")
    if entry.is_in_transition:
        return KafkaError(ErrorCode.INVALID_RECORD_STATE, f"{what} is being written")
    if entry.member_id != member_id:
        return KafkaError(ErrorCode.INVALID_RECORD_STATE, f"{what} is held by another member")
    return None


def _renew(partition: SharePartition, first: int, last: int, entry: InFlight, now_ms: int) -> KafkaError | None:
    """A lock of full length from now on; nothing is written, and no rollback takes it back (share-semantics 1.4)."""
    if not partition.allows_renewal:
        return KafkaError(ErrorCode.INVALID_RECORD_STATE, "the group does not allow to renew locks")
    entry.cancel_lock()
    entry.lock = partition.start_lock(first, last, now_ms=now_ms)
    partition.notes.take(now_ms, Happening.RENEWED, first, last, entry)
    return None


def _move(partition: SharePartition, entry: InFlight, kind: AcknowledgeType) -> tuple[Event, Happening]:
    if kind is not AcknowledgeType.RELEASE:
        return _MOVES[kind]
    # An acknowledgement never reaches below the start, so only the delivery count decides.
    event = Event.GIVE_UP if entry.delivery_count >= partition.delivery_limit else Event.RELEASE
    return event, Happening.RELEASED
