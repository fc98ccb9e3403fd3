"""Requests of the replica scenarios, and the compared fields of their responses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kwire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from kwire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kwire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kwire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kwire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kwire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kwire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.records import Record, read_batches, write_batch
from tests.nodes.scenario_client import ScenarioClient

TOPIC = 2
PREFERRED, UNCLEAN = 0, 1
#: A response about every partition contains all other topics of the cluster as well.
_ELECTED = ("asked", "elected", "lone", "nowhere")


def produce_request(topic: str, value: bytes, count: int, *, acks: int, timeout_ms: int = 10_000) -> ProduceRequest:
    """A Produce of one batch for partition 0."""
    records = [Record(offset=n, timestamp=1_700_000_000_000, key=None, value=value) for n in range(count)]
    rows = [TopicProduceData(name=topic, partition_data=[PartitionProduceData(0, write_batch(records))])]
    return ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=rows)


def summarize_produce(answer: Any) -> list[int]:
    """Error code and first offset."""
    row = answer.responses[0].partition_responses[0]
    return [row.error_code, row.base_offset]


def append_batch(client: ScenarioClient, node: int, topic: str, value: bytes, count: int, *, acks: int) -> list[int]:
    """Append a batch; error code and first offset."""
    return summarize_produce(client.send(node, produce_request(topic, value, count, acks=acks), 12))


def alter_topic_config(client: ScenarioClient, topic: str, values: Mapping[str, str], *, node: int = 0) -> None:
    """Set a topic's configuration by a request to a node."""
    rows = [AlterableConfig(name, 0, value) for name, value in values.items()]
    request = IncrementalAlterConfigsRequest([AlterConfigsResource(TOPIC, topic, rows)])
    answer = client.wait_until(
        lambda: client.send(node, request), lambda _: True
    )  # The node may have been down meanwhile.
    assert answer.responses[0].error_code == 0, answer


def fetch_records(
    client: ScenarioClient, node: int, topic: str, offset: int = 0, *, epoch: int = -1, last: int = -1
) -> Any:
    """The response to a consumer's Fetch: code, high watermark, stable offset, values, diverging epoch if any."""
    partition = FetchPartition(0, epoch, offset, last, partition_max_bytes=1_000_000)
    topics = [FetchTopic(topic, partitions=[partition])]
    request = FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=1_000_000, isolation_level=1, topics=topics)
    row = client.send(node, request, 12).responses[0].partitions[0]
    values = [
        f"{record.offset}{(record.value or b'').decode()}"
        for batch in read_batches(bytes(row.records or b""))
        for record in batch.records()
    ]
    observed = [row.error_code, row.high_watermark, row.last_stable_offset, " ".join(values)]
    if row.diverging_epoch.epoch >= 0:
        observed.append({"diverging": [row.diverging_epoch.epoch, row.diverging_epoch.end_offset]})
    return observed


def list_offset(client: ScenarioClient, node: int, topic: str, timestamp: int = -1) -> list[int]:
    """ListOffsets: code, offset, epoch."""
    row = ListOffsetsTopic(topic, [ListOffsetsPartition(0, timestamp=timestamp)])
    answer = client.send(node, ListOffsetsRequest(replica_id=-1, topics=[row]), 7).topics[0].partitions[0]
    return [answer.error_code, answer.offset, answer.leader_epoch]


def fetch_epoch_end(client: ScenarioClient, node: int, topic: str, epoch: int) -> list[int]:
    """OffsetForLeaderEpoch: code, epoch, end."""
    rows = [OffsetForLeaderTopic(topic, [OffsetForLeaderPartition(0, leader_epoch=epoch)])]
    answer = client.send(node, OffsetForLeaderEpochRequest(replica_id=-1, topics=rows), 4).topics[0].partitions[0]
    return [answer.error_code, answer.leader_epoch, answer.end_offset]


def describe_replicas(client: ScenarioClient, node: int, topic: str, index: int = 0) -> dict[str, Any]:
    """The assignment of a partition, and its leader."""
    answer = client.send(node, MetadataRequest(topics=[MetadataRequestTopic(name=topic)]))
    row = next(row for row in answer.topics[0].partitions if row.partition_index == index)
    return {
        "leader": row.leader_id,
        "epoch": row.leader_epoch,
        "replicas": list(row.replica_nodes),
        "isr": sorted(row.isr_nodes),
        "offline": sorted(row.offline_replicas),
    }


def wait_for_replicas(client: ScenarioClient, node: int, topic: str, **wanted: object) -> dict[str, Any]:
    """Wait until a node describes the replicas of partition 0 with these values; their description."""
    row: dict[str, Any] = client.wait_until(
        lambda: describe_replicas(client, node, topic), lambda row: row == {**row, **wanted}
    )
    return row


def elect_leaders(
    client: ScenarioClient, node: int, kind: int, wanted: Mapping[str, tuple[int, ...]] | None, *, version: int = 2
) -> Any:
    """ElectLeaders: the code at the top, and the rows by topic and partition."""
    topics = None if wanted is None else [TopicPartitions(topic, rows) for topic, rows in wanted.items()]
    answer = client.send(node, ElectLeadersRequest(kind, topics, 10_000), version)
    rows = {
        f"{topic.topic}-{row.partition_id}": row.error_code
        for topic in answer.replica_election_results
        for row in topic.partition_result
        if topic.topic in _ELECTED
    }
    return [answer.error_code, dict(sorted(rows.items()))]
