"""Fetch over the quota of its client: empty responses, sessions that go on, and a limit of the records."""

from __future__ import annotations

from typing import Any

from kwire.error_codes import ErrorCode
from kwire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from mockbroker.handlers.shared.response_size import measure_response
from tests.support.brokers.broker import Broker
from tests.support.brokers.producer import record_batch
from tests.support.client_quotas import limit_client

_VERSION = 18


def _broker(*, batches: int, rate: float | None) -> Broker:
    broker = Broker(topics={"t": 1})
    for _ in range(batches):
        broker.leader_log("t").append(record_batch(size=40_000), now_ms=broker.now_ms)
    limit_client(broker, "consumer_byte_rate", rate)
    return broker


def _fetch(broker: Broker, offset: int, *, session: tuple[int, int] = (0, -1), max_bytes: int = 1 << 20) -> Any:
    row = FetchPartition(fetch_offset=offset, partition_max_bytes=max_bytes)
    topics = [FetchTopic(topic_id=broker.topic("t").topic_id, partitions=[row])]
    request = FetchRequest(
        max_bytes=1 << 20, session_id=session[0], session_epoch=session[1], topics=topics, max_wait_ms=0
    )
    return broker.call(request, _VERSION)


def _size(response: Any) -> int:
    return sum(len(row.records or b"") for topic in response.responses for row in topic.partitions)


def test_records_are_limited_to_what_all_windows_allow() -> None:
    broker = _broker(batches=5, rate=10_000)
    first = _fetch(broker, 0)
    limit_client(broker, "consumer_byte_rate", 10_100)
    broker.advance(first.throttle_time_ms)

    # What is in the response beside the records is throttled for some milliseconds, as by a real Kafka.
    assert (first.throttle_time_ms, _size(first)) == (7, 0)
    assert _size(_fetch(broker, 0, max_bytes=100_000)) == 100_000


def test_a_first_batch_above_the_quota_is_never_delivered() -> None:
    broker = _broker(batches=1, rate=1_000)
    response = _fetch(broker, 0)

    assert _size(response) == 0
    assert response.throttle_time_ms > 30_000


def test_a_throttled_response_is_empty_and_does_not_count() -> None:
    broker = _broker(batches=5, rate=10_000)
    _fetch(broker, 0, max_bytes=85_000)
    throttled = _fetch(broker, 2, max_bytes=45_000)
    broker.advance(throttled.throttle_time_ms)
    repeated = _fetch(broker, 2, max_bytes=45_000)
    broker.advance(11_000)
    again = _fetch(broker, 2, max_bytes=45_000)

    # 130,000 bytes in 10 seconds are 3 seconds too many, and the windows do not end before: as of a real Kafka.
    assert (throttled.responses, repeated.responses) == ([], [])
    assert 3_000 < throttled.throttle_time_ms < 3_100
    assert repeated.throttle_time_ms == 3_000
    assert (again.throttle_time_ms, _size(again) > 40_000) == (0, True)


def test_a_session_goes_on_after_a_throttled_response() -> None:
    broker = _broker(batches=2, rate=None)
    opened = _fetch(broker, 0, session=(0, 0), max_bytes=50_000)
    limit_client(broker, "consumer_byte_rate", 4_000)
    throttled = _fetch(broker, 1, session=(opened.session_id, 1))
    broker.advance(throttled.throttle_time_ms)
    limit_client(broker, "consumer_byte_rate", None)
    again = _fetch(broker, 1, session=(opened.session_id, 2))

    assert (throttled.session_id, throttled.responses) == (opened.session_id, [])
    assert throttled.throttle_time_ms > 0
    assert (again.session_id, _size(again) > 40_000) == (opened.session_id, True)


def test_a_session_counts_only_what_is_sent() -> None:
    broker = _broker(batches=1, rate=None)
    opened = _fetch(broker, 0, session=(0, 0))
    read = _fetch(broker, 1, session=(opened.session_id, 1))
    limit_client(broker, "consumer_byte_rate", 10)
    # Nothing has changed since: a row would be too much.
    quiet = broker.call(FetchRequest(session_id=opened.session_id, session_epoch=2, max_wait_ms=0), _VERSION)

    assert (_size(opened) > 40_000, _size(read)) == (True, 0)
    assert (quiet.responses, quiet.throttle_time_ms) == ([], 0)


def test_an_error_of_a_session_is_counted_as_an_empty_response() -> None:
    broker = _broker(batches=1, rate=1)
    error = broker.call(FetchRequest(session_id=9, session_epoch=4, max_wait_ms=0), _VERSION)
    throttled = broker.call(FetchRequest(session_id=9, session_epoch=4, max_wait_ms=0), _VERSION)

    # An empty response has a length, a throttle time, an error, a session id, and counts of topics and tagged fields.
    assert (error.error_code, error.throttle_time_ms) == (0, measure_response(error, _VERSION) * 1000 - 10_000)
    assert throttled is None
    broker.advance(20_000)
    limit_client(broker, "consumer_byte_rate", 100)
    assert broker.take_response().error_code in (ErrorCode.NONE, ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
