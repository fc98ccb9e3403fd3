"""Requests of clients with quotas: throttle times, muted channels, and what does not count."""

from __future__ import annotations

import msgspec
import pytest

from kwire import headers
from kwire.error_codes import ErrorCode
from kwire.messages.api_versions import ApiVersionsRequest
from kwire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kwire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kwire.messages.metadata import MetadataRequest
from kwire.messages.sasl_handshake import SaslHandshakeRequest
from kwire.messages.write_txn_markers import WriteTxnMarkersRequest
from mockbroker.engine.context import ConnectionInfo
from tests.support.brokers.broker import Broker
from tests.support.brokers.producer import produce, record_batch
from tests.support.client_quotas import limit_client, set_quota

_VERSION = 13
_METADATA = MetadataRequest(topics=[])


def _limited(key: str, value: float, **options: object) -> Broker:
    broker = Broker(topics={"t": 1}, **options)  # type: ignore[arg-type]
    broker.call(_METADATA, _VERSION)
    limit_client(broker, key, value)
    return broker


def _produce(broker: Broker, size: int, *, acks: int = 1, connection: str = "a") -> int:
    """Send a request with a record of this size. Returns: its throttle time, -1 before it is answered."""
    broker.send(produce(broker.topic("t"), record_batch(size=size), acks=acks), _VERSION, connection=connection)
    response = broker.take_response(connection)
    return -1 if response is None else response.throttle_time_ms


def test_without_quotas_no_request_is_counted() -> None:
    broker = Broker(topics={"t": 1})
    times = [_produce(broker, 1_000_000) for _ in range(3)]

    assert times == [0, 0, 0]
    assert broker.core.requests.quotas is None
    assert "quotas" not in broker.core.state.nodes[0].__dict__


def test_a_response_leaves_at_once_and_the_next_request_waits_for_the_throttle_time() -> None:
    broker = _limited("producer_byte_rate", 10_000)
    throttle_ms = _produce(broker, 120_000)
    waiting = _produce(broker, 10)
    broker.advance(throttle_ms - 1)
    before = broker.take_response()
    broker.advance(1)

    # 120,000 bytes and those of the headers, by the 10,000 bytes of a second, less the 10 seconds of the windows.
    assert 2_000 <= throttle_ms <= 2_030
    assert (waiting, before) == (-1, None)
    assert broker.take_response().throttle_time_ms > 0


def test_requests_behind_a_muted_channel_are_answered_in_their_order() -> None:
    broker = _limited("producer_byte_rate", 10_000)
    throttle_ms = _produce(broker, 120_000)
    for _ in range(3):
        broker.send(_METADATA, _VERSION)
    broker.send(ApiVersionsRequest(), 0)
    broker.advance(throttle_ms)

    names = [type(broker.take_response()).__name__ for _ in range(4)]
    assert names == ["MetadataResponse"] * 3 + ["ApiVersionsResponse"]


def test_another_connection_of_the_client_is_not_muted_but_counts_with_it() -> None:
    broker = _limited("producer_byte_rate", 10_000)
    set_quota(broker, {"client-id": "client-a"}, "producer_byte_rate", None)
    set_quota(broker, {"user": "ANONYMOUS"}, "producer_byte_rate", 10_000)
    first_ms = _produce(broker, 120_000, connection="a")

    assert broker.call(_METADATA, _VERSION, connection="b").throttle_time_ms == 0
    assert _produce(broker, 10, connection="b") > first_ms


def test_each_broker_counts_for_itself_and_from_the_beginning_after_a_restart() -> None:
    broker = Broker(nodes=2, topics={"t": 2})
    limit_client(broker, "producer_byte_rate", 10_000)
    limit_client(broker, "producer_byte_rate", 10_000, connection="b")
    leaders = [broker.leader("t", partition) for partition in (0, 1)]
    batch = record_batch(size=120_000)

    def throttle_ms(connection: str, partition: int) -> int:
        request = produce(broker.topic("t"), batch, partition=partition, acks=1)
        response = broker.call(request, _VERSION, connection=connection, node=leaders[partition])
        return int(response.throttle_time_ms)

    assert throttle_ms("a", 0) > 2_000
    assert throttle_ms("b", 1) < 2_030  # Only its own bytes.
    broker.kill_node(leaders[0])
    broker.start_node(leaders[0])
    broker.forget_connection("a")
    broker.advance(60_000)
    assert broker.call(_METADATA, _VERSION, node=leaders[0]).throttle_time_ms == 0


def test_a_produce_without_an_answer_mutes_the_channel_for_its_bytes() -> None:
    broker = _limited("producer_byte_rate", 10_000)
    request = produce(broker.topic("t"), record_batch(size=120_000), acks=0)
    broker.core.submit(broker.connect("a"), _frame(request), broker.now_ms)
    broker.send(_METADATA, _VERSION)
    waiting = broker.take_response()
    broker.advance(2_030)

    assert waiting is None
    assert broker.take_response() is not None


def test_the_time_of_a_produce_without_an_answer_is_exempt() -> None:
    broker = _limited("request_percentage", 1)
    broker.core.requests.time_ns = iter(range(0, 10**15, 10**12)).__next__
    request = produce(broker.topic("t"), record_batch(size=10), acks=0)
    broker.core.submit(broker.connect("a"), _frame(request), broker.now_ms)
    broker.send(_METADATA, _VERSION)

    assert broker.take_response() is not None


def _frame(request: msgspec.Struct) -> bytes:
    return headers.encode_request(request, _VERSION, 1, "client-a")


def test_the_time_of_a_handler_counts_in_percent_of_one_thread_and_at_most_a_window_is_waited() -> None:
    broker = _limited("request_percentage", 10)
    clock = [0]

    def time_ns() -> int:
        clock[0] += 300_000_000  # Each handler starts and ends: it takes 300 ms.
        return clock[0]

    broker.core.requests.time_ns = time_ns
    times = []
    for _ in range(5):
        response = broker.call(_METADATA, _VERSION)
        times.append(response.throttle_time_ms)
        broker.advance(response.throttle_time_ms)

    # 10 % of 10 seconds are 1,000 ms of handlers: the fourth request exceeds them by 200 ms, and would wait for 2 s,
    # but a window is 1 s.
    assert times == [0, 0, 0, 1000, 1000]


def test_a_request_that_waits_uses_time_only_until_then() -> None:
    broker = _limited("request_percentage", 1)
    fetch = FetchRequest(
        max_wait_ms=5_000,
        min_bytes=1,
        topics=[FetchTopic(topic_id=broker.topic("t").topic_id, partitions=[FetchPartition(partition_max_bytes=100)])],
    )
    readings = iter([0, 50_000_000])  # The second one is the end of the handler; there is no third.
    broker.core.requests.time_ns = lambda: next(readings)
    broker.send(fetch, _VERSION)
    broker.advance(5_000)

    assert broker.take_response().throttle_time_ms == 0


def test_markers_of_transactions_are_exempt() -> None:
    broker = _limited("request_percentage", 1)
    broker.core.requests.time_ns = iter(range(0, 10**15, 10**12)).__next__
    broker.call(WriteTxnMarkersRequest(), 1)
    limit_client(broker, "request_percentage", None)

    assert broker.call(_METADATA, _VERSION).throttle_time_ms == 0


def test_fetches_of_followers_are_exempt() -> None:
    broker = _limited("request_percentage", 1)
    limit_client(broker, "consumer_byte_rate", 1)
    broker.core.requests.time_ns = iter(range(0, 10**15, 10**12)).__next__
    broker.leader_log("t").append(record_batch(size=1000), now_ms=broker.now_ms)
    topic = FetchTopic("t", partitions=[FetchPartition(partition_max_bytes=10_000)])
    response = broker.call(FetchRequest(replica_id=0, topics=[topic]), 12)

    assert response.throttle_time_ms == 0


def test_removing_the_last_quota_stops_counting_but_not_a_throttle_time() -> None:
    broker = _limited("producer_byte_rate", 10_000)
    throttle_ms = _produce(broker, 120_000)
    limit_client(broker, "producer_byte_rate", None)
    broker.send(_METADATA, _VERSION)
    waiting = broker.take_response()
    broker.advance(throttle_ms)

    assert broker.core.requests.quotas is None
    assert waiting is None
    assert broker.take_response() is not None


def test_a_muted_connection_that_ends_is_forgotten() -> None:
    broker = _limited("producer_byte_rate", 10_000)
    throttle_ms = _produce(broker, 120_000)
    was_muted = bool(broker.core.requests.muted)
    broker.disconnect("a")
    is_muted = bool(broker.core.requests.muted)
    broker.advance(throttle_ms)

    assert (was_muted, is_muted) == (True, False)
    assert broker.core.next_deadline_ms() is None or broker.core.next_deadline_ms() > broker.now_ms  # type: ignore[operator]


def test_the_clock_jumps_to_the_end_of_a_throttle_time_only_for_a_client_that_waits() -> None:
    broker = _limited("producer_byte_rate", 10_000)
    throttle_ms = _produce(broker, 120_000)
    idle = broker.core.next_awaited_ms()
    broker.send(_METADATA, _VERSION)

    assert idle is None
    assert broker.core.next_awaited_ms() == broker.now_ms + throttle_ms


def test_a_paused_node_unmutes_its_channels_when_it_goes_on() -> None:
    broker = Broker(nodes=2, topics={"t": 1})
    limit_client(broker, "producer_byte_rate", 10_000)
    leader = broker.leader("t")
    request = produce(broker.topic("t"), record_batch(size=120_000), acks=1)
    throttle_ms = broker.call(request, _VERSION, node=leader).throttle_time_ms
    broker.send(_METADATA, _VERSION)
    broker.pause_node(leader)
    broker.advance(throttle_ms + 1)
    paused = broker.take_response()
    broker.resume_node(leader)

    assert paused is None
    assert broker.take_response() is not None


def test_the_first_response_of_a_connection_can_have_a_throttle_time() -> None:
    broker = _limited("request_percentage", 1)
    broker.core.requests.time_ns = iter(range(0, 10**15, 10**12)).__next__
    broker.connect("a")
    response = broker.call(ApiVersionsRequest(), 3)

    assert response.throttle_time_ms == 1000


def test_a_response_without_a_throttle_time_mutes_the_channel_all_the_same() -> None:
    broker = _limited("request_percentage", 1)
    broker.core.requests.time_ns = iter(range(0, 10**15, 10**12)).__next__
    handshake = broker.call(SaslHandshakeRequest("PLAIN"), 1)
    broker.send(_METADATA, _VERSION)
    waiting = broker.take_response()
    broker.advance(1_000)

    assert handshake.error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert waiting is None
    assert broker.take_response() is not None


@pytest.mark.parametrize(("principal", "user"), [("User:alice", "alice"), ("User:CN=a:b,O=c", "CN=a:b,O=c")])
def test_a_client_counts_by_the_name_of_its_principal(principal: str, user: str) -> None:
    broker = Broker(topics={"t": 1})
    set_quota(broker, {"user": user}, "controller_mutation_rate", 1.0)
    info: ConnectionInfo = broker.core._connections[broker.connect("a")].info
    info.principal = principal
    request = CreateTopicsRequest([CreatableTopic("new", 30, 1)], 1_000)

    assert broker.call(request, 5).throttle_time_ms == 19_000
