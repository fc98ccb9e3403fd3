"""Events of share partitions, which are read from traffic, and the transitions that they cause."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Any, NamedTuple


class EventKind(IntEnum):
    """The kind of an event. Of events with one time, those with lower numbers come first: requests before responses."""

    LIMIT = 0
    """The delivery-count limit of the group is now `start`; None is the default."""
    RESET = 1
    """The persisted state is reset to `start` (None: unknown); `note` is the cause."""
    LOAD = 2
    """A leader has read the persisted state: `start`, and runs of (first, last, delivery count, state)."""
    LOG_START = 3
    """Records before `start` were deleted from the log."""
    LEADER_CHANGE = 4
    """The broker of this connection is no longer the leader, or has shut down (the note is `BROKER_GONE`).

    An event without a connection is from Metadata. `start` is the id of the new leader and `complete` its epoch, each
    None if unknown.
    """
    ACKNOWLEDGE = 5
    """A member acknowledges runs of (first, last, acknowledge type); `error_code` is the response."""
    CLOSE = 6
    """A member has closed its session, which contained this partition."""
    DISCONNECT = 7
    """The connection on which the member opened its session has ended."""
    WRITE = 8
    """A leader writes its state: `start`, `complete`, and runs of (first, last, delivery count, state)."""
    FETCH_START = 9
    """A member has started to fetch the partition from this broker."""
    ACQUIRE = 10
    """A member has acquired runs of (first, last, delivery count)."""


#: The note of a broker that has closed its connections.
BROKER_GONE = "gone"
OffsetRuns = tuple[tuple[int, ...], ...]
#: A row of a level.
MessageRow = Mapping[str, Any]


class Event(NamedTuple):
    """One event of a share partition, read from traffic. `ts` is nanoseconds since 1970."""

    ts: int
    kind: EventKind
    group_id: str
    topic_id: str | None
    partition: int | None
    member_id: str | None = None
    start: int | None = None
    complete: int | None = None
    note: str | None = None
    lock_ms: int | None = None
    error_code: int | None = 0
    """None if the response was not captured."""
    file: str | None = None
    conn_id: str | None = None
    correlation_id: int | None = None
    runs: OffsetRuns = ()

    @property
    def broker(self) -> str | None:
        """The address of the broker of the connection."""
        return None if self.conn_id is None else self.conn_id.rpartition(">")[2]


def event_sort_key(event: Event) -> tuple[object, ...]:
    """The sort key of events of one share partition. It does not depend on the order in which events were read."""
    return (event.ts, event.kind, event.file or "", event.conn_id or "", event.correlation_id or 0, event.runs)


class Transition(NamedTuple):
    """A state change of a run of records; the columns of the timeline after group, topic and partition.

    ts: nanoseconds. number: of the transition within its share partition, from 0. last_offset: None if the row concerns
    all records from an offset on. start_offset, end_offset: the share partition after the transition, the first offset
    that may still be delivered, and the first one that was never delivered. stored_start_offset,
    delivery_complete_count: the latest state that the leader wrote, as in DescribeShareGroupOffsets. available,
    acquired, acknowledged, archived: the number of records between start and end in these states, with those on their
    way to the dead-letter queue as archived; the others between them were never delivered. cause: one of `CAUSES`.
    is_inferred: no message states it explicitly. file, conn_id,
    correlation_id: the message that states or implies it, if any.
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
#: On the way to the dead-letter queue (KIP-1191).
ARCHIVING = "Archiving"
#: By the ids that the share coordinator stores.
STATES = {0: AVAILABLE, 1: ACQUIRED, 2: ACKNOWLEDGED, 3: ARCHIVING, 4: ARCHIVED}

CAUSES = {
    "acquire": "a member acquired the records",
    "accept": "the member accepted them",
    "release": "the member released them",
    "reject": "the member rejected them",
    "gap": "the member acknowledged them as a gap",
    "renew": "the member renewed the acquisition lock",
    "lock_timeout": "the acquisition lock expired",
    "session_close": "the member closed its session, or its connection ended",
    "load": "a leader read the persisted state",
    "log_start": "the log start offset moved beyond them",
    "alter_offsets": "AlterShareGroupOffsets",
    "delete_offsets": "DeleteShareGroupOffsets",
    "delete_group": "DeleteGroups",
    "delete_topic": "DeleteTopics",
    "initialize": "InitializeShareGroupState",
    "delete_state": "DeleteShareGroupState",
    "dead_letter": "the leader sends them to the dead-letter queue",
    "dead_letter_done": "the dead-letter queue has answered",
    "start_moved": "the leader wrote a later start offset than traffic explains",
    "unseen": "they became available again, for a reason that is not in the capture",
}
#: Causes that reset the state of all records from an offset on.
OPEN_ENDED = frozenset(
    {"load", "alter_offsets", "delete_offsets", "delete_group", "delete_topic", "initialize", "delete_state"}
)
