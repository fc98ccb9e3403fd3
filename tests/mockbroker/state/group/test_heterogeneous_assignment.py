"""The uniform assignor for mixed subscriptions; the conversations other-consumer-uniform-mixed-* have partitions."""

from __future__ import annotations

import random

from mockbroker.state.group.group import Assignment, group_by_topic
from mockbroker.state.group.heterogeneous_assignment import HeterogeneousAssignment, SubscriberLoads

TOPICS = tuple(bytes([number]) * 16 for number in range(1, 6))


def assign(
    topics: list[frozenset[bytes]], counts: dict[bytes, int], current: list[Assignment] | None = None
) -> list[Assignment]:
    before = [{} for _ in topics] if current is None else current
    return [group_by_topic(partitions) for partitions in HeterogeneousAssignment(topics, counts, before).compute()]


def test_every_partition_gets_one_subscriber_and_a_second_computation_changes_nothing() -> None:
    rng = random.Random(7)
    for _ in range(200):
        counts = {topic: rng.randint(1, 9) for topic in TOPICS}
        topics = [frozenset(rng.sample(TOPICS, rng.randint(1, len(TOPICS)))) for _ in range(rng.randint(1, 7))]

        assigned = assign(topics, counts)

        owned = sorted((topic, index) for part in assigned for topic, indexes in part.items() for index in indexes)
        subscribed = frozenset[bytes]().union(*topics)
        assert owned == sorted((topic, index) for topic in subscribed for index in range(counts[topic]))
        assert all(part.keys() <= wanted for part, wanted in zip(assigned, topics, strict=True))
        assert assign(topics, counts, assigned) == assigned


def test_a_member_keeps_its_partitions_as_long_as_no_other_has_two_fewer() -> None:
    first, second = TOPICS[:2]
    current: list[Assignment] = [{first: frozenset({0, 2})}, {first: frozenset({1})}]

    assert assign([frozenset({first}), frozenset({first, second})], {first: 3, second: 1}, current) == [
        {first: frozenset({0, 2})},
        {first: frozenset({1}), second: frozenset({0})},
    ]


def test_the_next_receiver_is_the_one_with_the_fewest_partitions_in_turn() -> None:
    sizes = [2, 0, 1]
    loads = SubscriberLoads([0, 1, 2], sizes)
    receivers = []
    for _ in range(6):
        receivers.append(loads.next_receiver())
        sizes[receivers[-1]] += 1

    assert receivers == [1, 1, 2, 1, 2, 0]
