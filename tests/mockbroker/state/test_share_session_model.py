"""Share sessions against a plain-dict model: any order of openings, requests, goodbyes and broken connections."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError
from mockbroker.state.share_session import PartitionKey, Requested, ShareSession, ShareSessions

_MEMBERS = st.sampled_from([("g", "m1"), ("g", "m2"), ("h", "m1")])
_CONNECTIONS = st.integers(1, 3)
_KEYS = [PartitionKey(bytes([topic] * 16), index) for topic in (1, 2) for index in (0, 1)]
_PARTITIONS = st.lists(st.sampled_from(_KEYS), max_size=4)
_SESSION_MAX = 2


def _tried(call: Callable[[], ShareSession | None]) -> tuple[ShareSession | None, ErrorCode | None]:
    """What a call gives, or the code with which it is refused."""
    try:
        return call(), None
    except KafkaError as refusal:
        return None, refusal.code


class Sessions(RuleBasedStateMachine):
    """The model: by member its connection, expected epoch and partitions in order; by connection what it made last."""

    def __init__(self) -> None:
        super().__init__()
        self.room = ShareSessions()
        self.model: dict[tuple[str, str], dict[str, Any]] = {}
        self.made: dict[int, tuple[tuple[str, str], bool]] = {}

    def _forget(self, member: tuple[str, str]) -> None:
        gone = self.model.pop(member, None)
        if gone is not None and gone["connection"] in self.made:
            self.made[gone["connection"]] = (self.made[gone["connection"]][0], True)

    @rule(member=_MEMBERS, connection=_CONNECTIONS, keys=_PARTITIONS)
    def open(self, member: tuple[str, str], connection: int, keys: list[PartitionKey]) -> None:
        """The member's old session goes first; a partition listed twice leaves none; a full room refuses."""
        self._forget(member)
        asked = [Requested(key, "t") for key in keys]
        session, code = _tried(
            lambda: self.room.open(*member, asked, connection_id=connection, session_max=_SESSION_MAX)
        )
        if len(set(keys)) < len(keys):
            assert code is ErrorCode.UNKNOWN_SERVER_ERROR
            return
        assert code is None
        assert (session is None) == (len(self.model) >= _SESSION_MAX)
        if session is not None:
            self.model[member] = {"connection": connection, "epoch": 1, "partitions": dict.fromkeys(keys, False)}
            self.made[connection] = (member, False)

    @rule(member=_MEMBERS, away=st.sampled_from([0, 0, 0, 1, -1]), closes=st.booleans())
    def step(self, member: tuple[str, str], away: int, closes: bool) -> None:
        """Only the expected epoch goes on; the closing one is accepted in any, and uses nothing up."""
        expected = self.model.get(member)
        epoch = -1 if closes else (expected["epoch"] if expected else 1) + away
        session, code = _tried(lambda: self.room.step(*member, epoch))
        if expected is None:
            assert code is ErrorCode.SHARE_SESSION_NOT_FOUND
            return
        is_expected = closes or away == 0 or epoch == -1
        assert code is (None if is_expected else ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        if session is None:
            return
        expected["epoch"] += epoch != -1
        assert session.epoch == expected["epoch"]

    @rule(member=_MEMBERS, added=_PARTITIONS, forgotten=_PARTITIONS)
    def update(self, member: tuple[str, str], added: list[PartitionKey], forgotten: list[PartitionKey]) -> None:
        """What is new goes to the end and must be told once; what is known keeps its place; forgetting comes last."""
        session = self.room.get(*member)
        if session is None:
            return
        session.update([Requested(key, "t") for key in added], forgotten)
        partitions = self.model[member]["partitions"]
        for key in added:
            partitions.setdefault(key, True)
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
        assert told == (records or error or partitions[key])
        partitions[key] = error
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
            told = [(key, partition.must_send) for key, partition in session.partitions.items()]
            assert told == list(wanted["partitions"].items())


TestSessions = Sessions.TestCase
TestSessions.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
