"""Writes that say only what moves: what is stored is what the leader knows, whatever happens in between."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from kwire.error_codes import ErrorCode
from mockbroker.editions.drafts import R4, RULES
from mockbroker.state.acknowledgement import AcknowledgementBatch, acknowledge
from mockbroker.state.acquisition import Span, acquire
from mockbroker.state.in_flight import State
from mockbroker.state.metadata import Metadata
from mockbroker.state.share_coordinator import ShareCoordinator, ShareKey, Written
from mockbroker.state.share_partition import PendingWrite, SharePartition
from mockbroker.state.state_batches import StateBatch
from tests.mockbroker.state.share_kit import settings
from tests.mockbroker.state.test_share_coordinator import CONFIG

LOCK_MS = 30_000
Known = tuple[State, int]


class Play:
    """A share partition and its coordinator; writes are under way until they are delivered, in order."""

    def __init__(self, *, start: int = 0) -> None:
        metadata = Metadata([0], CONFIG, random.Random(0))
        self.key = ShareKey("g", metadata.create_topic("t").topic_id, 0)
        self.coordinator = ShareCoordinator(metadata, CONFIG, rules=RULES[R4])
        self.coordinator.initialize(self.key, state_epoch=1, start_offset=start, now_ms=0)
        self.pending: list[PendingWrite] = []
        self.now_ms = self.end = 0
        self.partition = self.load()

    def load(self) -> SharePartition:
        """A leader that takes over."""
        stored = self.coordinator.read(self.key, leader_epoch=0, now_ms=0)
        partition = SharePartition(settings(), send=lambda write, _: self.pending.append(write), rules=RULES[R4])
        assert partition.load(max(stored.start_offset, 0), 1, stored.batches) is None
        return partition

    def fetch(self, member: str, count: int) -> None:
        """Acquire what is free, and a batch of new records behind it."""
        log = [Span(first, first + 2) for first in range(0, self.end, 3)]
        offset = self.partition.next_fetch_offset()
        if offset >= self.end:
            log.append(Span(self.end, self.end + 2))
            self.end += 3
        found = [span for span in log if span.last_offset >= offset]
        acquire(self.partition, member, found, now_ms=self.now_ms, fetch_offset=offset, max_records=count)

    def acknowledge(self, pick: int, skip: int, count: int, kind: int) -> None:
        """Let whoever holds some of a batch settle it, if anybody does."""
        homes = list(self.partition.window)
        if not homes:
            return
        home = homes[pick % len(homes)]
        first = max(home.first + skip % len(home), self.partition.start_offset)
        last = min(home.last, first + count - 1)
        if last < first:
            return
        member = home.entry(first).member_id
        settlement = acknowledge(
            self.partition, member, [AcknowledgementBatch(first, last, [kind])], now_ms=self.now_ms
        )
        if settlement.write is not None:
            self.pending.append(settlement.write)

    def deliver(self, error: ErrorCode | None = None) -> None:
        """Have what has been under way longest stored, or lost."""
        if self.pending:
            write = self.pending.pop(0)
            if error is None:
                written = Written(
                    write.state_epoch,
                    write.leader_epoch,
                    write.start_offset,
                    write.delivery_complete_count,
                    write.batches,
                )
                self.coordinator.write(self.key, written, now_ms=self.now_ms)
            self.partition.complete(write, error, now_ms=self.now_ms)

    def known(self, partition: SharePartition) -> list[Known]:
        """State and count of each record, as if the deliveries that are under way had not been made."""
        return [_known(partition, offset) for offset in range(self.end)]


def _known(partition: SharePartition, offset: int) -> Known:
    state = partition.state_of(offset)
    batch = partition.window.floor(offset)
    if state.is_terminal or batch is None or batch.last < offset:
        return (State.ARCHIVED if state.is_terminal else State.AVAILABLE), 0
    return State.AVAILABLE, batch.entry(offset).delivery_count - (state is State.ACQUIRED)


MEMBERS = st.sampled_from(["m1", "m2", "m3"])
STEPS = st.one_of(
    st.tuples(st.just("fetch"), MEMBERS, st.integers(1, 9)),
    st.tuples(
        st.just("acknowledge"), st.integers(0, 9), st.sampled_from([0, 0, 1, 2]), st.integers(1, 3), st.integers(1, 3)
    ),
    st.tuples(st.just("wait"), st.sampled_from([1_000, 15_000, LOCK_MS])),
    st.tuples(st.just("deliver")),
)


def _do(play: Play, step: tuple[object, ...], error: ErrorCode | None = None) -> None:
    match step:
        case ("fetch", str(member), int(count)):
            play.fetch(member, count)
        case ("acknowledge", int(pick), int(skip), int(count), int(kind)):
            play.acknowledge(pick, skip, count, kind)
        case ("wait", int(wait_ms)):
            play.now_ms += wait_ms
            play.partition.expire(now_ms=play.now_ms)
        case _:
            play.deliver(error)


@given(st.lists(STEPS, max_size=40))
def test_a_leader_that_takes_over_knows_what_the_one_before_it_knew(steps: list[tuple[object, ...]]) -> None:
    play = Play()
    for step in steps:
        _do(play, step)
    while play.pending:
        play.deliver()

    heir = play.load()
    assert heir.start_offset == play.partition.start_offset
    assert play.known(heir) == play.known(play.partition)


@given(st.lists(st.tuples(STEPS, st.booleans()), max_size=40))
def test_nothing_is_stored_as_done_that_is_not_done(steps: list[tuple[tuple[object, ...], bool]]) -> None:
    play = Play()
    for step, is_lost in steps:
        _do(play, step, ErrorCode.COORDINATOR_NOT_AVAILABLE if is_lost else None)
    while play.pending:
        play.deliver()

    done = [offset for offset in range(play.end) if play.load().state_of(offset).is_terminal]
    assert all(play.partition.state_of(offset).is_terminal for offset in done)
    assert play.load().start_offset <= play.partition.start_offset


def test_a_start_does_not_pass_records_whose_write_may_still_fail() -> None:
    play = Play()
    play.fetch("m1", 3)
    play.fetch("m2", 3)
    play.acknowledge(0, 0, 3, 1)
    play.acknowledge(1, 0, 3, 1)
    first, second = play.pending
    assert (first.start_offset, first.batches) == (3, [])
    assert (second.start_offset, [batch[:2] for batch in second.batches]) == (-1, [(3, 5)])
    play.deliver(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    play.deliver()

    heir = play.load()
    assert [heir.state_of(offset).is_terminal for offset in range(6)] == [False] * 3 + [True] * 3
    assert heir.start_offset == play.partition.start_offset == 0


def test_until_a_start_is_stored_every_write_names_it() -> None:
    play = Play(start=-1)
    lost = play.partition.prepare_start()
    play.fetch("m1", 3)
    play.acknowledge(0, 0, 1, 2)
    (first,) = play.pending
    assert (lost.start_offset, first.start_offset, [batch[:2] for batch in first.batches]) == (0, 0, [(0, 0)])
    play.partition.complete(lost, ErrorCode.COORDINATOR_NOT_AVAILABLE, now_ms=0)
    play.deliver()

    assert play.load().start_offset == 0
    play.acknowledge(0, 1, 1, 2)
    assert play.pending[0].start_offset == -1


def _loaded(*stored: StateBatch) -> SharePartition:
    """A leader that has loaded these states, and a member that has taken what is free of offsets 0 to 8."""
    partition = SharePartition(settings(), rules=RULES[R4])
    assert partition.load(0, 1, stored) is None
    for _ in range(2):
        acquire(partition, "m", [Span(0, 2), Span(3, 5), Span(6, 8)], now_ms=0)
    return partition


def _written(partition: SharePartition, first: int, last: int) -> tuple[int, list[StateBatch]]:
    settlement = acknowledge(partition, "m", [AcknowledgementBatch(first, last, [1])], now_ms=0)
    assert settlement.write is not None
    return settlement.write.start_offset, settlement.write.batches


def test_states_that_a_leader_has_loaded_are_not_written_again() -> None:
    partition = _loaded(StateBatch(0, 2, int(State.AVAILABLE), 1), StateBatch(3, 5, int(State.ACKNOWLEDGED), 1))

    assert _written(partition, 7, 7) == (-1, [StateBatch(6, 6, 0, 0), StateBatch(7, 7, 2, 1)])


def test_a_start_does_not_pass_a_hole_of_the_stored_states_that_nobody_has_read() -> None:
    partition = SharePartition(settings(), rules=RULES[R4])
    stored = [StateBatch(0, 2, int(State.AVAILABLE), 1), StateBatch(6, 8, int(State.ACKNOWLEDGED), 1)]
    assert partition.load(0, 1, stored) is None
    acquire(partition, "m", [Span(0, 2)], now_ms=0)

    assert _written(partition, 0, 2) == (-1, [StateBatch(0, 2, 2, 2)])
