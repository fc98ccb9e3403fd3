"""A simulated transactional producer, whose transactions are read as a whole or not at all, with their offsets."""

from __future__ import annotations

from collections import Counter
from random import Random

import msgspec

from kwire.messages import add_partitions_to_txn as add_partitions
from kwire.messages import txn_offset_commit as offsets
from kwire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from kwire.messages.end_txn import EndTxnRequest, EndTxnResponse
from kwire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kwire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from kwire.records import Record, write_batch
from mockbroker.sim.disk.retrying_client import RetryingClient
from mockbroker.sim.disk.sequence_writer import RETRIABLE
from mockbroker.sim.simulated_cluster import SimulatedCluster
from mockbroker.sim.violation import Violation
from mockbroker.state.metadata.topics import CoordinatorKind, Topic

TOPIC, GROUP = "transactions", "offsets-of-transactions-on-disk"
_ID = "on-disk"
_TIMEOUT_MS = 60_000
_PARTITIONS = (0, 1)


class _Transaction(msgspec.Struct):
    """number: also the value of its records, and the offset that it commits. end: requested, commit or abort."""

    number: int
    sent_counts: Counter[int] = msgspec.field(default_factory=Counter)
    are_partitions_added: bool = False
    is_group_added: bool = False
    has_offsets: bool = False
    is_doubtful: bool = False
    commits: bool | None = None


class TransactionWriter(RetryingClient):
    """Sends each request of a transaction again until its outcome is known.

    A transaction that was ended for the client, by its timeout, is of unknown outcome: complete, or not there.
    """

    name = "the writer of transactions"

    def __init__(self, cluster: SimulatedCluster, rng: Random) -> None:
        super().__init__(cluster, rng)
        self._producer_id = self._epoch = -1
        self._sequences: Counter[int] = Counter()
        self._transaction: _Transaction | None = None
        self._number = 0
        self._ended: list[_Transaction] = []
        self._unknown: list[_Transaction] = []
        self._batch: tuple[int, bytes] | None = None

    def step(self) -> str:
        """The next request of the protocol, or the last one again."""
        if self._producer_id < 0:
            request = InitProducerIdRequest(_ID, _TIMEOUT_MS)
            self._send(self._coordinator(), request, 4, self._on_initialized)
            return "requests an id"
        if self._transaction is None:
            self._number += 1
            self._transaction = _Transaction(self._number)
        transaction = self._transaction
        if transaction.commits is not None:
            return self._end(transaction)
        if not transaction.are_partitions_added:
            return self._add_partitions(transaction)
        if self._batch is not None or self._rng.random() < 0.6:
            return self._produce(transaction)
        if not transaction.has_offsets and self._rng.random() < 0.7:
            return self._commit_offsets(transaction)
        transaction.commits = self._rng.random() < 0.6
        return self._end(transaction)

    def _coordinator(self) -> int:
        return self._cluster.coordinator(CoordinatorKind.TRANSACTION, _ID)

    def _topic(self) -> Topic:
        topic = self._cluster.core.state.metadata.topic(TOPIC)
        if topic is None:
            raise Violation(f"{TOPIC} does not exist any more")
        return topic

    def _on_initialized(self, response: InitProducerIdResponse) -> None:
        if not response.error_code:
            self._producer_id, self._epoch = response.producer_id, response.producer_epoch
            self._sequences.clear()

    def _must_retry(self, code: int) -> bool:
        """Return whether a request failed. If it is of no use to repeat it, the transaction is given up."""
        if code and code not in RETRIABLE:
            if self._transaction is not None:
                self._unknown.append(self._transaction)
            self._transaction, self._batch, self._producer_id = None, None, -1
        return bool(code)

    def _add_partitions(self, transaction: _Transaction) -> str:
        def added(response: add_partitions.AddPartitionsToTxnResponse) -> None:
            rows = response.results_by_topic_v3_and_below[0].results_by_partition
            codes = [row.partition_error_code for row in rows if row.partition_error_code]
            transaction.are_partitions_added = not self._must_retry(codes[0] if codes else 0)

        request = add_partitions.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=_ID,
            v3_and_below_producer_id=self._producer_id,
            v3_and_below_producer_epoch=self._epoch,
            v3_and_below_topics=[add_partitions.AddPartitionsToTxnTopic(TOPIC, _PARTITIONS)],
        )
        self._send(self._coordinator(), request, 3, added)
        return f"begins transaction {transaction.number}"

    def _produce(self, transaction: _Transaction) -> str:
        if self._batch is None:
            partition = self._rng.choice(_PARTITIONS)
            records = [Record(0, self._cluster.now_ms, None, b"%d" % transaction.number)]
            data = write_batch(
                records,
                producer_id=self._producer_id,
                producer_epoch=self._epoch,
                base_sequence=self._sequences[partition],
                transactional=True,
            )
            self._batch = partition, data
        partition, batch = self._batch

        def produced(response: ProduceResponse) -> None:
            row = response.responses[0].partition_responses[0]
            if self._must_retry(row.error_code):
                return
            self._cluster.records.record_acknowledged(self._topic(), partition, row.base_offset, batch)
            self._sequences[partition] += 1
            transaction.sent_counts[partition] += 1
            self._batch = None

        rows = TopicProduceData(TOPIC, bytes(16), [PartitionProduceData(partition, batch)])
        request = ProduceRequest(_ID, acks=-1, timeout_ms=1_000, topic_data=[rows])
        self._send(self._cluster.leader((self._topic().topic_id, partition)), request, 9, produced)
        return f"produces to partition {partition}"

    def _commit_offsets(self, transaction: _Transaction) -> str:
        if not transaction.is_group_added:

            def added(response: AddOffsetsToTxnResponse) -> None:
                transaction.is_group_added = not self._must_retry(response.error_code)

            added_group = AddOffsetsToTxnRequest(_ID, self._producer_id, self._epoch, GROUP)
            self._send(self._coordinator(), added_group, 3, added)
            return "adds its group"

        def committed(response: offsets.TxnOffsetCommitResponse) -> None:
            transaction.has_offsets = not self._must_retry(response.topics[0].partitions[0].error_code)
            self._count("offsets in a transaction", int(transaction.has_offsets))

        row = offsets.TxnOffsetCommitRequestPartition(0, transaction.number)
        topics = [offsets.TxnOffsetCommitRequestTopic(TOPIC, partitions=[row])]
        request = offsets.TxnOffsetCommitRequest(_ID, GROUP, self._producer_id, self._epoch, topics=topics)
        transaction.is_doubtful = True
        self._send(self._cluster.coordinator(CoordinatorKind.GROUP, GROUP), request, 3, committed)
        return "commits offsets"

    def _end(self, transaction: _Transaction) -> str:
        commits = bool(transaction.commits)

        def ended(response: EndTxnResponse) -> None:
            if not self._must_retry(response.error_code):
                self._count("transaction promised")
                self._ended.append(transaction)
                self._transaction = None

        request = EndTxnRequest(_ID, self._producer_id, self._epoch, commits)
        self._send(self._coordinator(), request, 3, ended)
        return f"{'commits' if commits else 'aborts'} transaction {transaction.number}"

    def check(self) -> None:
        """Compare what is read with read_committed with the ends of the transactions. Raises: Violation."""
        visible = [self._count_visible(partition) for partition in _PARTITIONS]
        for transaction in self._ended:
            for partition, counts in enumerate(visible):
                wanted = transaction.sent_counts[partition] if transaction.commits else 0
                self._compare(transaction, partition, counts[transaction.number], wanted)
        for transaction in self._unknown:
            is_there = any(counts[transaction.number] for counts in visible)
            for partition, counts in enumerate(visible):
                # A batch whose acknowledgement was lost may be there too, and is not of a committed transaction then.
                wanted = transaction.sent_counts[partition] if is_there else 0
                if transaction.commits is None:
                    wanted = 0
                self._compare(transaction, partition, counts[transaction.number], wanted)

    def _compare(self, transaction: _Transaction, partition: int, count: int, wanted: int) -> None:
        if count != wanted:
            end = {True: "committed", False: "aborted", None: "never ended"}[transaction.commits]
            raise Violation(
                f"{TOPIC}-{partition}: of transaction {transaction.number}, which was {end}, {count} records are read "
                f"with read_committed, not {wanted}"
            )

    def _count_visible(self, partition: int) -> Counter[int]:
        """The records by transaction that a consumer with read_committed gets."""
        log = self._cluster.find_any_log((self._topic().topic_id, partition))
        assert log is not None
        if log.last_stable_offset < log.end_offset:
            raise Violation(f"{TOPIC}-{partition}: a transaction is open from {log.last_stable_offset} on")
        aborted = log.aborted_transactions(0, log.end_offset)
        counts: Counter[int] = Counter()
        for batch in log.batches_below(log.end_offset):
            header = batch.header()
            is_aborted = any(
                one.producer_id == header.producer_id and one.first_offset <= batch.base_offset <= one.last_offset
                for one in aborted
            )
            if not header.is_control and not is_aborted:
                counts.update(int(record.value or b"") for record in batch.records())
        return counts

    def offset_bounds(self) -> tuple[int, int]:
        """The lowest and the highest offset that its group can have committed."""
        visible = self._count_visible(0) + self._count_visible(1)
        certain = [one.number for one in self._ended if one.commits and one.has_offsets]
        possible = [one.number for one in (*self._ended, *self._unknown) if one.commits and one.is_doubtful]
        del visible
        return max(certain, default=-1), max((*possible, *certain), default=-1)
