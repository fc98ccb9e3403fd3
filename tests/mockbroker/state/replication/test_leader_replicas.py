"""The ISR and the high watermark at the leader, compared with a model that looks at all fetches of the past."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from mockbroker.state.replication.leader_replicas import IsrChange, LagRules, LeaderReplicas

LEADER, LAG_MS = 0, 1_000
ALL = LagRules(LAG_MS, lambda node_id: True)
NONE = LagRules(LAG_MS, lambda node_id: False)
#: Steps of (milliseconds until the step, records appended, follower that fetches, how many records it lacks then).
STEPS = st.lists(st.tuples(st.integers(0, 900), st.integers(0, 3), st.integers(1, 2), st.integers(0, 4)), max_size=30)


def lead(isr: tuple[int, ...] = (0, 1, 2), *, end: int = 0, now_ms: int = 0) -> LeaderReplicas:
    """A partition of three nodes whose leader is node 0."""
    replicas = LeaderReplicas(LEADER)
    replicas.set_registration((0, 1, 2), isr)
    replicas.start_epoch(5, end_offset=end, now_ms=now_ms)
    return replicas


def fetch(replicas: LeaderReplicas, node_id: int, offset: int, *, end: int, now_ms: int) -> None:
    progress = replicas.followers[node_id]
    progress.record_fetch(offset, log_start_offset=0, leader_end_offset=end, now_ms=now_ms)


class FollowerHistory:
    """All fetches of one follower: time, offset, and the end of the leader's log."""

    def __init__(self) -> None:
        self.fetches: list[tuple[int, int, int]] = []

    def caught_up_ms(self) -> int:
        """The last time at which it fetched and the leader had nothing that this fetch or the next one left out."""
        latest_ms = 0
        for at, (time_ms, offset, end) in enumerate(self.fetches):
            following = self.fetches[at + 1][1] if at + 1 < len(self.fetches) else -1
            if offset >= end or following >= end:
                latest_ms = time_ms
        return latest_ms


def is_slow(history: FollowerHistory, end: int, now_ms: int) -> bool:
    offset = history.fetches[-1][1] if history.fetches else -1
    return offset != end and now_ms - history.caught_up_ms() > LAG_MS


@given(STEPS)
def test_the_isr_shrinks_by_the_followers_that_have_not_had_everything_for_too_long(
    steps: Sequence[tuple[int, int, int, int]],
) -> None:
    replicas, histories = lead(), {1: FollowerHistory(), 2: FollowerHistory()}
    now_ms = end = 0
    for wait_ms, appended, node_id, missing in steps:
        now_ms, end = now_ms + wait_ms, end + appended
        last = histories[node_id].fetches[-1][1] if histories[node_id].fetches else 0
        offset = max(last, end - missing)
        fetch(replicas, node_id, offset, end=end, now_ms=now_ms)
        histories[node_id].fetches.append((now_ms, offset, end))

    change = replicas.plan_shrinking(end, LAG_MS, now_ms=now_ms)

    slow = {node_id for node_id, history in histories.items() if is_slow(history, end, now_ms)}
    assert change == (IsrChange(5, (0, 1, 2), tuple(n for n in (0, 1, 2) if n not in slow)) if slow else None)


@given(STEPS, st.sampled_from([(0,), (0, 1), (0, 1, 2)]))
def test_the_high_watermark_is_the_smallest_end_of_the_isr_and_of_those_that_may_join_it(
    steps: Sequence[tuple[int, int, int, int]], isr: tuple[int, ...]
) -> None:
    replicas, ends = lead(isr), {1: -1, 2: -1}
    now_ms = end = 0
    for wait_ms, appended, node_id, missing in steps:
        now_ms, end = now_ms + wait_ms, end + appended
        ends[node_id] = max(ends[node_id], end - missing)
        fetch(replicas, node_id, ends[node_id], end=end, now_ms=now_ms)

    without = replicas.find_high_watermark(end, 1, NONE, now_ms=now_ms)
    with_joining = replicas.find_high_watermark(end, 1, ALL, now_ms=now_ms)

    assert without == min([end, *(ends[node_id] for node_id in isr if node_id != LEADER)])
    assert with_joining is not None
    assert without is not None
    assert with_joining <= without


def test_the_high_watermark_does_not_move_with_too_few_replicas_in_sync() -> None:
    replicas = lead((0,))

    assert replicas.find_high_watermark(4, 2, NONE, now_ms=0) is None
    assert replicas.find_high_watermark(4, 1, NONE, now_ms=0) == 4


def test_a_follower_joins_with_the_high_watermark_and_everything_of_earlier_epochs() -> None:
    replicas = lead((0,), end=7)

    fetch(replicas, 1, 6, end=9, now_ms=10)
    too_early = replicas.plan_expansion(1, 4, ALL.is_eligible)
    fetch(replicas, 1, 7, end=9, now_ms=20)
    below = replicas.plan_expansion(1, 8, ALL.is_eligible)
    fenced = replicas.plan_expansion(1, 4, NONE.is_eligible)
    change = replicas.plan_expansion(1, 4, ALL.is_eligible)

    assert [too_early, below, fenced] == [None, None, None]
    assert change == IsrChange(5, (0,), (0, 1))


def test_a_replica_that_is_about_to_join_already_holds_the_high_watermark() -> None:
    replicas = lead((0,))
    fetch(replicas, 1, 3, end=3, now_ms=0)
    change = replicas.plan_expansion(1, 3, ALL.is_eligible)
    assert change is not None

    held = replicas.find_high_watermark(9, 1, NONE, now_ms=0)
    replicas.abandon(change)
    refused = replicas.find_high_watermark(9, 1, NONE, now_ms=0)

    assert (held, refused) == (3, 9)


def test_a_replica_that_is_about_to_leave_still_holds_the_high_watermark() -> None:
    replicas = lead()
    fetch(replicas, 1, 3, end=9, now_ms=0)
    fetch(replicas, 2, 9, end=9, now_ms=0)
    change = replicas.plan_shrinking(9, LAG_MS, now_ms=LAG_MS + 1)
    assert change == IsrChange(5, (0, 1, 2), (0, 2))

    pending = replicas.find_high_watermark(9, 1, NONE, now_ms=LAG_MS + 1)
    replicas.set_registration((0, 1, 2), (0, 2))
    confirmed = replicas.find_high_watermark(9, 1, NONE, now_ms=LAG_MS + 1)

    assert (pending, confirmed) == (3, 9)


def test_one_change_is_requested_at_a_time() -> None:
    replicas = lead((0,))
    fetch(replicas, 1, 0, end=0, now_ms=0)
    fetch(replicas, 2, 0, end=0, now_ms=0)

    first = replicas.plan_expansion(1, 0, ALL.is_eligible)

    assert first is not None
    assert replicas.plan_expansion(2, 0, ALL.is_eligible) is None
    assert replicas.plan_shrinking(5, LAG_MS, now_ms=99_999) is None


def test_a_new_leader_gives_followers_in_sync_all_the_time_and_others_none() -> None:
    replicas = lead((0, 1), end=4, now_ms=50_000)
    first, second = replicas.followers[1], replicas.followers[2]

    assert first.is_caught_up(4, now_ms=50_000 + LAG_MS, lag_max_ms=LAG_MS)
    assert not first.is_caught_up(4, now_ms=50_001 + LAG_MS, lag_max_ms=LAG_MS)
    assert not second.is_caught_up(4, now_ms=50_000, lag_max_ms=LAG_MS)


def test_a_leader_of_several_epochs_knows_the_ends_of_its_followers_still() -> None:
    replicas = lead()
    fetch(replicas, 1, 3, end=3, now_ms=10)

    replicas.start_epoch(6, end_offset=3, now_ms=20)

    assert replicas.followers[1].end_offset == 3
    assert replicas.followers[2].end_offset == -1
