"""A follower that has diverged ends up with a prefix of its leader's log, and keeps all that both have."""

from __future__ import annotations

from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from mockbroker.state.replication.truncation import find_truncation_offset
from mockbroker.state.storage.leader_epoch_cache import LeaderEpochCache

#: The epoch of each record of a log, in order: both begin with the same records.
COMMON = st.lists(st.integers(0, 3), max_size=8).map(sorted)
OWN = st.lists(st.integers(4, 9), max_size=8).map(sorted)


def cache_of(epochs: list[int]) -> LeaderEpochCache:
    cache = LeaderEpochCache()
    for offset, epoch in enumerate(epochs):
        cache.start_epoch(epoch, offset)
    return cache


def truncate(leader: list[int], follower: list[int]) -> list[int]:
    """Ask and cut until both logs are the same up to the follower's end, as its fetches do."""
    follower = list(follower)
    while follower:
        answer = cache_of(leader).end_offset_for(follower[-1], len(leader))
        if answer is None:
            # The leader knows no epoch as late as that: in a cluster it has a later one itself.
            raise AssertionError(f"{leader} does not know epoch {follower[-1]}")
        if answer[0] == follower[-1] and answer[1] >= len(follower):
            return follower
        own, end = cache_of(follower), len(follower)
        offset = find_truncation_offset(*answer, partial(own.end_offset_for, log_end=end), end)
        assert offset < len(follower) or answer[0] != follower[-1]
        follower = follower[: min(offset, len(follower))]
    return follower


@given(COMMON, OWN, OWN)
def test_what_remains_is_a_prefix_of_the_leaders_log(common: list[int], own: list[int], other: list[int]) -> None:
    # No epoch has two leaders: the leader's own records are of odd epochs, the follower's of even ones. The leader
    # begins an epoch of its own that is later than all.
    leader = common + [2 * epoch + 1 for epoch in own] + [99]
    follower = common + [2 * epoch for epoch in other]

    remaining = truncate(leader, follower)

    assert remaining == leader[: len(remaining)]
    assert len(remaining) >= len(common)


def test_a_follower_without_the_leaders_epoch_is_cut_at_the_end_of_an_earlier_one() -> None:
    follower = cache_of([1, 1, 3, 3])

    assert find_truncation_offset(2, 3, lambda epoch: follower.end_offset_for(epoch, 4), 4) == 2


def test_a_follower_without_epochs_is_cut_at_the_leaders_end() -> None:
    assert find_truncation_offset(2, 3, lambda epoch: None, 5) == 3
    assert find_truncation_offset(2, 9, lambda epoch: None, 5) == 5
