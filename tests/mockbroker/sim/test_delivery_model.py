"""What the simulator expects of the deliveries of one share partition."""

from __future__ import annotations

import pytest

from mockbroker.sim.delivery_model import DeliveryModel
from mockbroker.sim.logs.log_contents import LogContents
from mockbroker.sim.violation import Violation
from mockbroker.state.share.state_batches import StateBatch
from mockbroker.state.share_coordinator.share_coordinator import ShareKey, StoredState

_ACKNOWLEDGED = 2


def _recreated(completed: int) -> DeliveryModel:
    """A model of three records whose group was deleted and created again, with all of them stored as complete.

    completed: how many of them were acknowledged to the share partition of before, after the deletion.
    """
    contents = LogContents(present={0, 1, 2}, end=3)
    model = DeliveryModel(ShareKey("g", bytes(16), 0), lambda: contents)
    model.record_start(0, is_fresh=False)
    model.record_load({}, 0)
    for offset in range(3):
        model.record_acquired(offset, "m", 1, limit=5, state_epoch=1)
    model.record_deletion()
    model.record_start(None, is_fresh=False)
    for offset in range(completed):
        model.record_completed(offset, 1)
    batches = (StateBatch(first=0, last=2, state=_ACKNOWLEDGED, delivery_count=1),)
    model.check_stored(StoredState(0, 1, 0, 0, 3, batches, 0, 0))
    return model


def test_what_the_share_partition_of_before_completes_needs_no_delivery_after_its_group_was_created_again() -> None:
    """Source: conversation share-delete-group-recreated; its stale writes are accepted."""
    _recreated(completed=3).check_complete(stuck_offset=None)


def test_a_record_that_nobody_completed_must_be_delivered() -> None:
    with pytest.raises(Violation, match="offset 2 was never delivered"):
        _recreated(completed=2).check_complete(stuck_offset=None)


def test_records_below_an_altered_start_need_no_delivery_where_a_leader_has_loaded_a_lower_one() -> None:
    contents = LogContents(present={0, 1, 2}, end=3)
    model = DeliveryModel(ShareKey("g", bytes(16), 0), lambda: contents)
    model.record_load({}, 0)
    model.altered_starts.add(2)
    model.record_start(2, is_fresh=True)

    with pytest.raises(Violation, match="offset 2 was never delivered"):
        model.check_complete(stuck_offset=None)


def test_a_start_that_the_reset_strategy_has_chosen_excuses_no_record() -> None:
    contents = LogContents(present={0, 1, 2}, end=3)
    model = DeliveryModel(ShareKey("g", bytes(16), 0), lambda: contents)
    model.record_load({}, 0)
    model.altered_starts.add(0)
    model.record_start(0, is_fresh=True)

    with pytest.raises(Violation, match="offset 0 was never delivered"):
        model.check_complete(stuck_offset=None)
