"""The transaction coordinator's topic, `__transaction_state`: writing transactional ids as records, and loading them.

Keys and values are those of Kafka's schemas behind two bytes: the type of the record before the key, the version
before the value. Source: Kafka's TransactionLog and TransactionStateManager.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from kwire.codec import decode, encode
from kwire.error_codes import ErrorCode
from kwire.records import Record, write_batch
from kwire.records.coordinator.transaction_log import PartitionsSchema, TransactionLogKey, TransactionLogValue
from mockbroker.coordinators.loading import PartitionLoads
from mockbroker.coordinators.transaction.markers import MarkerSender, MarkerTarget
from mockbroker.kafka_error import KafkaError
from mockbroker.state.metadata.cluster_image import TopicChange
from mockbroker.state.metadata.topics import INTERNAL_TOPICS, CoordinatorKind, partition_for_key
from mockbroker.state.storage.log_store import min_in_sync
from mockbroker.state.storage.partition_log import AppendOrigin, PartitionLog
from mockbroker.state.transaction.transaction import TopicPartition, Transaction, TransactionState
from mockbroker.state.transaction.transactions import TransactionCoordinator, TransactionEnd

if TYPE_CHECKING:
    from mockbroker.cluster_services.cluster_services import ClusterServices, WakeKey
    from mockbroker.state.metadata.topics import Partition, Topic
    from mockbroker.state.storage.log_store import NodeLogs
    from mockbroker.state.transaction.producer_ids import ProducerIds

#: How often it is asked whether the replicas in sync have a record that markers wait for.
_RETRY_MS = 20
_TOPIC_NAME = INTERNAL_TOPICS[CoordinatorKind.TRANSACTION].name
_PREFIX_SIZE = 2
#: Value version 1 came with level 1 of transaction.version.
_FLEXIBLE_SINCE = 1
#: The numbers of the states in records.
_STATE_NUMBERS = {
    TransactionState.EMPTY: 0,
    TransactionState.ONGOING: 1,
    TransactionState.PREPARE_COMMIT: 2,
    TransactionState.PREPARE_ABORT: 3,
    TransactionState.COMPLETE_COMMIT: 4,
    TransactionState.COMPLETE_ABORT: 5,
}
_STATES = {number: state for state, number in _STATE_NUMBERS.items()}


class LogPosition(NamedTuple):
    """The end offset of a partition of the topic after a write."""

    topic_id: bytes
    shard: int
    end_offset: int

    @property
    def wake_key(self) -> WakeKey:
        """What changes with the high watermark of the partition, and with its deletion."""
        return ("log", self.topic_id, self.shard)


class TransactionLog:
    """The partitions of the topic that one node leads, and the transaction coordinator with their state."""

    def __init__(self, cluster: ClusterServices[MarkerTarget], logs: NodeLogs, producer_ids: ProducerIds) -> None:
        self._cluster = cluster
        self._logs = logs
        self._loaded: dict[int, int] = {}
        self._loading_epochs: dict[int, int] = {}
        self.loading = PartitionLoads(cluster.inter_broker, logs.node_id)
        self._awaits_replicas = awaits = cluster.config.replication.is_real
        self._markers = MarkerSender(cluster.inter_broker, cluster.metadata, awaits_replicas=awaits)
        self.coordinator = TransactionCoordinator(
            producer_ids,
            cluster.node_config(logs.node_id),
            coordinator_epoch=self._coordinator_epoch,
            transaction_version=self._version,
            send=self._send_markers,
            append_record=self._record,
            earliest=cluster.earliest_deadline,
        )

    def _version(self) -> int:
        """The level of transaction.version, which may change at any time (UpdateFeatures)."""
        return self._cluster.features.get("transaction.version", 0)

    def topic_changed(self, change: TopicChange, topic: Topic, _: object) -> None:
        """Unload everything when the topic was deleted: all transactional ids are gone, and a new topic is empty."""
        if topic.name != _TOPIC_NAME or change is not TopicChange.DELETED:
            return
        self.loading.close()
        self._loading_epochs.clear()
        self._loaded.clear()
        self.coordinator.unload_transactions(lambda name: True)

    def load_led_partitions(self, *, now_ms: int) -> None:
        """After an election: load the partitions that this node leads now, unload those that it leads no longer.

        Transactions that were ending continue: their markers are sent again, with the new coordinator's epoch.
        """
        topic = self._cluster.metadata.topic(_TOPIC_NAME)
        if topic is None:
            return
        led = {p.index: p.leader_epoch for p in topic.partitions if p.leader == self._logs.node_id}
        stale = {shard for shard, epoch in self._loaded.items() if led.get(shard) != epoch}
        self.coordinator.unload_transactions(lambda name: self._shard(name) in stale)
        for shard in stale:
            del self._loaded[shard]
        for shard in [shard for shard, epoch in self._loading_epochs.items() if led.get(shard) != epoch]:
            self.loading.cancel(shard)
            del self._loading_epochs[shard]
        for shard, epoch in led.items():
            if shard not in self._loaded and shard not in self._loading_epochs:
                self._start_load(shard, epoch, now_ms)

    def _start_load(self, shard: int, epoch: int, now_ms: int) -> None:
        """Start to load a partition; an empty one is loaded at once."""
        if not self._has_records(shard):
            self._loaded[shard] = epoch
            return
        self._loading_epochs[shard] = epoch

        def load(at_ms: int) -> None:
            transactions = _read_transactions(self._log(shard))
            self._loaded[shard] = self._loading_epochs.pop(shard)
            self.coordinator.load_transactions(transactions, now_ms=at_ms)

        self.loading.start(shard, load, now_ms=now_ms)

    def close(self) -> None:
        """The broker has ended: cancel loads, and ignore the answers to markers that are in flight."""
        self.loading.close()
        self.coordinator.unload_transactions(lambda name: True)

    def next_deadline_ms(self) -> int | None:
        """The earliest deadline of a transaction, or None."""
        return self.coordinator.timers.next_deadline_ms()

    def expire(self, *, now_ms: int) -> None:
        """Abort the transactions whose timeout has passed, and run what else is due."""
        self.coordinator.timers.expire(now_ms=now_ms)

    def _shard(self, transactional_id: str) -> int:
        return self._cluster.metadata.coordinator_partition_index(CoordinatorKind.TRANSACTION, transactional_id)

    def _coordinator_epoch(self, transactional_id: str) -> int | None:
        """The epoch in which this node coordinates an id; None if another node does.

        Raises: COORDINATOR_LOAD_IN_PROGRESS.
        """
        metadata = self._cluster.metadata
        partition = metadata.find_coordinator_partition(CoordinatorKind.TRANSACTION, transactional_id)
        if partition.leader != self._logs.node_id:
            return None
        self.loading.require_finished(partition.index)
        if partition.index not in self._loaded and not self._has_records(partition.index):
            self._loaded[partition.index] = partition.leader_epoch
        return self._loaded.get(partition.index)

    def _require_in_sync(self, partition: Partition) -> None:
        if len(partition.isr) >= len(partition.replicas):
            return  # No more are ever required.
        least = min_in_sync(self._cluster.configs.topic(_TOPIC_NAME, self._logs.node_id), len(partition.replicas))
        if len(partition.isr) < least:
            text = f"{len(partition.isr)} replica(s) in sync, not {least}"
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, text)

    def _has_records(self, shard: int) -> bool:
        topic = self._cluster.metadata.internal_topic(CoordinatorKind.TRANSACTION)
        return self._logs.has_records(topic.topic_id, shard)

    def _log(self, shard: int) -> PartitionLog:
        topic = self._cluster.metadata.internal_topic(CoordinatorKind.TRANSACTION)
        return self._logs.find_log(topic.topic_id, shard)

    # Records that wait for followers.

    def uncommitted_position(self, transactional_id: str) -> LogPosition | None:
        """The end of an id's partition if the replicas in sync do not have all of it yet.

        None also where followers do not fetch. Raises: as `NodeLogs.find_log`.
        """
        if not self._awaits_replicas:
            return None
        topic = self._cluster.metadata.internal_topic(CoordinatorKind.TRANSACTION)
        shard = partition_for_key(transactional_id, len(topic.partitions))
        log = self._logs.find_log(topic.topic_id, shard)
        if log.high_watermark >= log.end_offset:
            return None
        return LogPosition(topic.topic_id, shard, log.end_offset)

    def is_committed(self, position: LogPosition) -> bool:
        """Whether the replicas in sync have the topic up to a position.

        Raises: NOT_COORDINATOR when this node leads the partition no longer, or the topic was deleted.
        """
        if position.shard not in self._loaded or self._cluster.metadata.topic_by_id(position.topic_id) is None:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        return self._logs.find_log(position.topic_id, position.shard).high_watermark >= position.end_offset

    def _send_markers(self, ending: TransactionEnd, partitions: frozenset[TopicPartition], now_ms: int) -> None:
        """Send the markers when the replicas in sync have the decision: no other one can follow."""
        position = self.uncommitted_position(ending.transactional_id)
        if position is None:
            self._markers.send_markers(self.coordinator, ending, partitions, now_ms)
            return

        def attempt(at_ms: int) -> None:
            if not self.coordinator.needs_markers(ending):
                return
            if self.is_committed(position):
                self._markers.send_markers(self.coordinator, ending, partitions, at_ms)
            else:
                self._cluster.inter_broker.schedule(_RETRY_MS, attempt, now_ms=at_ms)

        self._cluster.inter_broker.schedule(_RETRY_MS, attempt, now_ms=now_ms)

    def _record(self, transaction: Transaction, now_ms: int) -> None:
        """Append a transactional id as it is now; one that is dead has no value.

        Raises: COORDINATOR_NOT_AVAILABLE while too few replicas are in sync, as Kafka makes of NOT_ENOUGH_REPLICAS;
        NOT_COORDINATOR when the log cannot be written.
        """
        transactional_id = transaction.transactional_id
        partition = self._cluster.metadata.find_coordinator_partition(CoordinatorKind.TRANSACTION, transactional_id)
        self._require_in_sync(partition)
        version = 1 if self._version() >= _FLEXIBLE_SINCE else 0
        dead = transaction.state is TransactionState.DEAD
        value = None if dead else _prefixed(version, encode(_encode_value(transaction, version), version))
        record = Record(0, now_ms, _encode_key(transactional_id), value)
        log = self._log(partition.index)
        try:
            log.append(write_batch([record]), now_ms=now_ms, origin=AppendOrigin.COORDINATOR)
            log.storage.sync_unsynced()
        except KafkaError as error:
            if error.code is not ErrorCode.KAFKA_STORAGE_ERROR:
                raise
            # Source: Kafka's TransactionStateManager.appendTransactionToLog.
            raise KafkaError(ErrorCode.NOT_COORDINATOR, error.message) from error


@lru_cache(maxsize=128)  # Each transaction writes its key three times.
def _encode_key(transactional_id: str) -> bytes:
    return _prefixed(TransactionLogKey.API_KEY, encode(TransactionLogKey(transactional_id), 0))


def _encode_value(transaction: Transaction, version: int) -> TransactionLogValue:
    indexes: dict[str, list[int]] = {}
    for partition in sorted(transaction.partitions):
        indexes.setdefault(partition.topic, []).append(partition.partition_index)
    rows = [PartitionsSchema(name, tuple(partitions)) for name, partitions in indexes.items()]
    value = TransactionLogValue(
        producer_id=transaction.producer_id,
        producer_epoch=transaction.epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=_STATE_NUMBERS[transaction.state],
        transaction_partitions=None if transaction.state is TransactionState.EMPTY else rows,
        transaction_last_update_timestamp_ms=transaction.updated_ms,
        transaction_start_timestamp_ms=transaction.started_ms,
    )
    if version >= 1:
        value.previous_producer_id = transaction.previous_producer_id
        value.next_producer_id = transaction.next_producer_id
        value.client_transaction_version = transaction.version
    return value


def _read_transactions(log: PartitionLog) -> list[Transaction]:
    """The last state of every transactional id in a log."""
    latest: dict[str, Transaction] = {}
    for batch in log.batches_below(log.end_offset):
        for record in batch.records():
            assert record.key is not None
            name = decode(TransactionLogKey, 0, record.key[_PREFIX_SIZE:]).transactional_id
            if record.value is None:
                latest.pop(name, None)
            else:
                version = int.from_bytes(record.value[:_PREFIX_SIZE], "big")
                latest[name] = _decode_transaction(
                    name, decode(TransactionLogValue, version, record.value[_PREFIX_SIZE:])
                )
    return list(latest.values())


def _decode_transaction(name: str, value: TransactionLogValue) -> Transaction:
    """The epoch before the last one is not in the record, so it is not known after a move, as in Kafka."""
    return Transaction(
        name,
        value.producer_id,
        value.producer_epoch,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        timeout_ms=value.transaction_timeout_ms,
        state=_STATES[value.transaction_status],
        partitions={
            TopicPartition(row.topic, index)
            for row in value.transaction_partitions or ()
            for index in row.partition_ids
        },
        started_ms=value.transaction_start_timestamp_ms,
        updated_ms=value.transaction_last_update_timestamp_ms,
        version=value.client_transaction_version,
    )


def _prefixed(number: int, body: bytes) -> bytes:
    return number.to_bytes(_PREFIX_SIZE, "big") + body
