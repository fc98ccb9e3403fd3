"""A share-partition as its control records tell of it (page 000 of KIP-932)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mockbroker.state.acquisition import Span, acquire
from mockbroker.state.in_flight import State
from mockbroker.state.share_chain import EPOCHS, Chain, Checkpoint, Delta, unrecorded
from mockbroker.state.share_partition import SharePartition
from mockbroker.state.state_batches import StateBatch

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


def _chain(start: int = 0) -> Chain:
    chain = Chain(lambda first, end: True)
    chain.take_checkpoint(0, chain.begin(start))
    return chain


def _seen(chain: Chain) -> tuple[object, ...]:
    return chain.start, chain.end, {offset: b.rank for b in chain.batches for offset in range(b.first, b.last + 1)}


@given(st.lists(_batches, max_size=12), st.integers(0, 4))
def test_whoever_reads_the_records_knows_what_the_writer_knew(writes: list[list[StateBatch]], deltas_max: int) -> None:
    writer, reader = _chain(), _chain()
    for offset, batches in enumerate(writes, 1):
        fact: Checkpoint | Delta
        if writer.deltas >= deltas_max:
            fact = writer.next_checkpoint(0, batches)
            writer.take_checkpoint(offset, fact)
            reader.take_checkpoint(offset, fact)
        else:
            fact = writer.next_delta(batches)
            assert writer.take_delta(offset, fact)
            assert reader.take_delta(offset, fact)

        assert _seen(reader) == _seen(writer)
        assert writer.deltas <= deltas_max


@given(st.lists(_batches, max_size=6))
def test_a_checkpoint_tells_as_much_as_its_deltas_did(writes: list[list[StateBatch]]) -> None:
    by_deltas, by_checkpoints = _chain(), _chain()
    for offset, batches in enumerate(writes, 1):
        by_deltas.take_delta(offset, by_deltas.next_delta(batches))
        by_checkpoints.take_checkpoint(offset, by_checkpoints.next_checkpoint(0, batches))

    assert _seen(by_deltas) == _seen(by_checkpoints)


def test_a_delta_tells_only_what_was_not_known() -> None:
    chain = _chain()
    chain.take_delta(1, chain.next_delta([StateBatch(0, 4, AVAILABLE, 0), StateBatch(5, 9, ACKNOWLEDGED, 1)]))

    delta = chain.next_delta([StateBatch(0, 2, AVAILABLE, 0), StateBatch(3, 3, AVAILABLE, 1)])

    assert delta == Delta(1, 1, (StateBatch(3, 3, AVAILABLE, 1),))


def test_a_record_that_is_no_part_of_the_chain_is_passed_over() -> None:
    chain = _chain()
    done = (StateBatch(0, 0, ACKNOWLEDGED, 1),)

    assert not chain.take_delta(5, Delta(chain.epoch + 1, 0, done))
    assert not chain.take_delta(5, Delta(chain.epoch, 4, done))
    assert chain.take_delta(5, Delta(chain.epoch, 0, done))
    assert (chain.start, chain.last_offset) == (1, 5)


def test_epochs_of_checkpoints_begin_again() -> None:
    chain = _chain()
    chain.epoch = EPOCHS - 1

    assert chain.begin(0).epoch == 0


def test_the_start_passes_offsets_that_no_reader_is_given_and_no_others() -> None:
    done = [StateBatch(0, 4, ACKNOWLEDGED, 1), StateBatch(6, 7, ARCHIVED, 1), StateBatch(8, 8, AVAILABLE, 1)]
    starts = []
    for is_there in (False, True):
        chain = Chain(lambda first, end, is_there=is_there: is_there)  # type: ignore[misc]
        chain.take_checkpoint(0, chain.begin(0))
        chain.take_delta(9, chain.next_delta(done))
        starts.append(chain.start)

    assert starts == [8, 5]


def test_what_is_acquired_is_recorded_as_available_with_the_count_before() -> None:
    partition = SharePartition(SETTINGS)
    partition.load(0, 0, [StateBatch(0, 2, AVAILABLE, 1)])
    acquire(partition, "m", [Span(0, 2), Span(3, 5)], now_ms=0)

    assert unrecorded(partition, 9) == [StateBatch(0, 2, AVAILABLE, 1), StateBatch(3, 5, AVAILABLE, 0)]
    assert unrecorded(partition, 2) == [StateBatch(0, 2, AVAILABLE, 1)]
    assert partition.state_of(0) is State.ACQUIRED
