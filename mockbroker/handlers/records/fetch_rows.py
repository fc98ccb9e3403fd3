"""The rows of a Fetch response: one for each partition that was read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from kwire.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from mockbroker.handlers.shared.leader_hints import LEADER_ERRORS, LeaderHints
from mockbroker.state.metadata.cluster_image import Topic
from mockbroker.state.storage.fetch_session import FetchPartitionKey, FetchResponseSummary

if TYPE_CHECKING:
    from mockbroker.engine.context import Context

#: The first versions with ids of topics instead of names, with the current leaders, and with diverging epochs.
IDS_SINCE, HINTS_SINCE, DIVERGING_SINCE = 13, 16, 12


class FetchRow(msgspec.Struct):
    """One partition of the response."""

    key: FetchPartitionKey
    topic: Topic | None
    data: PartitionData
    size: int = 0
    is_urgent: bool = False


def find_follower_id(request: FetchRequest) -> int:
    """The broker that fetches as a follower; negative for consumers."""
    former, current = request.replica_id, request.replica_state.replica_id
    return current if current > former else former


def group_rows(rows: Sequence[FetchRow], *, by_id: bool) -> list[FetchableTopicResponse]:
    """The rows by topic. Kafka groups only adjacent ones."""
    topics: list[FetchableTopicResponse] = []
    for row in rows:
        name = row.key[0]
        last = topics[-1] if topics else None
        if last is None or name != (last.topic_id if by_id else last.topic):
            last = FetchableTopicResponse(topic_id=name) if isinstance(name, bytes) else FetchableTopicResponse(name)
            topics.append(last)
        last.partitions.append(row.data)
    return topics


def summarize_row(row: FetchRow) -> FetchResponseSummary:
    """What a session compares with its previous row."""
    data = row.data
    diverging = data.diverging_epoch.epoch >= 0 or data.preferred_read_replica >= 0
    return FetchResponseSummary(
        row.key, data.error_code, data.high_watermark, data.log_start_offset, row.size > 0, diverging
    )


def add_hints(response: FetchResponse, rows: Sequence[FetchRow], ctx: Context) -> None:
    """Name the current leaders (KIP-951)."""
    hints: LeaderHints[LeaderIdAndEpoch, NodeEndpoint] | None = None
    for row in rows:
        if row.data.error_code and row.topic is not None and row.data.error_code in LEADER_ERRORS:
            hints = LeaderHints(LeaderIdAndEpoch, NodeEndpoint, ctx) if hints is None else hints
            hints.set_leader(row.data, row.topic.topic_id, row.key[1])
    if hints is not None:
        response.node_endpoints = hints.endpoints()
