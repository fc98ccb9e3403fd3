"""Writes that contain only changes: the stored state equals the leader's, whatever happens in between."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from kwire.error_codes import ErrorCode
from mockbroker.editions.drafts import R4, RULES
from mockbroker.state.metadata.cluster_image import ClusterImage
from mockbroker.state.share.acknowledgement import AcknowledgementBatch, acknowledge_records
from mockbroker.state.share.acquisition import Span, acquire_records
from mockbroker.state.share.in_flight_batch import RecordState
from mockbroker.state.share.pending_write import PendingWrite
from mockbroker.state.share.share_partition import SharePartition
from mockbroker.state.share.state_batches import StateBatch
from mockbroker.state.share_coordinator.share_coordinator import ShareCoordinator, ShareKey, StateWrite
from tests.mockbroker.state.share_coordinator.test_share_coordinator import CONFIG
from tests.support.brokers.share_partitions import settings

LOCK_MS = 30_000
Known = tuple[RecordState, int]


class Play:
    """A share partition and its coordinator; writes are under way until they are delivered, in order."""

    def __init__(self, *, start: int = 0) -> None:
        metadata = ClusterImage([0], CONFIG, random.Random(0))
        self.key = ShareKey("g", metadata.create_topic("t").topic_id, 0)
        self.coordinator = ShareCoordinator(metadata, CONFIG, rules=RULES[R4])
        self.coordinator.initialize_state(self.key, state_epoch=1, start_offset=start, now_ms=0)
        self.pending: list[PendingWrite] = []
        self.now_ms = self.end = 0
        self.partition = self.load()

    def load(self) -> SharePartition:
        """Load the state as a new leader does."""
        stored = self.coordinator.read_state(self.key, leader_epoch=0, now_ms=0)

        def send_write(_partition: SharePartition, write: PendingWrite, _now_ms: int) -> None:
            self.pending.append(write)

        partition = SharePartition(settings(), send_write=send_write, rules=RULES[R4])
        assert partition.load_state(max(stored.start_offset, 0), 1, stored.batches) is None
        return partition

    def fetch(self, member: str, count: int) -> None:
        """Acquire available records, and a batch of new ones behind them."""
        log = [Span(first, first + 2) for first in range(0, self.end, 3)]
        offset = self.partition.next_fetch_offset()
        if offset >= self.end:
            log.append(Span(self.end, self.end + 2))
            self.end += 3
        found = [span for span in log if span.last_offset >= offset]
        acquire_records(self.partition, member, found, now_ms=self.now_ms, fetch_offset=offset, max_records=count)

    def acknowledge(self, pick: int, skip: int, count: int, kind: int) -> None:
        """Acknowledge records of a batch by their holder, if there is one."""
        homes = list(self.partition.window)
        if not homes:
            return
        home = homes[pick % len(homes)]
        first = max(home.first + skip % len(home), self.partition.start_offset)
        last = min(home.last, first + count - 1)
        if last < first:
            return
        member, batch = home.state_at(first).member_id, AcknowledgementBatch(first, last, [kind])
        settlement = acknowledge_records(self.partition, member, [batch], now_ms=self.now_ms)
        if settlement.write is not None:
            self.pending.append(settlement.write)

    def complete_write(self, error: ErrorCode | None = None) -> None:
        """Complete or fail the oldest write under way."""
        if self.pending:
            write = self.pending.pop(0)
            if error is None:
                epochs, count = (write.state_epoch, write.leader_epoch), write.delivery_complete_count
                written = StateWrite(*epochs, write.start_offset, count, write.batches)
                self.coordinator.write_state(self.key, written, now_ms=self.now_ms)
            self.partition.complete_write(write, error, now_ms=self.now_ms)

    def known_states(self, partition: SharePartition) -> list[Known]:
        """State and count of each record, as if the deliveries that are under way had not been made."""
        return [_known_state(partition, offset) for offset in range(self.end)]


def _known_state(partition: SharePartition, offset: int) -> Known:
    state = partition.window.record_state(offset)
    batch = partition.window.floor(offset)
    if state.is_terminal or batch is None or batch.last < offset:
        return (RecordState.ARCHIVED if state.is_terminal else RecordState.AVAILABLE), 0
    return RecordState.AVAILABLE, batch.state_at(offset).delivery_count - (state is RecordState.ACQUIRED)


MEMBERS = st.sampled_from(["m1", "m2", "m3"])
STEPS = st.one_of(
    st.tuples(st.just("fetch"), MEMBERS, st.integers(1, 9)),
    st.tuples(st.just("acknowledge"), st.integers(0, 9), st.sampled_from([0, 0, 1, 2]), *([st.integers(1, 3)] * 2)),
    st.tuples(st.just("wait"), st.sampled_from([1_000, 15_000, LOCK_MS])),
    st.tuples(st.just("deliver")),
)


def _apply_step(play: Play, step: tuple[object, ...], error: ErrorCode | None = None) -> None:
    match step:
        case ("fetch", str(member), int(count)):
            play.fetch(member, count)
        case ("acknowledge", int(pick), int(skip), int(count), int(kind)):
            play.acknowledge(pick, skip, count, kind)
        case ("wait", int(wait_ms)):
            play.now_ms += wait_ms
            play.partition.expire(now_ms=play.now_ms)
        case _:
            play.complete_write(error)


@given(st.lists(STEPS, max_size=40))
def test_a_new_leader_loads_the_state_of_the_previous_one(steps: list[tuple[object, ...]]) -> None:
    play = Play()
    for step in steps:
        _apply_step(play, step)
    while play.pending:
        play.complete_write()

    heir = play.load()
    assert heir.start_offset == play.partition.start_offset
    assert play.known_states(heir) == play.known_states(play.partition)


@given(st.lists(st.tuples(STEPS, st.booleans()), max_size=40))
def test_nothing_is_stored_as_done_that_is_not_done(steps: list[tuple[tuple[object, ...], bool]]) -> None:
    play = Play()
    for step, is_lost in steps:
        _apply_step(play, step, ErrorCode.COORDINATOR_NOT_AVAILABLE if is_lost else None)
    while play.pending:
        play.complete_write()

    done = [offset for offset in range(play.end) if play.load().window.record_state(offset).is_terminal]
    assert all(play.partition.window.record_state(offset).is_terminal for offset in done)
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
    play.complete_write(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    play.complete_write()

    heir = play.load()
    assert [heir.window.record_state(offset).is_terminal for offset in range(6)] == [False] * 3 + [True] * 3
    assert heir.start_offset == play.partition.start_offset == 0


def test_until_a_start_is_stored_every_write_names_it() -> None:
    play = Play(start=-1)
    lost = play.partition.prepare_start_write()
    play.fetch("m1", 3)
    play.acknowledge(0, 0, 1, 2)
    (first,) = play.pending
    assert (lost.start_offset, first.start_offset, [batch[:2] for batch in first.batches]) == (0, 0, [(0, 0)])
    play.partition.complete_write(lost, ErrorCode.COORDINATOR_NOT_AVAILABLE, now_ms=0)
    play.complete_write()

    assert play.load().start_offset == 0
    play.acknowledge(0, 1, 1, 2)
    assert play.pending[0].start_offset == -1


def _load_partition(*stored: StateBatch) -> SharePartition:
    """A leader that has loaded these states, and a member that has acquired the available offsets from 0 to 8."""
    partition = SharePartition(settings(), rules=RULES[R4])
    assert partition.load_state(0, 1, stored) is None
    for _ in range(2):
        acquire_records(partition, "m", [Span(0, 2), Span(3, 5), Span(6, 8)], now_ms=0)
    return partition


def _release_and_write(partition: SharePartition, first: int, last: int) -> tuple[int, list[StateBatch]]:
    settlement = acknowledge_records(partition, "m", [AcknowledgementBatch(first, last, [1])], now_ms=0)
    assert settlement.write is not None
    return settlement.write.start_offset, settlement.write.batches


def test_states_that_a_leader_has_loaded_are_not_written_again() -> None:
    states = ((0, 2, RecordState.AVAILABLE), (3, 5, RecordState.ACKNOWLEDGED))
    partition = _load_partition(*(StateBatch(first, last, int(state), 1) for first, last, state in states))

    assert _release_and_write(partition, 7, 7) == (-1, [StateBatch(6, 6, 0, 0), StateBatch(7, 7, 2, 1)])


def test_a_start_does_not_pass_a_gap_of_the_stored_states_that_was_not_read() -> None:
    partition = SharePartition(settings(), rules=RULES[R4])
    stored = [StateBatch(0, 2, int(RecordState.AVAILABLE), 1), StateBatch(6, 8, int(RecordState.ACKNOWLEDGED), 1)]
    assert partition.load_state(0, 1, stored) is None
    acquire_records(partition, "m", [Span(0, 2)], now_ms=0)

    assert _release_and_write(partition, 0, 2) == (-1, [StateBatch(0, 2, 2, 2)])
