"""Produce requests, and `Producer`: a transactional producer for tests of transactions through the whole broker."""

from __future__ import annotations

from typing import Any

from kwire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kwire.messages.end_txn import EndTxnRequest
from kwire.messages.init_producer_id import InitProducerIdRequest
from kwire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from kwire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.messages.txn_offset_commit import TxnOffsetCommitRequest
from kwire.messages.txn_offset_commit import TxnOffsetCommitRequestPartition as PartitionRow
from kwire.messages.txn_offset_commit import TxnOffsetCommitRequestTopic as TopicRow
from kwire.records import Record, read_batches, write_batch
from mockbroker.state.metadata.cluster_image import CoordinatorKind, Topic
from mockbroker.state.storage.partition_log import PartitionLog
from mockbroker.state.transaction.transaction import ProducerIdAndEpoch
from tests.support.brokers.broker import Broker

#: Versions of Produce: before TRANSACTION_ABORTABLE, with it, and with partitions that the broker adds.
OLD_PRODUCE, ABORTABLE_PRODUCE, ADDING_PRODUCE = 10, 11, 12


def record_batch(count: int = 1, size: int = 10, *, now_ms: int = 1_000_000) -> bytes:
    """A batch of records of equal size."""
    return write_batch([Record(at, now_ms, None, b"v" * size) for at in range(count)])


def produce(topic: Topic, data: bytes, *, partition: int = 0, acks: int = -1) -> ProduceRequest:
    """A batch for one partition, in the version with topic ids."""
    row = TopicProduceData(topic_id=topic.topic_id, partition_data=[PartitionProduceData(partition, data)])
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[row])


class Producer:
    """A transactional producer that sends requests to the right node, as a client would; by default to three nodes."""

    def __init__(self, broker: Broker | None = None, name: str = "tx", *, version: int = 5) -> None:
        self.broker = broker or Broker(nodes=3, topics={"t": 3})
        self.name = name
        self.version = version
        self.sequences: dict[int, int] = {}
        self.holder = ProducerIdAndEpoch(-1, -1)
        self.begin()

    def begin(self) -> int:
        """InitProducerId, until no transaction of another is in the way."""
        answer = self.coordinator(InitProducerIdRequest(self.name, 60_000), 5)
        if not answer.error_code:
            self.holder = ProducerIdAndEpoch(answer.producer_id, answer.producer_epoch)
            self.sequences.clear()
        return int(answer.error_code)

    @property
    def coordinator_id(self) -> int:
        """The node that coordinates the producer's transactions."""
        return self.broker.metadata.coordinator_id(CoordinatorKind.TRANSACTION, self.name)

    def coordinator(self, request: Any, version: int) -> Any:
        """Send a request to the transaction coordinator."""
        node = self.coordinator_id
        life = id(self.broker.core.state.nodes[node])  # A restarted node has new connections.
        return self.broker.call(request, version, connection=f"{self.name}-{node}-{life}", node=node)

    def add(self, *partitions: int) -> list[int]:
        """AddPartitionsToTxn; the codes of the rows."""
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self.holder.producer_id,
            v3_and_below_producer_epoch=self.holder.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic("t", partitions)],
        )
        answer = self.coordinator(request, 3)
        return [row.partition_error_code for row in answer.results_by_topic_v3_and_below[0].results_by_partition]

    def produce(
        self, partition: int = 0, *, version: int = ADDING_PRODUCE, holder: ProducerIdAndEpoch | None = None
    ) -> int:
        """One record; the code of the answer."""
        node = self.leader(partition)
        request = self.produce_request(partition, holder or self.holder)
        answer = self.broker.call(request, version, connection=f"{self.name}-{node}", node=node)
        code = int(answer.responses[0].partition_responses[0].error_code)
        if not code:
            self.sequences[partition] = self.sequences.get(partition, 0) + 1
        return code

    def produce_request(self, partition: int, holder: ProducerIdAndEpoch) -> ProduceRequest:
        """One record with the next sequence number."""
        records, sequence = [Record(0, self.broker.now_ms, None, b"v")], self.sequences.get(partition, 0)
        producer_id, epoch = holder
        batch = write_batch(
            records, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, transactional=True
        )
        rows = [TopicProduceData("t", self.broker.topic("t").topic_id, [PartitionProduceData(partition, batch)])]
        return ProduceRequest(transactional_id=self.name, acks=-1, topic_data=rows)

    def leader(self, partition: int = 0) -> int:
        """The leader of a partition."""
        return self.broker.leader("t", partition)

    def log(self, partition: int = 0) -> PartitionLog:
        """The log of a partition at its leader."""
        return self.broker.leader_log("t", partition)

    def markers(self, partition: int = 0) -> list[int]:
        """Offsets of the control batches of a log."""
        data = self.log(partition).read(0, 1 << 20).join()
        return [batch.base_offset for batch in read_batches(data) if batch.is_control]

    def end(self, *, commit: bool = True) -> int:
        """EndTxn; the code of the answer."""
        request = EndTxnRequest(self.name, *self.holder, committed=commit)
        answer = self.coordinator(request, self.version)
        if not answer.error_code and self.version >= 5:
            self.holder = ProducerIdAndEpoch(answer.producer_id, answer.producer_epoch)
            self.sequences.clear()
        return int(answer.error_code)

    def commit_offset(self, offset: int, *, version: int = 5, topic: str = "t", **member: Any) -> int:
        """TxnOffsetCommit; the code of the row."""
        rows = [TopicRow(topic, partitions=[PartitionRow(0, offset, -1, "")])]
        request = TxnOffsetCommitRequest(self.name, "g", *self.holder, topics=rows, **member)
        return int(self.group_coordinator(request, version).topics[0].partitions[0].error_code)

    def group_coordinator(self, request: Any, version: int) -> Any:
        """Send a request to the coordinator of the group "g"."""
        node = self.broker.metadata.coordinator_id(CoordinatorKind.GROUP, "g")
        return self.broker.call(request, version, connection=f"g-{node}", node=node)

    def committed(self, *, stable: bool = False) -> tuple[int, int]:
        """The group's offset, and its error code."""
        request = OffsetFetchRequestGroup("g", topics=[OffsetFetchRequestTopics("t", partition_indexes=(0,))])
        answer = self.group_coordinator(OffsetFetchRequest(groups=[request], require_stable=stable), 8)
        row = answer.groups[0].topics[0].partitions[0]
        return row.committed_offset, row.error_code
