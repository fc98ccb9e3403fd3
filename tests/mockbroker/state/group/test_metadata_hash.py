"""Kafka's hash of topics and groups; the numbers are those of hash4j 0.22, called as Kafka 4.3.0 calls it."""

from __future__ import annotations

import pytest

from mockbroker.state.group.group import metadata_digest
from mockbroker.state.group.metadata_hash import group_hash, topic_hash
from tests.support.brokers.group_topics import T, Topics, U

T1 = topic_hash("T", T, 1, None, ())
ORDERS = topic_hash("orders", U, 3, None, ())


@pytest.mark.parametrize(
    ("hashes", "expected"),
    [
        (T1, -212513265998276786),
        (ORDERS, 8923673760092268255),
        (topic_hash("T", T, 2, "r-1", (2, 2)), 2963772054531173103),
        (topic_hash("T", T, 100, None, ()), -472398653697203481),
    ],
)
def test_a_topic_has_kafkas_hash(hashes: int, expected: int) -> None:
    assert hashes == expected


def test_a_group_has_kafkas_hash_of_its_topics() -> None:
    assert group_hash([T1]) == 1429898973909880707
    assert group_hash([T1, ORDERS]) == -6848008419022587838


def test_the_digest_of_a_subscription_uses_existing_topics_in_name_order() -> None:
    topics = Topics()
    topics.add("orders", U, 3)
    assert metadata_digest(("T", "missing"), topics) == 0
    topics.add("T", T, 1)

    assert metadata_digest(("orders", "T", "missing"), topics) == -6848008419022587838
