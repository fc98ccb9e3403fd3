"""KIP-932 revision r1 over sockets: worked examples, acknowledge types, start offsets of groups."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kwire.error_codes import ErrorCode
from kwire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from tests.support.brokers.draft_members import ACCEPT, REJECT, RELEASE, TOPIC, Member, describe_view, running_member
from tests.support.brokers.start_offset_walks import STATES, run_walk

EDITION = "kip932-r1"


@pytest.fixture
def member() -> Iterator[Member]:
    with running_member(EDITION) as running:
        running.cluster.clock.freeze()
        yield running


def test_r1_the_walk_from_offset_100_to_a_start_of_120(member: Member) -> None:
    member.produce(100)
    member.open_session()
    for count in (10, 3, 7, 1, 9):
        member.produce(count)

    assert run_walk(member) == STATES


def test_r1_the_window_of_offsets_2_to_8(member: Member) -> None:
    for _ in range(10):
        member.produce(1)
    # 7 and 8 are available, and were never delivered: that is how a leader finds them that takes over.
    start = {"partition": 0, "stateEpoch": 1, "startOffset": 2}
    states = [{"baseOffset": 7, "lastOffset": 8, "state": 0, "deliveryCount": 0}]
    for api, row in (("InitializeShareGroupState", start), ("WriteShareGroupState", start | {"stateBatches": states})):
        topics = [{"topicId": member.topic_id, "partitions": [row]}]
        answer = member.call(api, {"groupId": member.group, "topics": topics})
        assert answer.results[0].partitions[0].error_code == 0

    assert member.first_fetch() == [(2, 2, 1)]
    assert member.fetch() + member.fetch() == [(3, 3, 1), (4, 4, 1)]
    assert member.acknowledge(3, 3, RELEASE) == 0
    assert member.fetch() + member.fetch() + member.fetch() == [(3, 3, 2), (5, 5, 1), (6, 6, 1)]
    for offset, kind in ((5, ACCEPT), (6, REJECT), (3, RELEASE)):
        assert member.acknowledge(offset, offset, kind) == 0

    view = member.view()
    shown = "2 9 2 acquired/1, 3 available/2, 4 acquired/1, 5 acknowledged/1, 6 archived/1, 7-8 available/0"
    assert describe_view(view) == shown
    assert [view.state_of(offset).name for offset in (0, 1, 9)] == ["ARCHIVED", "ARCHIVED", "AVAILABLE"]


def _describe_recorded_state(member: Member) -> str:
    """The stored state as text: the start, and the states of records by offset."""
    topics = [{"topicId": member.topic_id, "partitions": [{"partition": 0}]}]
    answer = member.call("ReadShareGroupState", {"groupId": member.group, "topics": topics})
    row = answer.results[0].partitions[0]
    assert row.error_code == 0
    words, parts = {0: "available", 2: "acknowledged", 4: "archived"}, [str(row.start_offset)]
    for one in row.state_batches:
        parts.append(f"{one.base_offset}-{one.last_offset} {words[one.state]}/{one.delivery_count}")
    return ", ".join(parts)


def test_r1_what_is_recorded_of_the_window_of_offsets_2_to_8(member: Member) -> None:
    member.open_session()
    for _ in range(7):
        member.produce(1)
    assert [member.fetch() for _ in range(7)] == [[(offset, offset, 1)] for offset in range(7)]
    for offset, kind in ((0, ACCEPT), (1, ACCEPT), (5, ACCEPT), (6, REJECT), (3, RELEASE)):
        assert member.acknowledge(offset, offset, kind) == 0
    assert member.fetch() == [(3, 3, 2)]
    assert member.acknowledge(3, 3, RELEASE) == 0

    # "The durable state contains the SPSO position, the non-zero delivery count for offset 3, the Acknowledged state of
    # offset 5, and the Archived state of offset 6": nothing of 2 and 4, which are acquired for the first time.
    shown = "2 7 2 acquired/1, 3 available/2, 4 acquired/1, 5 acknowledged/1, 6 archived/1"
    assert describe_view(member.view()).startswith(shown)
    assert _describe_recorded_state(member) == "2, 3-3 available/2, 5-5 acknowledged/1, 6-6 archived/1"


def test_r1_what_is_recorded_after_each_operation_of_the_walk(member: Member) -> None:
    member.produce(100)
    member.open_session()
    for count in (10, 3, 7, 1, 9):
        member.produce(count)
    recorded: list[str] = []

    run_walk(member, after=lambda: recorded.append(_describe_recorded_state(member)))

    assert recorded == [
        "100",
        "100",
        "110",
        "110",
        "110, 110-110 available/1",
        "110, 110-110 available/1, 119-119 acknowledged/1",
        "110, 110-110 available/1, 119-119 acknowledged/1",
        "110, 110-112 available/1, 119-119 acknowledged/1",
        "110, 110-112 available/1, 113-119 acknowledged/1",
        "110, 110-112 available/1, 113-119 acknowledged/1",
        "111, 111-112 available/1, 113-119 acknowledged/1",
        "120",
    ]


def test_r1_a_new_leader_starts_where_the_group_did(member: Member) -> None:
    member.produce(10)
    member.open_session()
    member.produce(1)
    member.cluster.kill_node(0)
    member.cluster.start_node(0)

    with Member(member.cluster, EDITION) as later:
        assert later.first_fetch() == [(10, 10, 1)]


def test_r1_an_accept_is_0_a_release_1_a_reject_2_and_3_is_nothing(member: Member) -> None:
    member.open_session()
    for _ in range(4):
        member.produce(1)
    assert [member.fetch() for _ in range(4)] == [[(offset, offset, 1)] for offset in range(4)]

    assert [member.acknowledge(offset, offset, kind) for offset, kind in ((1, 0), (2, 1), (3, 2))] == [0, 0, 0]

    assert describe_view(member.view()) == "0 4 0 acquired/1, 1 acknowledged/1, 2 available/1, 3 archived/1"
    assert member.acknowledge(0, 0, 3) == ErrorCode.INVALID_REQUEST


def test_r1_a_group_starts_at_the_latest_offset(member: Member) -> None:
    member.produce(10)
    member.open_session()
    assert describe_view(member.view()) == "10 10 "

    member.produce(1)
    assert member.fetch() == [(10, 10, 1)]


def test_r1_a_group_starts_when_it_subscribes_and_not_when_it_first_fetches(member: Member) -> None:
    member.produce(10)
    member.join()
    assert describe_view(member.view()) == "10 10 "
    assert _describe_recorded_state(member) == "10"
    member.produce(3)

    assert member.first_fetch() == [(10, 12, 1)]


def test_r1_partitions_that_are_added_to_a_topic_start_at_offset_0(member: Member) -> None:
    epoch = member.join().member_epoch
    member.client.send(CreatePartitionsRequest([CreatePartitionsTopic(TOPIC, 2, None)], 1000), 3)
    member.join(epoch)
    member.produce(3, partition=1)

    assert member.first_fetch(partition=1) == [(0, 2, 1)]


@pytest.fixture
def twice() -> Iterator[Member]:
    """A member of a group whose records are delivered twice at most."""
    limits = {"share_delivery_count_limit": "2", "share_record_lock_partition_limit": "100"}
    with running_member(EDITION, **limits) as running:
        running.cluster.clock.freeze()
        running.open_session()
        yield running


def test_r1_the_states_of_a_record_and_what_leads_from_one_to_the_next(twice: Member) -> None:
    lock_ms = 30_000
    for _ in range(5):
        twice.produce(1)
    assert [twice.fetch() for _ in range(5)] == [[(offset, offset, 1)] for offset in range(5)]
    # Offset 0 is accepted; 1 and 2 are released; the locks of 3 and 4 expire.
    assert [twice.acknowledge(0, 0, ACCEPT), twice.acknowledge(1, 2, RELEASE)] == [0, 0]
    assert describe_view(twice.view()) == "1 5 1-2 available/1, 3-4 acquired/1"
    twice.cluster.clock.advance(lock_ms)
    assert describe_view(twice.view()) == "1 5 1-4 available/1"

    # The second attempt is the last one, however it ends.
    assert [twice.fetch() for _ in range(4)] == [[(offset, offset, 2)] for offset in range(1, 5)]
    for offset, kind in ((4, ACCEPT), (2, RELEASE), (3, REJECT)):
        assert twice.acknowledge(offset, offset, kind) == 0
    assert describe_view(twice.view()) == "1 5 1 acquired/2, 2-3 archived/2, 4 acknowledged/2"
    twice.cluster.clock.advance(lock_ms + 1)  # The end of a lock is recorded a millisecond later.
    assert describe_view(twice.view()) == "5 5 "
    assert twice.fetch(wait_ms=0) == []


def test_r1_the_distance_between_start_and_end_is_bounded(twice: Member) -> None:
    for _ in range(11):
        twice.produce(10)

    assert [twice.fetch() for _ in range(10)] == [[(first, first + 9, 1)] for first in range(0, 100, 10)]
    assert twice.fetch(wait_ms=0) == []
    assert describe_view(twice.view()) == "0 100 0-99 acquired/1"
    assert twice.acknowledge(0, 9, ACCEPT) == 0
    assert twice.fetch() == [(100, 109, 1)]


def test_r1_a_start_that_is_set_discards_states_and_counts(member: Member) -> None:
    member.open_session()
    member.produce(3)
    assert member.fetch() == [(0, 2, 1)]
    assert [member.acknowledge(1, 1, ACCEPT), member.acknowledge(2, 2, RELEASE)] == [0, 0]
    assert member.alter(0) == ErrorCode.NON_EMPTY_GROUP
    member.leave()
    member.client.close()

    with Member(member.cluster, EDITION) as later:
        assert later.alter(0) == 0
        later.join()
        assert later.first_fetch() == [(0, 2, 1)]
