"""What the stories of replicas ask and note."""

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
from tests.nodes.teller import Teller

TOPIC = 2
PREFERRED, UNCLEAN = 0, 1
#: Of all other topics on the stage an answer about every partition tells as well.
_ELECTED = ("asked", "elected", "lone", "nowhere")


def produce_request(topic: str, value: bytes, count: int, *, acks: int, timeout_ms: int = 10_000) -> ProduceRequest:
    """A Produce of one batch for partition 0."""
    records = [Record(offset=n, timestamp=1_700_000_000_000, key=None, value=value) for n in range(count)]
    rows = [TopicProduceData(name=topic, partition_data=[PartitionProduceData(0, write_batch(records))])]
    return ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=rows)


def produced(answer: Any) -> list[int]:
    """Error code and first offset."""
    row = answer.responses[0].partition_responses[0]
    return [row.error_code, row.base_offset]


def append(teller: Teller, node: int, topic: str, value: bytes, count: int, *, acks: int) -> list[int]:
    """Append a batch; error code and first offset."""
    return produced(teller.ask(node, produce_request(topic, value, count, acks=acks), 12))


def configure(teller: Teller, topic: str, values: Mapping[str, str], *, node: int = 0) -> None:
    """Set a topic's configuration, by way of a node."""
    rows = [AlterableConfig(name, 0, value) for name, value in values.items()]
    request = IncrementalAlterConfigsRequest([AlterConfigsResource(TOPIC, topic, rows)])
    answer = teller.until(lambda: teller.ask(node, request), lambda _: True)  # The node may have been down meanwhile.
    assert answer.responses[0].error_code == 0, answer


def fetched(teller: Teller, node: int, topic: str, offset: int = 0, *, epoch: int = -1, last: int = -1) -> Any:
    """What a consumer's Fetch is answered: code, high watermark, stable offset, values; where logs part, if they do."""
    partition = FetchPartition(
        partition=0,
        current_leader_epoch=epoch,
        fetch_offset=offset,
        last_fetched_epoch=last,
        partition_max_bytes=1_000_000,
    )
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=1_000_000,
        isolation_level=1,
        topics=[FetchTopic(topic, partitions=[partition])],
    )
    row = teller.ask(node, request, 12).responses[0].partitions[0]
    values = [
        f"{record.offset}{(record.value or b'').decode()}"
        for batch in read_batches(bytes(row.records or b""))
        for record in batch.records()
    ]
    seen = [row.error_code, row.high_watermark, row.last_stable_offset, " ".join(values)]
    if row.diverging_epoch.epoch >= 0:
        seen.append({"diverging": [row.diverging_epoch.epoch, row.diverging_epoch.end_offset]})
    return seen


def listed(teller: Teller, node: int, topic: str, timestamp: int = -1) -> list[int]:
    """ListOffsets: code, offset, epoch."""
    row = ListOffsetsTopic(topic, [ListOffsetsPartition(0, timestamp=timestamp)])
    answer = teller.ask(node, ListOffsetsRequest(replica_id=-1, topics=[row]), 7).topics[0].partitions[0]
    return [answer.error_code, answer.offset, answer.leader_epoch]


def epoch_end(teller: Teller, node: int, topic: str, epoch: int) -> list[int]:
    """OffsetForLeaderEpoch: code, epoch, end."""
    rows = [OffsetForLeaderTopic(topic, [OffsetForLeaderPartition(0, leader_epoch=epoch)])]
    answer = teller.ask(node, OffsetForLeaderEpochRequest(replica_id=-1, topics=rows), 4).topics[0].partitions[0]
    return [answer.error_code, answer.leader_epoch, answer.end_offset]


def replicas(teller: Teller, node: int, topic: str, index: int = 0) -> dict[str, Any]:
    """The assignment of a partition, and who leads."""
    answer = teller.ask(node, MetadataRequest(topics=[MetadataRequestTopic(name=topic)]))
    row = next(row for row in answer.topics[0].partitions if row.partition_index == index)
    return {
        "leader": row.leader_id,
        "epoch": row.leader_epoch,
        "replicas": list(row.replica_nodes),
        "isr": sorted(row.isr_nodes),
        "offline": sorted(row.offline_replicas),
    }


def elect(
    teller: Teller, node: int, kind: int, wanted: Mapping[str, tuple[int, ...]] | None, *, version: int = 2
) -> Any:
    """ElectLeaders: the code at the top, and the rows by topic and partition."""
    topics = None if wanted is None else [TopicPartitions(topic, rows) for topic, rows in wanted.items()]
    answer = teller.ask(node, ElectLeadersRequest(kind, topics, 10_000), version)
    rows = {
        f"{topic.topic}-{row.partition_id}": row.error_code
        for topic in answer.replica_election_results
        for row in topic.partition_result
        if topic.topic in _ELECTED
    }
    return [answer.error_code, dict(sorted(rows.items()))]
