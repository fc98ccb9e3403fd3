"""What the simulator accepts of the changes of one share partition."""

from __future__ import annotations

import pytest

from mockbroker.sim.coverage import Coverage
from mockbroker.sim.dead_letters import DeadLetterChecker
from mockbroker.sim.delivery_model import DeliveryModel
from mockbroker.sim.logs.log_contents import LogContents
from mockbroker.sim.partition_checker import CheckContext, PartitionChecker
from mockbroker.sim.simulated_cluster import SimulatedCluster
from mockbroker.sim.violation import Violation
from mockbroker.state.share.acquisition import acquire_records
from mockbroker.state.share.share_partition import SharePartition
from mockbroker.state.share_coordinator.share_coordinator import ShareKey
from tests.support.brokers.share_partitions import settings, spans

_LOCK_MS = 30_000


def _context(*, has_flipped_bits: bool) -> CheckContext:
    return CheckContext(0, 5, _LOCK_MS, log_start=0, has_flipped_bits=has_flipped_bits)


def _checked() -> tuple[SharePartition, DeliveryModel, PartitionChecker]:
    """A share partition that has been loaded over a log of ten records, and seen once."""
    model = DeliveryModel(ShareKey("g", bytes(16), 0), lambda: LogContents(present=set(range(10)), end=10))
    partition = SharePartition(settings())
    partition.load_state(0, 0, [])
    coverage = Coverage(on_disk=True)
    dead_letters = DeadLetterChecker(SimulatedCluster(1).core, {}, coverage.count)
    checker = PartitionChecker(partition, model, coverage, dead_letters)
    checker.check(_context(has_flipped_bits=False))
    return partition, model, checker


def test_a_leader_that_reads_a_damaged_base_offset_begins_after_the_records_before_it() -> None:
    """No checksum covers the base offset. Source: SharePartition.acquireNewBatchRecords."""
    partition, model, checker = _checked()
    acquire_records(partition, "m", spans("8-9"), now_ms=0, fetch_offset=0)
    checker.check(_context(has_flipped_bits=True))

    assert partition.start_offset == 8
    assert model.skipped_offsets == set(range(8))


def test_a_damaged_base_offset_can_be_far_behind_the_end_of_the_log() -> None:
    partition, model, checker = _checked()
    acquire_records(partition, "m", spans(f"{1 << 45}-{(1 << 45) + 1}"), now_ms=0, fetch_offset=0)
    checker.check(_context(has_flipped_bits=True))

    assert model.skipped_offsets == set(range(10))
    assert [model.is_skipped(offset) for offset in (9, 10, (1 << 45) - 1, 1 << 45)] == [True, True, True, False]


def test_a_start_that_passes_records_of_a_sound_log_is_a_violation() -> None:
    partition, _, checker = _checked()
    acquire_records(partition, "m", spans("8-9"), now_ms=0, fetch_offset=0)

    with pytest.raises(Violation, match="offset 0 was passed by the start"):
        checker.check(_context(has_flipped_bits=False))
