"""A simulated idempotent producer that sends a batch again until it is acknowledged: each value is stored once."""

from __future__ import annotations

from collections import Counter
from random import Random

from kwire.error_codes import ErrorCode
from kwire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kwire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from kwire.records import Record, write_batch
from mockbroker.sim.disk.retrying_client import RetryingClient
from mockbroker.sim.simulated_cluster import SimulatedCluster
from mockbroker.sim.violation import Violation

TOPIC = "sequences"
_COUNTS = (1, 1, 2, 5)
#: After these a client sends a batch again. Source: RetriableException of the Java client.
RETRIABLE = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
)


class SequenceWriter(RetryingClient):
    """Writes 0, 1, 2 and so on as values, one batch at a time, with sequences of each partition."""

    name = "the writer of sequences"

    def __init__(self, cluster: SimulatedCluster, rng: Random) -> None:
        super().__init__(cluster, rng)
        self._producer_id = self._epoch = -1
        self._sequences: Counter[int] = Counter()
        self._written_count = 0
        self._partition = 0
        self._batch: bytes | None = None
        self._batch_count = 0

    def step(self) -> str:
        """Produce the next batch, or the last one again."""
        if self._producer_id < 0:
            self._send(self._cluster.choose_node(self._rng), InitProducerIdRequest(None, -1), 4, self._on_initialized)
            return "requests an id"
        if self._batch is None:
            self._batch = self._write_batch()
        else:
            self._count("batch sent again")
        topic = self._cluster.core.state.metadata.topic(TOPIC)
        if topic is None:
            raise Violation(f"{TOPIC} does not exist any more")
        data = TopicProduceData(TOPIC, bytes(16), [PartitionProduceData(self._partition, self._batch)])
        request = ProduceRequest(None, acks=-1, timeout_ms=1_000, topic_data=[data])
        self._send(self._cluster.leader((topic.topic_id, self._partition)), request, 9, self._on_produced)
        return f"produces {self._batch_count} records to partition {self._partition}"

    def _write_batch(self) -> bytes:
        self._partition, self._batch_count = self._rng.randrange(2), self._rng.choice(_COUNTS)
        first, self._written_count = self._written_count, self._written_count + self._batch_count
        now_ms = self._cluster.now_ms
        return write_batch(
            [Record(at, now_ms, None, b"%d" % (first + at)) for at in range(self._batch_count)],
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            base_sequence=self._sequences[self._partition],
        )

    def _on_initialized(self, response: InitProducerIdResponse) -> None:
        if not response.error_code:
            self._producer_id, self._epoch = response.producer_id, response.producer_epoch

    def _on_produced(self, response: ProduceResponse) -> None:
        row = response.responses[0].partition_responses[0]
        if row.error_code in RETRIABLE:
            self._count("refused by the disk", int(row.error_code == ErrorCode.KAFKA_STORAGE_ERROR))
            return
        if row.error_code:
            name = ErrorCode(row.error_code).name
            raise Violation(f"{TOPIC}-{self._partition}: an idempotent producer that retries has got {name}")
        topic = self._cluster.core.state.metadata.topic(TOPIC)
        assert topic is not None
        assert self._batch is not None
        self._cluster.records.record_acknowledged(topic, self._partition, row.base_offset, self._batch)
        self._sequences[self._partition] += self._batch_count
        self._batch = None

    def check(self) -> None:
        """Each value is stored once at most. Raises: Violation."""
        topic = self._cluster.core.state.metadata.topic(TOPIC)
        assert topic is not None
        for partition in topic.partitions:
            log = self._cluster.find_any_log((topic.topic_id, partition.index))
            batches = [] if log is None else log.batches_below(log.end_offset)
            values = Counter(record.value for batch in batches for record in batch.records())
            doubled = [value for value, count in values.items() if count > 1]
            if doubled:
                raise Violation(f"{TOPIC}-{partition.index}: stored more than once: {doubled}")
