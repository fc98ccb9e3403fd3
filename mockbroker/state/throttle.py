"""Careful delivery near the delivery limit: smaller batches, then records alone (share-semantics 1.5)."""

from __future__ import annotations

from mockbroker.state.in_flight import InFlightBatch


def threshold(delivery_limit: int) -> int:
    """From this delivery count on a batch is no longer delivered whole: half the limit, at least 2."""
    return max(2, (delivery_limit + 1) // 2)


def needs_throttling(batch: InFlightBatch, first: int, last: int, delivery_limit: int) -> bool:
    """Whether something that could be acquired between the two offsets has been delivered that often."""
    limit = threshold(delivery_limit)
    if batch.whole is not None:
        return batch.whole.is_free and batch.whole.delivery_count >= limit
    return any(entry.is_free and entry.delivery_count >= limit for _, entry in batch.within(first, last))


def record_cap(batch_size: int, delivery_count: int, delivery_limit: int) -> int:
    """How many records of a batch may be acquired when the first of them has this count: halved with each delivery.

    Args: batch_size: all offsets of the in-flight batch, those that cannot be acquired included.
    """
    return max(1, batch_size >> (delivery_count - threshold(delivery_limit) + 1))


def is_last_attempt(delivery_count: int, delivery_limit: int) -> bool:
    """Whether the next delivery is the last and must be made alone. A limit of 2 leaves no room for that."""
    return delivery_limit > 2 and delivery_count == delivery_limit - 1
