"""ShareFetch over the quota of its client: no rows but acknowledgements, and records that stay acquired."""

from __future__ import annotations

from kwire.messages.share_fetch import ShareFetchResponse
from tests.support.brokers.share_members import ShareBroker
from tests.support.client_quotas import limit_client

ACCEPT = [1]


def _limit(broker: ShareBroker, rate: float | None) -> None:
    limit_client(broker, "consumer_byte_rate", rate, connection="m1")


def test_a_throttled_response_has_no_records_which_stay_acquired_until_their_locks_end(broker: ShareBroker) -> None:
    broker.produce("A", 3)
    _limit(broker, 1)
    throttled = broker.fetch("m1", 1, wait_ms=0)
    partition = broker.core.state.nodes[0].share_partitions.get("g", broker.topic_id("A"), 0)
    assert partition is not None
    can_acquire = partition.next_fetch_offset()
    _limit(broker, None)
    broker.advance(400_000)
    again = broker.fetch("m1", 2, connection="m1")

    assert throttled == ""
    assert can_acquire == 3
    assert again == "A0 0-2/2"


def test_acknowledgements_of_a_throttled_fetch_are_carried_out_and_reported(broker: ShareBroker) -> None:
    broker.produce("A", 3)
    first = broker.fetch("m1", 1)
    broker.produce("A", 3)
    _limit(broker, 1)
    throttled = broker.fetch("m1", 2, acks={("A", 0): [(0, 2, ACCEPT)]})
    partition = broker.core.state.nodes[0].share_partitions.get("g", broker.topic_id("A"), 0)

    assert first == "A0 0-2/1"
    assert throttled == "A0"
    assert partition is not None
    assert partition.start_offset == 3


def test_the_session_of_a_throttled_fetch_goes_on_with_the_next_epoch(broker: ShareBroker) -> None:
    broker.produce("A", 3)
    _limit(broker, 1)
    broker.fetch("m1", 1)
    broker.advance(400_000)
    _limit(broker, None)

    assert broker.fetch("m1", 2) == "A0 0-2/2"


def test_a_throttled_response_has_its_time(broker: ShareBroker) -> None:
    broker.produce("A", 3)
    _limit(broker, 1)
    broker.fetch("m1", 1)
    broker.fetch("m1", 2)
    waiting = broker.take_response("m1")
    times = [
        exchange.response.throttle_time_ms
        for exchange in broker.core.journal.exchanges()
        if isinstance(exchange.response, ShareFetchResponse)
    ]

    assert waiting is None
    assert times[-1] > 50_000
