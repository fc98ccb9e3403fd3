"""What the simulator requires of the records of a member whose session has ended: share-semantics 4.6."""

from __future__ import annotations

import pytest

from mockbroker.sim.coverage import Coverage
from mockbroker.sim.invariants import Invariants
from mockbroker.sim.logs.observed_logs import ObservedLogs
from mockbroker.sim.violation import Violation
from mockbroker.state.share_coordinator.share_coordinator import ShareKey
from tests.support.brokers.share_members import ShareBroker, opened

ACCEPT = [1]


def _holding() -> tuple[ShareBroker, Invariants, ShareKey]:
    """A broker that has delivered three records to the member "m1", as the invariants have seen."""
    broker = ShareBroker()
    key = ShareKey("g", broker.topic_id("A"), 0)
    invariants = Invariants(broker.core, ObservedLogs(broker.core), Coverage())
    invariants.set_partitions([key])
    opened(broker)
    broker.produce("A", 3)
    assert broker.fetch("m1", 1) == "A0 0-2/1"
    invariants.check()
    return broker, invariants, key


def test_a_record_that_is_not_released_with_its_session_is_a_violation() -> None:
    _, invariants, key = _holding()

    with pytest.raises(Violation, match="0-2: still held by m1, whose session has ended"):
        invariants.check_released("m1", 0, [key], "released by close")


def test_a_release_that_is_not_stored_is_undone() -> None:
    """Without state the write fails, and the lock goes on. Source: SharePartition.rollbackOrProcessStateUpdates."""
    broker, invariants, key = _holding()
    broker.delete_state("A")
    assert broker.ack("m1", -1, {("A", 0): [(0, 0, ACCEPT)]}) == "A0 !-1"

    invariants.check_released("m1", 0, [key], "released by close")


def test_an_earlier_release_that_was_undone_excuses_nothing() -> None:
    broker, invariants, key = _holding()
    broker.delete_state("A")
    assert broker.ack("m1", -1, {}) == ""
    broker.advance(1)

    with pytest.raises(Violation, match="0-2: still held by m1, whose session has ended"):
        invariants.check_released("m1", 0, [key], "released by close")
