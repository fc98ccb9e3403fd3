"""The internal topics of streams applications, which the broker makes for their members.

Source: Kafka's KafkaApis.handleStreamsGroupHeartbeat and AutoTopicCreationManager; pinned by the conversations
other-streams-internal-topics, other-streams-internal-topics-refused and other-streams-acl.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

from kwire.error_codes import ErrorCode
from kwire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from mockbroker.context import Context
from mockbroker.handlers.topics import create_topics
from mockbroker.outcome import Reply
from mockbroker.security.authorize import CLUSTER_NAME, Operation, ResourceType, may
from mockbroker.state.streams_topics import Status, StatusCode
from mockbroker.state.streams_topology import InternalTopic

_CREATE_VERSION = 7
_SHOWN_MAX = 3


def make_topics(
    missing: Sequence[InternalTopic], statuses: Sequence[Status], ctx: Context, *, patience_ms: int
) -> list[Status]:
    """Have topics made, by a request of the member's own; its heartbeat's answer does not wait for it.

    patience_ms: how long a topic that could not be made is not tried again.
    Returns the statuses, with the reasons of those that are missing for longer.
    """
    if not missing:
        return list(statuses)
    names = [topic.name for topic in missing]
    if not may(Operation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME, ctx):
        denied = [name for name in names if not may(Operation.CREATE, ResourceType.TOPIC, name, ctx)]
        if denied:
            return _explained(statuses, f"the client may not create {', '.join(denied)}")
    refused = ctx.node.groups.refused_topics.among(names, now_ms=ctx.now_ms)
    wanted = [_creatable(topic) for topic in missing if topic.name not in refused]
    if wanted:
        ctx.cluster.calls.later(0, lambda at_ms: _make(wanted, ctx, at_ms, patience_ms), now_ms=ctx.now_ms)
    if not refused:
        return list(statuses)
    shown = ", ".join(f"{name} ({why})" for name, why in list(refused.items())[:_SHOWN_MAX])
    more = f" and {len(refused) - _SHOWN_MAX} more" if len(refused) > _SHOWN_MAX else ""
    return _explained(statuses, f"could not be made: {shown}{more}")


def _explained(statuses: Sequence[Status], why: str) -> list[Status]:
    missing = StatusCode.MISSING_INTERNAL_TOPICS
    return [Status(row.code, f"{row.detail}; {why}") if row.code is missing else row for row in statuses]


def _creatable(topic: InternalTopic) -> CreatableTopic:
    return CreatableTopic(
        name=topic.name,
        num_partitions=topic.partition_count,
        replication_factor=topic.replication_factor or -1,
        configs=[CreatableTopicConfig(name, value) for name, value in topic.configs],
    )


def _make(wanted: list[CreatableTopic], ctx: Context, now_ms: int, patience_ms: int) -> None:
    """Ask the controller; another member may have been faster, which is as good."""
    topics = [topic for topic in wanted if ctx.cluster.metadata.topic(topic.name) is None]
    later = copy(ctx)
    later.now_ms, later.api_version = now_ms, _CREATE_VERSION
    outcome = create_topics(CreateTopicsRequest(topics=topics), later)
    assert isinstance(outcome, Reply)
    response = outcome.response
    assert isinstance(response, CreateTopicsResponse)
    for row in response.topics:
        if row.error_code != ErrorCode.NONE:
            why = row.error_message or ErrorCode(row.error_code).name
            ctx.node.groups.refused_topics.refuse(row.name, why, until_ms=now_ms + patience_ms)
