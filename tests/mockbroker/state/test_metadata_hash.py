"""Kafka's hash of topics and groups; the numbers are those of hash4j 0.22, called as Kafka 4.3.0 calls it."""

from __future__ import annotations

import pytest

from mockbroker.state.group_kinds import metadata_digest
from mockbroker.state.metadata_hash import group_hash, topic_hash
from tests.mockbroker.state.group_kit import T, Topics, U

T1 = topic_hash("T", T, 1, None, ())
ORDERS = topic_hash("orders", U, 3, None, ())


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (T1, -212513265998276786),
        (ORDERS, 8923673760092268255),
        (topic_hash("T", T, 2, "r-1", (2, 2)), 2963772054531173103),
        (topic_hash("T", T, 100, None, ()), -472398653697203481),
    ],
)
def test_a_topic_has_kafkas_hash(found: int, expected: int) -> None:
    assert found == expected


def test_a_group_has_kafkas_hash_of_its_topics() -> None:
    assert group_hash([T1]) == 1429898973909880707
    assert group_hash([T1, ORDERS]) == -6848008419022587838


def test_a_subscription_sees_the_topics_that_are_there_in_order_of_their_names() -> None:
    topics = Topics()
    topics.add("orders", U, 3)
    assert metadata_digest(("T", "missing"), topics) == 0
    topics.add("T", T, 1)

    assert metadata_digest(("orders", "T", "missing"), topics) == -6848008419022587838
