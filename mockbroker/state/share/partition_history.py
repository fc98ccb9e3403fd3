"""Recorder of one share partition's events in the history of all share partitions."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from mockbroker.state.share.in_flight_batch import InFlightState, RecordState
from mockbroker.state.share.pending_write import StateChange
from mockbroker.state.share.share_history import HistoryEvent, ShareHistory


class PartitionHistory:
    """Adds entries for one share partition to the shared history."""

    def __init__(self, history: ShareHistory, key: Hashable) -> None:
        self._history = history
        self._key = key

    def record_event(
        self,
        now_ms: int,
        event: HistoryEvent,
        first: int,
        last: int,
        state: InFlightState,
        *,
        member_id: str | None = None,
    ) -> None:
        """Record what has just happened to these offsets.

        Args: state: the state afterwards. member_id: the member that caused it or held the records until now; by
        default the member that holds them.
        """
        member_id = state.member_id if member_id is None else member_id
        count = state.delivery_count
        self._history.record_event(
            self._key, now_ms, event, first, last, member_id=member_id, delivery_count=count, state=state.state
        )

    def record_changes(self, changes: Sequence[StateChange], member_id: str, *, now_ms: int) -> None:
        """Record what an acknowledgement of a member, or the end of its session, has changed.

        Runs are joined already here: a split batch has a change for each offset.
        """
        run: tuple[HistoryEvent, int, InFlightState] | None = None
        next_offset = run_state = run_count = -1
        for state, (first, last, record_state, count), _, event in changes:
            if run is not None:
                if first == next_offset and event is run[0] and record_state == run_state and count == run_count:
                    next_offset = last + 1
                    continue
                self.record_event(now_ms, run[0], run[1], next_offset - 1, run[2], member_id=member_id)
            run, next_offset, run_state, run_count = (event, first, state), last + 1, record_state, count
        if run is not None:
            self.record_event(now_ms, run[0], run[1], next_offset - 1, run[2], member_id=member_id)

    def record_acquisition(self, first: int, last: int, member_id: str, delivery_count: int, *, now_ms: int) -> None:
        """Record that a member has acquired these offsets."""
        event = HistoryEvent.ACQUIRED
        state = RecordState.ACQUIRED
        self._history.record_event(
            self._key, now_ms, event, first, last, member_id=member_id, delivery_count=delivery_count, state=state
        )
