"""State changes of each record of a share partition, by the history of the mock and by the timeline of a capture."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from kwire.capture.model import Row
from mockbroker.broker.inspection import HistoryEvent, Transition
from mockbroker.state.share.share_history import HistoryEntry

#: Causes of the timeline, by the events of the mock.
CAUSES = {
    HistoryEvent.ACQUIRED: "acquire",
    HistoryEvent.RENEWED: "renew",
    HistoryEvent.ACCEPTED: "accept",
    HistoryEvent.RELEASED: "release",
    HistoryEvent.REJECTED: "reject",
    HistoryEvent.GAP: "gap",
    HistoryEvent.EXPIRED: "lock_timeout",
    HistoryEvent.SESSION_CLOSED: "session_close",
    HistoryEvent.LOG_START: "log_start",
}
#: Causes of rows that concern the whole state, not single records.
WHOLE_STATE_CAUSES = frozenset(
    {"load", "alter_offsets", "delete_offsets", "delete_group", "delete_topic", "initialize", "delete_state"}
)
RecordHistories = dict[int, list[tuple[object, ...]]]


def histories_of_transitions(history: Iterable[Transition]) -> RecordHistories:
    """The state changes of each record with the causes of the timeline; loads are not changes of a record."""
    histories: RecordHistories = defaultdict(list)
    for transition in history:
        if transition.event is not HistoryEvent.LOADED:
            assert transition.last_offset is not None
            for offset in range(transition.first_offset, transition.last_offset + 1):
                if transition.event is HistoryEvent.ABORTED:
                    # It was acquired in the same fetch, and removed from the response.
                    assert histories[offset].pop()[0] == "acquire"
                    continue
                state = transition.state.name.capitalize()
                histories[offset].append(
                    (CAUSES[transition.event], state, transition.delivery_count, transition.member_id)
                )
    return {offset: changes for offset, changes in histories.items() if changes}


def histories_of_entries(entries: Iterable[HistoryEntry]) -> RecordHistories:
    """The same by the stored history of the mock, of share partitions without a leader, too."""
    return histories_of_transitions(
        Transition(
            entry.at_ms,
            entry.event,
            entry.first,
            entry.last,
            entry.member_id or None,
            entry.delivery_count,
            entry.state,
        )
        for entry in entries
    )


def histories_of_timeline(rows: Iterable[Row]) -> RecordHistories:
    """The same by the timeline."""
    histories: RecordHistories = defaultdict(list)
    for row in rows:
        if row["cause"] not in WHOLE_STATE_CAUSES:
            for offset in range(as_int(row["first_offset"]), as_int(row["last_offset"]) + 1):
                histories[offset].append((row["cause"], row["state"], row["delivery_count"], row["member_id"]))
    return dict(histories)


def as_int(value: object) -> int:
    """The value of a column as int."""
    assert isinstance(value, int)
    return value
