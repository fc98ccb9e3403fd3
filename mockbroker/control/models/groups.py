"""Bodies of groups, share partitions and coordinators."""

from __future__ import annotations

from typing import Literal

from mockbroker.control.models.common import Int32, PartitionIndex, RequestModel, ResponseModel

GroupKind = Literal["classic", "consumer", "share", "streams"]


class Member(ResponseModel, frozen=True):
    """A member of a group. epoch: null for the classic protocol. partitions: assigned to it, by topic."""

    member_id: str
    client_id: str
    client_host: str
    instance_id: str | None
    epoch: int | None
    partitions: dict[str, list[int]]


class GroupOffset(ResponseModel, frozen=True):
    """A committed offset; of a share group the start offset of the share partition. lag: offsets up to endOffset."""

    topic: str
    partition: int
    offset: int
    end_offset: int
    lag: int


class Group(ResponseModel, frozen=True):
    """A group. kind: "no" for a group that was waited for to be gone. state: as Kafka names it."""

    group_id: str
    kind: str
    state: str
    members: list[Member]
    offsets: list[GroupOffset]


class Groups(ResponseModel, frozen=True):
    """Groups by their ids."""

    groups: list[Group]


class GroupsParameters(RequestModel, frozen=True):
    """kind: only groups of this type."""

    kind: GroupKind | None = None


class GroupPath(RequestModel, frozen=True):
    """groupId: the id of a group, percent-encoded."""

    group_id: str


class InFlight(ResponseModel, frozen=True):
    """Offsets in the same state, lastOffset included.

    state: AVAILABLE, ACQUIRED, ACKNOWLEDGED or ARCHIVED. memberId: the member that has acquired them, or null.
    lockRemainingMs: until the acquisition lock expires, by the cluster's clock; null without one. isInTransition: the
    share coordinator has not stored the last change yet.
    """

    first_offset: int
    last_offset: int
    state: str
    delivery_count: int
    member_id: str | None
    lock_deadline_ms: int | None
    lock_remaining_ms: int | None
    is_in_transition: bool


class ShareEvent(ResponseModel, frozen=True):
    """An event that changed offsets at once. lastOffset: null after a load, which concerns all later ones too."""

    at_ms: int
    event: str
    first_offset: int
    last_offset: int | None
    member_id: str | None
    delivery_count: int
    state: str


class SharePartition(ResponseModel, frozen=True):
    """A share partition in its leader's memory at nowMs.

    startOffset, endOffset: the first offset that may still be delivered, and the first that is not in flight. inFlight:
    the offsets between them, in order and without the gaps. history: oldest first; null where it was not asked for.
    """

    group_id: str
    topic: str
    partition: int
    leader: int
    status: str
    state_epoch: int
    start_offset: int
    end_offset: int
    delivery_complete_count: int
    in_flight: list[InFlight]
    now_ms: int
    history: list[ShareEvent] | None = None


class SharePartitions(ResponseModel, frozen=True):
    """The share partitions of a group that are in their leaders' memory."""

    share_partitions: list[SharePartition]


class SharePartitionParameters(RequestModel, frozen=True):
    """A share partition. history: with the events of its records."""

    group_id: str
    topic: str
    partition: PartitionIndex
    history: bool = False


class CoordinatorPath(RequestModel, frozen=True):
    """kind, key: of a group by its id, or of a transactional id."""

    kind: Literal["group", "transaction"]
    key: str


class Coordinator(ResponseModel, frozen=True):
    """The node that coordinates a group or a transactional id."""

    kind: str
    key: str
    node: int


class CoordinatorMove(RequestModel, frozen=True):
    """to: the node that coordinates from now on; null for the next replica that is in sync."""

    to: Int32 | None = None
