"""ShareFetch and ShareAcknowledge over the whole broker on virtual time: share-semantics 1.7, 2 and 3."""

from __future__ import annotations

import pytest

from kwire.messages.share_fetch import ShareFetchRequest
from tests.support.brokers.share_members import ShareBroker, opened

ACCEPT, RELEASE, RENEW = [1], [2], [4]


def test_1_7_a_first_fetch_is_answered_as_soon_as_one_share_partition_is_loaded_and_has_enough() -> None:
    broker = ShareBroker()
    broker.produce("A", 3, partition=1)
    broker.produce("B", 3)

    assert broker.fetch("m1", 0, "A0", "A1", "B0", wait_ms=100) == "A0 | A1 0-2/1"


def test_1_7_a_parked_fetch_is_answered_by_a_produce(broker: ShareBroker) -> None:
    assert broker.fetch("m1", 1, wait_ms=5_000) is None
    broker.produce("A", 1)

    assert broker.fetched(broker.take_response("m1")) == "A0 0-0/1"


def test_1_7_a_parked_fetch_is_not_answered_by_a_release_but_at_its_deadline(broker: ShareBroker) -> None:
    opened(broker, "m2")
    broker.produce("A", 3)
    broker.fetch("m1", 1)
    assert broker.fetch("m2", 1, wait_ms=1_000) is None
    assert broker.ack("m1", 2, {("A", 0): [(0, 2, RELEASE)]}) == "A0"
    assert broker.take_response("m2") is None
    broker.advance(1_000)

    assert broker.fetched(broker.take_response("m2")) == "A0 0-2/2"


def test_1_7_a_parked_fetch_is_answered_when_a_lock_ends(broker: ShareBroker) -> None:
    opened(broker, "m2")
    broker.produce("A", 3)
    broker.fetch("m1", 1)
    assert broker.fetch("m2", 1, wait_ms=40_000) is None
    broker.advance(29_999)
    assert broker.take_response("m2") is None
    broker.advance(1)

    assert broker.fetched(broker.take_response("m2")) == "A0 0-2/2"


def test_1_3_of_a_split_batch_a_parked_fetch_gets_the_first_offset_that_expires(broker: ShareBroker) -> None:
    opened(broker, "m2")
    broker.produce("A", 4)
    broker.fetch("m1", 1)
    broker.ack("m1", 2, {("A", 0): [(0, 0, ACCEPT)]})
    assert broker.fetch("m2", 1, wait_ms=40_000) is None
    broker.advance(30_000)

    assert broker.fetched(broker.take_response("m2")) == "A0 1-1/2"
    assert broker.fetch("m2", 2) == "A0 2-3/2"


def test_1_7_waking_a_parked_fetch_again_and_again_changes_nothing(broker: ShareBroker) -> None:
    broker.fetch("m1", 1, wait_ms=1_000)
    for _ in range(100):
        broker.core.wake_all()
    assert broker.take_response("m1") is None
    broker.produce("A", 2)

    assert broker.fetched(broker.take_response("m1")) == "A0 0-1/1"
    assert broker.fetch("m1", 2) == ""


def test_2_1_a_group_without_state_gets_an_error_row_at_its_deadline() -> None:
    broker = ShareBroker()
    assert broker.fetch("m1", 0, "A0", wait_ms=1_500, group_id="other") is None
    broker.advance(1_499)
    assert broker.take_response("m1") is None
    broker.advance(1)

    assert broker.fetched(broker.take_response("m1")) == "A0 !-1"


def test_2_1_a_start_of_minus_one_takes_the_reset_strategy_at_the_first_fetch() -> None:
    broker = ShareBroker()
    broker.initialize("A", start=-1, group="late")
    broker.produce("A", 3)
    broker.fetch("m1", 0, "A0", wait_ms=10, group_id="late")
    broker.advance(10)
    broker.take_response("m1")
    broker.produce("A", 2)

    assert broker.fetch("m1", 1, group_id="late") == "A0 3-4/1"


def test_2_9_after_a_log_start_change_a_fetch_returns_nothing(broker: ShareBroker) -> None:
    broker.produce("A", 10)
    broker.leader_log("A").delete_records_before(7)

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


def test_3_4_records_released_with_a_fetch_are_delivered_with_the_next_one(broker: ShareBroker) -> None:
    broker.produce("A", 3)
    broker.produce("A", 3)
    assert broker.fetch("m1", 1, max_records=3) == "A0 0-2/1"

    assert broker.fetch("m1", 2, acks={("A", 0): [(0, 2, RELEASE)]}) == "A0 3-5/1"
    assert broker.fetch("m1", 3) == "A0 0-2/2"


def test_3_1_renewal_needs_its_flag(broker: ShareBroker) -> None:
    broker.produce("A", 3)
    broker.fetch("m1", 1)

    assert broker.ack("m1", 2, {("A", 0): [(0, 2, RENEW)]}) == "A0 !42"
    assert broker.ack("m1", 3, {("A", 0): [(0, 2, RENEW)]}, is_renew_ack=True) == "A0"
    assert broker.ack("m1", 4, {("A", 0): [(0, 2, RENEW)]}, version=1) == "A0 !42"


def test_3_2_acknowledging_over_an_empty_window_breaks_the_request(broker: ShareBroker) -> None:
    broker.produce("A", 10)
    broker.fetch("m1", 1)
    assert broker.ack("m1", 2, {("A", 0): [(0, 9, ACCEPT)]}) == "A0"

    assert broker.ack("m1", 3, {("A", 0): [(5, 15, ACCEPT)]}) == "-1"
    assert broker.ack("m1", 4, {}) == ""


def test_3_1_a_share_partition_that_is_not_loaded_is_unknown(broker: ShareBroker) -> None:
    assert broker.ack("m1", 1, {("B", 1): [(0, 0, ACCEPT)]}) == "B1 !3"


def test_1_6_an_unknown_mode_breaks_the_request_and_consumes_the_epoch(broker: ShareBroker) -> None:
    assert broker.fetch("m1", 1, share_acquire_mode=7) == "-1"
    assert broker.fetch("m1", 2, max_records=0) == ""


def test_1_7_records_are_whole_batches_around_what_was_acquired(broker: ShareBroker) -> None:
    for _ in range(3):
        broker.produce("A", 3)
    request = ShareFetchRequest(
        group_id="g", member_id="m1", share_session_epoch=1, min_bytes=1, max_bytes=10_000, max_records=4, batch_size=4
    )

    assert broker.spans(broker.call(request, 2, connection="m1")) == [(0, 2), (3, 5)]


def test_2_1_another_leader_is_named() -> None:
    broker = ShareBroker(nodes=2)
    other_node = 1 - broker.leader("A", 0)
    request_node = f"on-{other_node}"
    broker.connect(request_node, node=other_node)

    assert broker.fetch("m1", 0, "A0", wait_ms=1_000, connection=request_node) == "A0 !6"


def test_2_11_a_new_leader_goes_on_from_what_was_written() -> None:
    broker = ShareBroker(nodes=3)
    old = broker.leader("A", 0)
    broker.connect("m1", node=old)
    opened(broker, "m1", "A0")
    broker.produce("A", 3)
    assert broker.fetch("m1", 1) == "A0 0-2/1"
    assert broker.ack("m1", 2, {("A", 0): [(0, 0, ACCEPT)]}) == "A0"
    new = (old + 1) % 3
    broker.metadata.change_leader(broker.topic("A"), 0, new)
    broker.connect("m2", node=new)

    assert broker.fetch("m1", 3) == "A0 !6"
    assert broker.ack("m1", 4, {("A", 0): [(1, 2, ACCEPT)]}) == "A0 !3"
    assert broker.fetch("m2", 0, "A0", wait_ms=100) == "A0 1-2/1"


def test_2_11_a_former_leader_is_fenced_by_its_next_write(broker: ShareBroker) -> None:
    broker.produce("A", 3)
    assert broker.fetch("m1", 1) == "A0 0-2/1"
    broker.initialize("A", start=2, epoch=7)

    assert broker.ack("m1", 2, {("A", 0): [(0, 0, ACCEPT)]}) == "A0 !6"
    assert broker.fetch("m1", 3, wait_ms=100) == "A0 2-2/1"


def test_3_3_the_response_waits_for_the_write(broker: ShareBroker) -> None:
    broker.produce("A", 3)
    broker.fetch("m1", 1)
    broker.core.state.inter_broker.latency_ms = 50
    assert broker.ack("m1", 2, {("A", 0): [(0, 2, ACCEPT)]}) is None
    broker.advance(99)
    assert broker.take_response("m1") is None
    broker.advance(1)

    assert broker.take_response("m1").responses[0].partitions[0].error_code == 0


@pytest.mark.parametrize(("release", "answer"), [("4.3", "-1"), ("4.4", "A0 !3")])
def test_2_11_a_deleted_topic_drops_its_share_partitions(release: str, answer: str) -> None:
    broker = ShareBroker(release=release)
    opened(broker)
    deleted_id = broker.topic_id("A")
    broker.metadata.delete_topic(broker.topic("A"))

    assert len(broker.core.state.nodes[0].share_partitions) == 0
    assert broker.fetch("m1", 1) == answer.replace("A", chr(deleted_id[0]))
