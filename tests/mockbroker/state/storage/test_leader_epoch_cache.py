"""The leader epochs of a log. Source: Kafka's LeaderEpochFileCache."""

from __future__ import annotations

from mockbroker.state.storage.leader_epoch_cache import LeaderEpochCache


def _cache(*starts: tuple[int, int]) -> LeaderEpochCache:
    cache = LeaderEpochCache()
    for leader_epoch, offset in starts:
        cache.start_epoch(leader_epoch, offset)
    return cache


def test_the_epoch_of_the_log_start_begins_there() -> None:
    """Pinned by the conversation other-epoch-end-after-deletion."""
    cache = _cache((0, 0), (2, 5), (3, 9))
    cache.truncate_from_start(7)

    assert cache.end_offset_for(0, log_end=12) == (0, 7)
    assert cache.end_offset_for(2, log_end=12) == (2, 9)


def test_an_epoch_that_begins_at_the_log_start_is_the_first() -> None:
    cache = _cache((0, 0), (2, 5))
    cache.truncate_from_start(5)

    assert cache.end_offset_for(1, log_end=8) == (1, 5)
    assert cache.epoch_for_offset(4) is None


def test_a_log_without_epochs_has_none_afterwards() -> None:
    cache = _cache()
    cache.truncate_from_start(3)

    assert cache.end_offset_for(0, log_end=3) is None
