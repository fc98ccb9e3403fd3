"""A cluster that is reset is a new one at the same addresses."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer

import kwire
from kwire.client import ConnectionClosed
from kwire.messages.metadata import MetadataRequest
from mockbroker import Cluster


def _topic_ids(cluster: Cluster) -> list[bytes]:
    return cluster.run(lambda server: [topic.topic_id for topic in server.core.state.metadata.topics()])


def test_topics_records_faults_journal_and_clock_are_new() -> None:
    with Cluster(topics=["orders"], seed=7) as kafka:
        address, ids = kafka.bootstrap_servers, _topic_ids(kafka)
        client = kwire.Client(address)
        client.send(MetadataRequest(topics=[]))
        kafka.produce("orders", "espresso")
        kafka.create_topic("bills")
        kafka.faults.add("Metadata", error="UNKNOWN_SERVER_ERROR")
        kafka.clock.advance(3_600_000)
        kafka.clock.freeze()
        late_ms = kafka.clock.now_ms()
        kafka.reset()

        with pytest.raises(ConnectionClosed):
            client.send(MetadataRequest(topics=[]))
        client.close()
        assert kafka.exchanges() == []
        assert (kafka.bootstrap_servers, kafka.topics(), _topic_ids(kafka)) == (address, {"orders": 1}, ids)
        assert kafka.read("orders") == []
        assert kafka.faults.list() == []
        assert kafka.clock.now_ms() < late_ms
        with kwire.Client(address) as again:
            assert again.send(MetadataRequest(topics=None)).topics[0].error_code == 0
        kafka.check_faults()


def test_nodes_that_were_down_listen_again() -> None:
    with Cluster(nodes=3) as kafka:
        addresses = kafka.bootstrap_servers.split(",")
        kafka.kill_node(1)
        kafka.stop_node(2)
        kafka.reset()

        assert kafka.bootstrap_servers.split(",") == addresses
        for address in addresses:
            with kwire.Client(address) as client:
                assert len(client.send(MetadataRequest(topics=[])).brokers) == 3
        kafka.stop_node(1)


@pytest.mark.client
def test_a_consumer_that_lives_on_joins_the_new_cluster() -> None:
    with Cluster(topics=["orders"], profile="quick") as kafka:
        settings = {"bootstrap.servers": kafka.bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest"}
        consumer = Consumer({**settings, "reconnect.backoff.ms": 10, "topic.metadata.refresh.interval.ms": 500})
        consumer.subscribe(["orders"])
        kafka.produce("orders", "before")
        assert consumer.poll(30) is not None
        kafka.reset()
        kafka.produce("orders", "after")

        def is_delivered() -> bool:
            message = consumer.poll(0.1)
            return message is not None and message.value() == b"after"

        kafka.wait_until(is_delivered, timeout_s=60)
        consumer.close()


def test_a_cluster_that_does_not_run_cannot_be_reset() -> None:
    with pytest.raises(RuntimeError, match="the cluster is not running"):
        Cluster().reset()
