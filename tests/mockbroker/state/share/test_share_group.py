"""Share groups on virtual time: share-semantics 5.1 to 5.7 and 5.9."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kwire.error_codes import ErrorCode
from mockbroker.state.groups import Groups
from mockbroker.state.share.share_group import ShareGroup, ShareHeartbeat, ShareJoin
from tests.support.brokers.group_topics import T, Topics, U
from tests.support.raises_code import raises_code

SETTINGS = {"share.session.timeout.ms": 45_000, "share.assignment.interval.ms": 1_000}
BROKER = {
    "group.share.max.size": 3,
    "group.share.initialize.retry.interval.ms": 30_000,
    "offsets.commit.timeout.ms": 5_000,
}
NO_INTERVAL = {"share.assignment.interval.ms": 0}


class Driver:
    """A coordinator with one share group, and heartbeats of its members."""

    def __init__(self) -> None:
        self.topics = Topics()
        self.topics.add("T", T, 2)
        self.groups = Groups(self.topics, lambda _key: None)
        self.settings = dict(SETTINGS)

    @property
    def group(self) -> ShareGroup:
        return self.groups.get_share_group("g")

    def beat(
        self, member_id: str, epoch: int, topics: list[str] | None = None, *, at: int = 0, rack: str | None = None
    ) -> ShareHeartbeat:
        names = None if topics is None else tuple(topics)
        join = ShareJoin(member_id, epoch, rack, "client", "/127.0.0.1", names)
        group = self.groups.get_share_group("g", create=epoch == 0)
        return group.heartbeat(join, settings=self.settings, broker=BROKER, now_ms=at)

    def initialised(self, heartbeat: ShareHeartbeat) -> None:
        assert heartbeat.initialization is not None
        self.group.partition_states.complete_initializing(heartbeat.initialization.partitions)

    def assigned_member(self) -> None:
        """m1 with both partitions of T in epoch 3, in a group without assignment interval."""
        self.settings |= NO_INTERVAL
        self.initialised(self.beat("m1", 0, ["T"]))
        self.beat("m1", 2)

    def epochs(self) -> tuple[int, int]:
        return self.group.group_epoch, self.group.assignment_epoch


@pytest.fixture
def driver() -> Driver:
    return Driver()


def test_5_3_timeline(driver: Driver) -> None:
    first = driver.beat("m1", 0, ["T"])
    assert (first.member.member_epoch, first.assignment, driver.epochs()) == (2, {}, (2, 2))
    assert first.initialization is not None
    assert (first.initialization.state_epoch, first.initialization.partitions) == (2, {T: frozenset({0, 1})})

    driver.initialised(first)
    assert driver.epochs() == (2, 2)

    second = driver.beat("m1", 2, at=5_000)
    assert (second.member.member_epoch, second.assignment, driver.epochs()) == (3, {T: frozenset({0, 1})}, (3, 3))

    third = driver.beat("m1", 3, at=10_000)
    assert (third.member.member_epoch, third.assignment, driver.epochs()) == (3, None, (3, 3))

    other = driver.beat("m2", 0, ["T"], at=10_100)
    assert (other.member.member_epoch, driver.epochs()) == (4, (4, 4))
    assert other.assignment is not None
    assert len(other.assignment[T]) == 1

    last = driver.beat("m1", 3, at=15_000)
    assert (last.member.member_epoch, driver.epochs()) == (4, (4, 4))
    assert last.assignment == {T: frozenset({0, 1}) - other.assignment[T]}


def test_5_3_a_heartbeat_within_the_assignment_interval_moves_only_the_group_epoch(driver: Driver) -> None:
    driver.initialised(driver.beat("m1", 0, ["T"], at=1))

    early = driver.beat("m1", 2, at=1_000)
    assert (early.member.member_epoch, early.assignment, driver.epochs()) == (2, None, (3, 2))

    on_time = driver.beat("m1", 2, at=1_001)
    assert (on_time.member.member_epoch, on_time.assignment) == (3, {T: frozenset({0, 1})})


def test_5_3_the_previous_epoch_is_accepted_and_others_are_fenced(driver: Driver) -> None:
    driver.initialised(driver.beat("m1", 0, ["T"]))
    driver.beat("m1", 2, at=5_000)

    repeated = driver.beat("m1", 2, at=5_001)

    assert (repeated.member.member_epoch, repeated.assignment) == (3, None)
    for epoch in (1, 4, 7):
        with raises_code(ErrorCode.FENCED_MEMBER_EPOCH):
            driver.beat("m1", epoch, at=5_002)


def test_5_3_a_first_join_gets_partitions_at_once_when_their_state_is_there(driver: Driver) -> None:
    driver.groups.get_share_group("g", create=True).partition_states.complete_initializing({T: frozenset({0, 1})})

    first = driver.beat("m1", 0, ["T"])

    assert (first.member.member_epoch, first.assignment, first.initialization) == (2, {T: frozenset({0, 1})}, None)


def test_epoch_zero_from_a_member_answers_its_epoch_and_whole_assignment(driver: Driver) -> None:
    driver.initialised(driver.beat("m1", 0, ["T"]))
    driver.beat("m1", 2, at=5_000)

    again = driver.beat("m1", 0, ["T"], at=6_000)

    assert (again.member.member_epoch, again.assignment, again.initialization) == (3, {T: frozenset({0, 1})}, None)


def test_a_repeated_and_reordered_topic_list_is_no_change_but_is_answered_with_the_assignment(driver: Driver) -> None:
    driver.topics.add("U", U, 1)
    driver.initialised(driver.beat("m1", 0, ["T", "U"]))
    driver.beat("m1", 2, at=5_000)

    again = driver.beat("m1", 3, ["U", "T", "U"], at=6_000)

    assert again.member.member_epoch == 3
    assert again.assignment == {T: frozenset({0, 1}), U: frozenset({0})}


def test_an_emptied_subscription_takes_everything_away_at_once(driver: Driver) -> None:
    driver.settings |= NO_INTERVAL
    driver.initialised(driver.beat("m1", 0, ["T"]))
    driver.beat("m1", 2)

    cleared = driver.beat("m1", 3, [])

    assert (cleared.member.member_epoch, cleared.assignment) == (4, {})


def test_a_rack_is_kept_when_none_is_named(driver: Driver) -> None:
    driver.beat("m1", 0, ["T"], rack="r1")

    assert driver.beat("m1", 2).member.rack_id == "r1"
    assert driver.beat("m1", 2, rack="r2").member.rack_id == "r2"


def test_5_1_a_group_that_is_not_there_is_made_by_epoch_zero_only(driver: Driver) -> None:
    with raises_code(ErrorCode.GROUP_ID_NOT_FOUND):
        driver.beat("m1", 1)
    driver.beat("m1", 0, ["T"])
    with raises_code(ErrorCode.UNKNOWN_MEMBER_ID):
        driver.beat("m2", 1)


def test_5_1_a_full_group_refuses_a_stranger_before_its_epoch_is_looked_at(driver: Driver) -> None:
    for member in ("m1", "m2", "m3"):
        driver.beat(member, 0, ["T"])

    for epoch in (0, 5):
        with raises_code(ErrorCode.GROUP_MAX_SIZE_REACHED):
            driver.beat("m4", epoch, ["T"])
    driver.beat("m1", 0, ["T"])
    driver.group.leave("m2", now_ms=0)
    assert driver.beat("m4", 0, ["T"]).member.member_id == "m4"


def test_5_2_a_member_that_joins_while_the_interval_holds_gets_the_old_epoch_and_nothing(driver: Driver) -> None:
    driver.beat("m1", 0, ["T"], at=1)

    joined = driver.beat("m2", 0, ["T"], at=10)

    assert (joined.member.member_epoch, joined.assignment, driver.epochs()) == (2, {}, (3, 2))


def test_5_4_leaving_raises_the_epoch_and_strangers_cannot_leave(driver: Driver) -> None:
    driver.beat("m1", 0, ["T"])
    driver.group.leave("m1", now_ms=0)

    assert (driver.epochs(), driver.group.state_name) == ((3, 2), "Empty")
    with raises_code(ErrorCode.UNKNOWN_MEMBER_ID):
        driver.group.leave("m1", now_ms=0)


def test_5_2_a_silent_member_is_removed_exactly_at_its_session_timeout(driver: Driver) -> None:
    driver.beat("m1", 0, ["T"])
    driver.beat("m1", 2, at=10_000)

    assert driver.groups.next_deadline_ms() == 55_000
    assert driver.groups.expire(now_ms=54_999) == 0
    assert driver.groups.expire(now_ms=55_000) == 1
    assert (driver.group.state_name, driver.epochs()) == ("Empty", (3, 2))
    with raises_code(ErrorCode.UNKNOWN_MEMBER_ID):
        driver.beat("m1", 2, at=55_001)
    assert driver.beat("m1", 0, ["T"], at=55_002).member.member_epoch == 4


def test_the_next_heartbeat_of_another_member_gets_the_partitions_of_a_removed_one(driver: Driver) -> None:
    driver.settings |= NO_INTERVAL
    driver.initialised(driver.beat("m1", 0, ["T"]))
    driver.beat("m2", 0, ["T"])
    driver.beat("m1", 2)
    driver.group.leave("m2", now_ms=0)

    assert driver.beat("m1", 3).assignment == {T: frozenset({0, 1})}
    assert driver.epochs() == (4, 4)


def test_5_7_grown_topics_are_initialised_first_and_assigned_later(driver: Driver) -> None:
    driver.assigned_member()
    driver.topics.add("T", T, 3)

    grown = driver.beat("m1", 3)
    assert (grown.member.member_epoch, grown.assignment) == (4, None)
    assert grown.initialization is not None
    assert (grown.initialization.state_epoch, grown.initialization.partitions) == (4, {T: frozenset({2})})

    driver.initialised(grown)
    after = driver.beat("m1", 4)
    assert (after.member.member_epoch, after.assignment) == (5, {T: frozenset({0, 1, 2})})


def test_5_7_a_topic_that_appears_later_is_found_by_the_next_heartbeat(driver: Driver) -> None:
    driver.settings |= NO_INTERVAL
    first = driver.beat("m1", 0, ["U"])
    assert (first.member.member_epoch, first.assignment, first.initialization) == (2, {}, None)
    driver.topics.add("U", U, 1)

    found = driver.beat("m1", 2)
    driver.initialised(found)

    assert (found.member.member_epoch, found.assignment) == (3, None)
    assert driver.beat("m1", 3).assignment == {U: frozenset({0})}


def test_5_7_a_topic_made_again_is_another_topic(driver: Driver) -> None:
    driver.assigned_member()
    driver.topics.add("T", U, 1)

    emptied = driver.beat("m1", 3)
    driver.initialised(emptied)

    assert (emptied.member.member_epoch, emptied.assignment) == (4, {})
    again = driver.beat("m1", 4)
    assert (again.member.member_epoch, again.assignment) == (5, {U: frozenset({0})})
    assert set(driver.group.partition_states.initialized) == {U}


def test_5_7_an_initialization_is_requested_again_when_it_failed_or_is_overdue(driver: Driver) -> None:
    first = driver.beat("m1", 0, ["T"])
    assert driver.beat("m1", 2, at=29_999).initialization is None
    overdue = driver.beat("m1", 2, at=30_000)
    assert first.initialization is not None
    assert overdue.initialization == replace(first.initialization, known_topics=frozenset({T}))

    driver.group.partition_states.fail_initializing(first.initialization.partitions)

    assert driver.beat("m1", 2, at=30_001).initialization == first.initialization


def test_6_5_offsets_that_are_deleted_leave_partitions_alone_that_are_still_being_initialised(driver: Driver) -> None:
    # Source: Kafka's GroupMetadataManager.sharePartitionsEligibleForOffsetDeletion.
    driver.initialised(driver.beat("m1", 0, ["T"]))
    driver.topics.add("T", T, 3)
    growing = driver.beat("m1", 2)
    assert growing.initialization is not None
    assert growing.initialization.partitions == {T: frozenset({2})}
    states = driver.group.partition_states

    assert states.initialized_or_deleting_partitions(T, driver.topics) == {0, 1}
    states.start_deleting({T}, keep_initializing=True)

    assert set(states.initializing) == {T}
    assert (states.initialized, states.deleting) == ({}, {T})
    assert states.initialized_or_deleting_partitions(T, driver.topics) == {0, 1, 2}
