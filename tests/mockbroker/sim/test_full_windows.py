"""Which full windows stay for ever: those that begin with what compaction has removed."""

from __future__ import annotations

from contextlib import suppress

import pytest

from mockbroker.kafka_error import KafkaError
from mockbroker.sim.full_windows import is_full_for_ever
from mockbroker.state.share.acquisition import acquire_records
from mockbroker.state.share.share_partition import SharePartition
from tests.support.brokers.share_partitions import settings, spans, stored_batches


def _loaded(*batches: str, in_flight_limit: int = 10) -> SharePartition:
    """A share partition that was loaded, and has then read a log that begins with offset 20."""
    partition = SharePartition(settings(in_flight_limit=in_flight_limit))
    partition.load_state(0, 0, stored_batches(*batches))
    with suppress(KafkaError):  # 4.3.0 refuses the read that finds a full window without records.
        acquire_records(partition, "m", spans("20-21"), now_ms=0, fetch_offset=0)
    return partition


def test_a_window_whose_first_records_are_compacted_and_the_others_complete_is_full_for_ever() -> None:
    """Source: SharePartition.maybeArchiveStaleBatches, archiveRecords; offset 15 is in the log, and complete."""
    partition = _loaded("0-9:0/2", "10-19:4/2")

    assert (partition.start_offset, partition.next_fetch_offset()) == (0, 20)
    assert is_full_for_ever(partition, set(range(20)) - {15})


@pytest.mark.parametrize(
    ("batches", "in_flight_limit", "lost"),
    [
        pytest.param(("0-9:0/2", "10-19:4/2"), 30, range(20), id="which is not full"),
        pytest.param(("0-9:0/2", "10-19:4/2"), 10, range(10, 20), id="whose start the log has"),
    ],
)
def test_no_other_window_is(batches: tuple[str, ...], in_flight_limit: int, lost: range) -> None:
    partition = _loaded(*batches, in_flight_limit=in_flight_limit)

    assert not is_full_for_ever(partition, set(lost))
