"""ShareFetch and ShareAcknowledge over the whole broker on virtual time: share-semantics 1.7, 3.4 and 4."""

from __future__ import annotations

from typing import Any

import pytest

from kwire.messages.share_fetch import FetchPartition, FetchTopic, ShareFetchRequest
from tests.mockbroker.handlers.share_client import ShareBroker

ACCEPT, RELEASE, RENEW = [1], [2], [4]


def opened(broker: ShareBroker, member: str = "m1", *names: str) -> None:
    """Open a session without acquiring anything, with its share partitions loaded."""
    broker.fetch(member, 0, *(names or ("A0",)), wait_ms=10)
    broker.advance(10)
    assert broker.answer(member) is not None


def test_1_7_a_first_fetch_is_answered_as_soon_as_its_share_partitions_are_loaded() -> None:
    broker = ShareBroker()
    broker.produce("A", 3)

    assert broker.fetch("m1", 0, "A0", "A1", wait_ms=100) == "A0 0-2/1 | A1"


def test_4_7_rows() -> None:
    broker = ShareBroker()
    opened(broker, "m1", "A0", "A1")
    broker.produce("A", 3)

    assert broker.fetch("m1", 1) == "A0 0-2/1"
    assert broker.fetch("m1", 2, "B0", wait_ms=10) is None
    broker.advance(10)
    assert broker.fetched(broker.answer("m1")) == "B0"
    assert broker.ack("m1", 3, {("A", 0): [(0, 0, ACCEPT)]}) == "A0"
    assert broker.fetch("m1", 3) == "123"
    broker.produce("A", 2, partition=1)
    broker.produce("B", 2)
    assert broker.fetch("m1", 4) == "A1 0-1/1 | B0 0-1/1"
    assert broker.fetch("m1", 5, forget=("A1",)) == ""
    assert broker.fetch("m1", -1, acks={("A", 0): [(1, 1, ACCEPT)]}) == "A0"
    assert broker.fetch("m1", 6) == "122"
    broker.advance(0)
    opened(broker, "m2", "A1")
    assert broker.fetch("m2", 1, "A0", "B0") == "A0 2-2/2 | B0 0-1/2"


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
def test_4_2_requests_that_are_refused_as_a_whole(member: str, epoch: int, fields: dict[str, Any], code: str) -> None:
    broker = ShareBroker()

    assert broker.fetch(member, epoch, "A0", connection="a", **fields) == code


def test_share_groups_can_be_off() -> None:
    broker = ShareBroker(features=("share.version=0",))

    assert broker.fetch("", 0, connection="a", group_id=None) == "35"


def test_4_3_epochs_that_do_not_fit_leave_the_session_as_it_is() -> None:
    broker = ShareBroker()
    opened(broker)

    assert broker.fetch("m1", 2) == "123"
    assert broker.fetch("m1", -2) == "123"
    assert broker.ack("m1", 0, {}) == "123"
    assert broker.ack("m1", 7, {}) == "123"
    assert broker.ack("m1", 1, {}) == ""
    assert broker.fetch("m1", 2, max_records=0) == ""


def test_4_3_opening_with_acknowledgements_is_refused_and_keeps_the_old_session() -> None:
    broker = ShareBroker()
    opened(broker)

    assert broker.fetch("m1", 0, acks={("A", 0): [(0, 0, ACCEPT)]}) == "42"
    assert broker.fetch("m1", 1, max_records=0) == ""


def test_4_3_a_partition_listed_twice_breaks_the_request_and_leaves_no_session() -> None:
    broker = ShareBroker()
    request = ShareFetchRequest(group_id="g", member_id="m1")
    twice = broker.topic_id("A")
    request.topics = [FetchTopic(twice, [FetchPartition(0), FetchPartition(0)])]

    assert broker.ask(request, 2, connection="m1").error_code == -1
    assert broker.fetch("m1", 1) == "122"


def test_4_3_opening_again_does_not_release() -> None:
    broker = ShareBroker()
    opened(broker)
    broker.produce("A", 3)
    assert broker.fetch("m1", 1) == "A0 0-2/1"
    broker.fetch("m1", 0, "A0", wait_ms=29_000)
    broker.advance(29_000)

    assert broker.fetched(broker.answer("m1")) == "A0"
    broker.advance(1_000)
    assert broker.fetch("m1", 1) == "A0 0-2/2"


def test_4_3_a_full_room_refuses_after_max_wait() -> None:
    broker = ShareBroker(config={"group.share.max.share.sessions": "1", "group.share.max.size": "1"})
    opened(broker)

    assert broker.fetch("m2", 0, "A0", wait_ms=800) is None
    broker.advance(799)
    assert broker.answer("m2") is None
    broker.advance(1)
    assert broker.fetched(broker.answer("m2")) == "133"
    assert broker.fetch("m1", -1) == ""
    opened(broker, "m2")


def test_4_4_an_unknown_topic_id_breaks_every_fetch_until_it_is_forgotten() -> None:
    broker = ShareBroker()
    opened(broker)

    assert broker.fetch("m1", 1, "x0", wait_ms=100) is None
    broker.advance(100)
    assert broker.fetched(broker.answer("m1")) == "-1"
    assert broker.ack("m1", 2, {("x", 0): [(0, 0, ACCEPT)]}) == "x0 !100"
    assert broker.fetch("m1", 3, forget=("x0",), max_records=0) == ""


def test_4_5_an_unknown_partition_is_in_every_answer() -> None:
    broker = ShareBroker()
    opened(broker)

    assert broker.fetch("m1", 1, "A9") == "A9 !3"
    assert broker.fetch("m1", 2) == "A9 !3"


def test_4_6_a_connection_that_ends_releases_what_its_session_held() -> None:
    broker = ShareBroker()
    opened(broker, "m1")
    opened(broker, "m2")
    broker.produce("A", 3)
    assert broker.fetch("m1", 1) == "A0 0-2/1"
    broker.disconnect("m1")
    broker.advance(0)

    assert broker.fetch("m2", 1) == "A0 0-2/2"


def test_4_6_the_last_session_of_a_group_takes_its_share_partitions_along() -> None:
    broker = ShareBroker()
    opened(broker, "m1")
    rooms = broker.core.state.nodes[0].share_partitions
    assert len(rooms) == 1
    broker.disconnect("m1")

    assert len(rooms) == 0


def test_4_6_of_two_sessions_of_one_connection_only_the_later_ends_with_it() -> None:
    broker = ShareBroker()
    for member in ("m1", "m2"):
        broker.fetch(member, 0, "A0", wait_ms=10, connection="both")
        broker.advance(10)
        broker.answer("both")
    broker.disconnect("both")

    assert broker.fetch("m1", 1, connection="new", max_records=0) == ""
    assert broker.fetch("m2", 1, connection="new", max_records=0) == "122"


def test_1_7_a_parked_fetch_is_answered_by_a_produce() -> None:
    broker = ShareBroker()
    opened(broker)
    assert broker.fetch("m1", 1, wait_ms=5_000) is None
    broker.produce("A", 1)

    assert broker.fetched(broker.answer("m1")) == "A0 0-0/1"


def test_1_7_a_parked_fetch_is_not_answered_by_a_release_but_at_its_deadline() -> None:
    broker = ShareBroker()
    opened(broker, "m1")
    opened(broker, "m2")
    broker.produce("A", 3)
    broker.fetch("m1", 1)
    assert broker.fetch("m2", 1, wait_ms=1_000) is None
    assert broker.ack("m1", 2, {("A", 0): [(0, 2, RELEASE)]}) == "A0"
    assert broker.answer("m2") is None
    broker.advance(1_000)

    assert broker.fetched(broker.answer("m2")) == "A0 0-2/2"


def test_1_7_a_parked_fetch_is_answered_when_a_lock_ends() -> None:
    broker = ShareBroker()
    opened(broker, "m1")
    opened(broker, "m2")
    broker.produce("A", 3)
    broker.fetch("m1", 1)
    assert broker.fetch("m2", 1, wait_ms=40_000) is None
    broker.advance(29_999)
    assert broker.answer("m2") is None
    broker.advance(1)

    assert broker.fetched(broker.answer("m2")) == "A0 0-2/2"


def test_1_3_of_a_split_batch_a_parked_fetch_gets_the_first_offset_that_expires() -> None:
    broker = ShareBroker()
    opened(broker, "m1")
    opened(broker, "m2")
    broker.produce("A", 4)
    broker.fetch("m1", 1)
    broker.ack("m1", 2, {("A", 0): [(0, 0, ACCEPT)]})
    assert broker.fetch("m2", 1, wait_ms=40_000) is None
    broker.advance(30_000)

    assert broker.fetched(broker.answer("m2")) == "A0 1-1/2"
    assert broker.fetch("m2", 2) == "A0 2-3/2"


def test_1_7_waking_a_parked_fetch_again_and_again_changes_nothing() -> None:
    broker = ShareBroker()
    opened(broker)
    broker.fetch("m1", 1, wait_ms=1_000)
    for _ in range(100):
        broker.core.wake_all()
    assert broker.answer("m1") is None
    broker.produce("A", 2)

    assert broker.fetched(broker.answer("m1")) == "A0 0-1/1"
    assert broker.fetch("m1", 2) == ""


def test_2_1_a_group_without_state_gets_an_error_row_at_its_deadline() -> None:
    broker = ShareBroker()
    assert broker.fetch("m1", 0, "A0", wait_ms=1_500, group_id="other") is None
    broker.advance(1_499)
    assert broker.answer("m1") is None
    broker.advance(1)

    assert broker.fetched(broker.answer("m1")) == "A0 !-1"


def test_2_1_a_start_of_minus_one_takes_the_reset_strategy_at_the_first_fetch() -> None:
    broker = ShareBroker()
    broker.initialize("A", start=-1, group="late")
    broker.produce("A", 3)
    broker.fetch("m1", 0, "A0", wait_ms=10, group_id="late")
    broker.advance(10)
    broker.answer("m1")
    broker.produce("A", 2)

    assert broker.fetch("m1", 1, group_id="late") == "A0 3-4/1"


def test_2_9_a_log_start_that_moved_is_met_by_an_empty_answer() -> None:
    broker = ShareBroker()
    opened(broker)
    broker.produce("A", 10)
    broker.core.state.nodes[0].logs.get(broker.topic_id("A"), 0).delete_before(7)

    assert broker.fetch("m1", 1) == ""
    assert broker.fetch("m1", 2) == "A0 7-9/1"


def test_3_4_piggybacked_acknowledgements_have_their_own_code() -> None:
    broker = ShareBroker()
    opened(broker, "m1", "A0", "A1")
    broker.produce("A", 3)
    broker.fetch("m1", 1)

    assert broker.fetch("m1", 2, "A1", acks={("A", 0): [(0, 2, ACCEPT)]}) == "A0 | A1"
    assert broker.fetch("m1", 3, acks={("A", 0): [(1, 0, ACCEPT)]}) == "A0 ?42"
    assert broker.fetch("m1", 4, acks={("A", 1): [(0, 0, ACCEPT)]}) == "A1 ?121"


def test_3_4_what_is_released_with_a_fetch_comes_with_the_next_one() -> None:
    broker = ShareBroker()
    opened(broker)
    broker.produce("A", 3)
    broker.produce("A", 3)
    assert broker.fetch("m1", 1, max_records=3) == "A0 0-2/1"

    assert broker.fetch("m1", 2, acks={("A", 0): [(0, 2, RELEASE)]}) == "A0 3-5/1"
    assert broker.fetch("m1", 3) == "A0 0-2/2"


def test_3_1_renewal_needs_its_flag() -> None:
    broker = ShareBroker()
    opened(broker)
    broker.produce("A", 3)
    broker.fetch("m1", 1)

    assert broker.ack("m1", 2, {("A", 0): [(0, 2, RENEW)]}) == "A0 !42"
    assert broker.ack("m1", 3, {("A", 0): [(0, 2, RENEW)]}, is_renew_ack=True) == "A0"
    assert broker.ack("m1", 4, {("A", 0): [(0, 2, RENEW)]}, version=1) == "A0 !42"


def test_3_2_acknowledging_over_an_empty_window_breaks_the_request() -> None:
    broker = ShareBroker()
    opened(broker)
    broker.produce("A", 10)
    broker.fetch("m1", 1)
    assert broker.ack("m1", 2, {("A", 0): [(0, 9, ACCEPT)]}) == "A0"

    assert broker.ack("m1", 3, {("A", 0): [(5, 15, ACCEPT)]}) == "-1"
    assert broker.ack("m1", 4, {}) == ""


def test_3_1_a_share_partition_that_is_not_loaded_is_unknown() -> None:
    broker = ShareBroker()
    opened(broker)

    assert broker.ack("m1", 1, {("B", 1): [(0, 0, ACCEPT)]}) == "B1 !3"


def test_1_6_an_unknown_mode_breaks_the_request_and_consumes_the_epoch() -> None:
    broker = ShareBroker()
    opened(broker)

    assert broker.fetch("m1", 1, share_acquire_mode=7) == "-1"
    assert broker.fetch("m1", 2, max_records=0) == ""


def test_1_7_records_are_whole_batches_around_what_was_acquired() -> None:
    broker = ShareBroker()
    opened(broker)
    for _ in range(3):
        broker.produce("A", 3)
    request = ShareFetchRequest(
        group_id="g", member_id="m1", share_session_epoch=1, min_bytes=1, max_bytes=10_000, max_records=4, batch_size=4
    )

    assert broker.spans(broker.ask(request, 2, connection="m1")) == [(0, 2), (3, 5)]


def test_2_1_another_leader_is_named() -> None:
    broker = ShareBroker(nodes=2)
    stranger = 1 - broker.leader("A", 0)
    request_node = f"on-{stranger}"
    broker.connect(request_node, node=stranger)

    assert broker.fetch("m1", 0, "A0", wait_ms=1_000, connection=request_node) == "A0 !6"


def test_2_11_a_deleted_topic_drops_its_share_partitions() -> None:
    broker = ShareBroker()
    opened(broker)
    topic = broker.metadata.topic("A")
    assert topic is not None
    broker.metadata.delete_topic(topic)

    assert len(broker.core.state.nodes[0].share_partitions) == 0
    assert broker.fetch("m1", 1) == "-1"
