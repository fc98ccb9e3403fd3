"""Share sessions against a plain-dict model: any order of openings, requests, goodbyes and broken connections."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError
from mockbroker.state.share_rules import RELEASED, ShareRules
from mockbroker.state.share_session import PartitionKey, Requested, ShareSession, ShareSessions

_MEMBERS = st.sampled_from([("g", "m1"), ("g", "m2"), ("h", "m1")])
_CONNECTIONS = st.integers(1, 3)
_KEYS = [PartitionKey(bytes([topic] * 16), index) for topic in (1, 2) for index in (0, 1)]
_PARTITIONS = st.lists(st.sampled_from(_KEYS), max_size=4)
#: Mostly without the same one twice.
_OPENED = st.one_of(st.lists(st.sampled_from(_KEYS), max_size=4, unique=True), st.just(_KEYS[:2]), _PARTITIONS)
_LIMITS = st.sampled_from([0, 1000, 5000])
_SESSION_MAX = 2


def _tried(call: Callable[[], ShareSession | None]) -> tuple[ShareSession | None, ErrorCode | None]:
    """What a call gives, or the code with which it is refused."""
    try:
        return call(), None
    except KafkaError as refusal:
        return None, refusal.code


class Sessions(RuleBasedStateMachine):
    """The model: by member its connection, expected epoch, time of last use, and partitions in order, each with whether
    it must be told and its limit; by connection what it made last. share_rules: what it plays by.
    """

    share_rules: ClassVar[ShareRules] = RELEASED

    def __init__(self) -> None:
        super().__init__()
        self.room = ShareSessions()
        self.now_ms = 0
        self.model: dict[tuple[str, str], dict[str, Any]] = {}
        self.made: dict[int, tuple[tuple[str, str], bool]] = {}

    def _forget(self, member: tuple[str, str]) -> None:
        gone = self.model.pop(member, None)
        if gone is not None and gone["connection"] in self.made:
            self.made[gone["connection"]] = (self.made[gone["connection"]][0], True)

    def _make_room(self) -> bool:
        """Whether there is room; where idle sessions make some, the one that was not used for longest goes."""
        if len(self.model) < _SESSION_MAX:
            return True
        idle_ms = self.share_rules.session_idle_ms
        oldest = min(self.model, key=lambda member: self.model[member]["used_ms"])
        if not idle_ms or self.now_ms - self.model[oldest]["used_ms"] <= idle_ms:
            return False
        self._forget(oldest)
        return True

    @rule(duration_ms=st.sampled_from([1, 60_000, 120_000]))
    def time_passes(self, duration_ms: int) -> None:
        """Sessions are idle meanwhile."""
        self.now_ms += duration_ms

    @rule(member=_MEMBERS, connection=_CONNECTIONS, keys=_OPENED, limit=_LIMITS)
    def open(self, member: tuple[str, str], connection: int, keys: list[PartitionKey], limit: int) -> None:
        """The member's old session goes first; a partition listed twice leaves none; a full room refuses."""
        self._forget(member)
        asked = [Requested(key, "t", limit) for key in keys]
        idle_ms = self.share_rules.session_idle_ms
        session, code = _tried(
            lambda: self.room.open(
                *member,
                asked,
                connection_id=connection,
                session_max=_SESSION_MAX,
                idle_ms=idle_ms,
                now_ms=self.now_ms,
            )
        )
        if len(set(keys)) < len(keys):
            assert code is ErrorCode.UNKNOWN_SERVER_ERROR
            return
        assert code is None
        assert (session is not None) == self._make_room()
        if session is not None:
            partitions = dict.fromkeys(keys, (False, limit))
            self.model[member] = {
                "connection": connection,
                "epoch": 1,
                "used_ms": self.now_ms,
                "partitions": partitions,
            }
            self.made[connection] = (member, False)

    @rule(member=_MEMBERS, away=st.sampled_from([0, 0, 0, 1, -1]), closes=st.booleans())
    def step(self, member: tuple[str, str], away: int, closes: bool) -> None:
        """Only the expected epoch goes on; the closing one is accepted in any, and uses nothing up."""
        expected = self.model.get(member)
        epoch = -1 if closes else (expected["epoch"] if expected else 1) + away
        session, code = _tried(lambda: self.room.step(*member, epoch, now_ms=self.now_ms))
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
        """What is new goes to the end and must be told once; what is known keeps its place, and gets the new limit;
        forgetting comes last.
        """
        session = self.room.get(*member)
        if session is None:
            return
        session.update([Requested(key, "t", limit) for key in added], forgotten)
        partitions = self.model[member]["partitions"]
        for key in added:
            partitions[key] = (partitions.get(key, (True, 0))[0], limit)
        for key in forgotten:
            partitions.pop(key, None)

    @rule(member=_MEMBERS, records=st.booleans(), error=st.booleans(), choice=st.integers(0, 3))
    def answer(self, member: tuple[str, str], records: bool, error: bool, choice: int) -> None:
        """A row is told with records, with an error, or once; what gave records goes to the end."""
        partitions = self.model[member]["partitions"] if member in self.model else {}
        if not partitions:
            return
        key = list(partitions)[choice % len(partitions)]
        session = self.room.get(*member)
        assert session is not None
        told = session.must_answer(key, has_records=records, has_error=error)
        must_tell, limit = partitions[key]
        assert told == (records or error or must_tell)
        partitions[key] = (error, limit)
        if records:
            partitions[key] = partitions.pop(key)

    @rule(member=_MEMBERS)
    def close(self, member: tuple[str, str]) -> None:
        """A goodbye, which also frees the connection of its last session."""
        assert (self.room.remove(*member) is not None) == (member in self.model)
        self._forget(member)

    @rule(connection=_CONNECTIONS)
    def disconnect(self, connection: int) -> None:
        """The session that a connection made last ends with it, unless it has ended or was replaced."""
        if not self.share_rules.sessions_end_with_connections:
            return
        ended = self.room.disconnected(connection)
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
    def same(self) -> None:
        """Every session is as the model has it, and there are no others."""
        assert len(self.room) == len(self.model) <= _SESSION_MAX
        for group_id in ("g", "h"):
            assert self.room.has_group(group_id) == any(member[0] == group_id for member in self.model)
        for member, wanted in self.model.items():
            session = self.room.get(*member)
            assert session is not None
            assert (session.connection_id, session.epoch) == (wanted["connection"], wanted["epoch"])
            told = [(key, (one.must_send, one.max_bytes)) for key, one in session.partitions.items()]
            assert told == list(wanted["partitions"].items())


TestSessions = Sessions.TestCase
TestSessions.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
