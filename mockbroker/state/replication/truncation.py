"""Where a follower cuts its log when it has diverged from its leader's (KIP-101, KIP-279, KIP-595)."""

from __future__ import annotations

from collections.abc import Callable

#: The largest epoch of the follower's log up to an epoch, and its end offset; None for one that it does not know.
FindEpochEnd = Callable[[int], tuple[int, int] | None]


def find_truncation_offset(
    diverging_epoch: int, diverging_end_offset: int, find_epoch_end: FindEpochEnd, end_offset: int
) -> int:
    """The offset up to which both logs are the same for certain; after that the follower asks again.

    diverging_epoch, diverging_end_offset: the leader's answer, the largest epoch that it has up to the one that the
    follower fetched last, and where it ends. end_offset: of the follower's log. An epoch that the follower lacks gives
    the end of the one before it. Source: Kafka's AbstractFetcherThread.getOffsetTruncationState.
    """
    own = find_epoch_end(diverging_epoch)
    if own is None:
        return min(diverging_end_offset, end_offset)
    own_epoch, own_end = own
    if own_epoch != diverging_epoch:
        return min(own_end, end_offset)
    return min(own_end, diverging_end_offset, end_offset)
