"""Rules about members of groups: generations, heartbeats, leaving."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, cast

import msgspec

from kwire.conformance.limited_dict import LimitedDict
from kwire.conformance.model import Note, ObservedExchange
from kwire.conformance.response_errors import error_codes
from kwire.conformance.traffic import TRACKED_MAX, Seen, SilentChecker, Traffic, make_note
from kwire.error_codes import ErrorCode

_OFFSET_COMMIT, _JOIN_GROUP, _HEARTBEAT, _SYNC_GROUP, _TXN_OFFSET_COMMIT = 8, 11, 12, 14, 28
_HEARTBEATS = frozenset({68, 76, 88})
#: The heartbeats that say all that a member has to say; those of Kafka Streams also carry offsets of tasks.
_PLAIN_HEARTBEATS = frozenset({68, 76})
_GENERATION_FIELDS = {
    _OFFSET_COMMIT: "generation_id_or_member_epoch",
    _TXN_OFFSET_COMMIT: "generation_id_or_member_epoch",
    _HEARTBEAT: "generation_id",
    _SYNC_GROUP: "generation_id",
}
#: So many equal heartbeats in a row, each sooner than half of the interval, are a note: one may be sent for a reason
#: that its fields do not show.
_SOON_HEARTBEATS_MIN = 3

_STALE_MEMBER_EPOCH = ErrorCode.STALE_MEMBER_EPOCH

_Member = tuple[str, str]


class GenerationChecker(SilentChecker):
    """Generations and member epochs that are older than what the member was given."""

    def __init__(self, traffic: Traffic) -> None:
        self._traffic = traffic
        # The generation or epoch, its response, and whether it is an epoch.
        self._newest: LimitedDict[_Member, tuple[int, Seen, bool]] = LimitedDict(TRACKED_MAX)

    def take_request(self, exchange: ObservedExchange) -> Iterator[Note]:
        """A request arrives."""
        field = _GENERATION_FIELDS.get(exchange.api_key)
        if field is None or exchange.request is None:
            return
        request = cast("Any", exchange.request)
        generation: int = getattr(request, field)
        newest = self._newest.get((request.group_id, request.member_id))
        if newest is None or not 0 <= generation < newest[0] or not self._traffic.has_seen(newest[1], exchange):
            return
        # A group that was created again, in what is missing, begins with the first generation.
        if not self._traffic.is_complete_since(exchange.connection, newest[1].answered_ns):
            return
        # A coordinator may accept an older epoch while the assignment has not changed since (KIP-1251).
        if newest[2] and (exchange.response is None or _STALE_MEMBER_EPOCH not in error_codes(exchange.response)):
            return
        text = (
            f"sent {exchange.api_name} for group {request.group_id!r} with generation {generation} after it was given "
            f"generation {newest[0]}"
        )
        yield make_note("stale-generation", text, exchange, [newest[1]])

    def take_response(self, exchange: ObservedExchange) -> Iterator[Note]:
        """A response is sent."""
        if exchange.api_key == _JOIN_GROUP or exchange.api_key in _HEARTBEATS:
            request, response = cast("Any", exchange.request), cast("Any", exchange.response)
            if request is not None and response is not None and not response.error_code:
                member = (request.group_id, response.member_id or request.member_id)
                generation = response.generation_id if exchange.api_key == _JOIN_GROUP else response.member_epoch
                # Generations of a group that was deleted begin again, and a member that has left has none.
                if generation < 0:
                    self._newest.pop(member, None)
                else:
                    self._newest[member] = (generation, Seen.of(exchange), exchange.api_key != _JOIN_GROUP)
        return iter(())


class _Beat(NamedTuple):
    """The last heartbeat of a member. soon_count: how many before it came too soon, in a row."""

    request: msgspec.Struct
    sent_ns: int
    answer: Seen | None
    interval_ms: int
    soon_count: int


class HeartbeatChecker(SilentChecker):
    """Heartbeats that repeat the one before, much sooner than the coordinator asked for."""

    def __init__(self, traffic: Traffic) -> None:
        self._traffic = traffic
        self._last: LimitedDict[tuple[int, str, str], _Beat] = LimitedDict(TRACKED_MAX)

    def take_request(self, exchange: ObservedExchange) -> Iterator[Note]:
        """A request arrives."""
        if exchange.api_key not in _PLAIN_HEARTBEATS or exchange.request is None:
            return
        request = cast("Any", exchange.request)
        key = (exchange.api_key, request.group_id, request.member_id)
        last, soon_count = self._last.get(key), 0
        if last is not None and last.answer is not None and request.member_epoch > 0 and request == last.request:
            elapsed_ms = (exchange.sent_ns - last.sent_ns) // 1_000_000
            is_soon = elapsed_ms < last.interval_ms / 2 and self._traffic.has_seen(last.answer, exchange)
            if is_soon and self._traffic.is_complete_since(exchange.connection, last.sent_ns):
                soon_count = last.soon_count + 1
                if soon_count % _SOON_HEARTBEATS_MIN == 0:
                    text = (
                        f"sent {soon_count} heartbeats for group {request.group_id!r} in a row without any news, the "
                        f"last after {elapsed_ms} ms, with an interval of {last.interval_ms} ms"
                    )
                    yield make_note("heartbeat-too-soon", text, exchange, [last.answer])
        self._last[key] = _Beat(exchange.request, exchange.sent_ns, None, 0, soon_count)

    def take_response(self, exchange: ObservedExchange) -> Iterator[Note]:
        """A response is sent."""
        if exchange.api_key in _PLAIN_HEARTBEATS and exchange.request is not None and exchange.response is not None:
            request, response = cast("Any", exchange.request), cast("Any", exchange.response)
            key = (exchange.api_key, request.group_id, request.member_id)
            last = self._last.get(key)
            if last is not None and last.request is exchange.request:
                # A new assignment or a new epoch is a reason to answer at once.
                has_news = getattr(response, "assignment", None) is not None or response.member_epoch != (
                    request.member_epoch
                )
                if response.error_code or has_news:
                    del self._last[key]
                else:
                    interval_ms = response.heartbeat_interval_ms
                    self._last[key] = last._replace(answer=Seen.of(exchange), interval_ms=interval_ms)
        return iter(())


class LeaveChecker(SilentChecker):
    """Members whose client ended without a last heartbeat."""

    def __init__(self, traffic: Traffic) -> None:
        self._traffic = traffic
        self._members: LimitedDict[tuple[int, str, str], ObservedExchange] = LimitedDict(TRACKED_MAX)

    def take_request(self, exchange: ObservedExchange) -> Iterator[Note]:
        """A request arrives: in the order of requests, since a member may leave before its last response came."""
        if exchange.api_key in _HEARTBEATS and exchange.request is not None:
            request, response = cast("Any", exchange.request), cast("Any", exchange.response)
            member_id = request.member_id or getattr(response, "member_id", "")
            key = (exchange.api_key, request.group_id, member_id)
            if request.member_epoch < 0 or response is None or response.error_code:
                self._members.pop(key, None)
            else:
                self._members[key] = exchange
        return iter(())

    def finish(self) -> Iterator[Note]:
        """All is known."""
        ended = self._traffic.cleanly_ended()
        for (_, group_id, member_id), last in self._members.items():
            if last.connection in ended:
                member = f"member {member_id!r} of group {group_id!r}"
                text = f"closed its connections as {member} without a heartbeat that leaves"
                yield make_note("group-left-without-leave", text, last)
