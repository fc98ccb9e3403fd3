"""Producer ids: blocks of fresh ones, and those that transactional ids hold.

Source: Kafka's ProducerIdManager and TransactionCoordinator.prepareInitProducerIdTransit.
"""

from __future__ import annotations

import msgspec

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError

#: How many ids a broker takes from the controller at once.
BLOCK_SIZE = 1000
#: Nodes have their blocks side by side, so that no two nodes ever give the same id.
_NODES_MAX = 1000
#: The last epoch that a producer may get; the one above it is kept for fencing.
_EPOCH_LAST = 32_766


class Transactional(msgspec.Struct):
    """Whom a transactional id belongs to now, and the epoch it had before."""

    producer_id: int
    epoch: int = -1
    last_epoch: int = -1
    previous_producer_id: int = -1
    timeout_ms: int = 0


class ProducerIds:
    """A node's producer ids, and the transactional ids that it coordinates."""

    def __init__(self, node_id: int) -> None:
        self._node = node_id % _NODES_MAX
        self._given = 0
        self._transactional: dict[str, Transactional] = {}

    def fresh(self) -> int:
        """An id that nobody in the cluster has had."""
        block, within = divmod(self._given, BLOCK_SIZE)
        self._given += 1
        return (block * _NODES_MAX + self._node) * BLOCK_SIZE + within

    def transactional(self, transactional_id: str) -> Transactional | None:
        """What is known of a transactional id."""
        return self._transactional.get(transactional_id)

    def begin(self, transactional_id: str, *, timeout_ms: int, expected: tuple[int, int] | None) -> tuple[int, int]:
        """The producer id and epoch for a producer that takes over a transactional id; those before it are fenced.

        expected: the id and epoch that the producer believes to have, when it recovers (KIP-360).
        Raises: PRODUCER_FENCED.
        """
        held = self._transactional.get(transactional_id)
        if held is None:
            held = self._transactional[transactional_id] = Transactional(self.fresh())
        elif expected is not None and not _is_holder(held, expected):
            raise KafkaError(
                ErrorCode.PRODUCER_FENCED,
                f"{transactional_id} belongs to producer {held.producer_id}, epoch {held.epoch}; {expected} was given",
            )
        held.timeout_ms = timeout_ms
        if held.epoch >= _EPOCH_LAST and (expected is None or expected[1] == held.epoch):
            held.previous_producer_id, held.producer_id = held.producer_id, self.fresh()
            held.epoch, held.last_epoch = 0, -1 if expected is None else held.epoch
        elif expected is None or held.epoch in (-1, expected[1]):
            held.last_epoch = -1 if expected is None else held.epoch
            held.epoch += 1
        elif expected[1] != held.last_epoch:
            # The epoch before the last means that the answer to the last bump was lost: it gets the same again.
            raise KafkaError(
                ErrorCode.PRODUCER_FENCED, f"epoch {expected[1]} of {transactional_id}, {held.epoch} is current"
            )
        return held.producer_id, held.epoch


def _is_holder(held: Transactional, expected: tuple[int, int]) -> bool:
    producer_id, epoch = expected
    return producer_id == held.producer_id or (producer_id == held.previous_producer_id and epoch >= _EPOCH_LAST)
