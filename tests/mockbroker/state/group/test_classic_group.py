"""Classic groups on virtual time: joining, assigning, staying, leaving, and falling silent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from kwire.error_codes import ErrorCode
from mockbroker.state.group.classic_group import NEW_MEMBER_JOIN_TIMEOUT_MS, ClassicGroup, JoinRequest
from mockbroker.state.group.classic_members import JoinResult, PendingResponse, Protocols, SyncResult
from mockbroker.state.group.classic_rebalance import TRANSITIONS, ClassicState
from mockbroker.state.group.coordinator_records import discard_records
from mockbroker.state.timers import Timers
from tests.support.raises_code import raises_code

RANGE: Protocols = (("range", b"r"),)
BOTH: Protocols = (("range", b"r"), ("roundrobin", b"rr"))


class Driver:
    """Sends the requests of members to one classic group; broker settings as in `settings`."""

    def __init__(self, delay_ms: int = 0, size_max: int = 2**31 - 1) -> None:
        self.timers = Timers()
        self.woken = 0
        self.group = ClassicGroup("g", self.timers, self._wake, discard_records)
        self.settings = {"group.initial.rebalance.delay.ms": delay_ms, "group.max.size": size_max}

    def _wake(self) -> None:
        self.woken += 1

    def send_join(
        self,
        member_id: str = "",
        *,
        new: str = "",
        instance: str | None = None,
        protocols: Protocols = RANGE,
        kind: str = "consumer",
        must_know_id: bool = False,
        skips: bool = True,
        at: int = 0,
    ) -> PendingResponse[JoinResult]:
        client = ("client", "/127.0.0.1", 10_000, 20_000, kind)
        join = JoinRequest(member_id, new, instance, *client, protocols, must_know_id, skips)
        return self.group.join(join, broker=self.settings, now_ms=at)

    def join(self, member_id: str = "", **given: Any) -> JoinResult:
        answer = self.send_join(member_id, **given).response
        assert answer is not None
        return answer

    def send_sync(
        self,
        member_id: str,
        generation: int,
        assignments: Mapping[str, bytes] | None = None,
        *,
        instance: str | None = None,
        protocol: str | None = "range",
        at: int = 0,
    ) -> PendingResponse[SyncResult]:
        member, parts = (member_id, instance, generation), assignments or {}
        return self.group.sync(*member, protocol_type="consumer", protocol_name=protocol, assignments=parts, now_ms=at)

    def stable_pair(self) -> None:
        """m1 leads, m2 follows, generation 2."""
        self.join(new="m1")
        self.send_sync("m1", 1)
        self.send_join(new="m2")
        self.send_join("m1")
        self.send_sync("m1", 2, {"m1": b"1", "m2": b"2"})
        self.send_sync("m2", 2)
        assert self.group.state_name == "Stable"
        assert self.group.generation_id == 2


def is_complete(pending: PendingResponse[JoinResult] | PendingResponse[SyncResult]) -> bool:
    return pending.response is not None


@pytest.fixture
def driver() -> Driver:
    return Driver()


def test_a_lone_member_joins_syncs_and_is_stable(driver: Driver) -> None:
    joined = driver.join(new="m1")
    synced = driver.send_sync("m1", 1, {"m1": b"all"}).response

    assert joined == JoinResult(
        member_id="m1",
        generation_id=1,
        protocol_type="consumer",
        protocol_name="range",
        leader="m1",
        members=(("m1", None, b"r"),),
    )
    assert synced == SyncResult(protocol_type="consumer", protocol_name="range", assignment=b"all")
    assert driver.group.state_name == "Stable"


def test_a_member_without_id_has_to_join_again_with_a_new_id(driver: Driver) -> None:
    first = driver.send_join(new="m1", must_know_id=True).response

    assert first == JoinResult(ErrorCode.MEMBER_ID_REQUIRED, "m1")
    assert driver.group.state_name == "Empty"
    assert driver.join("m1").error is ErrorCode.NONE


def test_an_unused_member_id_is_removed_after_the_session_timeout(driver: Driver) -> None:
    driver.send_join(new="m1", must_know_id=True)

    driver.timers.expire(now_ms=10_000)

    assert driver.join("m1", at=10_001).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_the_first_join_phase_lasts_the_initial_delay_and_longer_while_members_join() -> None:
    driver = Driver(delay_ms=3_000)
    first = driver.send_join(new="m1")
    second = driver.send_join(new="m2", at=2_000)

    driver.timers.expire(now_ms=3_000)
    assert not is_complete(first)
    assert driver.timers.next_deadline_ms() == 6_000
    driver.timers.expire(now_ms=6_000)

    assert first.response is not None
    assert second.response is not None
    assert (first.response.generation_id, len(first.response.members), len(second.response.members)) == (1, 2, 0)
    assert second.response.leader == "m1"


def test_the_first_join_phase_never_lasts_longer_than_the_rebalance_timeout() -> None:
    driver = Driver(delay_ms=8_000)
    first = driver.send_join(new="m0")
    for at in range(1_000, 20_000, 1_000):
        driver.timers.expire(now_ms=at)
        driver.send_join(new=f"m{at}", at=at)

    driver.timers.expire(now_ms=20_000)

    assert first.response is not None
    assert len(first.response.members) == 20


def test_a_second_member_waits_until_the_first_rejoins(driver: Driver) -> None:
    driver.join(new="m1")
    driver.send_sync("m1", 1)

    waiting = driver.send_join(new="m2", at=5)
    assert not is_complete(waiting)
    with raises_code(ErrorCode.REBALANCE_IN_PROGRESS):
        driver.group.heartbeat("m1", None, 1, now_ms=6)
    leader = driver.join("m1", at=7)

    assert waiting.response is not None
    assert (waiting.response.generation_id, waiting.response.leader, waiting.response.members) == (2, "m1", ())
    assert {member for member, _, _ in leader.members} == {"m1", "m2"}


def test_followers_get_their_part_when_the_leader_syncs(driver: Driver) -> None:
    driver.join(new="m1")
    driver.send_sync("m1", 1)
    driver.send_join(new="m2")
    driver.join("m1")

    follower = driver.send_sync("m2", 2)
    assert not is_complete(follower)
    driver.send_sync("m1", 2, {"m1": b"1", "m2": b"2"})

    assert follower.response is not None
    assert follower.response.assignment == b"2"


def test_the_common_protocol_with_the_most_votes_is_selected(driver: Driver) -> None:
    driver.join(new="m1", protocols=BOTH)
    driver.send_sync("m1", 1)
    assert driver.join(new="m3", protocols=(("sticky", b""),)).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL

    waiting = driver.send_join(new="m2", protocols=(("roundrobin", b"x"),))
    leader = driver.join("m1", protocols=BOTH)

    assert leader.protocol_name == "roundrobin"
    assert {member: metadata for member, _, metadata in leader.members} == {"m1": b"rr", "m2": b"x"}
    assert waiting.response is not None
    with raises_code(ErrorCode.INCONSISTENT_GROUP_PROTOCOL):
        driver.send_sync("m1", 2, protocol="range")


def test_a_join_without_protocols_or_of_another_type_is_rejected(driver: Driver) -> None:
    assert driver.join(new="m1", protocols=()).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    driver.join(new="m1")

    answer = driver.send_join(new="m2", kind="connect").response

    assert answer is not None
    assert answer.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_full_group_rejects_a_new_member_and_keeps_its_members() -> None:
    driver = Driver(size_max=2)
    driver.stable_pair()

    assert driver.join(new="m3").error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert driver.join("m2").error is ErrorCode.NONE


def test_a_rejoining_leader_starts_a_rebalance_and_a_follower_does_not(driver: Driver) -> None:
    driver.stable_pair()

    assert driver.join("m2").generation_id == 2
    assert driver.group.state_name == "Stable"
    assert driver.send_join("m1").response is None
    assert driver.group.state_name == "PreparingRebalance"


def test_members_that_do_not_join_within_the_rebalance_timeout_are_removed(driver: Driver) -> None:
    driver.stable_pair()
    driver.group.heartbeat("m2", None, 2, now_ms=1_000)
    waiting = driver.send_join("m1", at=1_000)

    for at in range(2_000, 21_000, 1_000):
        driver.timers.expire(now_ms=at)
        if waiting.response is None:
            with raises_code(ErrorCode.REBALANCE_IN_PROGRESS):
                driver.group.heartbeat("m2", None, 2, now_ms=at)
    driver.timers.expire(now_ms=21_000)

    assert waiting.response is not None
    assert (waiting.response.generation_id, len(waiting.response.members)) == (3, 1)
    with raises_code(ErrorCode.UNKNOWN_MEMBER_ID):
        driver.group.heartbeat("m2", None, 3, now_ms=21_001)


def test_a_member_that_joins_and_does_not_sync_is_removed_after_the_rebalance_timeout(driver: Driver) -> None:
    driver.join(new="m1")
    for at in range(5_000, 20_000, 5_000):
        driver.group.heartbeat("m1", None, 1, now_ms=at)
        driver.timers.expire(now_ms=at)

    driver.timers.expire(now_ms=20_000)

    assert driver.group.state_name == "Empty"
    assert driver.group.generation_id == 2


def test_a_member_is_removed_at_its_session_timeout_and_the_others_rejoin(driver: Driver) -> None:
    driver.stable_pair()
    driver.group.heartbeat("m1", None, 2, now_ms=9_000)

    driver.timers.expire(now_ms=9_999)
    assert driver.group.state_name == "Stable"
    driver.timers.expire(now_ms=10_000)

    assert driver.group.state_name == "PreparingRebalance"
    assert set(driver.group.members.by_id) == {"m1"}


def test_a_waiting_join_keeps_a_member_alive_but_a_new_one_only_for_a_limited_time() -> None:
    driver = Driver(delay_ms=2 * NEW_MEMBER_JOIN_TIMEOUT_MS)
    waiting = driver.send_join(new="m1")

    driver.timers.expire(now_ms=NEW_MEMBER_JOIN_TIMEOUT_MS - 1)
    assert not is_complete(waiting)
    driver.timers.expire(now_ms=NEW_MEMBER_JOIN_TIMEOUT_MS)

    assert waiting.response is not None
    assert waiting.response.error is ErrorCode.UNKNOWN_MEMBER_ID


def test_the_last_member_that_leaves_empties_the_group_with_a_new_generation(driver: Driver) -> None:
    driver.join(new="m1")
    driver.send_sync("m1", 1)

    codes = driver.group.leave([("m1", None), ("zz", None)], now_ms=5)

    assert codes == [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID]
    assert (driver.group.state_name, driver.group.generation_id, driver.group.protocol_type) == ("Empty", 2, "consumer")
    assert driver.timers.next_deadline_ms() is None


def test_a_leader_that_leaves_is_followed_by_another(driver: Driver) -> None:
    driver.stable_pair()
    driver.group.leave([("m1", None)], now_ms=5)

    answer = driver.join("m2", at=6)

    assert (answer.leader, answer.generation_id, len(answer.members)) == ("m2", 3, 1)


def test_a_rebalance_completes_waiting_syncs(driver: Driver) -> None:
    driver.join(new="m1")
    driver.send_sync("m1", 1)
    driver.send_join(new="m2")
    driver.join("m1")
    follower = driver.send_sync("m2", 2)

    driver.group.leave([("m1", None)], now_ms=5)

    assert follower.response == SyncResult(ErrorCode.REBALANCE_IN_PROGRESS)


def test_a_static_member_returns_without_a_rebalance_and_fences_its_former_id(driver: Driver) -> None:
    driver.join(new="i1-a", instance="i1")
    driver.send_sync("i1-a", 1, {"i1-a": b"all"}, instance="i1")

    back = driver.join(new="i1-b", instance="i1")

    assert (back.generation_id, back.leader, back.skip_assignment) == (1, "i1-b", True)
    assert back.members == (("i1-b", "i1", b"r"),)
    assert driver.group.state_name == "Stable"
    with raises_code(ErrorCode.FENCED_INSTANCE_ID):
        driver.group.heartbeat("i1-a", "i1", 1, now_ms=1)
    driver.group.heartbeat("i1-b", "i1", 1, now_ms=1)
    synced = driver.send_sync("i1-b", 1, instance="i1").response
    assert synced is not None
    assert synced.assignment == b"all"


def test_a_static_leader_of_an_old_version_gets_its_former_id_as_leader_and_does_not_assign(driver: Driver) -> None:
    driver.join(new="i1-a", instance="i1")
    driver.send_sync("i1-a", 1, instance="i1")

    back = driver.join(new="i1-b", instance="i1", skips=False)

    assert (back.leader, back.members, back.skip_assignment) == ("i1-a", (), False)


def test_static_members_leave_by_their_instance_id(driver: Driver) -> None:
    driver.join(new="i1-a", instance="i1")
    driver.send_sync("i1-a", 1, instance="i1")

    assert driver.group.leave([("old", "i1"), ("", "none")], now_ms=1) == [
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]
    assert driver.group.leave([("", "i1")], now_ms=1) == [ErrorCode.NONE]
    assert driver.group.state_name == "Empty"


def test_a_wrong_generation_is_refused_by_heartbeat_and_sync(driver: Driver) -> None:
    driver.join(new="m1")

    with raises_code(ErrorCode.ILLEGAL_GENERATION):
        driver.group.heartbeat("m1", None, 7, now_ms=1)
    with raises_code(ErrorCode.ILLEGAL_GENERATION):
        driver.send_sync("m1", 5)
    with raises_code(ErrorCode.UNKNOWN_MEMBER_ID):
        driver.send_sync("zz", 1)


def test_a_waiting_request_is_woken_when_its_response_is_complete() -> None:
    driver = Driver(delay_ms=3_000)
    driver.send_join(new="m1")
    assert driver.woken == 0

    driver.timers.expire(now_ms=3_000)

    assert driver.woken == 1


def test_every_state_can_be_left_and_reached() -> None:
    reached = {target for moves in TRANSITIONS.values() for target in moves.values()}

    assert reached == set(ClassicState) == {state for state, moves in TRANSITIONS.items() if moves}
