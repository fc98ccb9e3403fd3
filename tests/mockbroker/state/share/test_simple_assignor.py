"""The share assignor: counts and coverage of share-semantics 5.9, not the members of each partition."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mockbroker.state.java.hash_order import JavaSet, int_hash, uuid_hash
from mockbroker.state.share.simple_assignor import assign_simple, desired_counts, members_per_partition

TOPIC = bytes(15) + b"\x01"
OTHER = bytes(15) + b"\x02"


def members(count: int, *topics: bytes) -> dict[str, frozenset[bytes]]:
    return {f"member-{index}": frozenset(topics) for index in range(count)}


@pytest.mark.parametrize(
    ("member_count", "partition_count", "shared", "counts"),
    [
        (1, 3, 1, [3]),
        (2, 3, 1, [2, 1]),
        (2, 4, 1, [2, 2]),
        (3, 4, 1, [2, 1, 1]),
        (3, 2, 2, [2, 1, 1]),
        (4, 2, 2, [1, 1, 1, 1]),
        (5, 3, 2, [2, 1, 1, 1, 1]),
        (7, 3, 3, [2, 1, 1, 2, 1, 1, 1]),
    ],
)
def test_5_9_table_of_sharing_and_desired_counts(
    member_count: int, partition_count: int, shared: int, counts: list[int]
) -> None:
    target = assign_simple(members(member_count, TOPIC), {TOPIC: frozenset(range(partition_count))}, {})

    assert members_per_partition(member_count, partition_count) == shared
    assert desired_counts(member_count, partition_count) == counts
    assert Counter(len(topics.get(TOPIC, ())) for topics in target.values()) == Counter(counts)
    holders = Counter(index for topics in target.values() for index in topics.get(TOPIC, ()))
    assert set(holders.values()) <= {shared, shared - 1}
    assert set(holders) == set(range(partition_count))


def test_no_assignable_partition_leaves_every_member_without_any() -> None:
    assert assign_simple(members(3, TOPIC), {}, {}) == {"member-0": {}, "member-1": {}, "member-2": {}}


def test_different_subscriptions_are_dealt_topic_by_topic() -> None:
    subscriptions = {"m1": frozenset({TOPIC}), "m2": frozenset({OTHER}), "m3": frozenset({TOPIC, OTHER})}
    both = frozenset({0, 1})

    target = assign_simple(subscriptions, {TOPIC: both, OTHER: both}, {})

    assert {member: {t: len(i) for t, i in topics.items()} for member, topics in target.items()} == {
        "m1": {TOPIC: 1},
        "m2": {OTHER: 1},
        "m3": {TOPIC: 1, OTHER: 1},
    }
    assert target["m1"][TOPIC] | target["m3"][TOPIC] == both
    assert target["m2"][OTHER] | target["m3"][OTHER] == both


def test_a_member_that_joins_takes_only_what_balance_needs() -> None:
    four = {TOPIC: frozenset(range(4))}
    before = assign_simple(members(2, TOPIC), four, {})

    after = assign_simple(members(3, TOPIC), four, before)

    moved = sum(len(before[member][TOPIC] - after[member][TOPIC]) for member in before)
    assert moved == 1
    assert sorted(len(topics[TOPIC]) for topics in after.values()) == [1, 1, 2]


def test_a_member_that_dropped_a_topic_gives_its_partitions_to_the_other() -> None:
    both = frozenset({0, 1})
    held = {"m1": {TOPIC: both}, "m2": {OTHER: both}}
    subscriptions = {"m1": frozenset({OTHER}), "m2": frozenset({TOPIC, OTHER})}

    target = assign_simple(subscriptions, {TOPIC: both, OTHER: both}, held)

    assert target["m2"][TOPIC] == both
    assert TOPIC not in target["m1"]
    assert len(target["m1"][OTHER]) == len(target["m2"][OTHER]) == 1


@given(counts=st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=5))
def test_after_any_history_of_equal_members_each_partition_is_assigned_and_no_member_is_idle(
    counts: list[tuple[int, int]],
) -> None:
    target: dict[str, dict[bytes, frozenset[int]]] = {}
    for member_count, partition_count in sorted(counts, key=lambda pair: pair[1]):
        target = assign_simple(members(member_count, TOPIC), {TOPIC: frozenset(range(partition_count))}, target)

        held = Counter(index for topics in target.values() for index in topics.get(TOPIC, ()))
        limit = members_per_partition(member_count, partition_count)
        assert all(1 <= count <= limit for count in held.values())
        assert sum(held.values()) <= limit * partition_count


def test_java_hashes_are_those_of_java() -> None:
    assert uuid_hash(bytes(15) + b"\x01") == 1
    assert uuid_hash(b"\xff" * 8 + bytes(8)) == 0


def test_a_java_set_walks_in_bucket_order_and_then_in_order_of_insertion() -> None:
    values = JavaSet(int_hash, [33, 17, 1, 16, 2])

    assert list(values) == [16, 33, 17, 1, 2]
