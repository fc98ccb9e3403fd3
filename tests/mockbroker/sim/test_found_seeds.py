"""Seeds that violated an invariant once, by an error of the broker or of the model: none is violated any more."""

from __future__ import annotations

import pytest

from mockbroker.sim.simulation import run

pytestmark = pytest.mark.slow


def test_a_lock_is_renewed_when_the_request_is_handled_and_no_earlier() -> None:
    run(3329148401)


def test_a_summary_is_that_of_the_committed_state() -> None:
    run(2949123409)


def test_what_a_leader_with_deleted_state_completes_in_the_new_state_is_complete() -> None:
    run(2026113379)


def test_a_record_that_is_compacted_while_its_release_is_written_may_be_archived_without_it() -> None:
    run(2026115557)


def test_a_full_window_whose_first_records_are_compacted_and_the_others_complete_stays() -> None:
    run(4300000028, release="4.3")


def test_a_release_that_is_not_stored_as_the_state_is_deleted_is_undone() -> None:
    run(4100000671)


def test_a_leader_that_drops_and_loads_a_record_on_its_way_to_the_queue_sends_it_again() -> None:
    run(4100001606)


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(2950123259, id="a damaged base offset moves the start"),
        pytest.param(987654340, id="a segment whose file could not be renamed is deleted before those behind it"),
        pytest.param(3594481105, id="a topic without records is deleted"),
        pytest.param(1732471954, id="a write that waits for the disk delays the last records"),
        pytest.param(3710000249, id="a leader epoch is misread by the cleaner"),
        pytest.param(4200000126, id="a damaged base offset is far behind the end of the log"),
        pytest.param(3300000017, id="a topic is created again under its name after a clean start"),
    ],
)
def test_no_invariant_breaks_on_a_disk_that_fails(seed: int) -> None:
    run(seed, on_disk=True)


def test_a_record_that_a_former_leader_has_compacted_is_not_due() -> None:
    run(2950885463, replicates=True)


def test_a_snapshot_replaces_earlier_records_when_it_is_committed() -> None:
    run(3500000149, replicates=True)
