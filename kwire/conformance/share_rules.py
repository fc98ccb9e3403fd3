"""Rules about share consumers: sessions and acknowledgements."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple, cast

from kwire import uuids
from kwire.conformance.held_records import HeldRange, HeldRecords
from kwire.conformance.limited_dict import LimitedDict
from kwire.conformance.model import ConnectionKey, Note, ObservedExchange
from kwire.conformance.traffic import TRACKED_MAX, Seen, SilentChecker, Traffic, make_note

_SHARE_FETCH, _SHARE_ACKNOWLEDGE = 78, 79
_OPENING_EPOCH, _FINAL_EPOCH = 0, -1
_EPOCH_MAX = 2**31 - 1
_RENEW = 4
_MEMBER_PARTITIONS_MAX = 10_000

_Member = tuple[str, str]
_Partition = tuple[bytes, int]


class ShareSessionChecker(SilentChecker):
    """Epochs of share sessions, and sessions that stay open when their client ends."""

    def __init__(self, traffic: Traffic) -> None:
        self._traffic = traffic
        # The last request of each session and the epoch that must follow it; None where that is not known.
        self._sessions: LimitedDict[tuple[ConnectionKey, _Member], tuple[ObservedExchange, int | None]]
        self._sessions = LimitedDict(TRACKED_MAX)

    def take_request(self, exchange: ObservedExchange) -> Iterator[Note]:
        """A request arrives."""
        if exchange.api_key not in (_SHARE_FETCH, _SHARE_ACKNOWLEDGE) or exchange.request is None:
            return
        request = cast("Any", exchange.request)
        epoch: int = request.share_session_epoch
        key = (exchange.connection, (request.group_id, request.member_id))
        last, expected = self._sessions.get(key, (None, None))
        if epoch == _FINAL_EPOCH:
            self._sessions.pop(key, None)
            return
        # What is missing may be a request of the session.
        is_certain = last is not None and self._traffic.is_complete_since(exchange.connection, last.sent_ns)
        if is_certain and epoch != _OPENING_EPOCH and expected is not None and epoch != expected:
            assert last is not None
            text = f"sent {exchange.api_name} with share session epoch {epoch}, expected was {expected}"
            yield make_note("share-session-wrong-epoch", text, exchange, [last])
            expected = None
        if epoch == _OPENING_EPOCH or expected is not None:
            following = 1 if epoch == _EPOCH_MAX else epoch + 1
            self._sessions[key] = (exchange, following)
        elif last is not None:
            self._sessions[key] = (exchange, None)

    def take_response(self, exchange: ObservedExchange) -> Iterator[Note]:
        """A response is sent."""
        if exchange.api_key in (_SHARE_FETCH, _SHARE_ACKNOWLEDGE) and exchange.request is not None:
            request = cast("Any", exchange.request)
            # After an error the client opens the session again, or ends it.
            if exchange.response is None or cast("Any", exchange.response).error_code:
                self._sessions.pop((exchange.connection, (request.group_id, request.member_id)), None)
        return iter(())

    def take_gap(self, connection: ConnectionKey) -> None:
        """A part of a connection is missing."""
        for key in [key for key in self._sessions if key[0] == connection]:
            del self._sessions[key]

    def finish(self) -> Iterator[Note]:
        """All is known."""
        ended = self._traffic.cleanly_ended()
        for (key, (group_id, _)), (last, _) in self._sessions.items():
            if key in ended:
                text = f"closed its connections with its share session of group {group_id!r} open"
                yield make_note("share-session-left-open", text, last)


class _Acknowledgement(NamedTuple):
    """One batch of a request."""

    partition: _Partition
    first: int
    last: int
    types: tuple[int, ...]


class AcknowledgementChecker(SilentChecker):
    """Acknowledgements against the records that the member holds."""

    def __init__(self, traffic: Traffic) -> None:
        self._traffic = traffic
        # By member; None for a member of whose sessions a part is missing.
        self._members: LimitedDict[_Member, dict[_Partition, HeldRecords] | None] = LimitedDict(TRACKED_MAX)
        self._lock_ms: LimitedDict[_Member, int] = LimitedDict(TRACKED_MAX)

    def take_request(self, exchange: ObservedExchange) -> Iterator[Note]:
        """A request arrives."""
        if exchange.api_key not in (_SHARE_FETCH, _SHARE_ACKNOWLEDGE) or exchange.request is None:
            return
        request = cast("Any", exchange.request)
        member = (request.group_id, request.member_id)
        if member not in self._members:
            # The records of a member are known from its first session on.
            self._members[member] = {} if request.share_session_epoch == _OPENING_EPOCH else None
        if self._traffic.has_gap(exchange.connection):
            self._members[member] = None
        yield from _check_order(exchange)
        held_records = self._members[member]
        if held_records is None:
            return
        for acknowledgement in _acknowledgements(request):
            held = held_records.get(acknowledgement.partition, HeldRecords())
            if held.is_judged:
                yield from _check_held(acknowledgement, held, exchange)

    def take_response(self, exchange: ObservedExchange) -> Iterator[Note]:
        """A response is sent."""
        if exchange.api_key in (_SHARE_FETCH, _SHARE_ACKNOWLEDGE) and exchange.request is not None:
            request, response = cast("Any", exchange.request), cast("Any", exchange.response)
            member = (request.group_id, request.member_id)
            held_records = self._members.get(member)
            if response is None:
                self._members[member] = None
            elif held_records is not None and not response.error_code:
                self._apply(exchange, held_records)
        return iter(())

    def _apply(self, exchange: ObservedExchange, held_records: dict[_Partition, HeldRecords]) -> None:
        request, response = cast("Any", exchange.request), cast("Any", exchange.response)
        member = (request.group_id, request.member_id)
        lock_ms: int = getattr(response, "acquisition_lock_timeout_ms", 0) or self._lock_ms.get(member, 0)
        self._lock_ms[member] = lock_ms
        answered_ms = exchange.answered_ms if exchange.answered_ms is not None else exchange.sent_ms
        lock_end_ms = answered_ms + lock_ms if lock_ms else float("inf")
        seen = Seen.of(exchange)
        rows = {(topic.topic_id, row.partition_index): row for topic in response.responses for row in topic.partitions}
        is_fetch = exchange.api_key == _SHARE_FETCH
        for acknowledgement in _acknowledgements(request):
            row, held = rows.get(acknowledgement.partition), held_records.get(acknowledgement.partition)
            if held is None or row is None or (row.acknowledge_error_code if is_fetch else row.error_code):
                continue
            _settle(acknowledgement, held, lock_end_ms, seen)
        for partition, row in rows.items() if is_fetch else ():
            for acquired in row.acquired_records:
                if partition not in held_records and len(held_records) >= _MEMBER_PARTITIONS_MAX:
                    self._members[member] = None
                    return
                held = held_records.setdefault(partition, HeldRecords())
                held.acquire(HeldRange(_first_offset(acquired), acquired.last_offset, lock_end_ms, seen))

    def take_gap(self, connection: ConnectionKey) -> None:
        """A part of a connection is missing: any member may have used it."""
        for member in self._members:
            self._members[member] = None


def _acknowledgements(request: Any) -> Iterator[_Acknowledgement]:
    for topic in request.topics:
        for partition in topic.partitions:
            for batch in partition.acknowledgement_batches:
                key = (topic.topic_id, partition.partition_index)
                yield _Acknowledgement(key, _first_offset(batch), batch.last_offset, tuple(batch.acknowledge_types))


def _first_offset(rows: Any) -> int:
    """The first offset of a range; the revisions of KIP-932 call it the base offset."""
    first: int = rows.first_offset if hasattr(rows, "first_offset") else rows.base_offset
    return first


def _check_order(exchange: ObservedExchange) -> Iterator[Note]:
    for topic in cast("Any", exchange.request).topics:
        for partition in topic.partitions:
            name = f"{uuids.to_text(topic.topic_id)}-{partition.partition_index}"
            batches = partition.acknowledgement_batches
            for batch in batches:
                count = batch.last_offset - _first_offset(batch) + 1
                if count < 1 or len(batch.acknowledge_types) not in (1, count):
                    text = (
                        f"acknowledged {_span(_first_offset(batch), batch.last_offset)} of {name} with "
                        f"{len(batch.acknowledge_types)} types"
                    )
                    yield make_note("share-ack-invalid-batch", text, exchange)
            for batch, following in pairwise(batches):
                if _first_offset(following) <= batch.last_offset:
                    text = (
                        f"acknowledged {_span(_first_offset(following), following.last_offset)} of {name} behind "
                        f"{_span(_first_offset(batch), batch.last_offset)} in one request"
                    )
                    yield make_note("share-ack-invalid-batch", text, exchange)


def _check_held(acknowledgement: _Acknowledgement, held: HeldRecords, exchange: ObservedExchange) -> Iterator[Note]:
    (topic_id, index), first, last, _ = acknowledgement
    name = f"{uuids.to_text(topic_id)}-{index}"
    missing = held.not_held(first, last)
    if missing:
        spans = ", ".join(_span(*span) for span in missing[:3])
        settled = held.find_settled(*missing[0])
        reason = "which it had acknowledged before" if settled is not None else "which it had not acquired"
        before = [settled] if settled is not None else []
        yield make_note("share-ack-not-held", f"acknowledged {spans} of {name}, {reason}", exchange, before)
    expired = held.expired(first, last, exchange.sent_ms)
    if expired is not None:
        late_ms = round(exchange.sent_ms - expired.lock_end_ms)
        text = (
            f"acknowledged {_span(max(first, expired.first), min(last, expired.last))} of {name} {late_ms} ms after "
            "the acquisition lock had expired"
        )
        yield make_note("share-ack-lock-expired", text, exchange, [expired.seen])


def _settle(acknowledgement: _Acknowledgement, held: HeldRecords, lock_end_ms: float, seen: Seen) -> None:
    _, first, last, types = acknowledgement
    if len(types) == 1:
        runs = [(first, last, types[0])]
    else:
        runs = [(first + index, first + index, kind) for index, kind in enumerate(types)]
    for run_first, run_last, kind in runs:
        if kind == _RENEW:
            held.renew(run_first, run_last, lock_end_ms, seen)
        else:
            held.settle(run_first, run_last, seen)


def _span(first: int, last: int) -> str:
    return f"offset {first}" if first == last else f"offsets {first} to {last}"
