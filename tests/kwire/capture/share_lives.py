"""What happened to each record of a share partition: by the mock's history, and by the timeline of a capture."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from kwire.capture.rows import Row
from mockbroker.inside import Happening, Transition
from mockbroker.state.share_history import Note

#: What the mock calls what happened, and the timeline its cause.
CAUSES = {
    Happening.ACQUIRED: "acquire",
    Happening.RENEWED: "renew",
    Happening.ACCEPTED: "accept",
    Happening.RELEASED: "release",
    Happening.REJECTED: "reject",
    Happening.GAP: "gap",
    Happening.EXPIRED: "lock_timeout",
    Happening.SESSION_CLOSED: "session_close",
    Happening.LOG_START: "log_start",
}
#: Causes of rows about the state as a whole: no news of a record.
OF_THE_WHOLE = frozenset(
    {"load", "alter_offsets", "delete_offsets", "delete_group", "delete_topic", "initialize", "delete_state"}
)
Lives = dict[int, list[tuple[object, ...]]]


def lives_of_history(history: Iterable[Transition]) -> Lives:
    """What happened to each record, in the words of the timeline; loads are no news of a record."""
    lives: Lives = defaultdict(list)
    for one in history:
        if one.happening is not Happening.LOADED:
            assert one.last_offset is not None
            for offset in range(one.first_offset, one.last_offset + 1):
                if one.happening is Happening.ABORTED:
                    # It was acquired at this moment, and taken out before anybody got it.
                    assert lives[offset].pop()[0] == "acquire"
                    continue
                state = one.state.name.capitalize()
                lives[offset].append((CAUSES[one.happening], state, one.delivery_count, one.member_id))
    return {offset: life for offset, life in lives.items() if life}


def lives_of_notes(notes: Iterable[Note]) -> Lives:
    """The same of what the mock keeps inside, where no leader has the share partition any more."""
    return lives_of_history(
        Transition(
            note.at_ms, note.happening, note.first, note.last, note.member_id or None, note.delivery_count, note.state
        )
        for note in notes
    )


def lives_of_timeline(found: Iterable[Row]) -> Lives:
    """The same from the timeline."""
    lives: Lives = defaultdict(list)
    for row in found:
        if row["cause"] not in OF_THE_WHOLE:
            for offset in range(whole_number(row["first_offset"]), whole_number(row["last_offset"]) + 1):
                lives[offset].append((row["cause"], row["state"], row["delivery_count"], row["member_id"]))
    return dict(lives)


def whole_number(value: object) -> int:
    """A number of a row."""
    assert isinstance(value, int)
    return value
