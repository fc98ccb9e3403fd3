"""Share sessions over the whole broker on virtual time: share-semantics 4."""

from __future__ import annotations

from typing import Any

import pytest

from kwire.messages.share_fetch import FetchPartition, FetchTopic, ShareFetchRequest
from tests.support.brokers.share_members import ShareBroker, opened

ACCEPT = [1]


def test_4_7_the_eight_rows() -> None:
    broker = ShareBroker()
    opened(broker, "m2", "A0", "A1")  # So that both are loaded: one that is not has no row (share-semantics 1.7).
    broker.produce("A", 3)
    assert broker.fetch("m1", 0, "A0", "A1", wait_ms=10) == "A0 0-2/1 | A1"
    broker.produce("A", 2, partition=1)
    assert broker.fetch("m1", 1) == "A1 0-1/1"
    assert broker.fetch("m1", 2, "B0", wait_ms=10) is None
    broker.advance(10)
    assert broker.fetched(broker.take_response("m1")) == "B0"
    assert broker.ack("m1", 3, {("A", 0): [(0, 0, ACCEPT)]}) == "A0"
    assert broker.fetch("m1", 3) == "123"
    broker.produce("B", 2)
    assert broker.fetch("m1", 4, forget=("A1",)) == "B0 0-1/1"
    assert broker.fetch("m1", -1, acks={("A", 0): [(1, 1, ACCEPT)]}) == "A0"
    assert broker.fetch("m1", 5) == "122"
    # The records of A0 and B0 were released with the session; those of A1, removed before, stay locked.
    assert broker.fetch("m2", 1, "B0") == "A0 2-2/2 | B0 0-1/2"


@pytest.mark.parametrize(
    ("member", "epoch", "fields", "code"),
    [
        ("m1", 0, {"group_id": None}, "42"),
        ("", 0, {}, "42"),
        ("m" * 37, 0, {}, "42"),
        ("m1", 5, {}, "122"),
        ("m1", -1, {}, "122"),
        ("m1", 0, {"is_renew_ack": True}, "42"),
    ],
)
def test_4_2_requests_that_are_rejected_as_a_whole(member: str, epoch: int, fields: dict[str, Any], code: str) -> None:
    broker = ShareBroker()

    assert broker.fetch(member, epoch, "A0", connection="a", **fields) == code


def test_share_groups_can_be_off() -> None:
    broker = ShareBroker(features=("share.version=0",))

    assert broker.fetch("", 0, connection="a", group_id=None) == "35"


def test_4_3_epochs_that_do_not_fit_leave_the_session_as_it_is(broker: ShareBroker) -> None:
    assert broker.fetch("m1", 2) == "123"
    assert broker.fetch("m1", -2) == "123"
    assert broker.ack("m1", 0, {}) == "123"
    assert broker.ack("m1", 7, {}) == "123"
    assert broker.ack("m1", 1, {}) == ""
    assert broker.fetch("m1", 2, max_records=0) == ""


def test_4_3_opening_with_acknowledgements_is_refused_and_keeps_the_old_session(broker: ShareBroker) -> None:
    assert broker.fetch("m1", 0, acks={("A", 0): [(0, 0, ACCEPT)]}) == "42"
    assert broker.fetch("m1", 1, max_records=0) == ""


def test_4_3_a_partition_listed_twice_breaks_the_request_and_leaves_no_session() -> None:
    broker = ShareBroker()
    request = ShareFetchRequest(group_id="g", member_id="m1")
    twice = broker.topic_id("A")
    request.topics = [FetchTopic(twice, [FetchPartition(0), FetchPartition(0)])]

    assert broker.call(request, 2, connection="m1").error_code == -1
    assert broker.fetch("m1", 1) == "122"


def test_4_3_opening_again_does_not_release(broker: ShareBroker) -> None:
    broker.produce("A", 3)
    assert broker.fetch("m1", 1) == "A0 0-2/1"
    broker.fetch("m1", 0, "A0", wait_ms=29_000)
    broker.advance(29_000)

    assert broker.fetched(broker.take_response("m1")) == "A0"
    broker.advance(1_000)
    assert broker.fetch("m1", 1) == "A0 0-2/2"


def test_4_3_above_the_session_limit_the_error_is_sent_after_max_wait() -> None:
    broker = ShareBroker(config={"group.share.max.share.sessions": "1", "group.share.max.size": "1"})
    opened(broker)

    assert broker.fetch("m2", 0, "A0", wait_ms=800) is None
    broker.advance(799)
    assert broker.take_response("m2") is None
    broker.advance(1)
    assert broker.fetched(broker.take_response("m2")) == "133"
    assert broker.fetch("m1", -1) == ""
    opened(broker, "m2")


@pytest.mark.parametrize(("release", "answer"), [("4.3", "-1"), ("4.4", "x0 !100")])
def test_4_4_an_unknown_topic_id_is_in_every_answer_until_it_is_removed(release: str, answer: str) -> None:
    broker = ShareBroker(release=release)
    opened(broker)
    assert broker.fetch("m1", 1, "x0", wait_ms=100) is None
    broker.advance(100)
    assert broker.fetched(broker.take_response("m1")) == answer
    assert broker.ack("m1", 2, {("x", 0): [(0, 0, ACCEPT)]}) == "x0 !100"
    assert broker.fetch("m1", 3, forget=("x0",), max_records=0) == ""


def test_4_5_an_unknown_partition_is_in_every_answer(broker: ShareBroker) -> None:
    assert broker.fetch("m1", 1, "A9") == "A9 !3"
    assert broker.fetch("m1", 2) == "A9 !3"


def test_4_6_a_closed_connection_releases_the_records_of_its_session(broker: ShareBroker) -> None:
    opened(broker, "m2")
    broker.produce("A", 3)
    assert broker.fetch("m1", 1) == "A0 0-2/1"
    broker.disconnect("m1")
    broker.advance(0)

    assert broker.fetch("m2", 1) == "A0 0-2/2"


def test_4_6_a_release_that_is_not_stored_leaves_the_records_with_the_member_until_their_locks_end() -> None:
    """Source: SharePartition.rollbackOrProcessStateUpdates; conversation share-state-deleted-under-session."""
    broker = ShareBroker()
    opened(broker)
    opened(broker, "m2")
    broker.produce("A", 3)
    assert broker.fetch("m1", 1) == "A0 0-2/1"
    broker.delete_state("A")

    assert broker.ack("m1", -1, {("A", 0): [(0, 0, ACCEPT)]}) == "A0 !-1"
    broker.advance(29_999)
    assert broker.fetch("m2", 1) == ""
    broker.advance(1)
    assert broker.fetch("m2", 2) == "A0 0-2/2"


def test_4_6_the_end_of_a_groups_last_session_drops_its_share_partitions(broker: ShareBroker) -> None:
    share_partitions = broker.core.state.nodes[0].share_partitions
    assert len(share_partitions) == 1
    broker.disconnect("m1")

    assert len(share_partitions) == 0


def test_4_6_of_two_sessions_of_one_connection_only_the_later_ends_with_it() -> None:
    broker = ShareBroker()
    for member in ("m1", "m2"):
        broker.fetch(member, 0, "A0", wait_ms=10, connection="both")
        broker.advance(10)
        broker.take_response("both")
    broker.disconnect("both")

    assert broker.fetch("m1", 1, connection="new", max_records=0) == ""
    assert broker.fetch("m2", 1, connection="new", max_records=0) == "122"
