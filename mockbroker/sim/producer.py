"""Simulated producer with idempotence and transactions, over the wire: one step of its protocol at a time."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import msgspec

from kwire.error_codes import ErrorCode
from kwire.messages import add_partitions_to_txn as add_partitions
from kwire.messages import txn_offset_commit
from kwire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from kwire.messages.end_txn import EndTxnRequest, EndTxnResponse
from kwire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kwire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from kwire.records import Record, write_batch
from mockbroker.sim.random_choice import perform_action
from mockbroker.sim.simulated_cluster import SimulatedCluster
from mockbroker.state.metadata.topics import CoordinatorKind, TopicPartitionKey

_GROUP = "offsets-of-transactions"
_TIMEOUT_MS = 12_000
_COUNTS = (1, 1, 2, 3, 6)


class Producer:
    """Holds its id, its epoch, and the sequence of each partition; after an error it starts again with a new epoch.

    transactional_id: None for a producer that is only idempotent.
    """

    def __init__(self, transactional_id: str | None, cluster: SimulatedCluster, rng: Random) -> None:
        self._transactional_id = transactional_id
        self._cluster = cluster
        self._count = cluster.coverage.count
        self._rng = rng
        self._producer_id = -1
        self._epoch = -1
        self._sequences: dict[TopicPartitionKey, int] = {}
        self._transaction_partitions: set[TopicPartitionKey] = set()
        self._pending_count = 0

    def act(self) -> str:
        """Perform the next possible step."""
        name = self._transactional_id or "the idempotent producer"
        if self._pending_count:
            if self._rng.random() < 0.02:
                self._reset()  # A timeout of the response.
            return f"{name} waits"
        if self._producer_id < 0:
            return f"{name} {self._initialize()}"
        actions: list[tuple[int, Callable[[], str]]] = [(5, self._produce)]
        if self._transactional_id is not None:
            actions += [(3, self._end_transaction), (2, self._commit_offsets)]
        return f"{name} {perform_action(self._rng, actions)}"

    def _initialize(self) -> str:
        def on_response(answer: InitProducerIdResponse) -> None:
            if not answer.error_code:
                self._producer_id, self._epoch = answer.producer_id, answer.producer_epoch
                self._count("producer initialized")

        request = InitProducerIdRequest(self._transactional_id, _TIMEOUT_MS if self._transactional_id else -1)
        return "requests an id" if self._send(self._coordinator(), request, 4, on_response) else "finds no coordinator"

    def _produce(self) -> str:
        # A partition that is in the transaction gets most of the records.
        existing = sorted(key for key in self._transaction_partitions if self._cluster.find_topic(key) is not None)
        if existing and self._rng.random() < 0.8:
            partition_key: TopicPartitionKey | None = self._rng.choice(existing)
        else:
            partition_key = self._cluster.choose_partition(self._rng)
        if partition_key is None:
            return "has nothing to produce"
        if self._transactional_id is not None and partition_key not in self._transaction_partitions:
            return self._add_to_transaction(partition_key)
        return self._produce_to(partition_key)

    def _produce_to(self, partition_key: TopicPartitionKey) -> str:
        topic = self._cluster.find_topic(partition_key)
        if topic is None:
            return "finds its topic deleted"
        count = self._rng.choice(_COUNTS)
        sequence = self._sequences.get(partition_key, 0)
        batch = write_batch(
            [Record(n, self._cluster.now_ms, self._cluster.choose_key(self._rng), b"value") for n in range(count)],
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            base_sequence=sequence,
            transactional=self._transactional_id is not None,
        )
        data = TopicProduceData(topic.name, bytes(16), [PartitionProduceData(partition_key[1], batch)])
        request = ProduceRequest(self._transactional_id, acks=-1, timeout_ms=1_000, topic_data=[data])

        def produced(answer: ProduceResponse) -> None:
            row = answer.responses[0].partition_responses[0]
            if row.error_code:
                self._reset()
                self._count("produce refused")
            else:
                if self._cluster.disk is not None:
                    self._cluster.records.record_acknowledged(topic, partition_key[1], row.base_offset, batch)
                self._cluster.record_produced(partition_key, row.base_offset + count)
                self._sequences[partition_key] = sequence + count
                self._count("produced in a transaction" if self._transactional_id else "produced in sequence")

        self._send(self._cluster.leader(partition_key), request, 9, produced)
        return f"produces {count} records to {topic.name}-{partition_key[1]}"

    def _add_to_transaction(self, partition_key: TopicPartitionKey) -> str:
        topic = self._cluster.find_topic(partition_key)
        assert topic is not None
        request = add_partitions.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._transactional_id or "",
            v3_and_below_producer_id=self._producer_id,
            v3_and_below_producer_epoch=self._epoch,
            v3_and_below_topics=[add_partitions.AddPartitionsToTxnTopic(topic.name, (partition_key[1],))],
        )

        def added(answer: add_partitions.AddPartitionsToTxnResponse) -> None:
            code = answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
            if not code:
                self._transaction_partitions.add(partition_key)
                self._produce_to(partition_key)
            elif code != ErrorCode.CONCURRENT_TRANSACTIONS:
                self._reset()

        self._send(self._coordinator(), request, 3, added)
        return f"adds {topic.name}-{partition_key[1]}"

    def _commit_offsets(self) -> str:
        """Commit offsets in the transaction: add them at its coordinator, then send them to that of the group."""
        assert self._transactional_id is not None
        transactional_id, partition_key = self._transactional_id, self._cluster.choose_partition(self._rng)
        topic = None if partition_key is None else self._cluster.find_topic(partition_key)
        if partition_key is None or topic is None:
            return "has no offsets"

        def committed(answer: txn_offset_commit.TxnOffsetCommitResponse) -> None:
            self._count("offsets in a transaction", int(not answer.topics[0].partitions[0].error_code))

        def added(answer: AddOffsetsToTxnResponse) -> None:
            if answer.error_code or not self._transaction_partitions:
                return
            row = txn_offset_commit.TxnOffsetCommitRequestPartition(partition_key[1], 5)
            topics = [txn_offset_commit.TxnOffsetCommitRequestTopic(topic.name, partitions=[row])]
            request = txn_offset_commit.TxnOffsetCommitRequest(
                transactional_id, _GROUP, self._producer_id, self._epoch, topics=topics
            )
            self._send(self._cluster.coordinator(CoordinatorKind.GROUP, _GROUP), request, 3, committed)

        request = AddOffsetsToTxnRequest(transactional_id, self._producer_id, self._epoch, _GROUP)
        self._send(self._coordinator(), request, 3, added)
        return "commits offsets"

    def _end_transaction(self) -> str:
        assert self._transactional_id is not None
        if not self._transaction_partitions:
            return "has no transaction to end"
        commit = self._rng.random() < 0.5

        def ended(answer: EndTxnResponse) -> None:
            if not answer.error_code:
                self._transaction_partitions.clear()
                self._count("transaction committed" if commit else "transaction aborted")
            elif answer.error_code != ErrorCode.CONCURRENT_TRANSACTIONS:
                self._reset()

        request = EndTxnRequest(self._transactional_id, self._producer_id, self._epoch, commit)
        self._send(self._coordinator(), request, 3, ended)
        return "commits" if commit else "aborts"

    def _reset(self) -> None:
        self._producer_id, self._pending_count = -1, 0
        self._sequences.clear()
        self._transaction_partitions.clear()

    def _coordinator(self) -> int:
        if self._transactional_id is None:
            return self._cluster.choose_node(self._rng)
        return self._cluster.coordinator(CoordinatorKind.TRANSACTION, self._transactional_id)

    def _send(self, node_id: int, request: msgspec.Struct, version: int, done: Callable[..., None]) -> bool:
        if not self._cluster.is_up(node_id):
            return False
        producer_id = self._producer_id
        self._pending_count += 1

        def on_response(answer: msgspec.Struct) -> None:
            if self._producer_id == producer_id and self._pending_count:
                self._pending_count -= 1
                done(answer)

        wire = self._cluster.wire
        wire.send_request(wire.connect(node_id, "producer", self._reset), request, version, on_response)
        return True
