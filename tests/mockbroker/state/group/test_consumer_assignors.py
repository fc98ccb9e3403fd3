"""The assignor `uniform` with random topic ids.

The ids and the partitions that the first member keeps when a second one joins are those of a real Kafka 4.4.0, asked by
tools.oracle.fuzz.
"""

from __future__ import annotations

import pytest

from kwire import uuids
from mockbroker.state.group.consumer_assignors import AssignmentRequest, assign_uniform

#: Ids of the topics t, u and c, and what the first member keeps; t has two partitions.
_OBSERVED = (
    (("uLsmZrnMQI6uQPHg1DdllA", "tcfYHPvwS2afiAUIrXo4vQ", "LHtxguZgR3eg3fJ1cqn9Lg"), {"c": {0}, "u": {0}}),
    (("goGlvIUAQwquwcUTjk4Y6w", "EGMRSTJYT8es0qyB8PINHg", "we1bJ8LUQWCyh49zwqLkJg"), {"t": {0, 1}}),
    (("VxXrjVXdRvCySMK8r7ZEzw", "B55a7_xlToqx3ArYPERYjw", "Xa7TgUKqSzCN4Z6_9qgh_g"), {"t": {0}, "u": {0}}),
    (("hKT9FYDaTUOoICPfyK54WA", "BtCyFp7fRWSKlOXHObTecQ", "gHEbCw2ITTyuMqTHZcz30w"), {"t": {0, 1}}),
    (("TMrI69BZRT2mbt9RdKyktw", "Q1xlHxbHTuaPSaSH1gjpuw", "H8XsDMb1RoWrbtJRooOtHw"), {"t": {0, 1}}),
)


@pytest.mark.parametrize(("texts", "kept"), _OBSERVED)
def test_a_member_keeps_partitions_in_the_order_of_the_hashes_of_topic_ids(
    texts: tuple[str, ...], kept: dict[str, set[int]]
) -> None:
    names = dict(zip(map(uuids.from_text, texts), ("t", "u", "c"), strict=True))
    counts = {topic_id: 2 if name == "t" else 1 for topic_id, name in names.items()}
    topics = frozenset(names)

    before = assign_uniform({"k2": AssignmentRequest(topics, {})}, counts, True)
    after = assign_uniform(
        {"k2": AssignmentRequest(topics, before["k2"]), "k1": AssignmentRequest(topics, {})}, counts, True
    )

    assert {names[topic_id]: set(indexes) for topic_id, indexes in after["k2"].items()} == kept
