"""The history of share partitions: a ring of the newest events."""

from __future__ import annotations

from mockbroker.state.share.in_flight_batch import RecordState
from mockbroker.state.share.share_history import HistoryEvent, ShareHistory


def test_the_history_stores_only_the_newest_events() -> None:
    history = ShareHistory(limit=3)
    for at_ms in range(5):
        history.record_event(
            "key", at_ms, HistoryEvent.GAP, 7, 7, member_id="m", delivery_count=1, state=RecordState.ARCHIVED
        )

    assert [note.at_ms for note in history.entries_for("key")] == [2, 3, 4]
    assert not list(history.entries_for("another"))
