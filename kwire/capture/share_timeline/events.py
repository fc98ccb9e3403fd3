"""What the timeline of a share partition is made of: events, as traffic tells them, and the transitions they cause."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Any, NamedTuple


class Kind(IntEnum):
    """What an event is. At one moment lower numbers come first: what is asked goes before what is given."""

    LIMIT = 0
    """The group's delivery-count limit is `start` from here on; null is the default again."""
    RESET = 1
    """The stored state begins anew at `start` (null: not told where); `note` names the cause."""
    LOAD = 2
    """A leader has read the stored state: `start`, and runs of (first, last, delivery count, state)."""
    LOG_START = 3
    """The log has been cut off below `start`."""
    MOVE = 4
    """The broker of this connection leads no more (or is GONE, says the note); without one Metadata tells who leads.

    `start` is the leader's id, `complete` its epoch, each null where nobody told it.
    """
    ACKNOWLEDGE = 5
    """A member's word on runs of (first, last, acknowledge type), and how it was answered."""
    CLOSE = 6
    """A member has ended its session, which had this partition."""
    DISCONNECT = 7
    """The connection that made the member's session is gone."""
    WRITE = 8
    """A leader writes its state: `start`, `complete`, and runs of (first, last, delivery count, state)."""
    LOOK = 9
    """A member has begun to fetch the partition from this broker."""
    ACQUIRE = 10
    """A member was given runs of (first, last, delivery count)."""


#: The note of a broker that has ended its connections.
GONE = "gone"
Runs = tuple[tuple[int, ...], ...]
#: A row of a level.
Told = Mapping[str, Any]


class Event(NamedTuple):
    """One thing that traffic tells about a share partition; `ts` is nanoseconds since 1970."""

    ts: int
    kind: Kind
    group_id: str
    topic_id: str | None
    partition: int | None
    member_id: str | None = None
    start: int | None = None
    complete: int | None = None
    note: str | None = None
    lock_ms: int | None = None
    error_code: int | None = 0
    """Null where no answer was seen."""
    file: str | None = None
    conn_id: str | None = None
    correlation_id: int | None = None
    runs: Runs = ()

    @property
    def broker(self) -> str | None:
        """The address of the broker that said it."""
        return None if self.conn_id is None else self.conn_id.rpartition(">")[2]


def place_in_time(event: Event) -> tuple[object, ...]:
    """What events of one share partition are sorted by; the same for the same events in any order."""
    return (event.ts, event.kind, event.file or "", event.conn_id or "", event.correlation_id or 0, event.runs)


class Transition(NamedTuple):
    """A run of records that has come into a state; the columns of the timeline behind group, topic and partition.

    ts: nanoseconds. number: of the transition within its share partition, from 0. last_offset: null where the row is
    about everything from an offset on. start_offset, end_offset: of the share partition afterwards, the first offset
    that may still be delivered, and the first one that never was. stored_start_offset, delivery_complete_count: what
    the leader has last written, as DescribeShareGroupOffsets tells it. available, acquired, acknowledged, archived:
    records between start and end in these states; what is left between them was never delivered. cause: one of
    `CAUSES`. is_inferred: no message says it in so many words. file, conn_id, correlation_id: of the message that says
    or shows it, if any.
    """

    ts: int
    number: int
    first_offset: int
    last_offset: int | None
    state: str
    delivery_count: int | None
    member_id: str | None
    cause: str
    is_inferred: bool
    start_offset: int | None
    end_offset: int | None
    stored_start_offset: int | None
    delivery_complete_count: int | None
    available: int
    acquired: int
    acknowledged: int
    archived: int
    file: str | None
    conn_id: str | None
    correlation_id: int | None


AVAILABLE, ACQUIRED, ACKNOWLEDGED, ARCHIVED = "Available", "Acquired", "Acknowledged", "Archived"
#: By the ids that the share coordinator stores.
STATES = {0: AVAILABLE, 1: ACQUIRED, 2: ACKNOWLEDGED, 4: ARCHIVED}

CAUSES = {
    "acquire": "a member was given the records",
    "accept": "their holder has accepted them",
    "release": "their holder has given them back",
    "reject": "their holder has rejected them",
    "gap": "their holder has found nothing there",
    "renew": "their holder has renewed the lock",
    "lock_timeout": "their lock has run out",
    "session_close": "their holder has ended its session, or lost its connection",
    "load": "a leader has read the state anew",
    "log_start": "the log begins behind them",
    "alter_offsets": "AlterShareGroupOffsets",
    "delete_offsets": "DeleteShareGroupOffsets",
    "delete_group": "DeleteGroups",
    "delete_topic": "DeleteTopics",
    "initialize": "InitializeShareGroupState",
    "delete_state": "DeleteShareGroupState",
    "start_moved": "the leader wrote a later start than traffic explains",
    "unseen": "they came back, and nothing in the capture shows why",
}
