"""Waits for groups, offsets and requests, with real clients, and the messages of those that end without a result."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from aiokafka import AIOKafkaConsumer
from confluent_kafka import Consumer, Producer, ShareConsumer
from kafka import KafkaConsumer

import kwire
from kwire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kwire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kwire.messages.metadata import MetadataRequest
from kwire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from mockbroker import Cluster, KafkaError, WaitTimeout


@pytest.fixture
def kafka() -> Iterator[Cluster]:
    with Cluster(topics={"orders": 2}, profile="quick") as cluster:
        yield cluster


@pytest.fixture
def background() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor() as pool:
        yield pool


def _settings(kafka: Cluster, group_id: str = "g") -> dict[str, str]:
    return {"bootstrap.servers": kafka.bootstrap_servers, "group.id": group_id, "auto.offset.reset": "earliest"}


class _Polling:
    """Polls a consumer in a thread until the block ends."""

    def __init__(self, poll: Callable[[], object], close: Callable[[], object]) -> None:
        self._poll = poll
        self._close = close
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self._ended.is_set():
            self._poll()
        self._close()

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(60)


def _librdkafka(kafka: Cluster, **settings: str) -> _Polling:
    consumer = Consumer({**_settings(kafka), **settings})
    consumer.subscribe(["orders"])
    return _Polling(lambda: consumer.poll(0.1), consumer.close)


def _produce(kafka: Cluster, count: int) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for number in range(count):
        producer.produce("orders", b"%d" % number, partition=0)
    assert producer.flush(30) == 0


@pytest.mark.client
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_is_stable_with_two_members_and_then_empty(kafka: Cluster, protocol: str) -> None:
    with _librdkafka(kafka, **{"group.protocol": protocol}), _librdkafka(kafka, **{"group.protocol": protocol}):
        view = kafka.wait_for_group("g", state="Stable", members=2, timeout_s=30)
        assert view.kind == protocol
        assert sorted(member.partitions["orders"] for member in view.members) == [(0,), (1,)]

    assert kafka.wait_for_group("g", state="Empty", timeout_s=30).members == ()


@pytest.mark.client
def test_a_group_of_kafka_python_commits_an_offset(kafka: Cluster) -> None:
    _produce(kafka, 3)
    consumer = KafkaConsumer(
        "orders",
        bootstrap_servers=kafka.bootstrap_servers,
        group_id="g",
        auto_offset_reset="earliest",
        auto_commit_interval_ms=50,
    )
    with _Polling(lambda: consumer.poll(500), consumer.close):
        assert kafka.wait_for_offset("g", "orders", 0, 3, timeout_s=30) == 3
        assert kafka.wait_for_group("g", members=1, timeout_s=30).state == "Stable"


@pytest.mark.client
def test_records_are_delivered_to_share_members_that_were_waited_for(kafka: Cluster) -> None:
    consumer = ShareConsumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": "workers"})
    consumer.subscribe(["orders"])
    delivered: list[bytes | None] = []

    def poll() -> None:
        delivered.extend(message.value() for message in consumer.poll(timeout=0.1))

    with _Polling(poll, consumer.close):
        view = kafka.wait_for_share_members("workers", 1, timeout_s=30)
        assert view.members[0].partitions == {"orders": (0, 1)}
        _produce(kafka, 2)
        kafka.wait_until(lambda: len(delivered) == 2, timeout_s=30)
        assert kafka.wait_for_offset("workers", "orders", 0, 2, timeout_s=30) == 2

    assert delivered == [b"0", b"1"]


@pytest.mark.client
def test_coroutines_wait_while_a_client_runs_in_the_same_event_loop(kafka: Cluster) -> None:
    async def consume() -> str:
        consumer = AIOKafkaConsumer(
            "orders", bootstrap_servers=kafka.bootstrap_servers, group_id="g", auto_offset_reset="earliest"
        )
        await consumer.start()
        try:
            view = await kafka.aio.wait_for_group("g", members=1, timeout_s=30)
            (fetch,) = (await kafka.aio.wait_for_request("Fetch", timeout_s=30))[:1]
            assert fetch.api_name == "Fetch"
            await kafka.aio.wait_until(lambda: len(consumer.assignment()) == 2, timeout_s=30)
            await consumer.commit({next(iter(consumer.assignment())): 0})
            return view.state
        finally:
            await consumer.stop()

    assert asyncio.run(consume()) == "Stable"


def test_a_wait_counts_requests_before_it_and_after_it(kafka: Cluster, background: ThreadPoolExecutor) -> None:
    with kwire.Client(kafka.bootstrap_servers, client_id="me") as client:
        client.send(MetadataRequest(topics=None))
        assert len(kafka.wait_for_request(MetadataRequest, client_id="me", timeout_s=30)) == 1

        waiting = background.submit(kafka.wait_for_request, "Metadata", count=3, client_id="me", timeout_s=30)
        client.send(MetadataRequest(topics=None))
        assert not waiting.done()
        client.send(MetadataRequest(topics=None))
        third = waiting.result(30)[2]
        assert third.number == kafka.journal.last_number

        with pytest.raises(WaitTimeout, match="waited 0 s for 1 Metadata request with after #"):
            kafka.wait_for_request("Metadata", after=third, timeout_s=0)


def test_a_wait_for_an_error_looks_at_responses(kafka: Cluster) -> None:
    with kwire.Client(kafka.bootstrap_servers) as client:
        client.send(CreateTopicsRequest(topics=[CreatableTopic(name="orders", num_partitions=1)], timeout_ms=1000))

    wait = kafka.wait_for_request
    assert len(wait("CreateTopics", error="TOPIC_ALREADY_EXISTS", timeout_s=30)) == 1
    with pytest.raises(WaitTimeout, match=r"(?s)1 CreateTopics request with error=NONE.*error TOPIC_ALREADY_EXISTS"):
        wait("CreateTopics", error="NONE", timeout_s=0)


def test_a_long_poll_is_sent_before_it_is_answered(kafka: Cluster) -> None:
    kafka.clock.freeze()
    with kwire.Client(kafka.bootstrap_servers) as client:
        topic_id = client.send(MetadataRequest(topics=None)).topics[0].topic_id
        fetch = kwire.from_json(
            "FetchRequest",
            17,
            {
                "maxWaitMs": 60_000,
                "minBytes": 1,
                "topics": [
                    {"topicId": kwire.uuids.to_text(topic_id), "partitions": [{"partition": 0, "fetchOffset": 0}]}
                ],
            },
        )
        pending = client.submit(fetch, 17)
        assert len(kafka.wait_for_request("Fetch", topic="orders", timeout_s=30)) == 1
        with pytest.raises(WaitTimeout, match=r"(?s)answered; seen instead: 0; .*the clock is frozen"):
            kafka.wait_for_request("Fetch", topic="orders", answered=True, timeout_s=0)
        kafka.clock.advance(60_000)
        kafka.wait_for_request("Fetch", topic="orders", answered=True, timeout_s=30)
        assert pending.result(30) is not None


def test_a_group_that_does_not_come_is_described_as_it_is(kafka: Cluster) -> None:
    with pytest.raises(WaitTimeout, match=r"group 'g' in state Stable with 2 members; seen instead: no such group$"):
        kafka.wait_for_group("g", members=2, timeout_s=0)
    with kwire.Client(kafka.bootstrap_servers, client_id="worker") as client:
        _join_share_group(client, "orders")

    with pytest.raises(TimeoutError) as error:
        kafka.wait_for_group("g", members=2, timeout_s=0)
    assert "share group g: Stable, 1 member\n  m (" in str(error.value)
    with pytest.raises(WaitTimeout, match="seen instead: no such group; there are 'g'"):
        kafka.wait_for_group("other", timeout_s=0)
    with pytest.raises(WaitTimeout, match=r"seen instead: .*orders-0 is not a"):
        kafka.wait_for_share_members("g", 1, timeout_s=0)
    with pytest.raises(WaitTimeout, match="seen instead: 1 members"):
        kafka.wait_for_share_members("g", 3, timeout_s=0)
    assert kafka.wait_for_group("nobody", state="Dead").members == ()


def _join_share_group(client: kwire.Client, topic: str) -> None:
    request = ShareGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=0, subscribed_topic_names=(topic,))
    assert client.send(request).error_code == 0


@pytest.mark.parametrize(
    ("wait", "error", "message"),
    [
        (lambda kafka: kafka.wait_for_group("g", state="stable"), ValueError, "did you mean 'Stable'"),
        (lambda kafka: kafka.wait_for_group("g", state="Stable", members=0), ValueError, "has at least one member"),
        (lambda kafka: kafka.wait_for_group("g", state="Empty", members=2), ValueError, "has no members"),
        (lambda kafka: kafka.wait_for_group("g", state=None, members=-1), ValueError, "members=-1"),
        (
            lambda kafka: kafka.wait_for_group("g", state="Assigning"),
            ValueError,
            "share group is never in state Assigning",
        ),
        (lambda kafka: kafka.wait_for_share_members("g", 0), ValueError, "expected at least one"),
        (lambda kafka: kafka.wait_for_offset("g", "bills", 0, 1), KafkaError, "bills-0: there is no such partition"),
        (lambda kafka: kafka.wait_for_offset("g", "orders", 9, 1), KafkaError, "orders-9: there is no such partition"),
        (lambda kafka: kafka.wait_for_offset("g", "orders", 0, -1), ValueError, "offset=-1"),
        (lambda kafka: kafka.wait_for_request("Producer"), ValueError, "did you mean 'Produce'"),
        (lambda kafka: kafka.wait_for_request("Produce", count=0), ValueError, "count=0"),
        (lambda kafka: kafka.wait_for_request("Produce", error="NOPE"), ValueError, "'NOPE' is not an error code"),
        (lambda kafka: kafka.wait_for_request("Heartbeat", topic="orders"), ValueError, "name no topic"),
        (lambda kafka: kafka.wait_for_group("g", timeout_s=-1), ValueError, "timeout_s: -1"),
        (lambda kafka: kafka.wait_until(lambda: 1 // 0), ZeroDivisionError, "division"),
    ],
)
def test_a_wait_for_what_cannot_come_is_an_error_at_once(
    kafka: Cluster, wait: Callable[[Cluster], object], error: type[Exception], message: str
) -> None:
    with kwire.Client(kafka.bootstrap_servers) as client:
        _join_share_group(client, "orders")

    with pytest.raises(error, match=message):
        wait(kafka)


def test_the_deletion_of_a_topic_ends_the_waits_for_it(kafka: Cluster, background: ThreadPoolExecutor) -> None:
    with kwire.Client(kafka.bootstrap_servers) as client:
        _join_share_group(client, "orders")
        offset = background.submit(kafka.wait_for_offset, "g", "orders", 0, 5, timeout_s=60)
        members = background.submit(kafka.wait_for_share_members, "g", 1, timeout_s=60)
        client.send(DeleteTopicsRequest(topics=[DeleteTopicState(name="orders")], timeout_ms=1_000))

        with pytest.raises(KafkaError, match="orders-0: topic 'orders' was deleted"):
            offset.result(30)
        with pytest.raises(ValueError, match="subscribe to 'orders', which was deleted"):
            members.result(30)


def test_a_group_of_another_type_is_never_a_share_group(kafka: Cluster) -> None:
    with kwire.Client(kafka.bootstrap_servers) as client:
        commit = {"groupId": "g", "topics": [{"name": "orders", "partitions": [{"partitionIndex": 0}]}]}
        client.send(kwire.from_json("OffsetCommitRequest", 8, commit), 8)

    with pytest.raises(ValueError, match="group 'g' is a classic group, not a share group"):
        kafka.wait_for_share_members("g", 1)


def test_stopping_the_cluster_ends_a_wait(background: ThreadPoolExecutor) -> None:
    cluster = Cluster(topics=["orders"]).start()
    waiting = background.submit(cluster.wait_for_group, "g", timeout_s=60)
    until = background.submit(cluster.wait_until, lambda: None, timeout_s=60)
    cluster.wait_until(lambda: len(cluster._running().require_started().watchers) == 3)
    cluster.stop()

    with pytest.raises(RuntimeError, match="the cluster was stopped during a wait for group 'g'"):
        waiting.result(30)
    with pytest.raises(RuntimeError, match="the cluster is not running"):
        until.result(30)
    with pytest.raises(RuntimeError, match="the cluster is not running"):
        cluster.wait_for_group("g")


def test_a_reset_ends_a_wait(kafka: Cluster, background: ThreadPoolExecutor) -> None:
    waiting = background.submit(kafka.wait_for_request, "Produce", timeout_s=60)
    kafka.wait_until(lambda: len(kafka._running().require_started().watchers) == 2)
    kafka.reset()

    with pytest.raises(RuntimeError, match="the cluster was reset during a wait for 1 Produce request"):
        waiting.result(30)


def test_a_wait_leaves_nothing_behind(kafka: Cluster) -> None:
    for action in (kafka.wait_for_group, kafka.wait_for_request):
        with pytest.raises((WaitTimeout, ValueError)):
            action("Fetch", timeout_s=0)
    kafka.wait_until(lambda: True)

    assert kafka._running().require_started().watchers == set()


def test_a_predicate_that_stays_false_is_named_with_its_last_value(kafka: Cluster) -> None:
    def is_done() -> list[int]:
        return []

    with pytest.raises(WaitTimeout, match=r"waited 0 s for .*is_done; the last value was \[\]"):
        kafka.wait_until(is_done, timeout_s=0)


def test_a_wait_that_blocks_an_event_loop_says_so(kafka: Cluster) -> None:
    async def wait() -> None:
        with pytest.raises(WaitTimeout, match=r"use `await cluster\.aio"):
            kafka.wait_for_group("g", timeout_s=0)
        with pytest.raises(WaitTimeout, match=r"use `await cluster\.aio"):
            kafka.wait_until(lambda: False, timeout_s=0)
        with pytest.raises(WaitTimeout, match=r"no such group$"):
            await kafka.aio.wait_for_group("g", timeout_s=0)

    asyncio.run(wait())


def test_a_wait_in_the_thread_of_the_cluster_is_refused(kafka: Cluster) -> None:
    with pytest.raises(RuntimeError, match=r"inside a function of Cluster\.run"):
        kafka.run(lambda _: kafka.wait_for_group("g"))
