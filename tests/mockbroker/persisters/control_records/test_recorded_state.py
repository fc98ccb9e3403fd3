"""Recorded state of a share partition, from its control records (revision r2 of KIP-932)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mockbroker.persisters.control_records.recorded_state import (
    CHECKPOINT_EPOCHS,
    RecordedState,
    ShareCheckpoint,
    ShareDelta,
    unrecorded_states,
)
from mockbroker.state.share.acquisition import Span, acquire_records
from mockbroker.state.share.in_flight_batch import RecordState
from mockbroker.state.share.share_partition import SharePartition
from mockbroker.state.share.state_batches import StateBatch

AVAILABLE, ACKNOWLEDGED, ARCHIVED = 0, 2, 4
SETTINGS = {
    "share.delivery.count.limit": 5,
    "share.record.lock.duration.ms": 30_000,
    "share.partition.max.record.locks": 2000,
    "share.renew.acknowledge.enable": True,
}

_batches = st.lists(
    st.tuples(st.integers(0, 40), st.integers(0, 6), st.sampled_from([0, 2, 4]), st.integers(0, 5)), max_size=4
).map(lambda rows: [StateBatch(first, first + size, state, count) for first, size, state, count in rows])


def _recorded_state(start: int = 0) -> RecordedState:
    recorded = RecordedState(lambda first, end: True)
    recorded.apply_checkpoint(0, recorded.initial_checkpoint(start))
    return recorded


def _contents(recorded: RecordedState) -> tuple[object, ...]:
    return (
        recorded.start,
        recorded.end,
        {offset: b.merge_rank for b in recorded.batches for offset in range(b.first, b.last + 1)},
    )


@given(st.lists(_batches, max_size=12), st.integers(0, 4))
def test_reading_the_records_restores_the_written_state(writes: list[list[StateBatch]], deltas_max: int) -> None:
    writer, reader = _recorded_state(), _recorded_state()
    for offset, batches in enumerate(writes, 1):
        fact: ShareCheckpoint | ShareDelta
        if writer.delta_count >= deltas_max:
            fact = writer.next_checkpoint(0, batches)
            writer.apply_checkpoint(offset, fact)
            reader.apply_checkpoint(offset, fact)
        else:
            fact = writer.next_delta(batches)
            assert writer.apply_delta(offset, fact)
            assert reader.apply_delta(offset, fact)

        assert _contents(reader) == _contents(writer)
        assert writer.delta_count <= deltas_max


@given(st.lists(_batches, max_size=6))
def test_a_checkpoint_contains_the_state_of_its_deltas(writes: list[list[StateBatch]]) -> None:
    by_deltas, by_checkpoints = _recorded_state(), _recorded_state()
    for offset, batches in enumerate(writes, 1):
        by_deltas.apply_delta(offset, by_deltas.next_delta(batches))
        by_checkpoints.apply_checkpoint(offset, by_checkpoints.next_checkpoint(0, batches))

    assert _contents(by_deltas) == _contents(by_checkpoints)


def test_a_delta_contains_only_new_states() -> None:
    recorded = _recorded_state()
    recorded.apply_delta(1, recorded.next_delta([StateBatch(0, 4, AVAILABLE, 0), StateBatch(5, 9, ACKNOWLEDGED, 1)]))

    delta = recorded.next_delta([StateBatch(0, 2, AVAILABLE, 0), StateBatch(3, 3, AVAILABLE, 1)])

    assert delta == ShareDelta(1, 1, (StateBatch(3, 3, AVAILABLE, 1),))


def test_a_record_that_is_no_part_of_the_chain_is_passed_over() -> None:
    recorded = _recorded_state()
    done = (StateBatch(0, 0, ACKNOWLEDGED, 1),)

    assert not recorded.apply_delta(5, ShareDelta(recorded.epoch + 1, 0, done))
    assert not recorded.apply_delta(5, ShareDelta(recorded.epoch, 4, done))
    assert recorded.apply_delta(5, ShareDelta(recorded.epoch, 0, done))
    assert (recorded.start, recorded.last_offset) == (1, 5)


def test_epochs_of_checkpoints_wrap() -> None:
    recorded = _recorded_state()
    recorded.epoch = CHECKPOINT_EPOCHS - 1

    assert recorded.initial_checkpoint(0).epoch == 0


def test_the_start_passes_offsets_that_no_reader_is_given_and_no_others() -> None:
    done = [StateBatch(0, 4, ACKNOWLEDGED, 1), StateBatch(6, 7, ARCHIVED, 1), StateBatch(8, 8, AVAILABLE, 1)]
    starts = []
    for is_there in (False, True):
        recorded = RecordedState(lambda first, end, is_there=is_there: is_there)  # type: ignore[misc]
        recorded.apply_checkpoint(0, recorded.initial_checkpoint(0))
        recorded.apply_delta(9, recorded.next_delta(done))
        starts.append(recorded.start)

    assert starts == [8, 5]


def test_what_is_acquired_is_recorded_as_available_with_the_count_before() -> None:
    partition = SharePartition(SETTINGS)
    partition.load_state(0, 0, [StateBatch(0, 2, AVAILABLE, 1)])
    acquire_records(partition, "m", [Span(0, 2), Span(3, 5)], now_ms=0)

    assert unrecorded_states(partition.window, 9) == [StateBatch(0, 2, AVAILABLE, 1), StateBatch(3, 5, AVAILABLE, 0)]
    assert unrecorded_states(partition.window, 2) == [StateBatch(0, 2, AVAILABLE, 1)]
    assert partition.window.record_state(0) is RecordState.ACQUIRED
