"""Consumer groups of the new protocol on virtual time: epochs, revoke before assign, static members, expressions."""

from __future__ import annotations

import pytest

from kwire.error_codes import ErrorCode
from mockbroker.state.group.consumer_group import ConsumerGroup
from mockbroker.state.group.consumer_members import ConsumerHeartbeat, ConsumerJoin
from mockbroker.state.group.coordinator_records import discard_records
from mockbroker.state.timers import Timers
from tests.support.brokers.group_topics import T, Topics, U
from tests.support.raises_code import raises_code

BROKER = {"group.consumer.max.size": 3, "group.consumer.regex.refresh.interval.ms": 600_000}
Partitions = set[tuple[bytes, int]]


class Driver:
    """One consumer group over the topics T (2 partitions) and U (1)."""

    def __init__(self) -> None:
        self.topics = Topics()
        self.topics.add("T", T, 2)
        self.topics.add("U", U, 1)
        self.timers = Timers()
        self.group = ConsumerGroup("g", self.topics, self.timers, discard_records)
        self.interval_ms = 0

    def beat(
        self,
        member_id: str,
        epoch: int,
        topics: tuple[str, ...] | None = None,
        *,
        owned: Partitions | None = None,
        instance: str | None = None,
        regex: str | None = None,
        assignor: str | None = None,
        at: int = 0,
    ) -> ConsumerHeartbeat:
        timeout_ms, none_owned = (10_000, frozenset[tuple[bytes, int]]()) if epoch == 0 else (-1, None)
        has = none_owned if owned is None else frozenset(owned)
        join = ConsumerJoin(
            member_id, epoch, instance, None, "client", "/127.0.0.1", timeout_ms, topics, regex, assignor, has
        )
        settings = {"consumer.session.timeout.ms": 45_000, "consumer.assignment.interval.ms": self.interval_ms}
        return self.group.heartbeat(join, settings=settings, broker=BROKER, default_assignor="uniform", now_ms=at)


@pytest.fixture
def driver() -> Driver:
    return Driver()


def assigned_partitions(heartbeat: ConsumerHeartbeat) -> object:
    return heartbeat.assigned


def epoch_and_assignment(heartbeat: ConsumerHeartbeat) -> tuple[int, object]:
    return heartbeat.member.member_epoch, heartbeat.assigned


def test_a_first_member_gets_everything_at_epoch_two(driver: Driver) -> None:
    joined = driver.beat("c1", 0, ("T",))

    assert epoch_and_assignment(joined) == (2, {(T, 0), (T, 1)})
    assert driver.beat("c1", 2).assigned is None
    assert driver.beat("c1", 2, owned={(T, 0), (T, 1)}).assigned is None
    assert driver.group.state_name == "Stable"


def test_a_second_member_gets_a_partition_only_after_the_first_has_revoked_it(driver: Driver) -> None:
    driver.beat("c1", 0, ("T",))

    second = driver.beat("c2", 0, ("T",))
    assert epoch_and_assignment(second) == (3, set())
    assert driver.group.state_name == "Reconciling"

    revoking = driver.beat("c1", 2, owned={(T, 0), (T, 1)})
    assert revoking.assigned is not None
    assert (revoking.member.member_epoch, len(revoking.assigned)) == (2, 1)
    waiting = set(revoking.assigned)
    assert driver.beat("c2", 3).assigned is None

    completed = driver.beat("c1", 2, owned=waiting)
    assert epoch_and_assignment(completed) == (3, None)
    assert assigned_partitions(driver.beat("c2", 3)) == {(T, 0), (T, 1)} - waiting
    assert driver.group.state_name == "Stable"


def test_a_dropped_topic_is_revoked_before_the_new_one_is_assigned(driver: Driver) -> None:
    driver.topics.add("T", T, 1)
    driver.beat("c1", 0, ("T",))

    dropped = driver.beat("c1", 2, ("U",))
    assert epoch_and_assignment(dropped) == (2, set())
    moved = driver.beat("c1", 2, owned=set())
    assert epoch_and_assignment(moved) == (3, {(U, 0)})


def test_a_member_that_does_not_revoke_in_its_rebalance_timeout_is_removed(driver: Driver) -> None:
    driver.beat("c1", 0, ("T",))
    driver.beat("c2", 0, ("T",))
    driver.beat("c1", 2, owned={(T, 0), (T, 1)}, at=1_000)
    driver.beat("c1", 2, owned={(T, 0), (T, 1)}, at=5_000)

    driver.timers.expire(now_ms=10_999)
    assert "c1" in driver.group.members
    driver.timers.expire(now_ms=11_000)

    with raises_code(ErrorCode.UNKNOWN_MEMBER_ID):
        driver.beat("c1", 2, at=11_001)
    assert assigned_partitions(driver.beat("c2", 3, at=11_002)) == {(T, 0), (T, 1)}


def test_a_member_is_removed_at_its_session_timeout(driver: Driver) -> None:
    driver.beat("c1", 0, ("T",), at=500)

    driver.timers.expire(now_ms=45_499)
    assert driver.group.state_name == "Stable"
    driver.timers.expire(now_ms=45_500)

    assert (driver.group.state_name, driver.group.group_epoch, driver.group.assignment_epoch) == ("Empty", 3, 2)


def test_the_previous_epoch_is_accepted_only_with_assigned_partitions(driver: Driver) -> None:
    driver.beat("c1", 0, ("T",))
    driver.beat("c1", 2, ("T", "U"))
    assert driver.group.members["c1"].member_epoch == 3

    assert driver.beat("c1", 2, owned={(T, 0)}).member.member_epoch == 3
    for epoch, owned in ((2, None), (2, {(b"x" * 16, 0)}), (1, set[tuple[bytes, int]]()), (9, None)):
        with raises_code(ErrorCode.FENCED_MEMBER_EPOCH):
            driver.beat("c1", epoch, owned=owned)


def test_within_the_assignment_interval_only_the_group_epoch_changes(driver: Driver) -> None:
    driver.interval_ms = 1_000
    driver.beat("c1", 0, ("T",), at=1)

    held_back = driver.beat("c1", 2, ("T", "U"), at=1_000)
    assert (held_back.member.member_epoch, driver.group.state_name) == (2, "Assigning")

    assert assigned_partitions(driver.beat("c1", 2, at=1_001)) == {(T, 0), (T, 1), (U, 0)}


def test_a_full_group_rejects_a_new_member(driver: Driver) -> None:
    for member in ("c1", "c2", "c3"):
        driver.beat(member, 0, ("T",))

    with raises_code(ErrorCode.GROUP_MAX_SIZE_REACHED):
        driver.beat("c4", 0, ("T",))


def test_a_static_member_can_leave_temporarily_and_return_with_another_id(driver: Driver) -> None:
    driver.beat("c1", 0, ("T",), instance="i1")
    with raises_code(ErrorCode.UNRELEASED_INSTANCE_ID):
        driver.beat("c2", 0, ("T",), instance="i1")
    driver.group.leave("c1", "i1", -2, now_ms=0)
    assert driver.group.state_name == "Reconciling"

    back = driver.beat("c2", 0, ("T",), instance="i1")

    assert epoch_and_assignment(back) == (2, {(T, 0), (T, 1)})
    with raises_code(ErrorCode.FENCED_INSTANCE_ID):
        driver.beat("c1", 2, instance="i1")
    with raises_code(ErrorCode.UNKNOWN_MEMBER_ID):
        driver.beat("c1", 2, instance="i9")
    driver.group.leave("c2", "i1", -1, now_ms=0)
    assert (driver.group.state_name, driver.group.group_epoch, driver.group.assignment_epoch) == ("Empty", 3, 2)


def test_a_static_member_that_does_not_return_is_removed_with_its_session(driver: Driver) -> None:
    driver.beat("c1", 0, ("T",), instance="i1")
    driver.group.leave("c1", "i1", -2, now_ms=0)

    driver.timers.expire(now_ms=45_000)

    assert driver.beat("c2", 0, ("T",), instance="i1", at=45_001).member.member_epoch == 4


def test_an_expression_is_resolved_after_the_join_and_again_for_new_topics(driver: Driver) -> None:
    joined = driver.beat("c1", 0, regex="[TV]")
    assert epoch_and_assignment(joined) == (1, set())
    assert joined.needs_regex_resolution
    assert driver.beat("c1", 1).needs_regex_resolution is False

    driver.group.resolve_regexes(now_ms=5)
    assert assigned_partitions(driver.beat("c1", 1, at=10)) == {(T, 0), (T, 1)}

    driver.topics.add("V", b"v" * 16, 1)
    assert driver.beat("c1", 2, at=10_005).needs_regex_resolution is False
    assert driver.beat("c1", 2, at=10_006).needs_regex_resolution is True
    driver.group.resolve_regexes(now_ms=10_007)
    assert assigned_partitions(driver.beat("c1", 2, at=10_008)) == {(T, 0), (T, 1), (b"v" * 16, 0)}


@pytest.mark.parametrize("regex", ["(", r"(a)\1", "a(?=b)", "(?<!a)b", "a++", "(?>a)", r"\pX"])
def test_an_invalid_expression_is_rejected_and_the_member_does_not_join(driver: Driver, regex: str) -> None:
    with raises_code(ErrorCode.INVALID_REGULAR_EXPRESSION):
        driver.beat("c1", 0, regex=regex)

    assert driver.group.state_name == "Empty"


@pytest.mark.parametrize(("regex", "matches"), [("T.*", 1), (r"\QT\E", 1), (r"T\z", 1), ("[[:upper:]]", 2), ("x|U", 1)])
def test_expressions_match_whole_names(driver: Driver, regex: str, matches: int) -> None:
    driver.topics.add("xT", b"x" * 16, 1)
    driver.beat("c1", 0, regex=regex)

    driver.group.resolve_regexes(now_ms=0)

    assert len(driver.group.resolved[regex]) == matches


def test_added_partitions_increment_the_epoch_with_the_next_heartbeat(driver: Driver) -> None:
    driver.beat("c1", 0, ("T",))
    driver.topics.add("T", T, 3)

    grown = driver.beat("c1", 2)

    assert epoch_and_assignment(grown) == (3, {(T, 0), (T, 1), (T, 2)})


def test_most_votes_choose_the_assignor_and_range_keeps_neighbours_together(driver: Driver) -> None:
    driver.topics.add("T", T, 5)
    driver.beat("a", 0, ("T",), assignor="range")
    driver.beat("b", 0, ("T",), assignor="range")

    assert driver.group.assignor_name("uniform") == "range"
    assert driver.group.target == {"a": {T: frozenset({0, 1, 2})}, "b": {T: frozenset({3, 4})}}


def test_uniform_moves_as_little_as_it_can(driver: Driver) -> None:
    driver.topics.add("T", T, 5)
    for member in ("a", "b"):
        driver.beat(member, 0, ("T",))
    before = driver.group.target

    driver.beat("c", 0, ("T",))

    after = driver.group.target
    assert sorted(len(topics[T]) for topics in after.values()) == [1, 2, 2]
    assert sum(len(before[member][T] - after[member][T]) for member in before) == 1


def test_uniform_evens_out_members_with_different_subscriptions(driver: Driver) -> None:
    driver.topics.add("T", T, 4)
    driver.topics.add("U", U, 2)
    driver.beat("a", 0, ("T", "U"))
    driver.beat("b", 0, ("T",))

    target = {member: sum(map(len, topics.values())) for member, topics in driver.group.target.items()}
    assert target == {"a": 3, "b": 3}
    assert driver.group.target["a"][U] == {0, 1}


def test_offsets_are_accepted_since_the_epoch_in_which_the_partition_was_assigned(driver: Driver) -> None:
    driver.beat("c1", 0, ("T",))
    driver.beat("c1", 2, ("T", "U"))
    check = driver.group.check_commit

    check("c1", 3, (T, 0), version=9)
    check("c1", 2, (T, 0), version=9)
    for epoch, partition in ((4, (T, 0)), (1, (T, 0)), (2, (U, 0))):
        with raises_code(ErrorCode.STALE_MEMBER_EPOCH):
            check("c1", epoch, partition, version=9)
    with raises_code(ErrorCode.UNKNOWN_MEMBER_ID):
        check("", -1, (T, 0), version=9)
