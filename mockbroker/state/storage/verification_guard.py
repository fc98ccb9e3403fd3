"""Verification guards: transactional batches that wait for the transaction coordinator before they are appended
(KIP-890).

The transaction may end while the verification is in progress, which makes its result invalid: then the guard is no
longer registered. Source: Kafka's VerificationStateEntry and UnifiedLog.analyzeAndValidateProducerState.
"""

from __future__ import annotations

from collections.abc import Callable

from kwire.error_codes import ErrorCode
from kwire.records import Batch
from mockbroker.kafka_error import KafkaError
from mockbroker.state.storage.append_origin import AppendOrigin
from mockbroker.state.storage.producers import ProducerStates, do_nothing
from mockbroker.state.timers import NEVER_MS


class UnverifiedError(KafkaError):
    """A batch is rejected with a message for the client."""


class VerificationGuard:
    """A verification in progress for one producer. adds: it adds the partition to the transaction.

    started_ms: when the first batch of its producer began to wait.
    """

    __slots__ = ("adds", "epoch", "lowest_sequence", "started_ms")

    def __init__(self, epoch: int, lowest_sequence: int, *, adds: bool, started_ms: int = 0) -> None:
        self.started_ms = started_ms
        self.epoch = epoch
        self.lowest_sequence = lowest_sequence
        self.adds = adds


#: For a batch whose transaction was already open here; it does not protect against the end of the transaction.
NO_GUARD = VerificationGuard(-1, -1, adds=False)


class VerificationGuards:
    """The verifications of one partition, at most one for each producer.

    oldest_ms: none began earlier; NEVER_MS without any. on_older: called when the first one begins.
    """

    def __init__(self) -> None:
        self.oldest_ms = NEVER_MS
        self.on_older: Callable[[], None] = do_nothing
        self._guards: dict[int, VerificationGuard] = {}

    def start(self, producer_id: int, epoch: int, sequence: int, *, adds: bool, now_ms: int) -> VerificationGuard:
        """The guard for a batch to verify; the lowest waiting sequence is stored."""
        guard = self._guards.get(producer_id)
        if guard is None:
            guard = self._guards[producer_id] = VerificationGuard(epoch, sequence, adds=adds, started_ms=now_ms)
            if now_ms < self.oldest_ms:
                self.oldest_ms = now_ms
                self.on_older()
        elif epoch > guard.epoch:
            guard.epoch, guard.lowest_sequence = epoch, sequence
        elif epoch == guard.epoch:
            guard.lowest_sequence = min(guard.lowest_sequence, sequence)
        return guard

    def remove_until(self, until_ms: int) -> None:
        """Forget the verifications that began at a time or before it: a failed one stays otherwise."""
        self._guards = {key: guard for key, guard in self._guards.items() if guard.started_ms > until_ms}
        self.oldest_ms = min((guard.started_ms for guard in self._guards.values()), default=NEVER_MS)

    def check_batch(
        self, batch: Batch, guard: VerificationGuard | None, origin: AppendOrigin, producers: ProducerStates
    ) -> None:
        """Check a batch of a producer before it is appended. guard: of a transactional one, None without verification.

        Raises: INVALID_TXN_STATE, OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_PRODUCER_EPOCH.
        """
        is_open = producers.has_open_transaction(batch.producer_id, batch.producer_epoch)
        if guard is not None and batch.is_transactional and not is_open:
            self.check_guard(batch, guard)
        if origin is AppendOrigin.CLIENT:
            self.check_sequence(batch, is_first=not producers.has_batches(batch.producer_id))

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
