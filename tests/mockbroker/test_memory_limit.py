"""A cluster whose logs have used up their memory: producers are refused with the numbers, until some is free."""

from __future__ import annotations

import logging

import pytest

from kwire import Client
from kwire.error_codes import ErrorCode
from kwire.messages.metadata import MetadataRequest
from kwire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.records import Record, write_batch
from mockbroker import Cluster, ConfigError

_BATCH = write_batch([Record(offset=0, timestamp=1_700_000_000_000, key=None, value=b"v" * 20_000)])


def _produce(cluster: Cluster, topic: str) -> tuple[int, str | None]:
    """The error code and message of one produced batch."""
    with Client(cluster.bootstrap_servers) as client:
        topics = client.send(MetadataRequest(topics=None)).topics
        topic_id = next(found.topic_id for found in topics if found.name == topic)
        data = TopicProduceData(topic_id=topic_id, partition_data=[PartitionProduceData(index=0, records=_BATCH)])
        response = client.send(ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=[data]))
    row = response.responses[0].partition_responses[0]
    return row.error_code, row.error_message


def test_producers_are_refused_until_a_topic_is_deleted(caplog: pytest.LogCaptureFixture) -> None:
    with Cluster(topics=["a", "b"], memory_limit="100KiB") as cluster, caplog.at_level(logging.WARNING, "mockbroker"):
        codes = [_produce(cluster, "a")[0] for _ in range(5)]
        assert codes == [0] * 5
        code, message = _produce(cluster, "b")
        _produce(cluster, "b")
        cluster.delete_topic("a")

        assert code == ErrorCode.KAFKA_STORAGE_ERROR
        assert message is not None
        assert "bytes, and may take 102,400 (--memory-limit)" in message
        assert _produce(cluster, "b") == (0, None)
        assert [record.name for record in caplog.records] == ["mockbroker.server"]
        assert "produced batches are refused" in caplog.messages[0]


def test_a_reset_cluster_has_all_its_memory_again() -> None:
    with Cluster(topics=["a"], memory_limit=30_000) as cluster:
        assert _produce(cluster, "a")[0] == 0
        assert _produce(cluster, "a")[0] == ErrorCode.KAFKA_STORAGE_ERROR
        cluster.reset()
        assert _produce(cluster, "a")[0] == 0


def test_a_wrong_limit_is_refused() -> None:
    with pytest.raises(ConfigError, match="memory-limit: 'lots' is no size"):
        Cluster(memory_limit="lots")
