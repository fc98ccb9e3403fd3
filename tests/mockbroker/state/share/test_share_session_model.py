"""Share sessions against a plain-dict model: any order of openings, requests, closings and broken connections."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError
from mockbroker.state.share.share_rules import RELEASED, ShareRules
from mockbroker.state.share.share_session import PartitionKey, RequestedPartition, ShareSession, ShareSessions

pytestmark = pytest.mark.slow

_MEMBERS = st.sampled_from([("g", "m1"), ("g", "m2"), ("h", "m1")])
_CONNECTIONS = st.integers(1, 3)
_KEYS = [PartitionKey(bytes([topic] * 16), index) for topic in (1, 2) for index in (0, 1)]
_PARTITIONS = st.lists(st.sampled_from(_KEYS), max_size=4)
#: Mostly without duplicates.
_OPENED = st.one_of(st.lists(st.sampled_from(_KEYS), max_size=4, unique=True), st.just(_KEYS[:2]), _PARTITIONS)
_LIMITS = st.sampled_from([0, 1000, 5000])
_SESSION_MAX = 2


def _try_call(call: Callable[[], ShareSession | None]) -> tuple[ShareSession | None, ErrorCode | None]:
    """The result of a call, or its error code."""
    try:
        return call(), None
    except KafkaError as refusal:
        return None, refusal.code


class Sessions(RuleBasedStateMachine):
    """The model: by member its connection, expected epoch, time of last use, and partitions in order, each with whether
    it is pending and its limit; by connection the session opened last. share_rules: the rules of the edition.
    """

    share_rules: ClassVar[ShareRules] = RELEASED

    def __init__(self) -> None:
        super().__init__()
        self.sessions = ShareSessions()
        self.now_ms = 0
        self.model: dict[tuple[str, str], dict[str, Any]] = {}
        self.made: dict[int, tuple[tuple[str, str], bool]] = {}

    def _forget(self, member: tuple[str, str]) -> None:
        gone = self.model.pop(member, None)
        if gone is not None and gone["connection"] in self.made:
            self.made[gone["connection"]] = (self.made[gone["connection"]][0], True)

    def _evict_idle(self) -> bool:
        """Whether the limit allows a session; the longest idle one may be evicted."""
        if len(self.model) < _SESSION_MAX:
            return True
        idle_ms = self.share_rules.sessions.idle_eviction_ms
        oldest = min(self.model, key=lambda member: self.model[member]["used_ms"])
        if not idle_ms or self.now_ms - self.model[oldest]["used_ms"] <= idle_ms:
            return False
        self._forget(oldest)
        return True

    @rule(duration_ms=st.sampled_from([1, 60_000, 120_000]))
    def advance_time(self, duration_ms: int) -> None:
        """Advance the time without requests."""
        self.now_ms += duration_ms

    @rule(member=_MEMBERS, connection=_CONNECTIONS, keys=_OPENED, limit=_LIMITS)
    def open(self, member: tuple[str, str], connection: int, keys: list[PartitionKey], limit: int) -> None:
        """The member's old session is removed first; a duplicate partition leaves none; at the limit it is refused."""
        self._forget(member)
        asked = [RequestedPartition(key, "t", limit) for key in keys]
        idle_ms = self.share_rules.sessions.idle_eviction_ms
        session, code = _try_call(
            lambda: self.sessions.open_session(
                *member, asked, connection_id=connection, session_max=_SESSION_MAX, idle_ms=idle_ms, now_ms=self.now_ms
            )
        )
        if len(set(keys)) < len(keys):
            assert code is ErrorCode.UNKNOWN_SERVER_ERROR
            return
        assert code is None
        assert (session is not None) == self._evict_idle()
        if session is not None:
            used = {"connection": connection, "epoch": 1, "used_ms": self.now_ms}
            self.model[member] = {**used, "partitions": dict.fromkeys(keys, (False, limit))}
            self.made[connection] = (member, False)

    @rule(member=_MEMBERS, away=st.sampled_from([0, 0, 0, 1, -1]), closes=st.booleans())
    def step(self, member: tuple[str, str], away: int, closes: bool) -> None:
        """Only the expected epoch is accepted; the final one always is, and does not advance it."""
        expected = self.model.get(member)
        epoch = -1 if closes else (expected["epoch"] if expected else 1) + away
        session, code = _try_call(lambda: self.sessions.advance_epoch(*member, epoch, now_ms=self.now_ms))
        if expected is None:
            assert code is ErrorCode.SHARE_SESSION_NOT_FOUND
            return
        is_expected = closes or away == 0 or epoch == -1
        assert code is (None if is_expected else ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        if session is None:
            return
        if epoch != -1:
            expected["epoch"] += 1
            expected["used_ms"] = self.now_ms
        assert session.epoch == expected["epoch"]

    @rule(member=_MEMBERS, added=_PARTITIONS, forgotten=_PARTITIONS, limit=_LIMITS)
    def update(
        self, member: tuple[str, str], added: list[PartitionKey], forgotten: list[PartitionKey], limit: int
    ) -> None:
        """A new partition is appended and pending once; a known one stays in its place, and gets the new limit;
        forgetting comes last.
        """
        session = self.sessions.get(*member)
        if session is None:
            return
        session.update_partitions([RequestedPartition(key, "t", limit) for key in added], forgotten)
        partitions = self.model[member]["partitions"]
        for key in added:
            partitions[key] = (partitions.get(key, (True, 0))[0], limit)
        for key in forgotten:
            partitions.pop(key, None)

    @rule(member=_MEMBERS, records=st.booleans(), error=st.booleans(), choice=st.integers(0, 3))
    def answer(self, member: tuple[str, str], records: bool, error: bool, choice: int) -> None:
        """A row is included with records, with an error, or once; a partition with records moves to the end."""
        partitions = self.model[member]["partitions"] if member in self.model else {}
        if not partitions:
            return
        key = list(partitions)[choice % len(partitions)]
        session = self.sessions.get(*member)
        assert session is not None
        is_included = session.includes_partition(key, has_records=records, has_error=error)
        is_pending, limit = partitions[key]
        assert is_included == (records or error or is_pending)
        partitions[key] = (error, limit)
        if records:
            partitions[key] = partitions.pop(key)

    @rule(member=_MEMBERS)
    def close(self, member: tuple[str, str]) -> None:
        """Close a session, which also frees its connection."""
        assert (self.sessions.remove_session(*member) is not None) == (member in self.model)
        self._forget(member)

    @rule(connection=_CONNECTIONS)
    def disconnect(self, connection: int) -> None:
        """The session that a connection opened last ends with it, unless it has ended or was replaced."""
        if not self.share_rules.sessions.close_on_disconnect:
            return
        ended = self.sessions.close_connection(connection)
        if connection not in self.made:
            assert ended is None
            return
        member, is_stale = self.made.pop(connection)
        assert ended is not None
        group_id, session = ended
        assert group_id == member[0]
        assert (session is None) == is_stale
        if session is not None:
            assert (session.group_id, session.member_id) == member
            self._forget(member)

    @invariant()
    def states_match_the_model(self) -> None:
        """Every session is as the model has it, and there are no others."""
        assert len(self.sessions) == len(self.model) <= _SESSION_MAX
        for group_id in ("g", "h"):
            assert self.sessions.has_group(group_id) == any(member[0] == group_id for member in self.model)
        for member, wanted in self.model.items():
            session = self.sessions.get(*member)
            assert session is not None
            assert (session.connection_id, session.epoch) == (wanted["connection"], wanted["epoch"])
            partitions = [(key, (one.is_response_pending, one.max_bytes)) for key, one in session.partitions.items()]
            assert partitions == list(wanted["partitions"].items())


TestSessions = Sessions.TestCase
TestSessions.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
