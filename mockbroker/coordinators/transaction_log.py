"""The transaction coordinator's topic, `__transaction_state`: transactional ids as records, and loading them back.

Keys and values are those of Kafka's schemas behind two bytes: the type of the record before the key, the version
before the value. Source: Kafka's TransactionLog and TransactionStateManager.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.codec import decode, encode
from kwire.error_codes import ErrorCode
from kwire.records import Record, write_batch
from kwire.records.coordinator.transaction_log import PartitionsSchema, TransactionLogKey, TransactionLogValue
from mockbroker.coordinators.loading import Loading
from mockbroker.coordinators.markers import Markers
from mockbroker.kafka_error import KafkaError
from mockbroker.state.log import Origin, PartitionLog
from mockbroker.state.logs import min_in_sync
from mockbroker.state.topics import INTERNAL_TOPICS, CoordinatorKind
from mockbroker.state.transaction import Place, State, Transaction
from mockbroker.state.transactions import Transactions

if TYPE_CHECKING:
    from mockbroker.context import ClusterState
    from mockbroker.node import Node

_TOPIC_NAME = INTERNAL_TOPICS[CoordinatorKind.TRANSACTION].name
_PREFIX_SIZE = 2
#: Value version 1 came with level 1 of transaction.version.
_FLEXIBLE_SINCE = 1
#: The numbers of the states in records.
_NUMBERS = {
    State.EMPTY: 0,
    State.ONGOING: 1,
    State.PREPARE_COMMIT: 2,
    State.PREPARE_ABORT: 3,
    State.COMPLETE_COMMIT: 4,
    State.COMPLETE_ABORT: 5,
}
_STATES = {number: state for state, number in _NUMBERS.items()}


class TransactionLog:
    """One node's way to the partitions of the topic that it leads; what they hold is its coordinator's."""

    def __init__(self, cluster: ClusterState, node: Node) -> None:
        self._cluster = cluster
        self._node = node
        self._loaded: dict[int, int] = {}
        self._loading_epochs: dict[int, int] = {}
        self.loading = Loading(cluster.calls, node.node_id)
        markers = Markers(cluster.calls, cluster.metadata)
        self.coordinator = Transactions(
            node.producer_ids,
            cluster.config,
            coordinator_epoch=self._coordinator_epoch,
            transaction_version=self._version,
            send=lambda ending, places, now_ms: markers.send(self.coordinator, ending, places, now_ms),
            record=self._record,
        )

    def _version(self) -> int:
        """The level of transaction.version, which may change at any time (UpdateFeatures)."""
        return self._cluster.features.get("transaction.version", 0)

    def take_over(self, *, now_ms: int) -> None:
        """After an election: load what this node leads now, and forget what it leads no more.

        What was about to end goes on: its markers are sent again, under the new coordinator's epoch.
        """
        topic = self._cluster.metadata.topic(_TOPIC_NAME)
        led = {p.index: p.leader_epoch for p in topic.partitions if p.leader == self._node.node_id} if topic else {}
        stale = {shard for shard, epoch in self._loaded.items() if led.get(shard) != epoch}
        self.coordinator.unload(lambda name: self._shard(name) in stale)
        for shard in stale:
            del self._loaded[shard]
        for shard in [shard for shard, epoch in self._loading_epochs.items() if led.get(shard) != epoch]:
            self.loading.give_up(shard)
            del self._loading_epochs[shard]
        for shard, epoch in led.items():
            if shard not in self._loaded and shard not in self._loading_epochs:
                self._begin(shard, epoch, now_ms)

    def _begin(self, shard: int, epoch: int, now_ms: int) -> None:
        """Begin to load a partition; one that nothing was written to yet is there at once."""
        if not self._log(shard).end_offset:
            self._loaded[shard] = epoch
            return
        self._loading_epochs[shard] = epoch

        def load(at_ms: int) -> None:
            self._loaded[shard] = self._loading_epochs.pop(shard)
            self.coordinator.load(_transactions(self._log(shard)), now_ms=at_ms)

        self.loading.begin(shard, load, now_ms=now_ms)

    def close(self) -> None:
        """The broker has ended: what comes back of its markers finds nothing to complete."""
        self.loading.close()
        self.coordinator.unload(lambda name: True)

    def _shard(self, transactional_id: str) -> int:
        return self._cluster.metadata.coordinator_partition(CoordinatorKind.TRANSACTION, transactional_id)

    def _coordinator_epoch(self, transactional_id: str) -> int | None:
        """The epoch in which this node coordinates an id; None for another's.

        Raises: COORDINATOR_LOAD_IN_PROGRESS.
        """
        metadata = self._cluster.metadata
        partition = metadata.coordinator(CoordinatorKind.TRANSACTION, transactional_id)
        if partition.leader != self._node.node_id:
            return None
        self.loading.must_be_over(partition.index)
        if partition.index not in self._loaded and not self._log(partition.index).end_offset:
            self._loaded[partition.index] = partition.leader_epoch
        return self._loaded.get(partition.index)

    def _must_be_in_sync(self, transactional_id: str) -> None:
        partition = self._cluster.metadata.coordinator(CoordinatorKind.TRANSACTION, transactional_id)
        least = min_in_sync(self._cluster.configs.topic(_TOPIC_NAME), len(partition.replicas))
        if len(partition.isr) < least:
            text = f"{len(partition.isr)} replica(s) in sync, not {least}"
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, text)

    def _log(self, shard: int) -> PartitionLog:
        topic = self._cluster.metadata.internal_topic(CoordinatorKind.TRANSACTION)
        return self._node.logs.get(topic.topic_id, shard)

    def _record(self, transaction: Transaction, now_ms: int) -> None:
        """Append a transactional id as it is now; one that is dead has no value.

        Raises: COORDINATOR_NOT_AVAILABLE while too few replicas are in sync, as Kafka makes of NOT_ENOUGH_REPLICAS.
        """
        self._must_be_in_sync(transaction.transactional_id)
        version = 1 if self._version() >= _FLEXIBLE_SINCE else 0
        key = TransactionLogKey(transaction.transactional_id)
        dead = transaction.state is State.DEAD
        value = None if dead else _prefixed(version, encode(_value(transaction, version), version))
        record = Record(0, now_ms, _prefixed(TransactionLogKey.API_KEY, encode(key, 0)), value)
        log = self._log(self._shard(transaction.transactional_id))
        log.append(write_batch([record]), now_ms=now_ms, origin=Origin.COORDINATOR)


def _value(transaction: Transaction, version: int) -> TransactionLogValue:
    indexes: dict[str, list[int]] = {}
    for place in sorted(transaction.partitions):
        indexes.setdefault(place.topic, []).append(place.partition_index)
    rows = [PartitionsSchema(name, tuple(partitions)) for name, partitions in indexes.items()]
    value = TransactionLogValue(
        producer_id=transaction.producer_id,
        producer_epoch=transaction.epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=_NUMBERS[transaction.state],
        transaction_partitions=None if transaction.state is State.EMPTY else rows,
        transaction_last_update_timestamp_ms=transaction.updated_ms,
        transaction_start_timestamp_ms=transaction.started_ms,
    )
    if version >= 1:
        value.previous_producer_id = transaction.previous_producer_id
        value.next_producer_id = transaction.next_producer_id
        value.client_transaction_version = transaction.version
    return value


def _transactions(log: PartitionLog) -> list[Transaction]:
    """The last word about every transactional id of a log."""
    found: dict[str, Transaction] = {}
    for batch in log.below(log.end_offset):
        for record in batch.records():
            assert record.key is not None
            name = decode(TransactionLogKey, 0, record.key[_PREFIX_SIZE:]).transactional_id
            if record.value is None:
                found.pop(name, None)
            else:
                version = int.from_bytes(record.value[:_PREFIX_SIZE], "big")
                found[name] = _restored(name, decode(TransactionLogValue, version, record.value[_PREFIX_SIZE:]))
    return list(found.values())


def _restored(name: str, value: TransactionLogValue) -> Transaction:
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
            Place(row.topic, index) for row in value.transaction_partitions or () for index in row.partition_ids
        },
        started_ms=value.transaction_start_timestamp_ms,
        updated_ms=value.transaction_last_update_timestamp_ms,
        version=value.client_transaction_version,
    )


def _prefixed(number: int, body: bytes) -> bytes:
    return number.to_bytes(_PREFIX_SIZE, "big") + body
