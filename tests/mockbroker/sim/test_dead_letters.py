"""What the simulator accepts of the contents of dead-letter queues: share-groups 9."""

from __future__ import annotations

import pytest

from kwire.records import write_batch
from mockbroker.dead_letter_queue.dead_letter_records import DeadLetterSource, dead_letter_records
from mockbroker.sim.simulated_cluster import SimulatedCluster
from mockbroker.sim.simulated_topics import QUEUE_NAMES
from mockbroker.sim.violation import Violation
from mockbroker.state.share.dead_letter import DeadLetter, DeadLetterCause
from mockbroker.state.share.in_flight_batch import NO_MEMBER, InFlightState, RecordState
from mockbroker.state.share.share_history import HistoryEvent
from mockbroker.state.share_coordinator.share_coordinator import ShareKey


class _Queue:
    """The queue of group "g", for a record of topic "a" that a member has rejected at its first delivery."""

    def __init__(self) -> None:
        self.cluster = SimulatedCluster(1, release="4.4")
        self.key = ShareKey("g", *self.cluster.partition_keys()[0])
        self.cluster.core.create_topic(QUEUE_NAMES["g"])
        invariants = self.cluster.invariants
        model, self._checker = invariants.models[self.key], invariants.dead_letters
        model.record_load({}, 0)
        model.record_acquired(0, "m", 1, limit=5, state_epoch=0)
        self._checker.record_rejection(self.key, 0, 1)

    def write_dead_letter(self) -> None:
        """Write the dead letter, and check the queue."""
        (topic,) = self.cluster.queue_topics()
        log = self.cluster.find_log((topic.topic_id, 0))
        assert log is not None
        state = InFlightState(RecordState.ARCHIVING, 1, NO_MEMBER)
        dead_letter = DeadLetter(state, 0, 0, 1, DeadLetterCause.REJECTED)
        now_ms = self.cluster.now_ms
        source = DeadLetterSource("g", "a", self.key.partition)
        log.append(
            write_batch(dead_letter_records(source, dead_letter, {}, range(1), max_batch_bytes=10_000, now_ms=now_ms)),
            now_ms=now_ms,
        )
        self._checker.check()

    def load(self, state: RecordState) -> None:
        """A leader loads the share partition, with the record in this state."""
        self.cluster.core.state.broker_storage.share_history.record_event(
            self.key,
            self.cluster.now_ms,
            HistoryEvent.LOADED,
            0,
            0,
            member_id=NO_MEMBER,
            delivery_count=1,
            state=state,
        )


def test_a_leader_that_loads_a_record_on_its_way_to_the_queue_may_send_it_again() -> None:
    """Also the same leader: it drops a share partition when the last session of the group ends (rules 4.6, 9.5)."""
    queue = _Queue()
    queue.write_dead_letter()
    queue.load(RecordState.ARCHIVING)

    queue.write_dead_letter()
    with pytest.raises(Violation, match="offset 0: delivery 1 has a further dead letter"):
        queue.write_dead_letter()


def test_a_load_of_an_archived_record_is_no_reason_for_a_second_dead_letter() -> None:
    queue = _Queue()
    queue.write_dead_letter()
    queue.load(RecordState.ARCHIVED)

    with pytest.raises(Violation, match="offset 0: delivery 1 has a further dead letter"):
        queue.write_dead_letter()
