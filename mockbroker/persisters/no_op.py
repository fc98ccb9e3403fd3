"""The persister that stores nothing: `group.share.persister.class.name` is Kafka's NoOpStatePersister, or empty.

Every operation succeeds, and a read returns a share partition that was never written: its leader starts where the
group's reset strategy specifies, each time that it loads it.
"""

from __future__ import annotations

from mockbroker.persisters.default import Operation, OperationKind, Persister
from mockbroker.state.share_coordinator.share_coordinator import UNINITIALIZED_START, StateSummary, StoredState

#: The results of the operations that have one: those of a state that was never written.
_RESULTS = {
    OperationKind.READ: StoredState(
        snapshot_epoch=0,
        state_epoch=0,
        leader_epoch=0,
        start_offset=UNINITIALIZED_START,
        delivery_complete_count=-1,
        batches=(),
        created_ms=0,
        written_ms=0,
    ),
    OperationKind.SUMMARY: StateSummary(UNINITIALIZED_START, -1, 0, 0),
}


class NoOpPersister(Persister):
    """A persister without share coordinators; its answers are asynchronous all the same."""

    def _enqueue(self, operation: Operation, now_ms: int) -> None:
        """Succeed."""

        def deliver(at_ms: int) -> None:
            if not self._is_closed:
                operation.done(_RESULTS.get(operation.kind), at_ms)

        self._channel.schedule(0, deliver, now_ms=now_ms)
