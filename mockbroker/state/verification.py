"""Transactional batches that wait for the coordinator's word before they are written (KIP-890).

While the question is under way the transaction may end, and the answer with it: a guard that no longer stands tells.
Source: Kafka's VerificationStateEntry and UnifiedLog.analyzeAndValidateProducerState.
"""

from __future__ import annotations

from kwire.error_codes import ErrorCode
from kwire.records import Batch
from mockbroker.kafka_error import KafkaError


class UnverifiedError(KafkaError):
    """A batch may not be written for a reason that the client is told in words."""


class Guard:
    """A question about one producer. adds: it adds the partition to the transaction, not only asks for it."""

    __slots__ = ("adds", "epoch", "lowest_sequence")

    def __init__(self, epoch: int, lowest_sequence: int, *, adds: bool) -> None:
        self.epoch = epoch
        self.lowest_sequence = lowest_sequence
        self.adds = adds


#: For a batch whose transaction was open here when it came; it protects nothing once that has ended.
NO_GUARD = Guard(-1, -1, adds=False)


class Verifications:
    """The questions of one partition, at most one for each producer."""

    def __init__(self) -> None:
        self._guards: dict[int, Guard] = {}

    def begin(self, producer_id: int, epoch: int, sequence: int, *, adds: bool) -> Guard:
        """The guard for a batch that is about to be asked for; the lowest sequence that waits is remembered."""
        guard = self._guards.get(producer_id)
        if guard is None:
            guard = self._guards[producer_id] = Guard(epoch, sequence, adds=adds)
        elif epoch > guard.epoch:
            guard.epoch, guard.lowest_sequence = epoch, sequence
        elif epoch == guard.epoch:
            guard.lowest_sequence = min(guard.lowest_sequence, sequence)
        return guard

    def check(self, batch: Batch, guard: Guard) -> None:
        """Refuse a batch that begins a transaction without standing permission.

        Raises: INVALID_TXN_STATE.
        """
        if self._guards.get(batch.producer_id) is not guard:
            raise KafkaError(ErrorCode.INVALID_TXN_STATE, f"producer {batch.producer_id} has no open transaction here")

    def check_sequence(self, batch: Batch, *, is_first: bool) -> None:
        """Refuse a batch that would get in before one that waits, or that begins in the middle.

        A question that was answered with no stands, too, until a batch is written or a marker comes; Kafka 4.3.0 looks
        at its sequence whatever the batch belongs to (pinned by the conversation other-txn-produce).
        is_first: no batch of its producer is remembered.
        Raises: OUT_OF_ORDER_SEQUENCE_NUMBER.
        """
        guard = self._guards.get(batch.producer_id)
        if guard is None:
            return
        early = batch.base_sequence > guard.lowest_sequence
        if early or (guard.adds and is_first and batch.base_sequence != 0):
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {batch.producer_id} begins with sequence {batch.base_sequence}",
            )

    def written(self, producer_id: int) -> None:
        """A batch has begun the transaction: from now on the log itself knows that it is open."""
        self._guards.pop(producer_id, None)

    def ended(self, producer_id: int, epoch: int) -> None:
        """A marker has come. One that only now ends the transaction before leaves alone what waits in its epoch."""
        guard = self._guards.get(producer_id)
        if guard is not None and not (guard.adds and guard.epoch == epoch):
            del self._guards[producer_id]
