"""Verification guards: transactional batches that wait for the transaction coordinator before they are appended
(KIP-890).

The transaction may end while the verification is in progress, which makes its result invalid: then the guard is no
longer registered. Source: Kafka's VerificationStateEntry and UnifiedLog.analyzeAndValidateProducerState.
"""

from __future__ import annotations

from kwire.error_codes import ErrorCode
from kwire.records import Batch
from mockbroker.kafka_error import KafkaError


class UnverifiedError(KafkaError):
    """A batch is rejected with a message for the client."""


class VerificationGuard:
    """A verification in progress for one producer. adds: it adds the partition to the transaction."""

    __slots__ = ("adds", "epoch", "lowest_sequence")

    def __init__(self, epoch: int, lowest_sequence: int, *, adds: bool) -> None:
        self.epoch = epoch
        self.lowest_sequence = lowest_sequence
        self.adds = adds


#: For a batch whose transaction was already open here; it does not protect against the end of the transaction.
NO_GUARD = VerificationGuard(-1, -1, adds=False)


class VerificationGuards:
    """The verifications of one partition, at most one for each producer."""

    def __init__(self) -> None:
        self._guards: dict[int, VerificationGuard] = {}

    def start(self, producer_id: int, epoch: int, sequence: int, *, adds: bool) -> VerificationGuard:
        """The guard for a batch to verify; the lowest waiting sequence is stored."""
        guard = self._guards.get(producer_id)
        if guard is None:
            guard = self._guards[producer_id] = VerificationGuard(epoch, sequence, adds=adds)
        elif epoch > guard.epoch:
            guard.epoch, guard.lowest_sequence = epoch, sequence
        elif epoch == guard.epoch:
            guard.lowest_sequence = min(guard.lowest_sequence, sequence)
        return guard

    def check_guard(self, batch: Batch, guard: VerificationGuard) -> None:
        """Reject a batch that starts a transaction without a registered guard. Raises: INVALID_TXN_STATE."""
        if self._guards.get(batch.producer_id) is not guard:
            raise KafkaError(ErrorCode.INVALID_TXN_STATE, f"producer {batch.producer_id} has no open transaction here")

    def check_sequence(self, batch: Batch, *, is_first: bool) -> None:
        """Reject a batch with a sequence above a waiting one, or a first batch with a sequence above 0.

        A guard stays after a failed verification, until a batch or a marker is written; Kafka 4.3.0 checks the sequence
        of every batch (pinned by the conversation other-txn-produce).
        is_first: no batch of its producer is remembered.
        Raises: OUT_OF_ORDER_SEQUENCE_NUMBER.
        """
        guard = self._guards.get(batch.producer_id)
        if guard is None:
            return
        skips_waiting = batch.base_sequence > guard.lowest_sequence
        if skips_waiting or (guard.adds and is_first and batch.base_sequence != 0):
            message = f"producer {batch.producer_id} begins with sequence {batch.base_sequence}"
            raise KafkaError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, message)

    def on_batch_appended(self, producer_id: int) -> None:
        """A batch has started the transaction: from now on the producer state shows that it is open."""
        self._guards.pop(producer_id, None)

    def on_marker(self, producer_id: int, epoch: int) -> None:
        """A marker was written. One of the previous transaction does not remove a guard of its epoch."""
        guard = self._guards.get(producer_id)
        if guard is not None and not (guard.adds and guard.epoch == epoch):
            del self._guards[producer_id]
