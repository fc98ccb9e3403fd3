"""Delivery throttling near the delivery limit: smaller batches, then single records (share-semantics 1.5)."""

from __future__ import annotations

from mockbroker.state.share.in_flight_batch import InFlightBatch


def throttle_threshold(delivery_limit: int) -> int:
    """The delivery count from which a batch is no longer delivered whole: half the limit, at least 2."""
    return max(2, (delivery_limit + 1) // 2)


def needs_throttling(batch: InFlightBatch, first: int, last: int, delivery_limit: int) -> bool:
    """Whether an acquirable record between the two offsets has been delivered that often."""
    limit = throttle_threshold(delivery_limit)
    whole = batch.batch_state
    if whole is not None:
        return whole.is_acquirable and whole.delivery_count >= limit
    states = batch.states_between(first, last)
    return any(state.is_acquirable and state.delivery_count >= limit for _, state in states)


def record_cap(batch_size: int, delivery_count: int, delivery_limit: int) -> int:
    """How many records of a batch may be acquired when the first of them has this count: halved with each delivery.

    Args: batch_size: all offsets of the in-flight batch, those that cannot be acquired included.
    """
    return max(1, batch_size >> (delivery_count - throttle_threshold(delivery_limit) + 1))


def is_last_attempt(delivery_count: int, delivery_limit: int) -> bool:
    """Whether the next delivery is the last, and must contain this record alone. A limit of 2 excludes that."""
    return delivery_limit > 2 and delivery_count == delivery_limit - 1
