"""Replay of captured conversations: ids that the broker chose are mapped, and what differs otherwise is reported."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from kwire.capture.options import Options
from kwire.client import Client
from kwire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kwire.messages.share_acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from kwire.messages.share_fetch import FetchPartition, FetchTopic, ShareFetchRequest
from kwire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from mockbroker import Cluster
from mockbroker.replay.captured import ReplayError, read_conversation
from mockbroker.replay.replayer import ReplayedExchange, ReplayOptions, replay
from tests.support.captures.old_clients import old_client

TOPICS = {"orders": 3, "bills": 1}


def differing(path: Path, bootstrap: str) -> list[ReplayedExchange]:
    conversation = read_conversation(str(path), Options())
    assert conversation.unreadable == {}
    exchanges = list(replay(conversation, ReplayOptions(bootstrap.rsplit(",", maxsplit=1)[-1], timeout_s=15)))
    assert len(exchanges) > 10
    return [each for each in exchanges if each.differences]


def use_transactions_and_a_group(bootstrap: str) -> None:
    """An idempotent and a transactional producer, and a consumer that commits."""
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for number in range(6):
        producer.produce("orders", b"order %d" % number, partition=number % 3)
    assert producer.flush(10) == 0
    transactional = Producer({"bootstrap.servers": bootstrap, "transactional.id": "shop"})
    transactional.init_transactions(10)
    transactional.begin_transaction()
    transactional.produce("bills", b"bill")
    transactional.commit_transaction(10)
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "g", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    )
    consumer.subscribe(["orders"])
    messages = [consumer.poll(10) for _ in range(6)]
    assert all(message is not None and message.error() is None for message in messages)
    consumer.commit(offsets=[TopicPartition("orders", 0, 2)], asynchronous=False)
    consumer.close()


def use_a_share_group(bootstrap: str) -> None:
    """One member that acquires and accepts."""
    with Client(bootstrap, client_id="sharer") as client:
        topics = client.send(MetadataRequest(topics=[MetadataRequestTopic(name="bills")])).topics
        topic_id, member = topics[0].topic_id, "AAAAAAAAAAAAAAAAAAAAAQ"
        heartbeat = ShareGroupHeartbeatRequest(group_id="s", member_id=member, subscribed_topic_names=("bills",))
        client.send(heartbeat)
        partition = FetchPartition(partition_index=0)
        fetch = ShareFetchRequest(
            group_id="s", member_id=member, max_records=10, batch_size=10, min_bytes=0, max_bytes=1 << 20,
            topics=[FetchTopic(topic_id=topic_id, partitions=[partition])],
        )  # fmt: skip
        client.send(fetch)
        fetch.share_session_epoch = 1
        client.send(fetch)
        acknowledgement = AcknowledgePartition(
            partition_index=0, acknowledgement_batches=[AcknowledgementBatch(0, 0, (1,))]
        )
        topic = AcknowledgeTopic(topic_id=topic_id, partitions=[acknowledgement])
        client.send(ShareAcknowledgeRequest(group_id="s", member_id=member, share_session_epoch=-1, topics=[topic]))


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("replay") / "traffic.pcapng"
    with Cluster(topics=TOPICS, profile="quick", capture=path) as cluster:
        use_transactions_and_a_group(cluster.bootstrap_servers)
    return path


@pytest.fixture(scope="module")
def captured_of_three(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("replay") / "three.pcapng"
    with Cluster(nodes=3, topics=TOPICS, profile="quick", capture=path, seed=1) as cluster:
        use_transactions_and_a_group(cluster.bootstrap_servers)
    return path


def test_a_cluster_with_the_same_topics_answers_the_same(captured: Path) -> None:
    with Cluster(topics=TOPICS, profile="quick") as cluster:
        found = differing(captured, cluster.bootstrap_servers)
        records = cluster.read("orders", partition=0)

    assert [(each.captured.api_name, each.differences) for each in found] == []
    assert [record.value for record in records] == [b"order 0", b"order 3"]


def test_the_nodes_of_a_cluster_are_those_of_the_capture_in_their_order(captured_of_three: Path) -> None:
    """The seed places leaders and coordinators as in the capture."""
    with Cluster(nodes=3, topics=TOPICS, profile="quick", seed=1) as cluster:
        found = differing(captured_of_three, cluster.bootstrap_servers)

    assert [(each.captured.api_name, each.differences) for each in found] == []


def test_ids_and_epochs_of_a_cluster_that_was_used_before_are_mapped(captured: Path) -> None:
    """Producer ids and epochs, member ids, topic ids and generations are others than in the capture."""
    with Cluster(topics=TOPICS, profile="quick") as cluster:
        use_transactions_and_a_group(cluster.bootstrap_servers)
        for topic, count in TOPICS.items():
            cluster.delete_topic(topic)
            cluster.create_topic(topic, count)
        found = differing(captured, cluster.bootstrap_servers)

    assert [(each.captured.api_name, each.differences) for each in found] == []


def test_share_sessions_and_acknowledgements_are_sent_again(tmp_path: Path) -> None:
    path = tmp_path / "traffic.pcapng"
    with Cluster(topics=TOPICS, profile="quick", capture=path) as cluster:
        use_a_share_group(cluster.bootstrap_servers)
    with Cluster(topics=TOPICS, profile="quick") as cluster:
        conversation = read_conversation(str(path), Options())
        found = list(replay(conversation, ReplayOptions(cluster.bootstrap_servers)))

    assert [each.captured.api_name for each in found][-3:] == ["ShareFetch", "ShareFetch", "ShareAcknowledge"]
    assert [each.differences for each in found if each.differences] == []


def test_what_differs_is_named_by_its_path(captured: Path) -> None:
    with Cluster(topics={"orders": 2, "bills": 1}, profile="quick") as cluster:
        found = differing(captured, cluster.bootstrap_servers)

    paths = {(each.captured.api_name, difference.path) for each in found for difference in each.differences}
    assert ("Produce", "/responses/0/partitionResponses/0/errorCode") in paths


def test_a_smaller_cluster_is_refused(captured_of_three: Path) -> None:
    with (
        Cluster(nodes=2) as cluster,
        pytest.raises(ReplayError, match=r"in it 3 brokers answer, the cluster at .* has 2"),
    ):
        differing(captured_of_three, cluster.bootstrap_servers)


def test_a_replay_keeps_the_pauses_of_the_capture(tmp_path: Path) -> None:
    path = tmp_path / "traffic.pcapng"
    with Cluster(capture=path) as cluster, Client(cluster.bootstrap_servers) as client:
        for _ in range(3):
            client.send(MetadataRequest())
    conversation = read_conversation(str(path), Options())
    start_ns = conversation.exchanges[0].sent_ns
    shifted = [
        each._replace(sent_ns=start_ns + index * 60 * 10**9) for index, each in enumerate(conversation.exchanges)
    ]
    slow = conversation._replace(exchanges=[each._replace(answered_ns=each.sent_ns + 1) for each in shifted], ends=[])
    pauses: list[float] = []
    with Cluster() as cluster:
        list(replay(slow, ReplayOptions(cluster.bootstrap_servers, speed=2.0), sleep=pauses.append))

    assert [round(pause) for pause in pauses] == [0, 30, 60, 90]


def test_requests_of_versions_that_kafka_4_removed_are_not_sent(tmp_path: Path) -> None:
    path = tmp_path / "old.pcapng"
    path.write_bytes(old_client())

    conversation = read_conversation(str(path), Options())

    assert conversation.exchanges == []
    assert sum(conversation.unreadable.values()) == 11
    assert conversation.unreadable["a request of a version that Kafka 4.0 removed: ListOffsets version 0"] == 1
