"""Requests of groups with few arguments, for tests of what the broker makes of them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from kwire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kwire.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kwire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from kwire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from kwire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment


def join(
    member_id: str = "",
    metadata: bytes = b"subscription",
    *,
    group_id: str = "g",
    session_ms: int = 10_000,
    protocol_type: str = "consumer",
) -> JoinGroupRequest:
    """A member of a classic group joins with the protocol "range"."""
    protocols = [JoinGroupRequestProtocol("range", metadata)]
    return JoinGroupRequest(group_id, session_ms, 60_000, member_id, None, protocol_type, protocols)


def sync(
    member_id: str, generation: int = 1, *, group_id: str = "g", assigned: Mapping[str, bytes] = MappingProxyType({})
) -> SyncGroupRequest:
    """A member of a classic group asks for its assignment. assigned: what the leader assigns, by member id."""
    rows = [SyncGroupRequestAssignment(name, assignment) for name, assignment in assigned.items()]
    return SyncGroupRequest(group_id, generation, member_id, None, "consumer", "range", rows)


def commit(
    *offsets: int, group_id: str = "g", topic: str = "T", member_id: str = "", epoch: int = -1, **fields: Any
) -> OffsetCommitRequest:
    """Offsets of the first partitions of a topic, each with leader epoch 5 and the metadata "note"."""
    rows = [OffsetCommitRequestPartition(index, offset, 5, "note") for index, offset in enumerate(offsets)]
    topics = [OffsetCommitRequestTopic(topic, partitions=rows)]
    return OffsetCommitRequest(group_id, epoch, member_id, topics=topics, **fields)


def fetch_offset(*, group_id: str = "g", topic: str = "T") -> OffsetFetchRequest:
    """The committed offset of the first partition of a topic."""
    topics = [OffsetFetchRequestTopics(topic, bytes(16), (0,))]
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group_id, topics=topics)])


def share(epoch: int, *topics: str, member: str = "m", group_id: str = "g") -> ShareGroupHeartbeatRequest:
    """A heartbeat of a member of a share group."""
    return ShareGroupHeartbeatRequest(group_id, member, epoch, None, topics or None)
